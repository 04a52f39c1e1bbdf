//! The fixed point in the library's data that says where the mapping is, or why there is none.

use abi::{ANCHOR_MAGIC, Anchor, State, VERSION};

static mut ANCHOR: Anchor = Anchor {
    magic: ANCHOR_MAGIC,
    version: VERSION,
    state: State::Starting as u32,
    header_address: 0,
    total_bytes: 0,
    off_reason: 0,
    reserved: 0,
    pid: 0,
};

/// Points the anchor at a header.
pub fn point(header: *const abi::Header) {
    // SAFETY: called once, at the start; a reader outside takes any of the values.
    unsafe {
        let anchor = &raw mut ANCHOR;
        (*anchor).pid = (*header).pid;
        (*anchor).total_bytes = (*header).total_bytes;
        (*anchor).header_address = header as u64;
        (&raw mut (*anchor).state).write_volatile(State::On as u32);
    }
}

/// Says that the probe is off.
pub fn off(reason: u32) {
    // SAFETY: as above; two threads that get here write the same.
    unsafe {
        let anchor = &raw mut ANCHOR;
        (*anchor).off_reason = reason;
        (&raw mut (*anchor).state).write_volatile(State::Off as u32);
    }
}

//! What a call instruction calls, read from machine code: the one in front of a return address says so itself.

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A function, or the stub of one in a library.
    Function(u64),
    /// Whatever function the word at this address names.
    Slot(u64),
}

/// The longest of the two forms of a call: opcode of two bytes, distance of four.
pub const CALL_BYTES: usize = 6;

/// What the call calls that ends with these bytes and returns to `return_address`.
#[cfg(target_arch = "x86_64")]
pub fn target_before(bytes: &[u8; CALL_BYTES], return_address: u64) -> Option<Target> {
    const CALL: u8 = 0xe8;
    const CALL_SLOT: [u8; 2] = [0xff, 0x15];
    let distance = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let called = return_address.wrapping_add_signed(i64::from(distance));
    match bytes {
        [_, CALL, ..] => Some(Target::Function(called)),
        [first, second, ..] if [*first, *second] == CALL_SLOT => Some(Target::Slot(called)),
        _ => None,
    }
}

/// Every four bytes are an instruction; a call (bl) has its distance in the lower 26 bits, in words.
#[cfg(target_arch = "aarch64")]
pub fn target_before(bytes: &[u8; CALL_BYTES], return_address: u64) -> Option<Target> {
    let word = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let distance = i64::from((word << 6) as i32 >> 4);
    (word >> 26 == 0b100101)
        .then(|| Target::Function((return_address - 4).wrapping_add_signed(distance)))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn target_before(_: &[u8; CALL_BYTES], _: u64) -> Option<Target> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // objdump of a C program built by gcc 12: call 1030 <pthread_mutex_lock@plt> at 0x11a4; of one of Rust 1.95:
    // call *0x2ee3(%rip) at 0x2000; and calls as gcc 12 and clang 14 write them.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn both_forms_of_a_call_are_read() {
        let direct = |code: [u8; 6], end| target_before(&code, end);
        let function = |at| Some(Target::Function(at));
        let plt = [0x90, 0xe8, 0x87, 0xfe, 0xff, 0xff];
        assert_eq!(direct(plt, 0x11a9), function(0x1030));
        let slot = [0xff, 0x15, 0xe3, 0x2e, 0x00, 0x00];
        assert_eq!(direct(slot, 0x2006), Some(Target::Slot(0x4ee9)));
        assert_eq!(direct([0x90; 6], 0x2006), None);
        let forwards = [0x90, 0xe8, 0x10, 0, 0, 0];
        assert_eq!(direct(forwards, 0x1005), function(0x1015));
        let back = [0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff];
        assert_eq!(direct(back, 0x1005), function(0x1000));
        assert_eq!(direct([0x90, 0x15, 0x10, 0, 0, 0], 0x1005), None);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn calls_forwards_and_backwards_are_read() {
        let bl = |word: u32| {
            let [a, b, c, d] = word.to_le_bytes();
            target_before(&[0, 0, a, b, c, d], 0x1004)
        };
        assert_eq!(bl(0x9400_0004), Some(Target::Function(0x1010)));
        assert_eq!(bl(0x97ff_ffff), Some(Target::Function(0xffc)));
        assert_eq!(bl(0xd63f_0000), None);
    }
}

//! The first page of a trace: as plain numbers, and as bytes.

use std::mem::offset_of;
use std::path::Path;

use trace_abi::{CLOSED, HEADER_BYTES, Header, MAGIC, VERSION, off_reason, state};

use crate::error::TraceError;
use crate::ticks::{Clock, Scale};

/// What the header says.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub clock: Clock,
    pub page_bytes: u32,
    /// highwater has finished the file; otherwise it, or the machine, was killed.
    pub is_sealed: bool,
    pub max_bytes: u64,
    /// No program has taken it: it never loaded the recorder.
    pub is_untouched: bool,
    /// The recorded process, as it sees itself.
    pub pid: u32,
    /// How many programs that process was, one after the other (exec).
    pub images: u32,
    /// One of [`off_reason`].
    pub off_reason: u32,
    /// When recording stopped early, ns since the start.
    pub off_ns: Option<u64>,
    /// Events of signal handlers that were not recorded.
    pub lost_nested: u64,
    /// Other processes of the program, which were not recorded.
    pub others: u32,
    pub scale: Scale,
    /// Length of the recording, ns.
    pub length_ns: u64,
    /// When it started, ns since 1970.
    pub start_realtime_ns: u64,
    /// Bytes that the file had.
    pub(crate) file_bytes: u64,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Reads the first page.
pub(crate) fn parse(path: &Path, page: &[u8]) -> Result<Facts, TraceError> {
    let path = path.to_path_buf();
    if page.len() < MAGIC.len() || page[..MAGIC.len()] != MAGIC {
        return Err(TraceError::NoTrace { path });
    }
    let damaged = |what| TraceError::Header {
        path: path.clone(),
        what,
    };
    if page.len() < HEADER_BYTES as usize {
        return Err(damaged("the file ends inside it"));
    }
    let found = u32_at(page, offset_of!(Header, version));
    if found != VERSION {
        return Err(TraceError::Version { path, found });
    }
    let clock = Clock::of(u32_at(page, offset_of!(Header, clock)));
    let clock = clock.ok_or_else(|| damaged("it names no clock that is known"))?;
    let page_bytes = u32_at(page, offset_of!(Header, page_bytes));
    if !page_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&page_bytes) {
        return Err(damaged("its page size is none"));
    }
    let at = |offset| u64_at(page, offset);
    let start = (
        at(offset_of!(Header, start_ticks)),
        at(offset_of!(Header, start_monotonic_ns)),
    );
    let end = (
        at(offset_of!(Header, end_ticks)),
        at(offset_of!(Header, end_monotonic_ns)),
    );
    let scale = Scale::new(start, end).ok_or_else(|| damaged("its clocks did not advance"))?;
    let off_ticks = at(offset_of!(Header, off_ticks));
    Ok(Facts {
        clock,
        page_bytes,
        is_sealed: u32_at(page, offset_of!(Header, sealed)) == 1,
        max_bytes: at(offset_of!(Header, max_bytes)),
        is_untouched: u32_at(page, offset_of!(Header, state)) == state::WAITING,
        pid: u32_at(page, offset_of!(Header, pid)),
        images: u32_at(page, offset_of!(Header, images)),
        off_reason: u32_at(page, offset_of!(Header, off_reason)),
        off_ns: (off_ticks > 0).then(|| scale.ns(off_ticks)),
        lost_nested: at(offset_of!(Header, lost_nested)),
        others: u32_at(page, offset_of!(Header, others)),
        scale,
        length_ns: scale.ns(end.0),
        start_realtime_ns: at(offset_of!(Header, start_realtime_ns)),
        file_bytes: match at(offset_of!(Header, next)) {
            CLOSED => at(offset_of!(Header, limit)),
            next => next,
        },
    })
}

impl Facts {
    /// Why recording stopped before the program ended, if it did.
    pub fn stopped(&self) -> Option<&'static str> {
        Some(match self.off_reason {
            off_reason::NONE => return None,
            off_reason::MAX_SIZE => "the file reached its largest size (--max-size)",
            off_reason::DISK_FULL => "the disk was nearly full",
            off_reason::REQUESTED => "its time was over (--for)",
            off_reason::NO_ROOM => "highwater was gone, or too slow to allocate disk blocks",
            off_reason::NO_MEMORY => "the file could not be mapped",
            off_reason::CONFINED => {
                "the program confined itself so that the recorder could not go on"
            }
            _ => "a reason that this version does not know",
        })
    }
}

/// What a new trace starts with.
pub(crate) struct New {
    pub clock: Clock,
    pub page_bytes: u32,
    pub max_bytes: u64,
    pub start: (u64, u64),
    pub end: (u64, u64),
    pub start_realtime_ns: u64,
}

/// The first page of a new trace.
pub(crate) fn page(new: &New) -> Vec<u8> {
    let mut page = vec![0; HEADER_BYTES as usize];
    page[..MAGIC.len()].copy_from_slice(&MAGIC);
    let words = [
        (offset_of!(Header, version), VERSION),
        (offset_of!(Header, page_bytes), new.page_bytes),
        (offset_of!(Header, clock), new.clock.number()),
    ];
    for (at, word) in words {
        page[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let words = [
        (offset_of!(Header, next), HEADER_BYTES),
        (offset_of!(Header, limit), HEADER_BYTES),
        (offset_of!(Header, max_bytes), new.max_bytes),
        (offset_of!(Header, start_ticks), new.start.0),
        (offset_of!(Header, start_monotonic_ns), new.start.1),
        (offset_of!(Header, start_realtime_ns), new.start_realtime_ns),
        (offset_of!(Header, end_ticks), new.end.0),
        (offset_of!(Header, end_monotonic_ns), new.end.1),
    ];
    for (at, word) in words {
        page[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    page
}

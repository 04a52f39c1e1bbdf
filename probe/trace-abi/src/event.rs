//! One event: a byte of operation, then integers of variable length.
//!
//! | operation | then |
//! |---|---|
//! | malloc, calloc | time, size, address |
//! | aligned (memalign and its kin) | time, size, address, log2 of the alignment |
//! | free, realloc starts | time, address |
//! | realloc ends | time, size, address |
//! | realloc failed | time |
//! | touched | resident pages, pages |
//!
//! Time is the difference to the event before in the chunk, in ticks; an address is the difference to the one before
//! in the chunk, in units of 16 bytes, in zigzag form. Frees and the start of a realloc are stamped before the call,
//! everything else after it: the order of time alone then pairs every address, for no allocator can return an address
//! before its free has started.

use crate::varint;

/// The longest event.
pub const EVENT_BYTES_MAX: usize = 1 + 3 * varint::BYTES_MAX + 1;

/// Set in the byte of operation where the address has 8 bytes more than a multiple of 16.
pub const HALF: u8 = 0x80;

/// Which block a touch record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchOf {
    /// The block that the event before has allocated: what was resident then.
    New,
    /// The block that the event after frees: what is resident now.
    Old,
}

/// An event as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Malloc {
        bytes: u64,
        address: u64,
    },
    Calloc {
        bytes: u64,
        address: u64,
    },
    Aligned {
        bytes: u64,
        address: u64,
        align_log2: u8,
    },
    Free {
        address: u64,
    },
    ReallocStart {
        address: u64,
    },
    ReallocEnd {
        bytes: u64,
        address: u64,
    },
    ReallocFailed,
    /// Of whole pages inside a large block.
    Touched {
        of: TouchOf,
        resident: u64,
        pages: u64,
    },
}

/// Bytes of operation.
pub mod op {
    pub const MALLOC: u8 = 1;
    pub const CALLOC: u8 = 2;
    pub const ALIGNED: u8 = 3;
    pub const FREE: u8 = 4;
    pub const REALLOC_START: u8 = 5;
    pub const REALLOC_END: u8 = 6;
    pub const REALLOC_FAILED: u8 = 7;
    pub const TOUCHED_NEW: u8 = 8;
    pub const TOUCHED_OLD: u8 = 9;
}

/// What the differences are against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    pub ticks: u64,
    /// In units of 16 bytes.
    pub address: u64,
}

/// Writes an event; the place behind it. Inlined with a constant event it is a few stores.
///
/// # Safety
/// [`EVENT_BYTES_MAX`] bytes at `at` can be written.
#[inline(always)]
pub unsafe fn write(at: *mut u8, before: &mut Before, ticks: u64, event: Event) -> *mut u8 {
    // SAFETY: the caller's room holds the longest event.
    unsafe {
        match event {
            Event::Malloc { bytes, address } => {
                allocated(at, op::MALLOC, before, ticks, (bytes, address))
            }
            Event::Calloc { bytes, address } => {
                allocated(at, op::CALLOC, before, ticks, (bytes, address))
            }
            Event::ReallocEnd { bytes, address } => {
                allocated(at, op::REALLOC_END, before, ticks, (bytes, address))
            }
            Event::Aligned {
                bytes,
                address,
                align_log2,
            } => {
                let at = allocated(at, op::ALIGNED, before, ticks, (bytes, address));
                at.write(align_log2);
                at.add(1)
            }
            Event::Free { address } => freed(at, op::FREE, before, ticks, address),
            Event::ReallocStart { address } => freed(at, op::REALLOC_START, before, ticks, address),
            Event::ReallocFailed => {
                at.write(op::REALLOC_FAILED);
                stamp(at.add(1), before, ticks)
            }
            Event::Touched {
                of,
                resident,
                pages,
            } => {
                at.write(if of == TouchOf::New {
                    op::TOUCHED_NEW
                } else {
                    op::TOUCHED_OLD
                });
                varint::write(varint::write(at.add(1), resident), pages)
            }
        }
    }
}

#[inline(always)]
unsafe fn allocated(
    at: *mut u8,
    op: u8,
    before: &mut Before,
    ticks: u64,
    (bytes, address): (u64, u64),
) -> *mut u8 {
    // SAFETY: the caller's room.
    unsafe {
        at.write(op | half(address));
        let at = stamp(at.add(1), before, ticks);
        place(varint::write(at, bytes), before, address)
    }
}

#[inline(always)]
unsafe fn freed(at: *mut u8, op: u8, before: &mut Before, ticks: u64, address: u64) -> *mut u8 {
    // SAFETY: the caller's room.
    unsafe {
        at.write(op | half(address));
        place(stamp(at.add(1), before, ticks), before, address)
    }
}

#[inline(always)]
fn half(address: u64) -> u8 {
    ((address >> 3) as u8 & 1) << 7
}

#[inline(always)]
unsafe fn stamp(at: *mut u8, before: &mut Before, ticks: u64) -> *mut u8 {
    // A thread that moves to another CPU may see the counter a little earlier.
    let ticks = ticks.max(before.ticks);
    // SAFETY: the caller's room.
    let at = unsafe { varint::write(at, ticks - before.ticks) };
    before.ticks = ticks;
    at
}

#[inline(always)]
unsafe fn place(at: *mut u8, before: &mut Before, address: u64) -> *mut u8 {
    let address = address >> crate::ADDRESS_SHIFT;
    let by = address.wrapping_sub(before.address) as i64;
    before.address = address;
    // SAFETY: the caller's room.
    unsafe { varint::write(at, varint::zigzag(by)) }
}

/// Takes the next event from the front of `bytes`; its ticks are in `before` then. `None`: cut or damaged.
#[inline]
pub fn read(bytes: &mut &[u8], before: &mut Before) -> Option<Event> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    let (op, half) = (first & !HALF, u64::from(first >> 7) << 3);
    if matches!(op, op::TOUCHED_NEW | op::TOUCHED_OLD) {
        let of = if op == op::TOUCHED_NEW {
            TouchOf::New
        } else {
            TouchOf::Old
        };
        let (resident, pages) = (varint::read(bytes)?, varint::read(bytes)?);
        return (resident <= pages && half == 0).then_some(Event::Touched {
            of,
            resident,
            pages,
        });
    }
    before.ticks = before.ticks.checked_add(varint::read(bytes)?)?;
    Some(match op {
        op::FREE => Event::Free {
            address: read_address(bytes, before, half)?,
        },
        op::REALLOC_START => Event::ReallocStart {
            address: read_address(bytes, before, half)?,
        },
        op::REALLOC_FAILED => Event::ReallocFailed,
        _ => {
            let size = varint::read(bytes)?;
            let address = read_address(bytes, before, half)?;
            match op {
                op::MALLOC => Event::Malloc {
                    bytes: size,
                    address,
                },
                op::CALLOC => Event::Calloc {
                    bytes: size,
                    address,
                },
                op::REALLOC_END => Event::ReallocEnd {
                    bytes: size,
                    address,
                },
                op::ALIGNED => {
                    let (&align_log2, rest) = bytes.split_first()?;
                    *bytes = rest;
                    if align_log2 >= 64 {
                        return None;
                    }
                    Event::Aligned {
                        bytes: size,
                        address,
                        align_log2,
                    }
                }
                _ => return None,
            }
        }
    })
}

#[inline(always)]
fn read_address(bytes: &mut &[u8], before: &mut Before, half: u64) -> Option<u64> {
    let by = varint::unzigzag(varint::read(bytes)?);
    before.address = before.address.wrapping_add(by as u64) & (u64::MAX >> crate::ADDRESS_SHIFT);
    Some(before.address << crate::ADDRESS_SHIFT | half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back() {
        let events = [
            Event::Malloc {
                bytes: 100,
                address: 0x5555_0010,
            },
            Event::Calloc {
                bytes: 0,
                address: 0x7fff_ffff_f008,
            },
            Event::Aligned {
                bytes: u64::MAX,
                address: 0x1000,
                align_log2: 12,
            },
            Event::Touched {
                of: TouchOf::New,
                resident: 3,
                pages: 8,
            },
            Event::Free {
                address: 0x5555_0010,
            },
            Event::ReallocStart { address: 0x1000 },
            Event::ReallocEnd {
                bytes: 1 << 40,
                address: 16,
            },
            Event::ReallocFailed,
            Event::Touched {
                of: TouchOf::Old,
                resident: 0,
                pages: 0,
            },
        ];
        let mut room = [0u8; 9 * EVENT_BYTES_MAX];
        let mut before = Before {
            ticks: 1000,
            address: 0,
        };
        let mut at = room.as_mut_ptr();
        for (index, event) in events.into_iter().enumerate() {
            // SAFETY: room for the longest of each.
            at = unsafe { write(at, &mut before, 1000 + 300 * index as u64, event) };
        }
        let used = at as usize - room.as_ptr() as usize;
        let mut bytes = &room[..used];
        let mut now = Before {
            ticks: 1000,
            address: 0,
        };
        for event in events {
            assert_eq!(read(&mut bytes, &mut now), Some(event));
        }
        assert!(bytes.is_empty());
        assert_eq!(now, before);
        assert_eq!(now.ticks, 1000 + 7 * 300, "a touch record has no time");
    }

    #[test]
    fn the_longest_event_fits() {
        let mut room = [0u8; EVENT_BYTES_MAX];
        let event = Event::Aligned {
            bytes: u64::MAX,
            address: u64::MAX,
            align_log2: 63,
        };
        let mut before = Before {
            ticks: 0,
            address: 1 << 59,
        };
        // SAFETY: exactly the room that is promised.
        let end = unsafe { write(room.as_mut_ptr(), &mut before, u64::MAX, event) };
        assert!(end as usize - room.as_ptr() as usize <= EVENT_BYTES_MAX);
    }

    #[test]
    fn damage_is_refused() {
        let mut before = Before::default();
        assert_eq!(read(&mut [0u8, 1, 1].as_slice(), &mut before), None);
        assert_eq!(
            read(&mut [op::TOUCHED_OLD, 9, 8].as_slice(), &mut before),
            None
        );
        assert_eq!(
            read(&mut [op::ALIGNED, 1, 1, 1, 64].as_slice(), &mut before),
            None
        );
    }
}

//! The loaded objects that frames lie in, so that a reader can name functions of one that is gone by then.
//!
//! One thread at a time writes; any may ask what is known.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::{Header, Module, SectionKind};

use crate::word::{AtomicU32, AtomicU64, atomic, atomic32};

/// The rows.
pub struct Modules {
    header: *mut Header,
    rows: *mut Module,
    capacity: u32,
}

impl Modules {
    /// # Safety
    /// `header` and `rows` are the header and the zeroed section of `capacity` rows, which live for ever.
    pub unsafe fn new(header: *mut Header, rows: *mut Module, capacity: u32) -> Modules {
        Modules {
            header,
            rows,
            capacity,
        }
    }

    /// An address lies in an object that has a row and is not known to be gone.
    pub fn hold(&self, address: u64) -> bool {
        self.rows().any(|row| {
            let row = Words::of(&row);
            let is_inside = row.start.load(Relaxed) <= address && address < row.end.load(Relaxed);
            is_inside && row.gone.load(Relaxed) == 0
        })
    }

    /// An object is there: it gets a row if it has none, and others at its addresses are gone. False: no room.
    ///
    /// # Safety
    /// No other thread writes the section.
    pub unsafe fn there(&self, object: &Module) -> bool {
        let mut is_back = false;
        for row in self.rows() {
            let words = Words::of(&row);
            let (start, end) = (words.start.load(Relaxed), words.end.load(Relaxed));
            // SAFETY: the path of a row in use stays.
            let is_path = unsafe { (*row).path } == object.path;
            if (start, end, is_path) == (object.start, object.end, true) {
                words.gone.store(0, Relaxed);
                is_back = true;
            } else if start < object.end && object.start < end {
                words.go(object.first_ns);
            }
        }
        // SAFETY: by the caller.
        is_back || unsafe { self.add(object) }
    }

    /// The object at these addresses is gone.
    ///
    /// # Safety
    /// As for [`Self::there`].
    pub unsafe fn gone(&self, start: u64, end: u64, now_ns: u64) {
        for row in self.rows() {
            let words = Words::of(&row);
            if (words.start.load(Relaxed), words.end.load(Relaxed)) == (start, end) {
                words.go(now_ns);
            }
        }
    }

    /// One more row; its end, which says that it is whole, comes last.
    unsafe fn add(&self, object: &Module) -> bool {
        // The program may have written over it.
        let used = self.used().load(Relaxed).min(self.capacity);
        if used == self.capacity {
            return false;
        }
        // SAFETY: below the capacity; by the caller no other thread writes it, and none reads it before it is counted.
        unsafe {
            let row = self.rows.add(used as usize);
            (*row).bias = object.bias;
            (*row).path_bytes = object.path_bytes;
            (*row).path = object.path;
            (*row).first_ns = object.first_ns;
            let words = Words::of(&row);
            words.start.store(object.start, Relaxed);
            words.gone.store(0, Relaxed);
            words.end.store(object.end, Release);
        }
        self.used().store(used + 1, Release);
        true
    }

    fn rows(&self) -> impl Iterator<Item = *mut Module> {
        let used = self.used().load(Acquire).min(self.capacity) as usize;
        // SAFETY: below the capacity.
        (0..used).map(|at| unsafe { self.rows.add(at) })
    }

    fn used(&self) -> &AtomicU32 {
        // SAFETY: a word of the header.
        unsafe { atomic32(&raw mut (*self.header).sections[SectionKind::Modules as usize].used) }
    }
}

/// What changes while others read it.
struct Words<'a> {
    start: &'a AtomicU64,
    end: &'a AtomicU64,
    gone: &'a AtomicU64,
}

impl Words<'_> {
    /// Of a row of the section, which lives for ever.
    fn of(row: &*mut Module) -> Words<'_> {
        let row = *row;
        // SAFETY: words of a row.
        unsafe {
            Words {
                start: atomic(&raw mut (*row).start),
                end: atomic(&raw mut (*row).end),
                gone: atomic(&raw mut (*row).gone_ns),
            }
        }
    }

    fn go(&self, now_ns: u64) {
        if self.gone.load(Relaxed) == 0 {
            self.gone.store(now_ns, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use abi::MODULE_PATH_BYTES;

    use super::*;

    fn module(start: u64, end: u64, first_ns: u64) -> Module {
        Module {
            start,
            end,
            bias: start,
            first_ns,
            gone_ns: 0,
            path_bytes: 0,
            reserved: 0,
            path: [0; MODULE_PATH_BYTES],
        }
    }

    #[test]
    fn an_object_is_gone_when_another_has_its_addresses_and_there_again_when_it_is_back() {
        let mut rows = vec![module(0, 0, 0); 2];
        // SAFETY: all zeros are integers; header and rows live as long as the table, which this test alone writes.
        unsafe {
            let mut header: Header = std::mem::zeroed();
            let modules = Modules::new(&mut header, rows.as_mut_ptr(), 2);
            assert!(!modules.hold(0x1000));
            assert!(modules.there(&module(0x1000, 0x3000, 5)));
            assert!(modules.there(&module(0x2000, 0x6000, 6)));
            assert!(!modules.hold(0x1fff) && modules.hold(0x2000));
            // No third row: a program that opens two in turn would use them all.
            assert!(modules.there(&module(0x1000, 0x3000, 7)));
            assert!(modules.hold(0x1fff) && !modules.hold(0x3000));
            assert!(!modules.there(&module(0x8000, 0x9000, 8)), "no room");
            modules.gone(0x1000, 0x3000, 9);
        }
        let gone: Vec<u64> = rows.iter().map(|row| row.gone_ns).collect();
        assert_eq!(gone, [9, 7]);
    }
}

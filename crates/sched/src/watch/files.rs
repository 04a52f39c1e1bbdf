//! Files of /proc that are read many times a second: opened once, read anew from their beginning.

use std::fs::File;
use std::os::unix::fs::FileExt;

use observe::table::Table;

/// Files kept open; of further threads each reading opens its own.
const OPEN_MAX: usize = 128;
/// Longer than any of them.
const BYTES: usize = 256;

pub struct Files {
    pid: u32,
    open: Table<(u32, &'static str), File>,
}

impl Files {
    pub fn of(pid: u32) -> Files {
        Files {
            pid,
            open: Table::default(),
        }
    }

    /// What `take` makes of the text of a thread's file.
    pub fn read<T>(
        &mut self,
        tid: u32,
        name: &'static str,
        take: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let mut bytes = [0; BYTES];
        let have = match self.open.get(&(tid, name)) {
            Some(file) => file.read_at(&mut bytes, 0).ok()?,
            None => {
                let file = File::open(format!("/proc/{}/task/{tid}/{name}", self.pid)).ok()?;
                let have = file.read_at(&mut bytes, 0).ok()?;
                if self.open.len() < OPEN_MAX {
                    self.open.insert((tid, name), file);
                }
                have
            }
        };
        take(std::str::from_utf8(&bytes[..have]).ok()?)
    }

    /// The thread ended; its number may become another one's.
    pub fn forget(&mut self, tid: u32) {
        self.open.retain(|(of, _), _| *of != tid);
    }
}

//! Who has a lock of a file, by the kernel's list: `/proc/locks` (`lock_get_status` of fs/locks.c).

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Of the list; a line has some 60 bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;
/// To read it, the kernel lets nobody take or release a lock of a file: no more often than this.
const APART: Duration = Duration::from_secs(1);

/// A file: the numbers of its device, and its inode.
pub type Id = (u32, u32, u64);

/// The list as it was read last.
#[derive(Debug, Default)]
pub struct FileLocks {
    read_at: Option<Instant>,
    list: String,
}

impl FileLocks {
    /// "php-fpm8.2 (pid 4242)": the one other process that has a lock of the file. `None` as well where several have:
    /// of parts of it, or to read.
    pub fn holder_of(&mut self, file: Id, own: u32) -> Option<String> {
        if self.read_at.is_none_or(|at| at.elapsed() >= APART) {
            self.read_at = Some(Instant::now());
            self.list.clear();
            let locks = File::open("/proc/locks").ok()?;
            locks
                .take(LIST_BYTES_MAX)
                .read_to_string(&mut self.list)
                .ok()?;
        }
        let pid = holder_in(&self.list, file, own)?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(format!("{} (pid {pid})", name.trim_end()))
    }
}

/// `1: FLOCK  ADVISORY  WRITE 4242 08:01:1234 0 EOF`; those that wait are marked `->`. Locks of open files (OFD) tell
/// no process. Some file systems (btrfs) give another device here than stat(2) does: nobody is found there.
fn holder_in(list: &str, file: Id, own: u32) -> Option<u32> {
    let holder = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, pid) = (fields.next()?, fields.nth(2)?.parse().ok()?);
        let mut id = fields.next()?.split(':');
        let mut part = || id.next();
        let device = (hex(part()?)?, hex(part()?)?);
        let inode = part()?.parse().ok()?;
        let is_one = kind != "->" && (device.0, device.1, inode) == file && pid != own;
        is_one.then_some(pid)
    };
    let mut holders = list.lines().filter_map(holder);
    let first = holders.next()?;
    holders.all(|other| other == first).then_some(first)
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_has_no_lock() {
        let list = "1: FLOCK  ADVISORY  WRITE 21327 fe:00:131077 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 21330 fe:00:131077 0 EOF\n\
                    2: OFDLCK ADVISORY  READ -1 fe:00:131078 0 EOF\n\
                    3: POSIX  ADVISORY  WRITE 77 00:1a:9 0 8\n\
                    4: POSIX  ADVISORY  WRITE 77 00:1a:9 16 24\n\
                    5: POSIX  ADVISORY  READ 78 00:1a:10 0 8\n\
                    6: POSIX  ADVISORY  READ 79 00:1a:10 0 8\n\
                    garbage\n";
        let file = (0xfe, 0, 131_077);
        assert_eq!(holder_in(list, file, 1), Some(21_327));
        assert_eq!(holder_in(list, file, 21_327), None);
        assert_eq!(holder_in(list, (0xfe, 0, 131_078), 1), None);
        assert_eq!(holder_in(list, (0, 0x1a, 9), 1), Some(77));
        assert_eq!(holder_in(list, (0, 0x1a, 10), 1), None, "either may be it");
    }

    #[test]
    fn the_kernels_list_has_a_lock_of_this_process() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let data = file.metadata().unwrap();
        let id = (
            rustix::fs::major(data.dev()),
            rustix::fs::minor(data.dev()),
            data.ino(),
        );
        let mut locks = FileLocks::default();
        let found = locks.holder_of(id, 1);
        let own = format!("(pid {})", std::process::id());
        assert!(
            found.as_ref().is_some_and(|found| found.ends_with(&own)),
            "{found:?}"
        );
        assert_eq!(locks.holder_of(id, std::process::id()), None);
    }
}

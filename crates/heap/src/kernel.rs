//! Pointers that a process gave to the kernel and may keep nowhere else: what epoll tells with a
//! descriptor (`data.ptr`), and what a timer's signal brings (`sigev_value`). Both can be read in
//! /proc (`fdinfo`, `timers`); the user data of io_uring's pending requests cannot.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use observe::fact::memory::{Memory, ProcessMemory};

/// Descriptors that are looked at, and bytes that are read of one's description (a line of epoll's has some 70).
const DESCRIPTORS_MAX: usize = 100_000;
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Where words lie for a search that are in no memory (the kernel's, registers): above all addresses of a program.
pub const BEHIND: u64 = 1 << 62;

/// What one process gave to the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelHeld {
    /// Numbers that may be pointers.
    pub words: Vec<u64>,
    /// It has an io_uring, of which the words are not known.
    pub has_uring: bool,
}

/// `process`: /proc/PID. What may not be read is left out.
pub fn read_kernel_held(process: &Path) -> KernelHeld {
    let mut held = KernelHeld {
        words: parse_timers(&read_text(&process.join("timers"))),
        has_uring: false,
    };
    let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else {
        return held;
    };
    for descriptor in descriptors.flatten().take(DESCRIPTORS_MAX) {
        let link = std::fs::read_link(descriptor.path()).unwrap_or_default();
        match link.to_str() {
            Some("anon_inode:[eventpoll]") => {
                let text = read_text(&process.join("fdinfo").join(descriptor.file_name()));
                held.words.extend(parse_epoll(&text));
            }
            Some("anon_inode:[io_uring]") => held.has_uring = true,
            _ => {}
        }
    }
    held
}

fn read_text(path: &Path) -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(path) {
        // A text that is cut is parsed as far as it goes.
        let _ = file.take(TEXT_BYTES_MAX).read_to_string(&mut text);
    }
    text
}

/// `tfd: 5 events: 19 data: 7f00deadbeef pos:0 ...`, a line for each descriptor.
fn parse_epoll(text: &str) -> Vec<u64> {
    let data = |line: &str| {
        let (_, rest) = line.strip_prefix("tfd:")?.split_once("data:")?;
        u64::from_str_radix(rest.split_whitespace().next()?, 16).ok()
    };
    text.lines().filter_map(data).collect()
}

/// `signal: 10/000055d0c0ffee00`, a line for each timer.
fn parse_timers(text: &str) -> Vec<u64> {
    let value = |line: &str| {
        let (_, value) = line.strip_prefix("signal:")?.split_once('/')?;
        u64::from_str_radix(value.trim().trim_start_matches("0x"), 16).ok()
    };
    text.lines().filter_map(value).collect()
}

/// A process's memory, and behind it the words that the kernel keeps for it: whatever searches for
/// pointers finds those as well.
pub struct Searched {
    memory: ProcessMemory,
    kernel: Vec<u8>,
}

impl Searched {
    pub fn new(memory: ProcessMemory, held: &KernelHeld) -> Searched {
        let kernel = held.words.iter().flat_map(|word| word.to_le_bytes());
        Searched {
            memory,
            kernel: kernel.collect(),
        }
    }

    /// Where to read beside the memory's own runs; the last one by address.
    pub fn run(&self) -> Option<(u64, u64)> {
        let end = BEHIND + self.kernel.len() as u64;
        (end > BEHIND).then_some((BEHIND, end))
    }
}

impl Memory for Searched {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let Some(at) = address.checked_sub(BEHIND) else {
            return self.memory.read(address, out);
        };
        let at = usize::try_from(at).ok()?;
        out.copy_from_slice(self.kernel.get(at..at.checked_add(out.len())?)?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `losses epoll` of this package's tests after half a second, on Linux 6.18, its first lines.
    const EPOLL: &str = "pos:\t0\nflags:\t02\nmnt_id:\t17\nino:\t1030\n\
        tfd:        5 events:       19 data:     555c2004bbf0  pos:0 ino:406 sdev:10\n\
        tfd:        4 events:       19 data:     555c200422a0  pos:0 ino:406 sdev:10\n";
    /// `losses timers`, likewise.
    const TIMERS: &str = "ID: 40\nsignal: 10/0000556164e4be40\nnotify: signal/pid.16450\nClockID: 1\n\
        ID: 39\nsignal: 10/0000556164e47a80\nnotify: signal/pid.16450\nClockID: 1\n";

    #[test]
    fn words_of_epoll_and_timers() {
        assert_eq!(parse_epoll(EPOLL), [0x555c_2004_bbf0, 0x555c_2004_22a0]);
        assert_eq!(parse_timers(TIMERS), [0x5561_64e4_be40, 0x5561_64e4_7a80]);
        assert!(parse_epoll("tfd: 5 events: 19\ntfd: data: zz\n").is_empty());
        assert!(parse_timers("signal: 10\nsignal: 10/what\n").is_empty());
    }

    #[test]
    fn the_kernels_words_lie_behind_all_memory() {
        let memory = ProcessMemory::new(File::open("/proc/self/mem").unwrap().into());
        let held = KernelHeld {
            words: vec![0x1234, 0x5678],
            has_uring: false,
        };
        let searched = Searched::new(memory, &held);
        let (from, to) = searched.run().unwrap();
        assert_eq!(to - from, 16);
        assert_eq!(searched.u64(from + 8), Some(0x5678));
        assert_eq!(searched.u64(to), None);
        let value = 0x0123_4567_89ab_cdef_u64;
        assert_eq!(searched.u64(&raw const value as u64), Some(value));
    }
}

//! Whether the program itself handles SIGUSR1.
//!
//! Node.js starts its inspector at SIGUSR1, unless the program has a handler of its own (`process.on('SIGUSR1', …)`):
//! then that one runs instead, and no inspector starts. /proc tells only that the signal is caught. libuv keeps all
//! handlers of a program in one red-black tree, `uv__signal_tree`, which is read here.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};
use observe::fact::sections::tables_are_within;
use observe::foreign::open_file;
use symbols::memory::Memory;

use super::process::TABLE_BYTES_MAX;

/// Offsets in libuv's `uv_signal_t`, the same in all of libuv 1.x on 64-bit Linux (`include/uv.h`, `uv/unix.h`).
const TYPE: usize = 16;
const NUMBER: usize = 104;
const LEFT: usize = 112;
const RIGHT: usize = 120;
const SIZE: usize = 128;
/// `UV_SIGNAL` of `uv_handle_type`.
const SIGNAL: i32 = 16;
/// Each handle is one signal of one event loop.
const HANDLES_MAX: usize = 4096;

const USR1: i32 = rustix::process::Signal::USR1.as_raw();

/// `None`: not known, because the file of Node.js (or of libuv) has no symbols or its memory may not be read.
pub fn handles_usr1(pid: u32) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let tree = maps.lines().find_map(|line| tree_in(pid, line))?;
    let memory = Memory { pid };
    walk(word(&memory, tree)?, |address| {
        let mut bytes = [0; SIZE];
        (memory.read(address, &mut bytes).ok()? == SIZE).then_some(bytes)
    })
}

/// Where the tree lies, when this mapping is the first of the file that holds libuv.
fn tree_in(pid: u32, line: &str) -> Option<u64> {
    let area = observe::proc::area::parse_area(line).filter(|area| area.offset == 0)?;
    let name = area.name.rsplit('/').next()?;
    if !["node", "libuv.so", "libnode.so"]
        .iter()
        .any(|start| name.starts_with(start))
    {
        return None;
    }
    // The process may be in a container: its paths are not ours.
    let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", area.start, area.end);
    let named = format!("/proc/{pid}/root{}", area.name);
    let mut files = [mapped, named].into_iter();
    let file = files.find_map(|path| open_file(Path::new(&path)).ok())?;
    if !tables_are_within(&file, TABLE_BYTES_MAX) {
        return None;
    }
    // Node.js is 100 MB: only its tables are read.
    let cache = ReadCache::new(file);
    let file = object::File::parse(&cache).ok()?;
    let first = file.segments().map(|segment| segment.address()).min()? & !0xfff;
    let tree = file
        .symbols()
        .find(|symbol| symbol.name_bytes() == Ok(b"uv__signal_tree"))?;
    Some(tree.address().wrapping_add(area.start).wrapping_sub(first))
}

fn word(memory: &Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (memory.read(address, &mut bytes).ok()? == 8).then(|| u64::from_ne_bytes(bytes))
}

/// Whether a handle of the tree is for SIGUSR1; `None` when it is not the tree that it should be.
fn walk(root: u64, read: impl Fn(u64) -> Option<[u8; SIZE]>) -> Option<bool> {
    let mut next = vec![root];
    let mut seen = 0;
    while let Some(address) = next.pop() {
        if address == 0 {
            continue;
        }
        seen += 1;
        let handle = read(address).filter(|_| seen <= HANDLES_MAX)?;
        let int = |at: usize| i32::from_ne_bytes(handle[at..at + 4].try_into().unwrap_or_default());
        let pointer =
            |at: usize| u64::from_ne_bytes(handle[at..at + 8].try_into().unwrap_or_default());
        if int(TYPE) != SIGNAL {
            return None;
        }
        if int(NUMBER) == USR1 {
            return Some(true);
        }
        next.extend([pointer(LEFT), pointer(RIGHT)]);
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(kind: i32, number: i32, left: u64, right: u64) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[TYPE..TYPE + 4].copy_from_slice(&kind.to_ne_bytes());
        bytes[NUMBER..NUMBER + 4].copy_from_slice(&number.to_ne_bytes());
        bytes[LEFT..LEFT + 8].copy_from_slice(&left.to_ne_bytes());
        bytes[RIGHT..RIGHT + 8].copy_from_slice(&right.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_handler_is_found_anywhere_in_the_tree() {
        let with = |last| {
            walk(1, move |address| match address {
                1 => Some(handle(SIGNAL, 15, 2, 0)),
                2 => Some(handle(SIGNAL, last, 0, 0)),
                _ => None,
            })
        };
        assert_eq!(with(USR1), Some(true));
        assert_eq!(with(2), Some(false));
        assert_eq!(walk(0, |_| None), Some(false));
    }

    #[test]
    fn what_is_no_tree_is_not_known() {
        assert_eq!(walk(1, |_| None), None);
        assert_eq!(walk(1, |_| Some(handle(12, 2, 0, 0))), None);
        assert_eq!(
            walk(1, |_| Some(handle(SIGNAL, 2, 1, 1))),
            None,
            "a circle ends"
        );
    }
}

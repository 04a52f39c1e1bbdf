//! What is seen of a Node.js process from outside: its executable, its network, its signals.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::{Object, ObjectSymbol, ReadCache, ReadRef};
use observe::fact::sections::tables_are_within;
use observe::foreign::open_file;
use observe::proc::identity::parse_identity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// Exported by the program or the library that is Node.js; modules in C++ call the first.
const EXPORTED: [&[u8]; 2] = [b"node_module_register", b"_ZN4node5StartEiPPc"];

/// Of a symbol table that is read; that of Node.js has 6 MB.
pub const TABLE_BYTES_MAX: u64 = 64 << 20;

/// The file that a process runs; another program that it starts has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exe {
    device: u64,
    inode: u64,
}

pub fn exe(pid: u32) -> Option<Exe> {
    let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some(Exe {
        device: file.dev(),
        inode: file.ino(),
    })
}

/// Its program is called Node.js or its library is mapped, and that file exports what Node.js exports.
pub fn is_node(pid: u32) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    // Another file may have replaced the one that runs.
    let is_named = is_node_name(name.trim_end_matches(" (deleted)"));
    let of_program = || File::open(format!("/proc/{pid}/exe")).is_ok_and(exports_node);
    is_named && of_program() || library(pid).is_some_and(exports_node)
}

fn exports_node(file: File) -> bool {
    if !tables_are_within(&file, TABLE_BYTES_MAX) {
        return false;
    }
    // Node.js is 100 MB: only its tables are read.
    let cache = ReadCache::new(file);
    has_symbol(&cache).unwrap_or(false)
}

fn has_symbol<'a>(data: impl ReadRef<'a>) -> Option<bool> {
    let file = object::File::parse(data).ok()?;
    let is_exported = file.dynamic_symbols().any(|symbol| {
        symbol.is_definition()
            && symbol
                .name_bytes()
                .is_ok_and(|name| EXPORTED.contains(&name))
    });
    Some(is_exported)
}

/// Without waiting for it.
pub fn has_ended(process: &OwnedFd) -> bool {
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// `node`, `nodejs`, `node20`, `node-22`; not `node_exporter`.
fn is_node_name(name: &str) -> bool {
    let version = name
        .strip_prefix("nodejs")
        .or_else(|| name.strip_prefix("node"));
    version.is_some_and(|version| {
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
    })
}

fn library(pid: u32) -> Option<File> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let path = maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with("libnode.so").then_some(path)
    })?;
    // The process may be in a container: its paths are not ours. What lies there is the process's to choose.
    open_file(Path::new(&format!("/proc/{pid}/root{path}"))).ok()
}

/// Whether SIGUSR1 has a handler; without one it ends the process. `None`: the status cannot be read.
pub fn catches_usr1(pid: u32) -> Option<bool> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    parse_identity(&status).catches(Signal::USR1.as_raw())
}

/// In another network namespace its 127.0.0.1 is not ours.
pub fn is_same_network(pid: u32) -> bool {
    let network = |of: &str| fs::metadata(format!("/proc/{of}/ns/net")).map(|file| file.ino());
    match (network("self"), network(&pid.to_string())) {
        (Ok(ours), Ok(its)) => ours == its,
        // Where it may not be read, the owner of the socket is checked all the same.
        _ => true,
    }
}

/// RSS, bytes: the heap is not larger.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_node_are_known() {
        assert!(
            ["node", "nodejs", "node20", "node-22.1"]
                .into_iter()
                .all(is_node_name)
        );
        assert!(
            !["node_exporter", "nodemon", "python3", ""]
                .into_iter()
                .any(is_node_name)
        );
    }
}

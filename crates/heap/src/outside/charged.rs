//! What the kernel itself keeps for a process: charged to its cgroup, and to no process (`cgroup-v2.rst` and
//! `memory.rst` of the kernel: `memory.stat`, `memory.kmem.usage_in_bytes`).
//!
//! Only where the process is alone in its cgroup, but for those that it descends from: the kernel does not say whose
//! pages are whose.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use observe::cgroup::mounts::{folders_of, read_mounts};
use observe::cgroup::{Folders, find_folders, parse_bytes, parse_key, parse_membership};
use procfs::process::Process;

use super::{Charge, Holder};

/// A process that is in no cgroup that can be read will hardly come into one.
const RESTS: u32 = 16;
/// Above a process: a container's first one, a shell, a supervisor.
const ANCESTORS_MAX: usize = 32;

/// A page of the cache has objects of its own: a buffer head (104 bytes), its part of a node of the file's tree and of
/// an extent; together less than a page for so many.
const PAGES_OF_AN_OBJECT: u64 = 20;

impl Charge {
    /// By its key in `memory.stat` of version 2.
    const OF_V2: [(&str, Charge); 7] = [
        ("slab_reclaimable", Charge::NamesOfFiles),
        ("slab_unreclaimable", Charge::Objects),
        ("kernel_stack", Charge::Stacks),
        ("pagetables", Charge::PageTables),
        ("percpu", Charge::PerCpu),
        ("vmalloc", Charge::Vmalloc),
        ("sock", Charge::SocketBuffers),
    ];

    /// The kernel gives it back when memory is short.
    pub fn is_cache(self) -> bool {
        matches!(self, Charge::PageCache | Charge::NamesOfFiles)
    }
}

/// Finds the cgroup once.
#[derive(Debug, Default)]
pub struct Reader {
    folders: Option<Folders>,
    /// Readings until it is sought again, where none was found.
    rests: u32,
    /// The largest page cache so far: the kernel keeps objects of pages for a while that are dropped.
    cache_most: u64,
}

impl Reader {
    /// Adds what is charged, where it is the process's own; whether it is.
    pub fn add(&mut self, process: &Process, held: &mut BTreeMap<Holder, u64>) -> bool {
        if self.folders.is_none() && self.rests == 0 {
            self.folders = folders(process.pid());
            self.rests = RESTS;
        }
        let Some(folders) = &self.folders else {
            self.rests -= 1;
            return false;
        };
        let (Folders::V2(folder) | Folders::V1 { memory: folder, .. }) = folders;
        let members = members(folder);
        if !members.contains(&process.pid()) {
            // It was moved to another one.
            self.folders = None;
            return false;
        }
        if !is_alone(process.pid(), &members, folder) {
            return false;
        }
        let charged = match folders {
            Folders::V2(folder) => of_v2(&read(folder, "memory.stat")),
            Folders::V1 { memory, .. } => {
                let stat = read(memory, "memory.stat");
                let kernel = read(memory, "memory.kmem.usage_in_bytes");
                of_v1(&stat, &kernel, &mut self.cache_most)
            }
        };
        let charged = charged.into_iter();
        held.extend(charged.map(|(charge, bytes)| (Holder::Kernel(charge), bytes)));
        true
    }
}

fn folders(pid: i32) -> Option<Folders> {
    let membership = std::fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = read_mounts();
    ["memory", ""].iter().find_map(|controller| {
        let path = parse_membership(&membership, controller)?;
        // Of version 2 the controller may be off; another hierarchy may have a folder of the same name.
        let is_its = |folder: &PathBuf| {
            folder.join("memory.stat").exists() && members(folder).contains(&pid)
        };
        find_folders(&folders_of(&mounts, &path).find(is_its)?)
    })
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap_or_default()
}

fn members(folder: &Path) -> Vec<i32> {
    let members = read(folder, "cgroup.procs");
    let members = String::from_utf8_lossy(&members);
    members
        .lines()
        .map_while(|line| line.parse().ok())
        .collect()
}

/// Whether no other process is charged to the same cgroup; what highwater's own takes there would be as much.
fn is_alone(pid: i32, members: &[i32], folder: &Path) -> bool {
    let own = std::process::id() as i32;
    let is_shared = members.contains(&own) && own != pid;
    if is_shared || members.len() > ANCESTORS_MAX || !members.contains(&pid) {
        return false;
    }
    let has_child_groups = || {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_type().ok())
            .any(|kind| kind.is_dir())
    };
    let expected = match members.len() {
        1 => vec![pid],
        _ => line(pid),
    };
    members.iter().all(|member| expected.contains(member)) && !has_child_groups()
}

/// A process and all that it descends from.
fn line(pid: i32) -> Vec<i32> {
    let mut line = vec![pid];
    for _ in 0..ANCESTORS_MAX {
        let stat = line
            .last()
            .and_then(|pid| Process::new(*pid).ok()?.stat().ok());
        match stat {
            Some(stat) if stat.ppid > 0 => line.push(stat.ppid),
            _ => break,
        }
    }
    line
}

/// Files in memory stand elsewhere: the mapped ones in the account, the others by their names.
fn of_v2(stat: &[u8]) -> Vec<(Charge, u64)> {
    let of = |key: &str| parse_key(stat, key.as_bytes());
    let cache = of("file").map(|file| file.saturating_sub(of("shmem").unwrap_or(0)));
    let parts = Charge::OF_V2.iter();
    let parts: Vec<(Charge, u64)> = parts
        .filter_map(|(key, charge)| Some((*charge, of(key)?)))
        .collect();
    // Since Linux 5.18; socket buffers are beside it.
    let in_kernel = parts
        .iter()
        .filter(|(charge, _)| *charge != Charge::SocketBuffers);
    let in_kernel: u64 = in_kernel.map(|(_, bytes)| bytes).sum();
    let rest = of("kernel").map(|kernel| (Charge::Rest, kernel.saturating_sub(in_kernel)));
    let cache = cache.map(|bytes| (Charge::PageCache, bytes));
    cache.into_iter().chain(parts).chain(rest).collect()
}

fn of_v1(stat: &[u8], kernel: &[u8], cache_most: &mut u64) -> Vec<(Charge, u64)> {
    let of = |key: &str| parse_key(stat, key.as_bytes());
    let cache = of("cache").map(|cache| cache.saturating_sub(of("shmem").unwrap_or(0)));
    *cache_most = cache.unwrap_or(0).max(*cache_most);
    let with_pages = *cache_most / PAGES_OF_AN_OBJECT;
    let kernel = parse_bytes(kernel).map(|bytes| bytes.saturating_sub(with_pages));
    let cache = cache.map(|bytes| (Charge::PageCache, bytes));
    let kernel = kernel.map(|bytes| (Charge::AllOfKernel, bytes));
    cache.into_iter().chain(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_read_of_both_versions() {
        let stat = b"anon 4096\nfile 9000\nshmem 1000\nslab_reclaimable 20\nslab_unreclaimable 30\nsock 5\nkernel 90\n";
        let expected = [
            (Charge::PageCache, 8000),
            (Charge::NamesOfFiles, 20),
            (Charge::Objects, 30),
            (Charge::SocketBuffers, 5),
            (Charge::Rest, 40),
        ];
        assert_eq!(of_v2(stat), expected);
        let stat = b"cache 9000\nrss 1\nshmem 1000\ntotal_cache 70000\n";
        let expected = [(Charge::PageCache, 8000), (Charge::AllOfKernel, 77)];
        let mut cache_most = 0;
        assert_eq!(of_v1(stat, b"477\n", &mut cache_most), expected);
        // A cache that falls makes nothing else of it grow.
        let fallen = of_v1(b"cache 1000\nshmem 1000\n", b"477\n", &mut cache_most);
        assert_eq!(fallen, [(Charge::PageCache, 0), (Charge::AllOfKernel, 77)]);
        assert!(of_v2(b"").is_empty() && of_v1(b"", b"", &mut 0).is_empty());
    }

    #[test]
    fn a_cgroup_with_strangers_in_it_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let procs = |text: String| std::fs::write(folder.path().join("cgroup.procs"), text);
        let own = std::process::id() as i32;
        procs(format!("{own}\n")).unwrap();
        assert!(is_alone(own, &members(folder.path()), folder.path()));
        // It was moved to another one.
        procs(String::new()).unwrap();
        assert!(!is_alone(own, &members(folder.path()), folder.path()));
        // No process has this number.
        procs(format!("{own}\n{}\n", i32::MAX)).unwrap();
        assert!(!is_alone(own, &members(folder.path()), folder.path()));
        procs(format!("{own}\n")).unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        assert!(!is_alone(own, &members(folder.path()), folder.path()));
    }
}

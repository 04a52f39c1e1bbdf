//! Whether there is memory for a heap snapshot.

use std::fs;
use std::path::{Path, PathBuf};

use observe::cgroup::{Folders, parse_membership, read_cgroup};

/// The process makes the snapshot's text before it sends it. Measured for small objects: 490 MB more RSS for a heap of
/// 46 MB, 815 MB for 64 MB; three quarters of it stayed in RSS.
pub const BYTES_PER_HEAP_BYTE: u64 = 13;

/// What a snapshot of a heap of this size takes, at most about.
pub fn needed(heap_bytes: u64) -> u64 {
    heap_bytes.saturating_mul(BYTES_PER_HEAP_BYTE)
}

/// Bytes that the process may still take before the kernel ends something: of the machine, and of its cgroups, in
/// either version. Zero where a cgroup cannot be found: its limit is not known then.
pub fn available(pid: u32) -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let membership = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let machine = parse_available(&memory).unwrap_or(0);
    in_cgroups(&membership, Path::new("/sys/fs/cgroup"))
        .map_or(0, |left| left.unwrap_or(machine).min(machine))
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `None`: a cgroup cannot be found. `Some(None)`: no limit.
fn in_cgroups(membership: &[u8], mount: &Path) -> Option<Option<u64>> {
    let v1 = parse_membership(membership, "memory").map(|path| (mount.join("memory"), path));
    let v2 = parse_membership(membership, "").map(|path| (mount.to_owned(), path));
    // With both, the memory controller is in the tree of version 1.
    let is_v1 = v1.is_some();
    let (tree, path) = v1.or(v2)?;
    let own = Path::new(path.trim_start_matches('/'));
    if !tree.join(own).is_dir() {
        return None;
    }
    let folders = own.ancestors().map(|group| tree.join(group));
    Some(folders.filter_map(|folder| left_in(folder, is_v1)).min())
}

/// `None`: no limit.
fn left_in(folder: PathBuf, is_v1: bool) -> Option<u64> {
    let folders = match is_v1 {
        true => Folders::V1 {
            memory: folder,
            cpu: None,
        },
        false => Folders::V2(folder),
    };
    let group = read_cgroup(&folders).ok()?;
    Some(
        group
            .memory_limit_bytes?
            .saturating_sub(group.memory_bytes?),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of cgroups with a limit and what is used of it.
    fn made(group: &str, files: [(&str, &str); 2]) -> tempfile::TempDir {
        let mount = tempfile::tempdir().unwrap();
        let folder = mount.path().join(group);
        fs::create_dir_all(folder.join("inner")).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        mount
    }

    #[test]
    fn the_limit_of_a_group_above_counts_in_both_versions() {
        let mount = made(
            "memory/pod",
            [
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.usage_in_bytes", "400\n"),
            ],
        );
        let v1 = b"9:memory:/pod/inner\n0::/pod/inner\n";
        assert_eq!(in_cgroups(v1, mount.path()), Some(Some(600)));
        let mount = made(
            "pod",
            [("memory.max", "1000\n"), ("memory.current", "1400\n")],
        );
        assert_eq!(in_cgroups(b"0::/pod/inner\n", mount.path()), Some(Some(0)));
        let mount = made(
            "pod",
            [("memory.max", "max\n"), ("memory.current", "1400\n")],
        );
        assert_eq!(in_cgroups(b"0::/pod/inner\n", mount.path()), Some(None));
    }

    #[test]
    fn a_group_that_is_elsewhere_is_not_known() {
        let mount = tempfile::tempdir().unwrap();
        assert_eq!(in_cgroups(b"0::/../pod\n", mount.path()), None);
        assert_eq!(in_cgroups(b"", mount.path()), None);
    }

    #[test]
    fn what_the_machine_has_left() {
        assert_eq!(
            parse_available("MemFree: 1 kB\nMemAvailable:   2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(parse_available(""), None);
    }
}

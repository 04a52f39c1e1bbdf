//! A cgroup as it is now, if it is still there: its limits and how often they were reached.

use std::path::PathBuf;

use observe::cgroup::mounts::{Mount, folders_of};
use observe::cgroup::{Cgroup, Folders, find_folders, parse_key, read_cgroup};

/// What a cgroup's files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupNow {
    pub folder: PathBuf,
    pub is_v2: bool,
    pub memory: Cgroup,
    /// cgroup v2: the limit above which processes are slowed down.
    pub high_bytes: Option<u64>,
    /// cgroup v2: how often they were.
    pub high_events: Option<u64>,
    /// cgroup v2: how often the limit was hit, and v1's `failcnt`.
    pub max_events: Option<u64>,
    /// cgroup v2: the kernel kills all of it or nothing.
    pub is_group: bool,
    /// cgroup v1: the kernel kills nothing here; what asks for memory waits.
    pub is_killing_off: bool,
}

/// The cgroup that a log calls `path`; `None`: it is gone, or its hierarchy is not mounted here.
pub fn read_now(mounts: &[Mount], path: &str) -> Option<CgroupNow> {
    folders_of(mounts, path).find_map(read_folder)
}

fn read_folder(folder: PathBuf) -> Option<CgroupNow> {
    let folders = find_folders(&folder)?;
    let memory = read_cgroup(&folders).ok()?;
    let text = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let number = |name: &str| observe::cgroup::parse_bytes(&text(name));
    let events = text("memory.events");
    let is_v2 = matches!(folders, Folders::V2(_));
    // A controller that is off here has no files.
    memory.memory_bytes?;
    Some(CgroupNow {
        is_v2,
        memory,
        high_bytes: number("memory.high"),
        high_events: parse_key(&events, b"high"),
        max_events: parse_key(&events, b"max").or_else(|| number("memory.failcnt")),
        is_group: number("memory.oom.group") == Some(1),
        is_killing_off: parse_key(&text("memory.oom_control"), b"oom_kill_disable") == Some(1),
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_of_v2_is_read_and_nothing_outside() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/b");
        std::fs::create_dir_all(&own).unwrap();
        let files = [
            ("memory.current", "4096\n"),
            ("memory.max", "8192\n"),
            ("memory.high", "6000\n"),
            (
                "memory.events",
                "low 0\nhigh 170\nmax 35\noom 1\noom_kill 1\noom_group_kill 0\n",
            ),
            ("memory.oom.group", "1\n"),
        ];
        for (name, text) in files {
            std::fs::write(own.join(name), text).unwrap();
        }
        let mounts = [Mount::new("/", folder.path())];
        let now = read_now(&mounts, "/a/b").unwrap();
        assert_eq!((now.is_v2, now.is_group), (true, true));
        assert_eq!(
            (now.high_bytes, now.high_events, now.max_events),
            (Some(6000), Some(170), Some(35))
        );
        assert_eq!(
            (now.memory.memory_limit_bytes, now.memory.oom_kills),
            (Some(8192), Some(1))
        );
        for path in ["/a/../a/b", "a/b", "/", "", "/a", "/gone"] {
            assert_eq!(read_now(&mounts, path), None, "{path}");
        }
    }
}

//! Where on this machine a cgroup of one's own can be made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroup, Version};

/// The place under which cgroups are made, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    At {
        version: Version,
        parent: PathBuf,
    },
    /// In words, with what is lost and how to get it.
    None {
        why: String,
    },
}

impl Hierarchy {
    /// Looks at this machine, and tries.
    pub fn find() -> Self {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::find_by(&cgroups, &mounts, Path::new("/"))
    }

    /// As [`Hierarchy::find`], from the text of /proc/self/cgroup and /proc/self/mountinfo, with the mounts below
    /// `root`.
    pub fn find_by(cgroups: &str, mounts: &str, root: &Path) -> Self {
        let v1 = parse_place(cgroups, mounts, Version::V1);
        let v2 = parse_place(cgroups, mounts, Version::V2);
        let mut reasons = Vec::new();
        for (version, place) in [(Version::V1, v1), (Version::V2, v2)] {
            let Some(place) = place else { continue };
            let place = place.below(root);
            let parents = match version {
                Version::V1 => vec![place.own.clone()],
                Version::V2 => v2_parents(&place),
            };
            for parent in &parents {
                match try_parent(version, parent) {
                    Ok(()) => {
                        return Self::At {
                            version,
                            parent: parent.clone(),
                        };
                    }
                    Err(error) => reasons.push(format!("{}: {error}", parent.display())),
                }
            }
            if parents.is_empty() {
                reasons.push(format!(
                    "{}: no cgroup above has the memory controller for its children without a limit in between",
                    place.own.display()
                ));
            }
        }
        Self::None {
            why: words(&reasons),
        }
    }

    /// # Errors
    /// When the folder cannot be made, or when there is no hierarchy at all.
    pub fn create(&self, name: &str) -> io::Result<Cgroup> {
        match self {
            Self::At { version, parent } => Cgroup::create(*version, parent.join(name)),
            Self::None { why } => Err(io::Error::new(io::ErrorKind::Unsupported, why.clone())),
        }
    }
}

fn words(reasons: &[String]) -> String {
    let reasons = match reasons {
        [] => "no memory controller is mounted".to_owned(),
        some => some.join("; "),
    };
    format!(
        "no cgroup can be made ({reasons}); without one highwater itself watches memory_limit at each poll, an OOM \
         kill is inferred, and a descendant that leaves its session and clears its environment is not found at the \
         end. Run as root, or inside `systemd-run --user --scope -p Delegate=yes`"
    )
}

/// A controller's mount and our own place in it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    mount: PathBuf,
    own: PathBuf,
}

impl Place {
    fn below(self, root: &Path) -> Self {
        let under = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        Self {
            mount: under(&self.mount),
            own: under(&self.own),
        }
    }
}

fn parse_place(cgroups: &str, mounts: &str, version: Version) -> Option<Place> {
    let own = cgroups.lines().find_map(|line| parse_own(line, version))?;
    let (mount, shown) = mounts.lines().find_map(|line| parse_mount(line, version))?;
    // A container mounts only its part of the tree; paths are given from the tree's root, or from its own.
    let inside = own.strip_prefix(shown).unwrap_or(own);
    Some(Place {
        mount: mount.into(),
        own: Path::new(mount).join(inside.trim_start_matches('/')),
    })
}

/// A line of /proc/self/cgroup: `4:memory:/path`, or `0::/path` for v2.
fn parse_own(line: &str, version: Version) -> Option<&str> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let ours = match version {
        Version::V1 => controllers.split(',').any(|name| name == "memory"),
        Version::V2 => number == "0" && controllers.is_empty(),
    };
    ours.then_some(path)
}

/// A line of /proc/self/mountinfo: (mount point, part of the tree that is mounted there).
fn parse_mount(line: &str, version: Version) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (shown, mount) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let ours = match version {
        Version::V1 => kind == "cgroup" && options.split(',').any(|name| name == "memory"),
        Version::V2 => kind == "cgroup2",
    };
    ours.then_some((mount, shown.trim_end_matches('/')))
}

/// In v2 a cgroup with processes in it cannot have children with controllers (except the root), so the place is an
/// ancestor that already gives memory to its children. An ancestor above a memory limit is no place: the subject
/// would escape a limit that somebody set for us.
fn v2_parents(place: &Place) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for folder in place
        .own
        .ancestors()
        .take_while(|folder| folder.starts_with(&place.mount))
    {
        let gives = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        if gives.split_whitespace().any(|name| name == "memory") {
            parents.push(folder.to_owned());
        }
        let limit = fs::read_to_string(folder.join("memory.max")).unwrap_or_default();
        if !matches!(limit.trim(), "" | "max") {
            break;
        }
    }
    parents
}

fn try_parent(version: Version, parent: &Path) -> io::Result<()> {
    let name = format!("highwater-try-{}", std::process::id());
    Cgroup::create(version, parent.join(name))?.remove()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// /proc/self/mountinfo, Linux 6.18, Debian 12: v1 controllers mounted apart, v2 beside them.
    const MOUNTS_V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    /// /proc/self/cgroup of the same machine; the name of the cgroup is shortened.
    const OWN_V1: &str = "9:name=systemd:/\n4:memory:/jobs/37a6\n1:cpu:/\n0::/\n";

    /// Written by hand after proc(5) and the kernel's cgroup-v2 document: a user's terminal under systemd.
    const MOUNTS_V2: &str =
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const OWN_V2: &str = "0::/user.slice/app.slice/terminal.scope\n";

    #[test]
    fn places_in_both_versions() {
        let place = parse_place(OWN_V1, MOUNTS_V1, Version::V1).unwrap();
        assert_eq!(place.own, Path::new("/sys/fs/cgroup/memory/jobs/37a6"));
        let place = parse_place(OWN_V1, MOUNTS_V1, Version::V2).unwrap();
        assert_eq!(place.own, Path::new("/sys/fs/cgroup/unified/"));
        assert_eq!(parse_place(OWN_V2, MOUNTS_V2, Version::V1), None);
    }

    #[test]
    fn a_container_sees_its_part_of_the_tree() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let place = parse_place("4:memory:/docker/abc/x\n", mounts, Version::V1).unwrap();
        assert_eq!(place.own, Path::new("/sys/fs/cgroup/memory/x"));
    }

    fn imitate_v2(root: &Path, limit_of_slice: &str) {
        let slice = root.join("sys/fs/cgroup/user.slice/app.slice");
        fs::create_dir_all(slice.join("terminal.scope")).unwrap();
        fs::write(slice.join("cgroup.subtree_control"), "memory pids\n").unwrap();
        fs::write(slice.join("memory.max"), limit_of_slice).unwrap();
        fs::write(slice.join("terminal.scope/cgroup.subtree_control"), "\n").unwrap();
    }

    #[test]
    fn v2_goes_up_to_the_ancestor_that_gives_memory_to_its_children() {
        let root = tempfile::tempdir().unwrap();
        imitate_v2(root.path(), "max\n");
        let found = Hierarchy::find_by(OWN_V2, MOUNTS_V2, root.path());
        let parent = root.path().join("sys/fs/cgroup/user.slice/app.slice");
        assert_eq!(
            found,
            Hierarchy::At {
                version: Version::V2,
                parent: parent.clone()
            }
        );
        assert!(found.create("highwater-a-0-0").is_ok());
        assert!(parent.join("highwater-a-0-0").is_dir());
    }

    #[test]
    fn v2_never_escapes_a_limit() {
        let root = tempfile::tempdir().unwrap();
        imitate_v2(root.path(), "max\n");
        let scope = root
            .path()
            .join("sys/fs/cgroup/user.slice/app.slice/terminal.scope");
        fs::write(scope.join("memory.max"), "1073741824\n").unwrap();
        let found = Hierarchy::find_by(OWN_V2, MOUNTS_V2, root.path());
        let Hierarchy::None { why } = found else {
            panic!("{found:?}")
        };
        assert!(why.contains("without a limit in between"), "{why}");
    }

    #[test]
    fn without_any_controller_it_says_what_is_lost() {
        let Hierarchy::None { why } = Hierarchy::find_by("", "", Path::new("/")) else {
            panic!()
        };
        assert!(why.contains("memory_limit at each poll"), "{why}");
    }
}

//! The decoy: the service gives itself too little CPU time, by a control group of its own.
//!
//! Without the permission for that it shares one CPU with processes that do nothing else than to run: the same lack,
//! from another cause.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const PERIOD_US: u64 = 100_000;
/// Processes on the one CPU, where there is no quota.
const HOGS: usize = 2;
/// The argument that makes this program one of them.
pub const HOG: &str = "--hog";

/// Undoes itself when dropped.
pub enum Starved {
    Group(PathBuf),
    Hogs(Vec<Child>),
}

/// Leaves `percent` of one CPU to this process and all its threads, those to come as well.
///
/// # Errors
/// When neither a group can be made nor other processes started.
pub fn starve(percent: u64) -> Result<Starved> {
    let quota_us = (PERIOD_US * percent / 100).max(1_000);
    match enter_group(quota_us) {
        Ok(group) => Ok(Starved::Group(group)),
        Err(error) => {
            eprintln!("search: no quota ({error:#}); one CPU is shared with {HOGS} others instead");
            share_one_cpu().map(Starved::Hogs)
        }
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        match self {
            Starved::Group(group) => leave_group(group),
            Starved::Hogs(hogs) => hogs.iter_mut().for_each(|hog| {
                let _ = hog.kill();
                let _ = hog.wait();
            }),
        }
    }
}

fn enter_group(quota_us: u64) -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let parent = parse_parent(&groups, &mounts).ok_or_else(|| anyhow!("no cpu control group"))?;
    let group = parent.path.join(format!("search-{}", std::process::id()));
    fs::create_dir(&group).with_context(|| format!("making {group:?}"))?;
    let set = |file: &str, text: String| {
        fs::write(group.join(file), text).with_context(|| format!("writing {file} of {group:?}"))
    };
    let limits = if parent.is_unified {
        set("cpu.max", format!("{quota_us} {PERIOD_US}"))
    } else {
        set("cpu.cfs_period_us", PERIOD_US.to_string())
            .and_then(|()| set("cpu.cfs_quota_us", quota_us.to_string()))
    };
    let entered = limits.and_then(|()| set("cgroup.procs", std::process::id().to_string()));
    entered.inspect_err(|_| _ = fs::remove_dir(&group))?;
    Ok(group)
}

/// Only an empty group can be removed.
fn leave_group(group: &Path) {
    if let Some(parent) = group.parent() {
        let _ = fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
    }
    let _ = fs::remove_dir(group);
}

#[derive(Debug, PartialEq, Eq)]
struct Parent {
    path: PathBuf,
    is_unified: bool,
}

/// Where a group for this process can be made: below its own in version 1, beside it in version 2, where a group with
/// processes may have none below it. From /proc/self/cgroup and /proc/self/mountinfo.
fn parse_parent(groups: &str, mounts: &str) -> Option<Parent> {
    let own = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(controllers).then(|| path.trim_start_matches('/').to_string())
        })
    };
    if let (Some(path), Some(mount)) = (
        own(&|controllers| controllers.split(',').any(|one| one == "cpu")),
        mount_point(mounts, "cgroup", Some("cpu")),
    ) {
        let path = mount.join(path);
        return Some(Parent {
            path,
            is_unified: false,
        });
    }
    let mount = mount_point(mounts, "cgroup2", None)?;
    let own = own(&str::is_empty)?;
    let beside = Path::new(&own).parent().unwrap_or(Path::new(""));
    Some(Parent {
        path: mount.join(beside),
        is_unified: true,
    })
}

fn mount_point(mounts: &str, kind: &str, option: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let options = (system.next() == Some(kind)).then(|| system.nth(1))??;
        let fits = option.is_none_or(|wanted| options.split(',').any(|one| one == wanted));
        fits.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

fn share_one_cpu() -> Result<Vec<Child>> {
    let allowed = sched_getaffinity(None).context("asking for the CPUs")?;
    let first = (0..CpuSet::MAX_CPU)
        .find(|cpu| allowed.is_set(*cpu))
        .ok_or_else(|| anyhow!("no CPU is allowed"))?;
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).context("staying on one CPU")?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut hogs = Starved::Hogs(Vec::new());
    for _ in 0..HOGS {
        let hog = Command::new(&program)
            .args([HOG, &std::process::id().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .context("starting a process that only runs")?;
        if let Starved::Hogs(of) = &mut hogs {
            of.push(hog);
        }
    }
    let Starved::Hogs(of) = &mut hogs else {
        return Ok(Vec::new());
    };
    Ok(std::mem::take(of))
}

/// Runs until the process that started it is gone.
///
/// # Errors
/// When the kernel will not tell of that.
pub fn hog(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking for the parent's end")?;
    let parent = Pid::from_raw(parent as i32);
    while rustix::process::getppid() == parent {
        (0..10_000_000u64).for_each(|number| _ = std::hint::black_box(number));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian 12 with the hierarchies of version 1, Linux 6.18; shortened.
    const GROUPS_1: &str = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/x\n0::/\n";
    const MOUNTS_1: &str = "\
33 32 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 32 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
40 32 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    /// Debian 12 as it comes; shortened.
    const MOUNTS_2: &str =
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_group_is_made_where_it_may_be() {
        let parent = |groups, mounts| parse_parent(groups, mounts).unwrap();
        assert_eq!(
            parent(GROUPS_1, MOUNTS_1),
            Parent {
                path: "/sys/fs/cgroup/cpu,cpuacct/x".into(),
                is_unified: false
            }
        );
        assert_eq!(
            parent("0::/system.slice/one.service\n", MOUNTS_2),
            Parent {
                path: "/sys/fs/cgroup/system.slice".into(),
                is_unified: true
            }
        );
        assert_eq!(parent("0::/\n", MOUNTS_2).path, Path::new("/sys/fs/cgroup"));
        assert_eq!(parse_parent("0::/\n", ""), None);
        assert_eq!(parse_parent("broken", "broken - cgroup"), None);
    }
}

//! Files in memory: those of a process's user in its tmpfs mounts, and open ones without a name.
//!
//! A mount below a file system that may hang (a network's, FUSE's) is left out: nothing of ours ever waits for one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstatvfs, open as open_path, openat,
    openat2, statat,
};

use super::Holder;
use crate::smaps::Area;

/// Behind the name of an open file that has none any more.
pub const DELETED: &str = " (deleted)";
/// Files that are gone through in one mount; a mount that has more counts as one.
const ENTRIES_MAX: usize = 4_096;
const DEPTH_MAX: usize = 16;
const MOUNTS_MAX: usize = 64;
/// A mount that holds less is not gone through.
const BYTES_MIN: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 512;
/// File systems whose folders can be opened without waiting for anybody.
const LOCAL: [&str; 17] = [
    "tmpfs", "devtmpfs", "ramfs", "rootfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs",
    "f2fs", "zfs", "erofs", "overlay", "squashfs", "proc", "sysfs",
];
/// Of what an inotify descriptor watches, that is read: a watch has about 100. One with more is taken to watch all.
const WATCHED_BYTES_MAX: u64 = 1 << 20;

/// What a process has open that bears on files in memory.
#[derive(Debug, Default)]
pub struct Open {
    /// Descriptors of files that may have no name.
    pub files: Vec<(i32, String)>,
    /// Devices on which it watches (inotify) folders being opened and read: our reading would be an event there.
    watched: HashSet<u64>,
    watches_all: bool,
}

impl Open {
    /// Adds what an inotify descriptor watches (`inotify_show_fdinfo` of the kernel).
    pub fn watches(&mut self, pid: i32, descriptor: i32) {
        let mut text = String::new();
        let file = File::open(format!("/proc/{pid}/fdinfo/{descriptor}"));
        let read = file.and_then(|file| file.take(WATCHED_BYTES_MAX).read_to_string(&mut text));
        self.watches_all |= read.is_err() || text.len() as u64 == WATCHED_BYTES_MAX;
        self.watched.extend(watched(&text));
    }

    fn is_watched(&self, mount: &MountInfo) -> bool {
        if self.watches_all {
            return true;
        }
        let device = mount.majmin.split_once(':').and_then(|(major, minor)| {
            Some(major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?)
        });
        device.is_none_or(|device| self.watched.contains(&device))
    }
}

/// Of lines as `inotify wd:1 ino:2 sdev:19 mask:fff ...`, all in hexadecimal: the devices.
fn watched(text: &str) -> impl Iterator<Item = u64> + '_ {
    /// IN_ACCESS, IN_CLOSE_NOWRITE and IN_OPEN.
    const OF_READERS: u64 = 0x31;
    text.lines().filter_map(|line| {
        let field = |name: &str| {
            let value = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix(name));
            u64::from_str_radix(value?, 16).ok()
        };
        field("sdev:").filter(|_| field("mask:").is_some_and(|mask| mask & OF_READERS != 0))
    })
}

#[derive(Debug, Default)]
pub struct Reader {
    /// Mounts that have too many files to go through, by device.
    large: HashSet<String>,
}

impl Reader {
    /// Adds them. Files that are mapped stand in the account.
    pub fn add(
        &mut self,
        process: &Process,
        open: &Open,
        areas: &[Area],
        held: &mut BTreeMap<Holder, u64>,
    ) {
        let mapped = areas.iter().filter(|area| area.shared && area.inode != 0);
        let mut counted: HashSet<u64> = mapped.map(|area| area.inode).collect();
        let mounts: Vec<MountInfo> = process.mountinfo().into_iter().flatten().collect();
        add_unnamed(process, &open.files, &mounts, &mut counted, held);
        // Named and not opened: it may be a file system that hangs.
        let root = format!("/proc/{}/root", process.pid());
        let root = open_path(&root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let (Ok(status), Ok(root)) = (process.status(), root) else {
            return;
        };
        let mut seen = HashSet::new();
        for mount in memory_mounts(&mounts).take(MOUNTS_MAX) {
            if !seen.insert(mount.majmin.clone()) {
                continue;
            }
            let Some((mounted, used)) = opened(&root, mount) else {
                continue;
            };
            if used.is_some_and(|used| used < BYTES_MIN) {
                continue;
            }
            let mut walk = Walk {
                user: status.euid,
                counted: &counted,
                links: HashSet::new(),
                entries: 0,
            };
            let point = mount.mount_point.to_string_lossy().into_owned();
            let is_whole = self.large.contains(&mount.majmin) || open.is_watched(mount);
            match (!is_whole).then(|| walk.top(&mounted, &point)).flatten() {
                Some(found) => held.extend(found),
                None => {
                    self.large.insert(mount.majmin.clone());
                    held.extend(used.map(|used| (Holder::Files(point), used)));
                }
            }
        }
    }
}

/// Those of tmpfs that can be written to, and opened without waiting.
pub(super) fn memory_mounts(mounts: &[MountInfo]) -> impl Iterator<Item = &MountInfo> {
    let by_number: HashMap<i32, &MountInfo> =
        mounts.iter().map(|mount| (mount.mnt_id, mount)).collect();
    mounts.iter().filter(move |mount| {
        let is_written = mount.mount_options.contains_key("rw");
        mount.fs_type == "tmpfs" && is_written && is_local(mount, &by_number)
    })
}

/// It and all mounts above it.
fn is_local(mount: &MountInfo, by_number: &HashMap<i32, &MountInfo>) -> bool {
    let (mut mount, mut steps) = (mount, 0);
    loop {
        if !LOCAL.contains(&mount.fs_type.as_str()) {
            return false;
        }
        match by_number.get(&mount.pid) {
            Some(above) if above.mnt_id != mount.mnt_id && steps < MOUNTS_MAX => mount = above,
            above => return above.is_none_or(|above| above.mnt_id == mount.mnt_id),
        }
        steps += 1;
    }
}

/// Opens a folder, where that is allowed so that its time of access stays: what cleans up old files goes by it.
fn unread(open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(flags | OFlags::NOATIME).or_else(|_| open(flags))
}

/// The folder of a mount, and what is used of it; `None` for that: it has no limit, and does not count.
fn opened(root: &OwnedFd, mount: &MountInfo) -> Option<(OwnedFd, Option<u64>)> {
    let within = mount
        .mount_point
        .strip_prefix("/")
        .unwrap_or(&mount.mount_point);
    let within = if within.as_os_str().is_empty() {
        Path::new(".")
    } else {
        within
    };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // A folder that is only named, and not opened, makes no event.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat2(root, within, flags, Mode::empty(), resolve).ok()?;
    // Something else may be mounted over it by now.
    let device = rustix::fs::fstat(&folder).ok()?.st_dev;
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    if device != mount.majmin {
        return None;
    }
    let stat = fstatvfs(&folder).ok()?;
    let used = stat
        .f_blocks
        .saturating_sub(stat.f_bfree)
        .saturating_mul(stat.f_frsize);
    Some((folder, (stat.f_blocks > 0).then_some(used)))
}

/// Open files in memory that have no name, each once.
fn add_unnamed(
    process: &Process,
    open: &[(i32, String)],
    mounts: &[MountInfo],
    counted: &mut HashSet<u64>,
    held: &mut BTreeMap<Holder, u64>,
) {
    for (descriptor, name) in open {
        if name.ends_with(DELETED) && !is_on_memory(process.pid(), *descriptor, mounts) {
            continue;
        }
        let link = PathBuf::from(format!("/proc/{}/fd/{descriptor}", process.pid()));
        let Ok(file) = std::fs::metadata(link) else {
            continue;
        };
        let bytes = file.st_blocks().saturating_mul(BLOCK_BYTES);
        if bytes > 0 && counted.insert(file.st_ino()) {
            let name = name.trim_end_matches(DELETED).to_owned();
            *held.entry(Holder::Unnamed(name)).or_default() += bytes;
        }
    }
}

/// Whether an open file is on a mount in memory. One that is mounted no more has no number among them.
fn is_on_memory(pid: i32, descriptor: i32, mounts: &[MountInfo]) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"));
    let number = mount_of(&text.unwrap_or_default());
    let mount = mounts.iter().find(|mount| Some(mount.mnt_id) == number);
    mount.is_some_and(|mount| mount.fs_type == "tmpfs")
}

/// Of the lines of `fdinfo` (`proc.rst` of the kernel): the number of the mount.
pub(super) fn mount_of(text: &str) -> Option<i32> {
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    number.trim().parse().ok()
}

/// Goes through one file system, and never into another.
struct Walk<'a> {
    user: u32,
    /// Inodes that stand elsewhere.
    counted: &'a HashSet<u64>,
    links: HashSet<u64>,
    entries: usize,
}

impl Walk<'_> {
    /// Bytes by what is directly in it; `None`: there are too many files.
    fn top(&mut self, folder: &OwnedFd, point: &str) -> Option<BTreeMap<Holder, u64>> {
        let mut found = BTreeMap::new();
        let device = rustix::fs::fstat(folder).ok()?.st_dev;
        let opened = unread(|flags| openat(folder, c".", flags, Mode::empty())).ok()?;
        for entry in Dir::read_from(&opened).ok()?.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let bytes = self.bytes(folder, name, device, 0)?;
            if bytes > 0 {
                let path = format!("{}/{}", point.trim_end_matches('/'), name.to_string_lossy());
                found.insert(Holder::Files(path), bytes);
            }
        }
        Some(found)
    }

    /// Of a file, or of all files in a folder.
    fn bytes(
        &mut self,
        folder: impl AsFd,
        name: &std::ffi::CStr,
        device: u64,
        depth: usize,
    ) -> Option<u64> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX || depth > DEPTH_MAX {
            return None;
        }
        let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Some(0);
        };
        if stat.st_dev != device {
            return Some(0);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let open = |flags| openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty());
                let Ok(inner) = unread(open) else {
                    return Some(0);
                };
                let Ok(entries) = Dir::read_from(&inner) else {
                    return Some(0);
                };
                let mut sum = 0;
                for entry in entries.flatten() {
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        sum += self.bytes(&inner, name, device, depth + 1)?;
                    }
                }
                Some(sum)
            }
            FileType::RegularFile if self.is_new(&stat) => Some(
                u64::try_from(stat.st_blocks)
                    .unwrap_or(0)
                    .saturating_mul(BLOCK_BYTES),
            ),
            _ => Some(0),
        }
    }

    fn is_new(&mut self, stat: &rustix::fs::Stat) -> bool {
        stat.st_uid == self.user
            && !self.counted.contains(&stat.st_ino)
            && (stat.st_nlink < 2 || self.links.insert(stat.st_ino))
    }
}

//! The process of a JVM: the user it runs as, and the files by which it is reached.
//!
//! Everything is opened below `/proc/PID`, so a JVM in a container is reached too. The process may belong to an
//! attacker: each file must be of the expected kind and of the process's user, and no symbolic link is followed.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use observe::fact::memory::ProcessMemory;
use observe::proc::area::parse_area;
use observe::proc::identity::parse_identity;
use observe::proc::open::{Folder, Lost};
use observe::proc::stat::{parse_stat, tick_ns};
use observe::proc::status;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Error;

/// Of a file of counters. The JVM's default is 32 KiB (PerfDataMemorySize).
const COUNTERS_BYTES_MAX: u64 = 4 << 20;

/// Opens nothing but the name: a device or a FIFO is not touched by it.
pub(super) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is used of `/proc/PID/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The pid in the innermost pid namespace: what the JVM takes its own pid for.
    pub(super) inner_pid: u32,
    /// `R`, `S`, `T`, ...
    pub(super) state: u8,
    /// Of the signal mask `SigCgt`.
    pub(super) caught: u64,
    pub(super) threads: u64,
    pub(super) rss_bytes: u64,
    pub(super) swap_bytes: u64,
}

impl Status {
    /// Without a handler SIGQUIT ends a process. A JVM started with `-Xrs` has none.
    pub(super) fn catches_quit(&self) -> bool {
        self.caught & (1 << (Signal::QUIT.as_raw() - 1)) != 0
    }

    /// Stopped by a signal or a debugger.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// `None` on a kernel that is too old, and for a process that is ending.
pub(super) fn parse_status(text: &[u8]) -> Option<Status> {
    let (who, memory) = (parse_identity(text), status::parse_status(text));
    Some(Status {
        uid: who.user?,
        gid: who.group?,
        inner_pid: who.own_pid?,
        state: who.state?,
        caught: who.caught?,
        threads: who.threads.unwrap_or(0),
        rss_bytes: memory.rss_bytes.unwrap_or(0),
        swap_bytes: memory.swap_bytes.unwrap_or(0),
    })
}

/// What of a JVM is mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Where libjvm starts.
    pub(super) libjvm: Option<u64>,
    /// Name of its folder in /tmp, and `START-END` of the mapping.
    pub(super) counters: Option<(String, String)>,
}

pub(super) fn parse_maps(text: &str, inner_pid: u32) -> Mapped {
    let mut mapped = Mapped::default();
    let counters_end = format!("/{inner_pid}");
    for line in text.lines() {
        // Areas are in the order of addresses.
        mapped.libjvm = mapped.libjvm.or_else(|| libjvm(line));
        if line.contains("/hsperfdata_") {
            mapped.counters = counters(line, &counters_end).or(mapped.counters);
        }
    }
    mapped
}

fn libjvm(line: &str) -> Option<u64> {
    let is_libjvm = line.trim_end_matches(" (deleted)").ends_with("/libjvm.so");
    is_libjvm.then(|| parse_area(line).map(|area| area.start))?
}

/// A file of that name which is not mapped may be left from an earlier JVM with the same pid.
fn counters(line: &str, end: &str) -> Option<(String, String)> {
    let area = parse_area(line)?;
    let path = area.name.trim_end_matches(" (deleted)");
    let folder = path.strip_suffix(end)?.rsplit('/').next()?;
    folder.starts_with("hsperfdata_").then(|| {
        (
            folder.to_owned(),
            format!("{:x}-{:x}", area.start, area.end),
        )
    })
}

/// A process with libjvm mapped.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) pid: u32,
    folder: Folder,
    /// For the signal: a pid may be given to another process meanwhile.
    handle: OwnedFd,
    program: Program,
}

/// What a process runs. The handle of a process stays valid when it runs another program (execve).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Program {
    /// Device and inode of its executable.
    executable: (u64, u64),
    /// Differs between two executions of one file, by address space randomization.
    libjvm: Option<u64>,
}

impl Target {
    /// `None` for a process without a JVM.
    pub(super) fn open(pid: u32) -> Result<Option<(Target, Mapped)>, Error> {
        let number = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Error::Gone)?;
        let folder = Folder::open(Path::new(&format!("/proc/{pid}"))).map_err(lost)?;
        let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|errno| lost(errno.into()))?;
        let unknown = Program {
            executable: (0, 0),
            libjvm: None,
        };
        let mut target = Target {
            pid,
            folder,
            handle,
            program: unknown,
        };
        // Read through the folder after the handle was opened: both are of the same process.
        let mapped = target.mapped()?;
        if mapped.libjvm.is_some() {
            target.program = target.program(&mapped)?;
        }
        Ok(mapped.libjvm.map(|_| (target, mapped)))
    }

    pub(super) fn status(&self) -> Result<Status, Error> {
        let text = self.read("status", Folder::read)?;
        match parse_status(&text) {
            Some(status) if matches!(status.state, b'Z' | b'X') => Err(Error::Gone),
            Some(status) => Ok(status),
            None => Err(Error::Unsupported(
                "its /proc/PID/status lacks NSpid or SigCgt".into(),
            )),
        }
    }

    /// CPU time of all its threads.
    pub(super) fn cpu(&self) -> Result<Duration, Error> {
        let text = self.read("stat", Folder::read)?;
        let stat = parse_stat(&text, tick_ns())
            .map_err(|why| Error::Inconsistent(format!("its /proc/PID/stat: {why}")))?;
        let all_ns = stat.cpu_user_ns.saturating_add(stat.cpu_system_ns);
        Ok(Duration::from_nanos(all_ns))
    }

    pub(super) fn mapped(&self) -> Result<Mapped, Error> {
        let text = self.read("maps", Folder::read_long)?;
        let inner_pid = self.status()?.inner_pid;
        Ok(parse_maps(&String::from_utf8_lossy(&text), inner_pid))
    }

    fn program(&self, mapped: &Mapped) -> Result<Program, Error> {
        let executable = statat(self.folder.dir(), "exe", AtFlags::empty())
            .map_err(|errno| lost(errno.into()))?;
        Ok(Program {
            executable: (executable.st_dev, executable.st_ino),
            libjvm: mapped.libjvm,
        })
    }

    /// An error when the process has run another program since it was opened.
    pub(super) fn check_same_program(&self, mapped: &Mapped) -> Result<(), Error> {
        if self.program(mapped)? == self.program {
            return Ok(());
        }
        Err(Error::Refused(
            "the process runs another program by now, so it is not signalled".into(),
        ))
    }

    pub(super) fn smaps(&self) -> Result<Vec<u8>, Error> {
        self.read("smaps", Folder::read_long)
    }

    fn read(
        &self,
        name: &str,
        how: impl Fn(&Folder, &str, &mut Vec<u8>) -> Result<(), Lost>,
    ) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        how(&self.folder, name, &mut text).map_err(lost)?;
        Ok(text)
    }

    /// Its /tmp, where HotSpot puts its files whatever TMPDIR says.
    pub(super) fn tmp(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(self.folder.dir(), "root", flags, Mode::empty())
            .and_then(|root| openat(&root, "tmp", flags | OFlags::NOFOLLOW, Mode::empty()));
        opened.map_err(|errno| match Lost::from(errno) {
            Lost::Denied => Error::Denied,
            why => Error::Unsupported(format!("its /tmp cannot be opened as a folder: {why}")),
        })
    }

    /// The file of counters (hsperfdata) that the JVM keeps mapped; `None` where it has none.
    pub(super) fn read_counters(&self, mapped: &Mapped) -> Result<Option<Vec<u8>>, Error> {
        let Some((folder, range)) = &mapped.counters else {
            return Ok(None);
        };
        let owner = self.status()?.uid;
        // The mapping is the very file, even when it was deleted, but only root may open it.
        let by_mapping = openat(
            self.folder.dir(),
            format!("map_files/{range}"),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let file = by_mapping.or_else(|_| {
            let tmp = self.tmp().map_err(|_| rustix::io::Errno::NOENT)?;
            let folder = openat(
                &tmp,
                folder.as_str(),
                NAME_ONLY | OFlags::DIRECTORY,
                Mode::empty(),
            )?;
            openat(
                &folder,
                self.inner_pid().to_string(),
                NAME_ONLY,
                Mode::empty(),
            )
        });
        Ok(file.ok().and_then(|file| read_regular(&file, owner)))
    }

    fn inner_pid(&self) -> u32 {
        self.status().map_or(self.pid, |status| status.inner_pid)
    }

    pub(super) fn memory(&self) -> Result<ProcessMemory, Error> {
        self.folder
            .open_file("mem")
            .map(ProcessMemory::new)
            .map_err(lost)
    }

    pub(super) fn send_quit(&self) -> Result<(), Error> {
        pidfd_send_signal(&self.handle, Signal::QUIT).map_err(|errno| lost(errno.into()))
    }
}

/// Reads a file of which only the name was opened, if it is a regular one, of that user, and small.
fn read_regular(name: &OwnedFd, owner: u32) -> Option<Vec<u8>> {
    let about = fstat(name).ok()?;
    let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    let size = u64::try_from(about.st_size).ok()?;
    if !is_regular || about.st_uid != owner || size > COUNTERS_BYTES_MAX {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(by_descriptor(name), flags, Mode::empty()).ok()?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let got = rustix::io::pread(&file, &mut bytes[..], 0).ok()?;
    bytes.truncate(got);
    Some(bytes)
}

/// A path to the very file that a descriptor stands for.
pub(super) fn by_descriptor(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

pub(super) fn lost(why: Lost) -> Error {
    match why {
        Lost::Gone => Error::Gone,
        Lost::Denied => Error::Denied,
        other => Error::Refused(format!("/proc/PID cannot be read: {other}")),
    }
}

pub(super) fn refused(what: &str, errno: rustix::io::Errno) -> Error {
    Error::Refused(format!("{what}: {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_status_has_the_ids_and_the_signals() {
        let text = b"Name:\tjava\nState:\tS (sleeping)\nUid:\t0\t1000\t0\t0\nGid:\t0\t1001\t0\t0\nNSpid:\t812\t7\n\
            Threads:\t21\nVmRSS:\t 12 kB\nVmSwap:\t 4 kB\nSigCgt:\t2000000181005ccf\n";
        let status = parse_status(text).unwrap();
        assert_eq!((status.uid, status.gid, status.inner_pid), (1000, 1001, 7));
        assert_eq!((status.rss_bytes, status.swap_bytes), (12 << 10, 4 << 10));
        assert_eq!(status.threads, 21);
        assert!(status.catches_quit() && !status.is_stopped());
        let deaf = b"State:\tT\nUid:\t0\t0\nGid:\t0\t0\nNSpid:\t7\nSigCgt:\t0000000000000004\n";
        assert!(parse_status(deaf).unwrap().catches_quit());
        let deaf = b"State:\tT\nUid:\t0\t0\nGid:\t0\t0\nNSpid:\t7\nSigCgt:\t0000000000000002\n";
        let deaf = parse_status(deaf).unwrap();
        assert!(!deaf.catches_quit() && deaf.is_stopped());
    }

    #[test]
    fn a_status_that_lacks_a_line_is_none() {
        assert_eq!(parse_status(b"Uid:\t0\t0\nGid:\t0\t0\n"), None);
        assert_eq!(parse_status(b"Uid:\t0\n"), None);
        assert_eq!(parse_status(b""), None);
    }

    /// A shell that is called libjvm.so stands for a JVM.
    #[test]
    fn another_program_in_the_same_process_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let libjvm = folder.path().join("libjvm.so");
        // Not by this process: a child that another test starts meanwhile would hold the file open for writing, and a
        // program that is open for writing cannot be started.
        let copied = Command::new("cp").arg("/bin/sh").arg(&libjvm).status();
        assert!(copied.is_ok_and(|status| status.success()));
        for (next, argument) in [
            ("/bin/sleep", "60"),
            (libjvm.to_str().unwrap(), "-c 'read line'"),
        ] {
            let script = format!("read line; exec {next} {argument}");
            let mut command = Command::new(&libjvm);
            let mut child = command
                .args(["-c", &script])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let end = Instant::now() + Duration::from_secs(20);
            // The parent goes on before the kernel has mapped the program.
            let opened = std::iter::repeat_with(|| Target::open(child.id()).unwrap());
            let (target, mapped) = opened
                .inspect(|_| std::thread::sleep(Duration::from_millis(5)))
                .take_while(|_| Instant::now() < end)
                .flatten()
                .next()
                .unwrap();
            assert_eq!(target.check_same_program(&mapped), Ok(()));
            writeln!(child.stdin.as_mut().unwrap()).unwrap();
            let end = Instant::now() + Duration::from_secs(20);
            while target.mapped().is_ok_and(|now| now == mapped) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let refused = target.check_same_program(&target.mapped().unwrap());
            assert!(matches!(refused, Err(Error::Refused(why)) if why.contains("another program")));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn maps_name_the_library_and_the_counters() {
        let text = "7f01-7f02 rw-s 00000000 fe:00 12    /tmp/hsperfdata_app/7\n\
            7f03-7f04 r-xp 00000000 fe:00 13    /usr/lib/jvm/lib/server/libjvm.so (deleted)\n\
            7f05-7f06 rw-s 00000000 fe:00 14    /tmp/hsperfdata_app/8\n\
            7f07-7f08 rw-s 00000000 fe:00 14    /tmp/hsperfdata_app/x/7\n";
        let mapped = parse_maps(text, 7);
        assert_eq!(mapped.libjvm, Some(0x7f03));
        assert_eq!(
            mapped.counters,
            Some(("hsperfdata_app".into(), "7f01-7f02".into()))
        );
        assert_eq!(
            parse_maps("7f01-7f02 r-xp 0 0:0 1 /a/libjvm.so.1\n", 7),
            Mapped::default()
        );
    }
}

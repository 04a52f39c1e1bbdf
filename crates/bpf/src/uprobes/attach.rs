//! Puts a program on places of one process and takes it off again.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::drop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::changes;
use crate::kernel::{bpf, open_event, uprobe};
use observe::foreign::{open_file, path_of};

const LINK_CREATE: u32 = 28;
pub const PROG_TYPE_KPROBE: u32 = 2;
/// BPF_TRACE_UPROBE_MULTI.
const MULTI: u32 = 48;

/// How functions are probed. No way has return probes: they change return addresses on the subject's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All places of a program at once, which is put on and taken off much faster.
    Multi,
    /// An event for each place.
    Events,
}

impl Way {
    /// The program's type, and what it will be attached to.
    ///
    /// # Errors
    /// The kernel is too old for this way.
    pub fn kind(self) -> io::Result<(u32, u32)> {
        match self {
            Way::Events => Ok((PROG_TYPE_KPROBE, 0)),
            Way::Multi if filters_processes() => Ok((PROG_TYPE_KPROBE, MULTI)),
            Way::Multi => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// The functions of one file, in one process. The file stays open: a breakpoint goes where its offset was read from.
/// Where the process runs another program by then, under the same name or the same path, it maps nothing of this file
/// and gets no breakpoint; one within an instruction of that program would break it.
#[derive(Debug, Clone)]
pub struct Target {
    pub pid: u32,
    file: Arc<File>,
}

impl Target {
    /// # Errors
    /// The file is not there, or no regular file.
    pub fn open(pid: u32, file: &Path) -> io::Result<Target> {
        let file = Arc::new(open_file(file)?);
        Ok(Target { pid, file })
    }

    /// The program of a process.
    ///
    /// # Errors
    /// It has ended, or may not be read.
    pub fn program_of(pid: u32) -> io::Result<Target> {
        Target::open(pid, format!("/proc/{pid}/exe").as_ref())
    }

    /// Highwater itself, whose functions tell what a breakpoint costs.
    ///
    /// # Errors
    /// Its own file cannot be opened.
    pub fn own() -> io::Result<Target> {
        Target::program_of(std::process::id())
    }

    /// What the offsets are read from.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// While it lives, these places are probed.
pub struct Put {
    held: Vec<OwnedFd>,
    pid: u32,
}

impl Put {
    /// Each of what it holds by itself, to let go of them at the same time.
    pub fn take_apart(mut self) -> Vec<Put> {
        let pid = self.pid;
        let single = |fd| Put {
            held: vec![fd],
            pid,
        };
        self.held.drain(..).map(single).collect()
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        for fd in self.held.drain(..) {
            changes::time(self.pid, || drop(fd));
        }
    }
}

/// Puts the program on these offsets in the target's file.
///
/// # Errors
/// The kernel refuses one: no such process, or no right.
pub fn put(way: Way, program: &OwnedFd, places: &[u64], target: &Target) -> io::Result<Put> {
    let path = CString::new(path_of(&target.file).as_os_str().as_bytes())?;
    let timed = |attach: &dyn Fn() -> io::Result<OwnedFd>| changes::time(target.pid, attach);
    let mut put = Put {
        held: Vec::new(),
        pid: target.pid,
    };
    match way {
        Way::Multi => put
            .held
            .push(timed(&|| multi(program, places, &path, target.pid))?),
        Way::Events => {
            for place in places {
                put.held
                    .push(timed(&|| event(program, *place, &path, target.pid))?);
            }
        }
    }
    Ok(put)
}

/// Early probes on many places at once (from Linux 6.6 on) see one thread of a process alone. 6.13 is past all of
/// these.
fn filters_processes() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(6u32), Some(13u32))
}

#[repr(C)]
struct Link {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    pid: u32,
    padding: u32,
}

fn multi(program: &OwnedFd, places: &[u64], path: &CString, pid: u32) -> io::Result<OwnedFd> {
    let link = Link {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: places.as_ptr() as u64,
        ref_ctr_offsets: 0,
        cookies: 0,
        count: places.len() as u32,
        multi_flags: 0,
        pid,
        padding: 0,
    };
    bpf(LINK_CREATE, &link)
}

/// Of one task; its program runs in all threads of the process, and in no other process.
fn event(program: &OwnedFd, place: u64, path: &CString, pid: u32) -> io::Result<OwnedFd> {
    let mut attr = uprobe(path, place)?;
    let event = open_event(&mut attr, pid as i32, -1)?;
    // SAFETY: both descriptors live; the ioctl takes a descriptor.
    let result = unsafe {
        perf_event_open_sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32)
    };
    match result {
        0 => Ok(event),
        _ => Err(io::Error::last_os_error()),
    }
}

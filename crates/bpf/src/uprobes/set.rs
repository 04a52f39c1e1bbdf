//! The system calls that set breakpoints, for the process that holds them. Nothing here allocates (see
//! [`super::holders`]).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::path::DecInt;

use crate::kernel::{bpf, open_event, uprobe};
use observe::overhead::Times;

const LINK_CREATE: u32 = 28;
/// BPF_TRACE_UPROBE_MULTI.
pub const MULTI: u32 = 48;

/// What a holder sets.
pub struct Breakpoints<'a> {
    /// The type of events for uprobes; 0: all places at once by one link.
    pub event_kind: u32,
    pub pid: u32,
    /// Offsets in the file.
    pub places: &'a [u64],
}

/// Sets them, to stay until this process ends, and takes the time of each call.
///
/// # Errors
/// The kernel refuses one.
pub fn set(
    breakpoints: &Breakpoints,
    program: &OwnedFd,
    file: &OwnedFd,
    times: &mut Times,
) -> io::Result<()> {
    let Breakpoints { pid, places, .. } = *breakpoints;
    let mut name = [0; OWN_FD.len() + FD_DIGITS];
    let path = own_path(file, &mut name).ok_or(io::ErrorKind::InvalidInput)?;
    let mut timed = |attach: &dyn Fn() -> io::Result<OwnedFd>| {
        let begin = Instant::now();
        let attached = attach();
        *times += Times::of(begin.elapsed());
        attached.map(std::mem::forget)
    };
    match breakpoints.event_kind {
        0 => timed(&|| multi(program, places, path, pid)),
        kind => places
            .iter()
            .try_for_each(|&place| timed(&|| event(program, kind, place, path, pid))),
    }
}

const OWN_FD: &[u8] = b"/proc/self/fd/";
/// Of the largest number, with the zero at the end.
const FD_DIGITS: usize = 11;

/// The path of an open file.
fn own_path<'a>(file: &OwnedFd, name: &'a mut [u8]) -> Option<&'a CStr> {
    let number = DecInt::from_fd(file);
    let number = number.as_bytes();
    name.get_mut(..OWN_FD.len())?.copy_from_slice(OWN_FD);
    name.get_mut(OWN_FD.len()..)?
        .get_mut(..number.len())?
        .copy_from_slice(number);
    CStr::from_bytes_until_nul(name).ok()
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

fn multi(program: &OwnedFd, places: &[u64], path: &CStr, pid: u32) -> io::Result<OwnedFd> {
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
fn event(program: &OwnedFd, kind: u32, place: u64, path: &CStr, pid: u32) -> io::Result<OwnedFd> {
    let mut attr = uprobe(kind, path, place);
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

//! Processes of highwater's own that set breakpoints and hold them, so that SIGKILL of highwater leaves none behind.
//!
//! The kernel writes no memory for a task with a fatal signal pending (`get_user_pages_remote` gives `EINTR`): a task
//! that is killed while it sets or clears breakpoints leaves them in the subject. So highwater itself does neither. A
//! *holder* sets the breakpoints of one request, holds their descriptors, and ends when highwater lets go of it, or
//! ends. Its own exit closes the descriptors: an exiting process takes no further signal (`prepare_signal`).
//!
//! ```text
//! highwater --Request, descriptors--> starter --clone--> holder --Reply--> highwater
//! ```
//!
//! The starter and the holders block every signal, and are in a session of their own: nothing that is meant for
//! highwater or its process group comes to them, but SIGKILL of the whole cgroup or of every process of that name. What
//! is left then is the time in which a holder sets breakpoints, some milliseconds.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{PidfdFlags, WaitOptions, getpid, pidfd_open, wait};

use super::set::{Breakpoints, set};
use observe::overhead::{Times, own};

/// Of one request.
pub const PLACES_MAX: usize = 1024;
/// Of one message.
const FDS_MAX: usize = 3;
/// As the kernel and ps(1) show them.
const NAME: &CStr = c"hw-breakpoints";
/// Holders that are stopped, or in a frozen cgroup, are not waited for any longer; they end when they go on.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a holder is to set. With it come the program, the file and the holder's socket, in this order.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Request {
    /// See [`Breakpoints::event_kind`].
    pub event_kind: u32,
    pub pid: u32,
    pub count: u64,
    /// Offsets in the file.
    pub places: [u64; PLACES_MAX],
}

/// How it went. With it comes the holder's pidfd.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Reply {
    /// 0, or why the kernel refused.
    errno: i32,
    /// System calls that set breakpoints.
    calls: u32,
    total_ns: u64,
    longest_ns: u64,
}

/// While its socket is open, the breakpoints are set.
pub struct Holder {
    socket: OwnedFd,
    process: OwnedFd,
}

/// A holder that is under way. Several set their breakpoints side by side.
pub struct Coming {
    socket: OwnedFd,
}

impl Coming {
    /// Starts one that sets breakpoints.
    ///
    /// # Errors
    /// There can be no process.
    pub fn start(request: &Request, program: BorrowedFd, file: BorrowedFd) -> io::Result<Coming> {
        let (socket, of_holder) = pair()?;
        ask(request, &[program, file, of_holder.as_fd()])?;
        Ok(Coming { socket })
    }

    /// Until all are set, and how long that took it.
    ///
    /// # Errors
    /// The kernel refuses one of them, or a process.
    pub fn wait(self) -> io::Result<(Holder, Times)> {
        let socket = self.socket;
        let mut reply = Reply::zeroed();
        let received = receive(&socket, bytemuck::bytes_of_mut(&mut reply));
        let Some([Some(process), ..]) = received else {
            return Err(io::Error::other(
                "the process that was to set breakpoints has ended",
            ));
        };
        match reply.errno {
            0 => {
                let times = Times {
                    count: reply.calls.into(),
                    total_ns: reply.total_ns,
                    longest_ns: reply.longest_ns,
                };
                Ok((Holder { socket, process }, times))
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Holder {
    pub fn has_ended(&self) -> bool {
        let mut over = [PollFd::new(&self.process, PollFlags::IN)];
        matches!(poll(&mut over, Some(&Timespec::default())), Ok(1..))
    }

    /// Has it end, with its breakpoints. The kernel waits for its readers before it is over, tens of milliseconds.
    pub fn let_go(self) -> Ending {
        drop(self.socket);
        Ending(self.process)
    }
}

/// A holder that ends.
pub struct Ending(OwnedFd);

impl Ending {
    /// Until it is over, or it is `until`.
    pub fn wait(&self, until: Instant) {
        let mut over = [PollFd::new(&self.0, PollFlags::IN)];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            if !matches!(poll(&mut over, left.as_ref()), Err(Errno::INTR)) {
                return;
            }
        }
    }
}

/// The starter's socket.
static STARTER: Mutex<Option<OwnedFd>> = Mutex::new(None);

fn ask(request: &Request, fds: &[BorrowedFd]) -> io::Result<()> {
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = bytemuck::bytes_of(request);
    let asked = starter.as_ref().map(|socket| send(socket, bytes, fds));
    if let Some(Ok(())) = asked {
        return Ok(());
    }
    // None yet, or somebody ended it.
    let socket = start()?;
    send(&socket, bytes, fds)?;
    *starter = Some(socket);
    Ok(())
}

fn start() -> io::Result<OwnedFd> {
    let (socket, of_starter) = pair()?;
    let before = block_signals();
    let made = own::make_helper(clone_process);
    if let Ok(None) = made {
        serve(of_starter);
    }
    // SAFETY: a set of signals that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    made.map(|_| socket)
}

/// Starts the process that starts holders, where there is none yet: it keeps a copy of what highwater has in memory by
/// then, which is little at first.
///
/// # Errors
/// No process can be made.
pub fn prepare() -> io::Result<()> {
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if starter.is_none() {
        *starter = Some(start()?);
    }
    Ok(())
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// All that can be, in this thread and in processes that it makes; those that were blocked before.
fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both sets live; the first is filled in before it is read, and the second is plain data.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// A copy of this process with the calling thread alone; none in the copy.
fn clone_process() -> io::Result<Option<u32>> {
    let (signal, none) = (libc::c_long::from(libc::SIGCHLD), 0 as libc::c_long);
    // SAFETY: as fork(2), without the handlers of libraries: callers make system calls alone in the copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone, signal, none, none, none, none) };
    match pid {
        0 => Ok(None),
        1.. => Ok(Some(pid as u32)),
        _ => Err(io::Error::last_os_error()),
    }
}

// From here on: in the starter and in holders. A copy of a process with several threads may find any lock taken for
// good, that of malloc among them. So nothing here allocates, prints or panics.

fn serve(socket: OwnedFd) -> ! {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir(c"/");
    let _ = rustix::thread::set_name(NAME);
    go_first();
    if !close_all_but(&socket) {
        end();
    }
    let mut request = Request::zeroed();
    while let Some(fds) = receive(&socket, bytemuck::bytes_of_mut(&mut request)) {
        // One that cannot be made is one that ends without a reply.
        if let ([Some(program), Some(file), Some(of_holder)], Ok(None)) = (fds, clone_process()) {
            drop(socket);
            hold(&request, program, file, of_holder);
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
    // Their CPU time then counts as this process's.
    while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
    end()
}

/// Some breakpoints are set already, or still, while a holder waits for a CPU, some milliseconds on a busy machine, and
/// each hit costs the subject. What holders do takes microseconds, so they go first. Without the right they wait.
fn go_first() {
    // The kernel's `struct sched_param`: the priority alone.
    let lowest: libc::c_int = 1;
    // The system call itself: musl's function of that name does nothing.
    // SAFETY: the parameter lives.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const lowest,
        )
    };
}

fn hold(request: &Request, program: OwnedFd, file: OwnedFd, socket: OwnedFd) -> ! {
    let mut times = Times::default();
    let places = request.places.get(..request.count as usize).unwrap_or(&[]);
    let breakpoints = Breakpoints {
        event_kind: request.event_kind,
        pid: request.pid,
        places,
    };
    let errno = match set(&breakpoints, &program, &file, &mut times) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    drop((program, file));
    let reply = Reply {
        errno,
        calls: times.count as u32,
        total_ns: times.total_ns,
        longest_ns: times.longest_ns,
    };
    let sent = pidfd_open(getpid(), PidfdFlags::empty()).map_err(io::Error::from);
    let sent = sent.and_then(|own| send(&socket, bytemuck::bytes_of(&reply), &[own.as_fd()]));
    if errno == 0 && sent.is_ok() {
        let mut nothing = [0u8];
        while let Err(Errno::INTR) = rustix::io::read(&socket, &mut nothing) {}
    }
    end()
}

/// Every descriptor that this process was made with: highwater's files, and its ends of all these sockets. One by one
/// on kernels before 5.9, which have no call for it.
fn close_all_but(kept: &OwnedFd) -> bool {
    let kept = kept.as_raw_fd() as u32;
    let close = |first: u32, last: u32| {
        // SAFETY: nothing of this process uses them.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    let all_at_once = close(kept + 1, u32::MAX) && (kept == 0 || close(0, kept - 1));
    all_at_once || close_each_but(kept)
}

fn close_each_but(kept: u32) -> bool {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let Some(most) = most.and_then(|most| u32::try_from(most).ok()) else {
        return false;
    };
    for fd in (0..most).filter(|fd| *fd != kept) {
        // SAFETY: nothing of this process uses them.
        unsafe { libc::close(fd as i32) };
    }
    true
}

fn end() -> ! {
    // SAFETY: always sound; no handler runs.
    unsafe { libc::_exit(0) }
}

fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    let bytes = [IoSlice::new(bytes)];
    loop {
        match sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// A message of just this length, and its descriptors; none when nobody is there to send any.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Option<[Option<OwnedFd>; FDS_MAX]> {
    let expected = bytes.len();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut bytes = [IoSliceMut::new(bytes)];
        match recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received.ok()?,
        }
    };
    let sent = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let mut sent = sent.flatten();
    let fds = std::array::from_fn(|_| sent.next());
    (received.bytes == expected).then_some(fds)
}

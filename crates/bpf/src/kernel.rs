//! The two system calls behind everything here, perf_event_open and bpf, and the folder of
//! tracepoints, opened without mounting anything where others could see it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use perf_event_open_sys::bindings::perf_event_attr;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// An event of the kernel's kind and number.
pub fn event(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = perf_event_attr::default();
    attr.type_ = kind;
    attr.config = config;
    attr
}

/// The kernel calls itself this version, or a later one.
pub fn is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Opens one event; the descriptor closes with the value.
pub fn open_event(attr: &mut perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_ulong = 8;
    attr.size = size_of::<perf_event_attr>() as u32;
    // SAFETY: attr is a live, writable struct whose size field says how long it is.
    let fd = unsafe { perf_event_open_sys::perf_event_open(attr, pid, cpu, -1, CLOEXEC) };
    owned(fd as libc::c_long)
}

/// The type of events that are uprobes.
///
/// # Errors
/// A kernel without them.
pub fn uprobe_kind() -> io::Result<u32> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    kind.trim().parse().map_err(io::Error::other)
}

/// A probe on a place of a file's code. There is none on returns (uretprobe): it replaces a return address on the
/// stack, and an exception or a switch of stacks then ends the process.
pub fn uprobe(kind: u32, path: &CStr, offset: u64) -> perf_event_attr {
    let mut attr = event(kind, 0);
    attr.__bindgen_anon_3.config1 = path.as_ptr() as u64;
    attr.__bindgen_anon_4.config2 = offset;
    attr
}

/// One bpf(2) call; `attr` is the union's part for `command`, in full.
pub fn bpf<T>(command: u32, attr: &T) -> io::Result<OwnedFd> {
    owned(bpf_number(command, attr)?)
}

/// A bpf(2) call that gives no descriptor.
pub fn bpf_number<T>(command: u32, attr: &T) -> io::Result<libc::c_long> {
    let size = size_of::<T>();
    let call = || {
        // SAFETY: attr is plain data of the size that is passed; the kernel copies it.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size) };
        match result {
            0.. => Ok(result),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match call() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            without_memlock_limit(call).unwrap_or(Err(error))
        }
        result => result,
    }
}

/// Before Linux 5.11 maps and programs count as locked memory (RLIMIT_MEMLOCK), of which a process may have 64 KiB or
/// some MiB. The limit is lifted for one call alone: programs that highwater starts have the one it came with.
/// `None`: it is none, or may not be lifted.
fn without_memlock_limit<T>(call: impl Fn() -> io::Result<T>) -> Option<io::Result<T>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let own = getrlimit(Resource::Memlock);
    own.current?;
    let lifted = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Memlock, lifted).ok()?;
    let result = call();
    // It is lower than what is allowed now: this cannot fail.
    let _ = setrlimit(Resource::Memlock, own);
    Some(result)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// `BPF_PROG_TYPE_RAW_TRACEPOINT`: with the arguments of the tracepoint as they are.
pub const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// Runs a program at a tracepoint of this name for as long as the descriptor lives.
///
/// # Errors
/// There is none, or the kernel refuses.
pub fn attach_raw(tracepoint: &str, program: &OwnedFd) -> io::Result<OwnedFd> {
    const RAW_TRACEPOINT_OPEN: u32 = 17;
    #[repr(C)]
    struct Open {
        name: u64,
        program: u32,
        padding: u32,
    }
    let name = CString::new(tracepoint).map_err(io::Error::other)?;
    let attr = Open {
        name: name.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        padding: 0,
    };
    bpf(RAW_TRACEPOINT_OPEN, &attr)
}

/// The tracing filesystem, as a folder that only this descriptor reaches.
pub struct Tracing {
    folder: OwnedFd,
}

impl Tracing {
    pub fn open() -> io::Result<Tracing> {
        let mounted = std::fs::File::open("/sys/kernel/tracing/events").map(OwnedFd::from);
        if mounted.is_ok() {
            let folder = OwnedFd::from(std::fs::File::open("/sys/kernel/tracing")?);
            return Ok(Tracing { folder });
        }
        Ok(Tracing {
            folder: detached()?,
        })
    }

    /// A file below the folder, whole.
    pub fn read(&self, path: &str) -> io::Result<String> {
        use std::io::Read;
        let name = CString::new(path).map_err(io::Error::other)?;
        // SAFETY: the folder lives, the name ends in a zero.
        let fd = unsafe {
            libc::openat(
                self.folder.as_raw_fd(),
                name.as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        let mut text = String::new();
        std::fs::File::from(owned(libc::c_long::from(fd))?).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// A mount of tracefs without a place: seen by nobody else, gone with the descriptor.
fn detached() -> io::Result<OwnedFd> {
    const CREATE: u32 = 6;
    const CLOEXEC: u32 = 1;
    // SAFETY: a constant, zero-ended name; the calls give descriptors or errors.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOEXEC) })?;
    let fd = context.as_raw_fd();
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: as above; this command takes no key and no value.
    if unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, none, none, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0) })
}

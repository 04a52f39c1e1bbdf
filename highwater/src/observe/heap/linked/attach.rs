//! Puts programs on functions of one process and takes them off again: they hang on descriptors, so that a highwater
//! that is killed leaves nothing behind.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::functions::{Function, Role};
use super::program::{Maps, On, program};
use crate::observe::switches::ebpf::load_for;
use crate::observe::switches::kernel::{bpf, open_event, uprobe};

const LINK_CREATE: u32 = 28;
const PROG_TYPE_KPROBE: u32 = 2;
/// BPF_TRACE_UPROBE_SESSION: a program on entry and return, the latter where the former says so. From Linux 6.13 on.
const SESSION: u32 = 57;

/// How functions are probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Only sampled calls are seen returning.
    Session,
    /// Every call is: two events a function.
    Events,
}

/// The functions of one file, in one process.
#[derive(Debug, Clone)]
pub struct Target {
    pub pid: u32,
    pub file: PathBuf,
}

impl Target {
    pub fn new(pid: u32, file: &Path) -> Target {
        Target {
            pid,
            file: file.to_path_buf(),
        }
    }

    /// Highwater itself, whose functions tell what a trap costs.
    pub fn own() -> Target {
        Target::new(std::process::id(), Path::new("/proc/self/exe"))
    }
}

/// Programs, loaded once, and the functions they belong on.
pub struct Programs {
    way: Way,
    by_role: Vec<OfRole>,
}

struct OfRole {
    on_calls: OwnedFd,
    /// Of its own where the kernel does not leave out returns.
    on_returns: Option<OwnedFd>,
    functions: Vec<Function>,
}

/// While it lives, the functions are probed.
pub struct Attached {
    _held: Vec<OwnedFd>,
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

impl Programs {
    /// # Errors
    /// No right to load programs, or the kernel refuses one.
    pub fn load(maps: &Maps, functions: &[Function], way: Way) -> io::Result<Programs> {
        let mut by_role: Vec<OfRole> = Vec::new();
        let needs = |f: &Function| (f.role, f.throws, f.is_emulated, f.arguments);
        let alike = |a: &Function, b: &Function| needs(a) == needs(b);
        let attach_type = match way {
            Way::Session => SESSION,
            Way::Events => 0,
        };
        for function in functions {
            let known = by_role
                .iter_mut()
                .find(|of| alike(&of.functions[0], function));
            if let Some(of) = known {
                of.functions.push(function.clone());
                continue;
            }
            let load = |on| {
                let kind = (PROG_TYPE_KPROBE, attach_type);
                load_for(&function.name, kind, &program(maps, function, on))
            };
            let gives = !matches!(function.role, Role::Take { .. });
            let on_returns = (way == Way::Events && gives).then(|| load(On::Returns));
            by_role.push(OfRole {
                on_calls: load(On::Calls)?,
                on_returns: on_returns.transpose()?,
                functions: vec![function.clone()],
            });
        }
        Ok(Programs { way, by_role })
    }

    /// # Errors
    /// The kernel refuses: too old for this way, no such process, or no right.
    pub fn attach(&self, target: &Target) -> io::Result<Attached> {
        let (path, pid) = (
            CString::new(target.file.as_os_str().as_bytes())?,
            target.pid,
        );
        let mut held = Vec::new();
        for of in &self.by_role {
            match self.way {
                Way::Session => held.push(session(of, &path, pid)?),
                Way::Events => held.extend(events(of, &path, pid)?),
            }
        }
        Ok(Attached { _held: held })
    }
}

fn session(of: &OfRole, path: &CString, pid: u32) -> io::Result<OwnedFd> {
    let offsets: Vec<u64> = of.functions.iter().map(|f| f.file_offset).collect();
    let link = Link {
        prog_fd: of.on_calls.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: SESSION,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        ref_ctr_offsets: 0,
        cookies: 0,
        count: offsets.len() as u32,
        multi_flags: 0,
        pid,
        padding: 0,
    };
    bpf(LINK_CREATE, &link)
}

fn events(of: &OfRole, path: &CString, pid: u32) -> io::Result<Vec<OwnedFd>> {
    let on_calls = (&of.on_calls, false);
    let on_returns = of.on_returns.as_ref().map(|program| (program, true));
    let mut held = Vec::new();
    for function in &of.functions {
        for (program, on_return) in [Some(on_calls), on_returns].into_iter().flatten() {
            let mut attr = uprobe(path, function.file_offset, on_return)?;
            let event = open_event(&mut attr, pid as i32, -1)?;
            // SAFETY: both descriptors live; the ioctl takes a descriptor.
            let result = unsafe {
                perf_event_open_sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32)
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            held.push(event);
        }
    }
    Ok(held)
}

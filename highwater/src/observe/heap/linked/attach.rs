//! Puts programs on functions of one process and takes them off again: they hang on descriptors, so that a highwater
//! that is killed leaves nothing behind.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::functions::Function;
use super::program::{Maps, entry_program, exit_program};
use crate::observe::exits::Exit;
#[cfg(test)]
use crate::observe::overhead::fdinfo::read_fdinfo;
use crate::observe::switches::ebpf::load_for;
use crate::observe::switches::kernel::{bpf, open_event, uprobe};

const LINK_CREATE: u32 = 28;
const PROG_TYPE_KPROBE: u32 = 2;
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

/// Programs, loaded once, and the places they belong on.
pub struct Programs {
    way: Way,
    /// Of functions that free, realloc among them.
    frees: Vec<Placed>,
    /// Of those that allocate only, and where they return.
    entries: Vec<Placed>,
    exits: Vec<Placed>,
}

struct Placed {
    program: OwnedFd,
    /// Offsets in the file.
    places: Vec<u64>,
}

/// While it lives, these functions are probed.
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
    /// No right to load programs, the kernel refuses one, or it is too old for this way.
    pub fn load(maps: &Maps, functions: &[Function], way: Way) -> io::Result<Programs> {
        if way == Way::Multi && !filters_processes() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let load = |name: &str, code: &[u64]| {
            let attach_type = if way == Way::Multi { MULTI } else { 0 };
            load_for(name, (PROG_TYPE_KPROBE, attach_type), code)
        };
        let needs = |f: &Function| (f.role, f.is_emulated, f.arguments);
        let (mut frees, mut entries) = (Vec::new(), Vec::new());
        for alike in groups(functions, needs) {
            let program = Placed {
                program: load(&alike[0].name, &entry_program(maps, alike[0]))?,
                places: alike.iter().map(|function| function.file_offset).collect(),
            };
            match alike[0].frees() {
                true => frees.push(program),
                false => entries.push(program),
            }
        }
        // Functions may end in the same code.
        let all: BTreeSet<Exit> = functions.iter().flat_map(|f| f.exits.clone()).collect();
        let all: Vec<Exit> = all.into_iter().collect();
        let mut exits = Vec::new();
        for alike in groups(&all, |exit| (exit.result, exit.is_emulated)) {
            exits.push(Placed {
                program: load("exit", &exit_program(maps, *alike[0]))?,
                places: alike.iter().map(|exit| exit.at).collect(),
            });
        }
        Ok(Programs {
            way,
            frees,
            entries,
            exits,
        })
    }

    /// Runs of all of them, by the kernel's count while it times programs.
    #[cfg(test)]
    pub fn runs(&self) -> u64 {
        let all = self.frees.iter().chain(&self.entries).chain(&self.exits);
        let counts = all.map(|placed| read_fdinfo(&placed.program).run_count);
        counts.sum()
    }

    /// Probes what frees: then the end of every block is seen.
    ///
    /// # Errors
    /// The kernel refuses an entry: no such process, or no right.
    pub fn attach_frees(&self, target: &Target) -> io::Result<Attached> {
        let mut held = Vec::new();
        for placed in &self.frees {
            held.extend(self.put(placed, &placed.places, target)?);
        }
        Ok(Attached { _held: held })
    }

    /// Probes what only allocates, and the exits of all. An exit that the kernel refuses goes without a probe: the
    /// results there stay unknown.
    ///
    /// # Errors
    /// The kernel refuses an entry: no such process, or no right.
    pub fn attach_allocations(&self, target: &Target) -> io::Result<Attached> {
        let put = |placed: &Placed, places: &[u64]| self.put(placed, places, target);
        let mut held = Vec::new();
        // Exits first: a call that is sampled has them.
        for placed in &self.exits {
            match put(placed, &placed.places) {
                Ok(all) => held.extend(all),
                Err(_) => {
                    let single = placed.places.chunks(1);
                    held.extend(single.filter_map(|place| put(placed, place).ok()).flatten());
                }
            }
        }
        for placed in &self.entries {
            held.extend(put(placed, &placed.places)?);
        }
        // They come off in this order: a call that is sampled last has its exits still.
        held.reverse();
        Ok(Attached { _held: held })
    }

    fn put(&self, placed: &Placed, places: &[u64], target: &Target) -> io::Result<Vec<OwnedFd>> {
        let path = CString::new(target.file.as_os_str().as_bytes())?;
        match self.way {
            Way::Multi => Ok(vec![multi(&placed.program, places, &path, target.pid)?]),
            Way::Events => events(&placed.program, places, &path, target.pid),
        }
    }
}

/// Those that need the same, in the order of the first of each.
fn groups<T, K: PartialEq>(all: &[T], needs: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups
            .iter_mut()
            .find(|group| needs(group[0]) == needs(one))
        {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
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

fn events(program: &OwnedFd, places: &[u64], path: &CString, pid: u32) -> io::Result<Vec<OwnedFd>> {
    let mut held = Vec::new();
    for place in places {
        let mut attr = uprobe(path, *place)?;
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
    Ok(held)
}

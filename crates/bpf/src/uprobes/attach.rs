//! Puts a program on places of one process and takes it off again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::changes;
use super::holders::{self, Ending, Holder, PATIENCE, PLACES_MAX, Request};
use super::set::MULTI;
use crate::kernel::{self, uprobe_kind};
use observe::foreign::open_file;
use observe::overhead::Times;

pub const PROG_TYPE_KPROBE: u32 = 2;
/// That events of one program are shared out to.
const HOLDERS_MAX: usize = 64;

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
    held: Vec<Holder>,
    pid: u32,
}

impl Put {
    /// None yet, on this process.
    pub fn none(pid: u32) -> Put {
        let held = Vec::new();
        Put { held, pid }
    }

    pub fn is_none(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a process that holds some was ended from outside.
    pub fn has_lost_some(&self) -> bool {
        self.held.iter().any(Holder::has_ended)
    }

    /// All of them, which leaves none.
    pub fn take(&mut self) -> Put {
        std::mem::replace(self, Put::none(self.pid))
    }

    /// Those of both, which then come off at the same time.
    pub fn join(&mut self, mut other: Put) {
        self.held.append(&mut other.held);
    }
}

impl Drop for Put {
    /// All at once: the kernel clears breakpoints within microseconds, and then waits for its readers, tens of
    /// milliseconds for each call. One after the other the last breakpoints would stay for a third of a second.
    fn drop(&mut self) {
        let count = self.held.len() as u64;
        if count == 0 {
            return;
        }
        let begin = Instant::now();
        let ending: Vec<Ending> = self.held.drain(..).map(Holder::let_go).collect();
        ending
            .iter()
            .for_each(|holder| holder.wait(begin + PATIENCE));
        // They end side by side.
        let all = Times::of(begin.elapsed());
        changes::add(self.pid, Times { count, ..all });
    }
}

/// Probes that are under way.
pub struct Coming {
    holders: Vec<holders::Coming>,
    pid: u32,
}

impl Coming {
    /// Begins to put the program on these offsets in the target's file.
    ///
    /// # Errors
    /// No process can be made for it.
    pub fn start(
        way: Way,
        program: &OwnedFd,
        places: &[u64],
        target: &Target,
    ) -> io::Result<Coming> {
        let (event_kind, at_once) = match way {
            Way::Multi => (0, PLACES_MAX),
            // Events are cleared one after the other by the process that holds them.
            Way::Events => (uprobe_kind()?, places.len().div_ceil(HOLDERS_MAX).max(1)),
        };
        let start = |places: &[u64]| {
            let mut request = Request {
                event_kind,
                pid: target.pid,
                count: places.len() as u64,
                places: [0; PLACES_MAX],
            };
            request.places[..places.len()].copy_from_slice(places);
            holders::Coming::start(&request, program.as_fd(), target.file.as_fd())
        };
        let holders = places.chunks(at_once.min(PLACES_MAX)).map(start);
        Ok(Coming {
            holders: holders.collect::<io::Result<_>>()?,
            pid: target.pid,
        })
    }

    /// Until all are set.
    ///
    /// # Errors
    /// The kernel refuses one: no such process, or no right.
    pub fn wait(self) -> io::Result<Put> {
        let mut put = Put::none(self.pid);
        for holder in self.holders {
            let (holder, times) = holder.wait()?;
            changes::add(self.pid, times);
            put.held.push(holder);
        }
        Ok(put)
    }
}

/// Early probes on many places at once (from Linux 6.6 on) see one thread of a process alone. 6.13 is past all of
/// these.
fn filters_processes() -> bool {
    kernel::is_at_least(6, 13)
}

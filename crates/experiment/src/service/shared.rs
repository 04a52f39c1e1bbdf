//! What all slots of a service use: ports, the thread that forks, the place of cgroups.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Setup;
use super::census::read_stat;
use super::cgroup::Cgroup;
use super::logs::file_name;
use super::spawn::Spawner;
use crate::happening::{Happening, What, Who};
use crate::order::hash_texts;
use crate::ports::Ports;

/// What all slots use.
#[derive(Debug)]
pub(super) struct Shared {
    pub setup: Setup,
    pub ports: Ports,
    pub spawner: Spawner,
    /// Tells this service's processes from those of any other, also in the same supervisor.
    nonce: String,
    /// It was said that there are no cgroups, or that they failed.
    told_of_cgroups: bool,
}

impl Shared {
    /// # Errors
    /// When no thread can be started.
    pub fn new(setup: Setup) -> io::Result<Self> {
        Ok(Self {
            nonce: nonce(&setup),
            setup,
            // Any number will do that differs between runs at the same time.
            ports: Ports::new(u64::from(std::process::id()).wrapping_mul(7919)),
            spawner: Spawner::new()?,
            told_of_cgroups: false,
        })
    }

    /// The mark of a process: 16 characters for each, see `census::MARK`.
    pub fn mark(&self, log_name: &str) -> String {
        format!("{:016x}", hash_texts(&[&self.nonce, log_name]))
    }

    /// A cgroup for a process about to start; without one the process starts all the same.
    pub fn make_cgroup(
        &mut self,
        log_name: &str,
        memory_limit: Option<u64>,
        who: Who,
        now: Duration,
        out: &mut Vec<Happening>,
    ) -> Option<Cgroup> {
        let name = format!(
            "highwater-{}-{log_name}-{}",
            file_name(&self.setup.run),
            self.mark(log_name)
        );
        let made = self.setup.hierarchy.create(&name).and_then(|cgroup| {
            let limited = memory_limit.map_or(Ok(()), |bytes| cgroup.limit_memory(bytes));
            limited
                .inspect_err(|_| drop(cgroup.remove()))
                .map(|()| cgroup)
        });
        made.inspect_err(|error| self.tell_of_cgroups(error.to_string(), who, now, out))
            .ok()
    }

    /// Whether the process really is inside. One that has ended already is in no cgroup any more.
    pub fn check_cgroup(
        &mut self,
        cgroup: Option<Cgroup>,
        pid: i32,
        who: Who,
        now: Duration,
        out: &mut Vec<Happening>,
    ) -> Option<Cgroup> {
        let cgroup = cgroup?;
        let ended = read_stat(pid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'));
        if ended || cgroup.pids().contains(&pid) {
            return Some(cgroup);
        }
        let _ = cgroup.remove();
        let words = format!(
            "{}: the process could not enter it",
            cgroup.folder().display()
        );
        self.tell_of_cgroups(words, who, now, out);
        None
    }

    fn tell_of_cgroups(&mut self, words: String, who: Who, at: Duration, out: &mut Vec<Happening>) {
        if !self.told_of_cgroups {
            self.told_of_cgroups = true;
            out.push(Happening {
                at,
                who,
                what: What::Degraded,
                words,
            });
        }
    }
}

fn nonce(setup: &Setup) -> String {
    static SERVICES: AtomicU64 = AtomicU64::new(0);
    let pid = i32::try_from(std::process::id()).expect("pids fit i32");
    let start_ticks = read_stat(pid).map_or(0, |stat| stat.starttime);
    let count = SERVICES.fetch_add(1, Ordering::Relaxed);
    format!("{} {pid} {start_ticks} {count}", setup.folder.display())
}

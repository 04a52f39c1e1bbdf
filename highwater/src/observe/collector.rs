//! The observer: one call, one look at everything.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::fact::library::Libraries;
use super::look::{Look, ProcessId, Role, Target, TimeNs};
use super::metric;
use super::page::Page;
use super::proc::ProcRoot;
use super::proc::open::DESCRIPTORS;
use super::proc::process::Shares;
use super::watched::{Allowance, Watched};

/// What a look may cost, and when a process counts as hung.
#[derive(Debug, Clone)]
pub struct Options {
    /// Part of one core that walking the threads of all processes may take together.
    pub share_tasks: f64,
    /// The same for smaps_rollup (PSS, LazyFree ...), which walks page tables.
    pub share_rollup: f64,
    /// The same for rereading maps, to see that a process loaded another library.
    pub share_maps: f64,
    /// Without CPU time and context switches for this long, a process counts as hung.
    pub hung_after_ns: i64,
}

impl Default for Options {
    fn default() -> Self {
        // The bar is 2 % of one core for 200 processes once a second; stat and status of 200
        // processes take 0.3 to 0.4 %. bench/observe/README.md has what came out.
        Options {
            share_tasks: 0.004,
            share_rollup: 0.004,
            share_maps: 0.002,
            hung_after_ns: 60_000_000_000,
        }
    }
}

/// Looks at processes and keeps what it must remember of each between two looks.
#[derive(Debug)]
pub struct Observer {
    root: ProcRoot,
    options: Options,
    watched: HashMap<ProcessId, Watched>,
    /// Descriptors that may stay open between looks, all processes together.
    descriptors: usize,
    libraries: Libraries,
    buffer: Vec<u8>,
}

impl Observer {
    pub fn new(root: ProcRoot, options: Options) -> Observer {
        Observer {
            root,
            options,
            watched: HashMap::new(),
            descriptors: descriptors_to_keep(),
            libraries: Libraries::default(),
            buffer: Vec::new(),
        }
    }

    /// Reads everything once. Never fails as a whole: what cannot be read is an event.
    pub fn look(&mut self, now: TimeNs, targets: &[Target]) -> Look {
        let begin = Instant::now();
        let mut look = Look {
            time: now,
            samples: Vec::with_capacity(targets.len() * 24),
            facts: Vec::new(),
            histograms: Vec::new(),
            events: Vec::new(),
        };
        self.forget(targets);
        for target in targets.iter().filter(|target| target.role != Role::Host) {
            self.look_at(target, targets.len(), &mut look);
        }
        if let Some(own) = targets.iter().find(|target| target.role == Role::Highwater) {
            let cost = begin.elapsed().as_nanos() as u64;
            Page::new(&mut look, own.process).value(metric::LOOK_COST, cost);
        }
        look
    }

    /// Lets go of processes that are no targets any more.
    fn forget(&mut self, targets: &[Target]) {
        let wanted: HashSet<ProcessId> = targets.iter().map(|target| target.process).collect();
        self.watched.retain(|process, _| wanted.contains(process));
    }

    fn look_at(&mut self, target: &Target, among: usize, look: &mut Look) {
        self.watch(target);
        let Some(watched) = self.watched.get_mut(&target.process) else {
            return;
        };
        let among = among.max(1) as f64;
        let allowed = Allowance {
            shares: Shares {
                tasks: self.options.share_tasks / among,
                rollup: self.options.share_rollup / among,
            },
            share_maps: self.options.share_maps / among,
            hung_after_ns: self.options.hung_after_ns,
            libraries: &mut self.libraries,
            buffer: &mut self.buffer,
        };
        watched.look(target, allowed, &mut Page::new(look, target.process));
    }

    /// Starts to watch a target, or starts anew when its process is another one.
    fn watch(&mut self, target: &Target) {
        if self
            .watched
            .get(&target.process)
            .is_some_and(|known| known.is_for(target))
        {
            return;
        }
        let keeps = |known: &&Watched| known.reader.keeps() && !known.has_ended();
        let kept = self.watched.values().filter(keeps).count();
        let keep = (kept + 1) * DESCRIPTORS <= self.descriptors;
        self.watched
            .insert(target.process, Watched::new(&self.root, target, keep));
    }
}

/// Half of the descriptors that this process may open; the rest is for pipes, logs and fetches.
fn descriptors_to_keep() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |soft| soft as usize) / 2
}

//! Goroutines among the watched threads.

use std::io;

use super::super::golang::{Goroutines, Program};
use super::{Mode, Watch};
use crate::event::{Event, Tid, What};

/// Shorter waits of the runtime's threads for a CPU are not told: there are thousands of some microseconds.
const WANTED_CPU_LEAST_NS: u64 = 1_000_000;

impl Watch {
    /// Goroutines seen, when the subject is a Go program.
    pub fn goroutines(&self) -> Vec<Tid> {
        self.go.as_ref().map_or(Vec::new(), Goroutines::seen)
    }

    /// The program is in Go, and its threads are all that is seen of it.
    pub fn goroutines_are_unseen(&self) -> bool {
        self.waits.futexes_are_the_runtimes && self.go.is_none()
    }

    /// The waits of goroutines, where the program is one in Go and the kernel lets us probe it.
    pub(super) fn open_go(&mut self) {
        let Some(program) = Program::of(self.pid) else {
            return;
        };
        let opened = match self.mode {
            Mode::Ebpf => program.and_then(|program| Goroutines::watch(self.pid, &program)),
            _ => Err(io::Error::other("probing it needs root")),
        };
        match opened {
            Ok(go) => self.go = Some(go),
            Err(error) => self.missing.push(format!(
                "the program is in Go, and waits of its goroutines are not seen: {error}"
            )),
        }
        self.waits.futexes_are_the_runtimes = true;
    }

    /// A thread that carries no goroutine is to poll the sockets, or to take up a goroutine that can run. Where it has
    /// no CPU for that, goroutines wait that nobody made runnable yet: then its own wait is told.
    pub(super) fn without_goroutine(&mut self, at_ns: u64, tid: u32, what: What) {
        let Some(known) = self.threads.get(tid) else {
            return;
        };
        match what {
            What::Woken { .. } | What::Preempted => known.wanted_cpu_ns = Some(at_ns),
            What::In { .. } => {
                let since_ns = known.wanted_cpu_ns.take();
                let ns = since_ns.map_or(0, |since_ns| at_ns.saturating_sub(since_ns));
                if ns >= WANTED_CPU_LEAST_NS {
                    let (tid, what) = (Tid::from(tid), What::RunDelay { ns });
                    self.held.push(Event { at_ns, tid, what });
                }
            }
            _ => known.wanted_cpu_ns = None,
        }
    }
}

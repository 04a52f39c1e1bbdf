//! What each mode opens, and what this machine has for it.

use std::io;

use super::super::ebpf::Ebpf;
use super::super::ebpf::tracepoint::waking_tracepoint;
use super::super::events::Events;
use super::Source;
use crate::room::Room;
use bpf::allowed::Mode;

/// What nobody tells without privileges.
const WITHOUT_WAKERS: &str = "who woke whom, which needs root: holders of locks that name no owner are inferred, and \
    waits for a condition, a semaphore, a parked thread or a channel may be missed";

/// What a mode reads.
pub(super) struct Opened {
    pub source: Source,
    pub samples: Option<Events>,
    pub missing: Vec<String>,
    /// Where in a sample of a waking the woken thread stands.
    pub woken_at: Option<i16>,
}

impl Opened {
    pub fn of(pid: u32, mode: Mode, tids: &[u32], room: Room) -> io::Result<Opened> {
        let (mut missing, mut woken_at) = (Vec::new(), None);
        let (source, samples) = match mode {
            Mode::Ebpf => {
                // Which goroutine leaves has to be known when it leaves.
                let at_once = matches!(super::super::golang::Program::of(pid), Some(Ok(_)));
                let ebpf = Ebpf::attach(pid, tids, room, at_once)?;
                let samples = Events::of_all_cpus(&ebpf.ours, room);
                let samples = samples
                    .inspect_err(|error| missing.push(format!("stacks on CPUs: {error}")))
                    .ok();
                (Source::Ebpf(ebpf), samples)
            }
            Mode::Tracepoints => {
                let (number, at) = waking_tracepoint()?;
                woken_at = Some(at);
                (Source::Threads, Some(Events::of_threads_and_wakes(number)))
            }
            Mode::Rootless | Mode::None => {
                missing.push(WITHOUT_WAKERS.to_string());
                (Source::Threads, Some(Events::of_threads()))
            }
        };
        Ok(Opened {
            source,
            samples,
            missing,
            woken_at,
        })
    }
}

//! Whether a process makes progress. A hung process still has a resident set, and it samples as
//! perfectly flat: the most misleading curve there is.

use crate::proc::process::Vital;
use crate::snapshot::{EventKind, TimeNs};
use crate::snapshot_writer::SnapshotWriter;

/// Snapshots that a standstill must cover at least, however long they are apart.
const SNAPSHOTS_MIN: u32 = 3;

/// The rule. A process is `Hung` when, for `hung_after_ns` and over at least three snapshots, its CPU
/// time stood still, and two walks over all of its threads, that long apart, found the same number
/// of context switches. A service that is merely idle wakes up now and then (a timer, a keep-alive,
/// an accepted connection), which is a switch. One that truly sleeps in a single `epoll_wait`
/// without any request cannot be told from a hung one, and the words say so; under load there is
/// none. What spins on a CPU for ever is not seen here: it uses CPU.
#[derive(Debug, Default)]
pub struct Liveness {
    /// CPU time (ns) when it last changed.
    cpu_ns: u64,
    /// The first snapshot since then that walked the threads, and what it found.
    still: Option<Still>,
    snapshots: u32,
    hung: bool,
    alive_told: bool,
}

#[derive(Debug, Clone, Copy)]
struct Still {
    since: TimeNs,
    switches: u64,
}

impl Liveness {
    pub fn sample(&mut self, vital: &Vital, hung_after_ns: i64, writer: &mut SnapshotWriter<'_>) {
        let now = writer.time();
        let cpu_ns = vital
            .stat
            .cpu_user_ns
            .saturating_add(vital.stat.cpu_system_ns);
        let switches = vital.counts.map(|counts| counts.switches());
        let known = self.still.map(|still| still.switches);
        let woke = matches!((known, switches), (Some(before), Some(now)) if before != now);
        if !self.alive_told {
            writer.fact("alive", "yes".to_owned());
            self.alive_told = true;
        }
        if cpu_ns != self.cpu_ns || woke {
            self.progress(cpu_ns, now, switches, writer);
            return;
        }
        self.snapshots += 1;
        let Some(switches) = switches else { return };
        let Some(still) = self.still else {
            self.still = Some(Still {
                since: now,
                switches,
            });
            return;
        };
        let long = now.0.saturating_sub(still.since.0) >= hung_after_ns;
        if !self.hung && long && self.snapshots >= SNAPSHOTS_MIN {
            self.hung = true;
            writer.fact("alive", "no".to_owned());
            writer.event(EventKind::Hung, words(vital, now.0 - still.since.0));
        }
    }

    fn progress(
        &mut self,
        cpu_ns: u64,
        now: TimeNs,
        switches: Option<u64>,
        writer: &mut SnapshotWriter<'_>,
    ) {
        self.cpu_ns = cpu_ns;
        self.still = switches.map(|switches| Still {
            since: now,
            switches,
        });
        self.snapshots = 0;
        if self.hung {
            self.hung = false;
            writer.fact("alive", "yes".to_owned());
            writer.event(EventKind::Note, "it makes progress again".to_owned());
        }
    }
}

fn words(vital: &Vital, still_ns: i64) -> String {
    let (state, what) = match vital.stat.state {
        'T' => ('T', "stopped by a signal"),
        't' => ('t', "stopped by a debugger"),
        'D' => ('D', "in an uninterruptible wait, as for a disk"),
        state => (state, "hung, or idle without even a timer"),
    };
    format!(
        "no CPU time and no context switch in any of {} threads for {} s (state {state}: {what}); \
         its memory is no evidence while that lasts",
        vital.stat.threads,
        still_ns / 1_000_000_000
    )
}

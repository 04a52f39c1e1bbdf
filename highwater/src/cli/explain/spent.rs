//! What the probe and the process say of their CPU time, from snapshot to snapshot.

use heap::probe::ProbeSnapshot;
use observe::overhead::own;

/// The process's CPU time and the probe's counters, in the first snapshot and in the last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    first: Option<Counted>,
    last: Counted,
    /// Calls up to the last snapshot in which usable bytes were exact.
    pub exact_calls: u64,
    /// Of the last snapshot that could read the probe: at its end a process's memory goes before it does.
    pub seen: Option<Seen>,
    /// CPU time at the first snapshot after the probe, or the uprobes, ended over the budget.
    stopped_cpu_s: Option<f64>,
}

/// What the probe says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub samples: u64,
    pub live_bytes: f64,
    pub pair_ps: u64,
    pub over_budget_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub cpu_s: f64,
    pub calls: u64,
    pub slow_ns: u64,
}

impl Spent {
    pub fn add(&mut self, pid: u32, probe: Option<&ProbeSnapshot>) {
        let preloaded = probe.filter(|probe| !probe.own.is_empty());
        let now = Counted {
            cpu_s: own::cpu_s_of(pid).max(self.last.cpu_s),
            calls: preloaded.map_or(self.last.calls, |probe| {
                probe.allocs.saturating_add(probe.frees)
            }),
            slow_ns: preloaded.map_or(self.last.slow_ns, |probe| probe.slow_ns),
        };
        if let Some(probe) = preloaded {
            self.seen = Some(Seen {
                samples: probe.samples,
                live_bytes: probe
                    .live_bytes()
                    .max(self.seen.map_or(0.0, |seen| seen.live_bytes)),
                pair_ps: probe.pair_ps,
                over_budget_s: probe.over_budget_s,
            });
        }
        if preloaded.is_some_and(|probe| probe.live_bytes_exact.is_some()) {
            self.exact_calls = now.calls;
        }
        if probe.is_some_and(has_stopped) {
            self.stopped_cpu_s.get_or_insert(now.cpu_s);
        }
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// CPU time up to the end over the budget, since the first snapshot or since its start.
    pub fn until_stop_s(&self, start: bool) -> Option<f64> {
        let first_s = match start {
            true => 0.0,
            false => self.first.unwrap_or_default().cpu_s,
        };
        Some(self.stopped_cpu_s? - first_s)
    }

    /// Since the first snapshot, or since its start.
    pub fn since(&self, start: bool) -> Counted {
        let first = match start {
            true => Counted::default(),
            false => self.first.unwrap_or_default(),
        };
        Counted {
            cpu_s: self.last.cpu_s - first.cpu_s,
            calls: self.last.calls.saturating_sub(first.calls),
            slow_ns: self.last.slow_ns.saturating_sub(first.slow_ns),
        }
    }
}

fn has_stopped(probe: &ProbeSnapshot) -> bool {
    probe.over_budget_s.is_some() || probe.traps.is_some_and(|traps| traps.stopped.is_some())
}

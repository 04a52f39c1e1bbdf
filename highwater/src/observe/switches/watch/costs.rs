//! What the watch adds to its subject.

use super::super::ebpf::timed::Taken;
use super::super::golang::Goroutines;
use super::super::spans::Spans;
use super::{Mode, Source, Watch, now_ns};
use crate::observe::overhead::{Basis, Item, Overhead, Stopped, own, share_of};

/// The subject's CPU time when the watch began, and since.
pub(super) struct Costs {
    /// 0: nobody set one, and nothing is timed.
    budget_share: f64,
    begin_ns: u64,
    begin_cpu_s: f64,
    /// When the window began that is open.
    window_cpu_s: f64,
    last_cpu_s: f64,
    stopped: Option<Stopped>,
}

impl Costs {
    pub(super) fn of(pid: u32) -> Costs {
        let cpu_s = own::cpu_s_of(pid);
        Costs {
            budget_share: 0.0,
            begin_ns: now_ns(),
            begin_cpu_s: cpu_s,
            window_cpu_s: cpu_s,
            last_cpu_s: cpu_s,
            stopped: None,
        }
    }
}

impl Watch {
    /// Most that the kernel's programs may take: of the subject's CPU time, or of a core where that is more.
    pub fn set_budget(&mut self, share: f64) {
        self.costs.budget_share = share;
    }

    /// At the end of a window in which the programs were timed.
    pub(super) fn is_over_budget(&mut self, now_ns: u64) -> bool {
        if self.costs.budget_share > 0.0 {
            self.hold_against_budget(now_ns);
        }
        self.costs.stopped.is_some()
    }

    fn hold_against_budget(&mut self, now_ns: u64) {
        let Source::Ebpf(ebpf) = &mut self.source else {
            return;
        };
        let was_timing = ebpf.programs.is_timing();
        let taken = ebpf.programs.turn(now_ns);
        let begins = !was_timing && ebpf.programs.is_timing();
        let costs = &mut self.costs;
        if begins || taken.is_some() {
            costs.last_cpu_s = own::cpu_s_of(self.pid).max(costs.last_cpu_s);
        }
        if begins {
            costs.window_cpu_s = costs.last_cpu_s;
        }
        let Some(taken) = taken else {
            return;
        };
        let own_s = costs.last_cpu_s - costs.window_cpu_s;
        let over_s = taken.over_ns as f64 / 1e9;
        let cost_share = share_of(taken.run_ns as f64 / 1e9, own_s, over_s);
        if cost_share > costs.budget_share {
            costs.stopped = Some(Stopped {
                mechanism: "the watch",
                after_s: now_ns.saturating_sub(costs.begin_ns) as f64 / 1e9,
                cost_share,
            });
        }
    }

    /// What it added so far; `observed_s`: how long it watched.
    pub fn overhead(&mut self, observed_s: f64) -> Overhead {
        let now = now_ns();
        let items = match &mut self.source {
            Source::Ebpf(ebpf) => {
                ebpf.programs.end(now);
                let timed = ebpf.programs.timed();
                timed
                    .map(|timed| item(timed, observed_s))
                    .into_iter()
                    .collect()
            }
            Source::Threads => Vec::new(),
        };
        let last_cpu_s = own::cpu_s_of(self.pid).max(self.costs.last_cpu_s);
        self.costs.last_cpu_s = last_cpu_s;
        let costs = &self.costs;
        Overhead {
            observed_s,
            subject_cpu_s: costs.last_cpu_s - costs.begin_cpu_s,
            items,
            unmeasured: self.unmeasured(),
            breakpoints: self.breakpoints(),
            kernel_bytes: own::kernel_bytes(),
            own_cpu_s: own::cpu_s(),
            own_rss_peak_bytes: own::rss_peak_bytes(),
            budget_share: costs.budget_share,
            stopped: costs.stopped.clone(),
            ..Overhead::default()
        }
    }
}

impl Watch {
    /// What the kernel does for perf events and for uprobes without eBPF it does not time.
    fn unmeasured(&self) -> Vec<&'static str> {
        let of_threads = matches!(self.source, Source::Threads).then_some(match self.mode {
            Mode::Rootless => "context switches recorded by perf, and samples of the CPU clock",
            _ => "tracepoints and context switches recorded by perf, and samples of the CPU clock",
        });
        let go = self
            .go
            .is_some()
            .then_some("breakpoints in Go's scheduler, in every process of this program");
        let spans = self
            .spans
            .is_some()
            .then_some("breakpoints of --span, in every process of this program");
        of_threads.into_iter().chain(go).chain(spans).collect()
    }

    fn breakpoints(&self) -> u64 {
        let go = self.go.as_ref().map_or(0, Goroutines::places);
        let spans = self.spans.as_ref().map_or(0, Spans::places);
        (go + spans) as u64
    }
}

fn item(timed: Taken, observed_s: f64) -> Item {
    let timed_s = timed.over_ns as f64 / 1e9;
    let runs = timed.runs as f64 / timed_s * observed_s;
    Item {
        name: "scheduler programs",
        cpu_s: timed.core_share() * observed_s,
        basis: Basis::AtMost,
        events: runs as u64,
        of: "runs of eBPF programs",
        how: format!(
            "{:.0} ns each, timed by the kernel for {timed_s:.1} s of {observed_s:.1}; of all processes of the machine \
             together, without the way to the program",
            timed.run_ns as f64 / timed.runs.max(1) as f64
        ),
    }
}

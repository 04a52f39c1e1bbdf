//! What the watch adds to its subject, held against the budget.

use std::io;

use super::super::recorded::{self, Recorded};
use super::{Mode, Room, Source, Watch, now_ns};
use bpf::fdinfo;
use bpf::timed::Taken;
use bpf::uprobes::changes;
use bpf::uprobes::hits::Hits;
use observe::overhead::bucket::Bucket;
use observe::overhead::{Basis, Item, KERNEL_BYTES_MAX, Overhead, StopCause, Stopped, Times, own};

/// From one reading of the counts to the next; a budget of some seconds bears it.
const CHECKED_NS: u64 = 200_000_000;

/// Names of items.
const PROGRAMS: &str = "scheduler programs";
const GO: &str = "uprobes in Go's scheduler";
const SPANS: &str = "uprobes of --span";
const CONNECTIONS: &str = "socket programs";

/// The subject's CPU time when the watch began, and since.
pub(super) struct Costs {
    /// `None`: nobody set one, and nothing is timed.
    bucket: Option<Bucket>,
    budget_share: f64,
    begin_ns: u64,
    begin_cpu_s: f64,
    last_cpu_s: f64,
    checked_ns: u64,
    spent: Spent,
    /// What perf recorded, and what a record costs where that could be tried.
    pub recorded: Recorded,
    record: Option<recorded::Cost>,
    kernel_bytes: u64,
    stopped: Vec<Stopped>,
    ends: bool,
}

/// CPU time of the subject, seconds, up to the last check.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// Of all processes.
    programs_s: f64,
    go_s: f64,
    spans_s: f64,
    connections_s: f64,
    recorded_s: f64,
}

impl Spent {
    fn all_s(&self) -> f64 {
        self.programs_s + self.go_s + self.spans_s + self.connections_s + self.recorded_s
    }

    fn mostly(&self) -> &'static str {
        let all = [
            (self.programs_s, PROGRAMS),
            (self.go_s, GO),
            (self.spans_s, SPANS),
            (self.connections_s, CONNECTIONS),
            (self.recorded_s, "recorded events"),
        ];
        let most = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or("", |(_, name)| name)
    }
}

impl Costs {
    pub(super) fn of(pid: u32) -> Costs {
        let cpu_s = own::cpu_s_of(pid);
        Costs {
            bucket: None,
            budget_share: 0.0,
            begin_ns: now_ns(),
            begin_cpu_s: cpu_s,
            last_cpu_s: cpu_s,
            checked_ns: now_ns(),
            spent: Spent::default(),
            recorded: Recorded::default(),
            record: None,
            kernel_bytes: 0,
            stopped: Vec::new(),
            ends: false,
        }
    }

    fn recorded_s(&self) -> f64 {
        self.record.map_or(0.0, |cost| cost.seconds(self.recorded))
    }
}

impl Watch {
    /// Most that the watch may take: of the subject's CPU time, or of a core where that is more. `record`: what perf's
    /// records cost here.
    pub fn set_budget(&mut self, share: f64, record: Option<recorded::Cost>) {
        self.costs.budget_share = share;
        self.costs.record = record;
        self.costs.bucket = (share > 0.0).then(|| Bucket::new(share));
    }

    /// # Errors
    /// What was opened takes more of the kernel's memory than [`KERNEL_BYTES_MAX`]. Of many watches it is not asked.
    pub(super) fn hold_kernel_memory(&mut self, room: Room) -> io::Result<()> {
        let bytes = fdinfo::kernel_bytes();
        self.costs.kernel_bytes = bytes;
        if room == Room::One && bytes > KERNEL_BYTES_MAX {
            return Err(io::Error::other(format!(
                "in this mode it would take {} MiB of the kernel's memory, and {} are the most: try another --mode",
                bytes >> 20,
                KERNEL_BYTES_MAX >> 20
            )));
        }
        Ok(())
    }

    /// Once more, when something was opened since.
    pub(super) fn count_kernel_memory(&mut self) {
        self.costs.kernel_bytes = fdinfo::kernel_bytes();
    }

    /// Whether the watch has to end. What `--span` alone makes too dear goes by itself.
    pub(super) fn is_over_budget(&mut self, now_ns: u64) -> bool {
        let Some(mut bucket) = self.costs.bucket else {
            return false;
        };
        if let Source::Ebpf(ebpf) = &mut self.source {
            ebpf.programs.turn(now_ns);
        }
        if let Some(answers) = self.answers.as_mut().filter(|answers| answers.is_on()) {
            answers.programs.turn(now_ns);
        }
        if now_ns.saturating_sub(self.costs.checked_ns) >= CHECKED_NS {
            self.spend(&mut bucket, now_ns);
            if bucket.is_empty() {
                self.stop(bucket, now_ns);
                bucket = Bucket::new(self.costs.budget_share);
            }
            self.costs.bucket = Some(bucket);
        }
        self.costs.ends
    }

    fn spend(&mut self, bucket: &mut Bucket, now_ns: u64) {
        let over_s = now_ns.saturating_sub(self.costs.checked_ns) as f64 / 1e9;
        let before = self.costs.spent;
        let spent = Spent {
            programs_s: self.programs_s(),
            go_s: self.go.as_ref().map_or(0.0, |go| go.hits.cost_s()),
            spans_s: self
                .spans
                .as_ref()
                .map_or(0.0, |spans| spans.hits().cost_s()),
            connections_s: self.connections_s().max(before.connections_s),
            recorded_s: self.costs.recorded_s(),
        };
        let cpu_s = own::cpu_s_of(self.pid).max(self.costs.last_cpu_s);
        let used_s = cpu_s - self.costs.last_cpu_s;
        // What a run takes is known better with each window, and may have been less than was thought.
        bucket.spend((spent.all_s() - before.all_s()).max(0.0), used_s, over_s);
        let costs = &mut self.costs;
        (costs.spent, costs.last_cpu_s, costs.checked_ns) = (spent, cpu_s, now_ns);
    }

    fn programs_s(&self) -> f64 {
        let Source::Ebpf(ebpf) = &self.source else {
            return 0.0;
        };
        let taken = ebpf.programs.taken();
        taken.map_or(0.0, |taken| seconds_of_programs(taken, self.costs.record))
    }

    /// Raw tracepoints: the way to the programs is some nanoseconds.
    fn connections_s(&self) -> f64 {
        let answers = self.answers.as_ref().filter(|answers| answers.is_on());
        let taken = answers.and_then(|of| of.programs.taken());
        taken.map_or(0.0, |taken| seconds_of_programs(taken, None))
    }

    fn stop(&mut self, bucket: Bucket, now_ns: u64) {
        let spent = self.costs.spent;
        let spans = self.spans.as_mut().filter(|spans| spans.is_on());
        let answers = self.answers.as_mut().filter(|answers| answers.is_on());
        let mechanism = match spans {
            // The watch does without.
            _ if answers.is_some() => {
                answers.into_iter().for_each(|of| of.take_off(now_ns));
                "requests on connections"
            }
            Some(spans) if 2.0 * spent.spans_s > spent.all_s() => {
                spans.take_off();
                // Calls went on hitting them until they were gone: no ground to end the watch as well.
                self.costs.spent.spans_s = spans.hits().cost_s();
                "--span"
            }
            _ => {
                self.costs.ends = true;
                "the watch"
            }
        };
        self.costs.stopped.push(Stopped {
            mechanism,
            cause: StopCause::OverBudget,
            after_s: now_ns.saturating_sub(self.costs.begin_ns) as f64 / 1e9,
            cost_share: bucket.spent_share(),
            mostly: spent.mostly(),
        });
    }

    /// What it added; `observed_s`: how long it watched. The watch is over: its probes come off.
    pub fn overhead(&mut self, observed_s: f64) -> Overhead {
        let mut items = Vec::new();
        if let Source::Ebpf(ebpf) = &mut self.source {
            ebpf.programs.end(now_ns());
            let record = self.costs.record;
            if let (Some(timed), Some(taken)) = (ebpf.programs.timed(), ebpf.programs.taken()) {
                items.push(of_programs(PROGRAMS, (timed, taken), record, observed_s));
            }
        }
        if let Some(answers) = &mut self.answers {
            answers.take_off(now_ns());
            if let (Some(timed), Some(taken)) = (answers.programs.timed(), answers.programs.taken())
            {
                items.push(of_programs(CONNECTIONS, (timed, taken), None, observed_s));
            }
        }
        if let Some(go) = &mut self.go {
            go.hits.take_off();
            items.push(of_hits(GO, &go.hits));
        }
        if let Some(spans) = &mut self.spans {
            spans.take_off();
            items.push(of_hits(SPANS, spans.hits()));
        }
        items.extend(self.of_records());
        let last_cpu_s = own::cpu_s_of(self.pid).max(self.costs.last_cpu_s);
        self.costs.last_cpu_s = last_cpu_s;
        let costs = &self.costs;
        Overhead {
            observed_s,
            subject_cpu_s: costs.last_cpu_s - costs.begin_cpu_s,
            items,
            unmeasured: self.unmeasured(),
            breakpoints: self.breakpoints(),
            breakpoint_changes: changes::of(self.pid),
            pauses: Times::default(),
            kernel_bytes: fdinfo::kernel_bytes().max(costs.kernel_bytes),
            own_cpu_s: own::cpu_s(),
            own_rss_peak_bytes: own::rss_peak_bytes(),
            budget_share: costs.budget_share,
            stopped: costs.stopped.clone(),
            ..Overhead::default()
        }
    }

    fn of_records(&self) -> Vec<Item> {
        let (Some(cost), recorded) = (self.costs.record, self.costs.recorded) else {
            return Vec::new();
        };
        let kinds = [
            (
                "recorded switches",
                "context switches",
                recorded.switches,
                cost.switch_ns,
            ),
            (
                "recorded wakings",
                "wakings",
                recorded.wakings,
                cost.waking_ns,
            ),
            (
                "samples",
                "samples of the CPU clock and of major faults",
                recorded.samples,
                cost.sample_ns,
            ),
            (
                "lost records",
                "records that found no room",
                recorded.lost,
                cost.lost_ns(recorded),
            ),
        ];
        let is_of_threads = matches!(self.source, Source::Threads);
        let kinds = kinds.into_iter().filter(|(name, _, events, _)| {
            *events > 0 || is_of_threads && *name == "recorded switches"
        });
        kinds
            .map(|(name, of, events, each_ns)| Item {
                cpu_s_between: None,
                name,
                cpu_s: events as f64 * each_ns / 1e9,
                basis: Basis::Estimated,
                events,
                of,
                how: format!(
                    "{each_ns:.0} ns each, tried at the start on threads of highwater's own"
                ),
            })
            .collect()
    }

    /// What perf records where its cost could not be tried.
    fn unmeasured(&self) -> Vec<&'static str> {
        let mut unmeasured = Vec::new();
        if let Source::Ebpf(ebpf) = &self.source
            && ebpf.programs.taken().is_none()
        {
            unmeasured.push(
                "scheduler programs (timing them needs CAP_SYS_ADMIN, or root, and /proc/stat)",
            );
        }
        let words = match (&self.source, self.costs.record) {
            (_, Some(_)) => return unmeasured,
            (Source::Ebpf(_), None) => "samples of the CPU clock",
            (Source::Threads, None) if self.mode == Mode::Rootless => {
                "context switches recorded by perf, and samples of the CPU clock"
            }
            (Source::Threads, None) => {
                "tracepoints and context switches recorded by perf, and samples of the CPU clock"
            }
        };
        unmeasured.push(words);
        unmeasured
    }

    fn breakpoints(&self) -> u64 {
        let go = self.go.as_ref().map_or(0, |go| go.hits.places());
        let spans = self.spans.as_ref().map_or(0, |spans| spans.hits().places());
        (go + spans) as u64
    }
}

fn of_hits(name: &'static str, hits: &Hits) -> Item {
    let counted = hits.counted();
    Item {
        name,
        cpu_s: hits.cost_s(),
        cpu_s_between: None,
        basis: Basis::Estimated,
        events: counted.hits,
        of: "hits",
        how: format!(
            "{:.0} ns each, and {:.1} us more for {} that the kernel steps; tried at the start on functions of \
             highwater's own",
            hits.cost.hit_ns,
            hits.cost.step_ns / 1e3,
            counted.stepped
        ),
    }
}

/// What the kernel timed, and the way there.
fn seconds_of_programs(taken: Taken, record: Option<recorded::Cost>) -> f64 {
    let way_ns = record.map_or(0.0, |record| record.way_ns);
    (taken.run_ns as f64 + taken.runs as f64 * way_ns) / 1e9
}

fn of_programs(
    name: &'static str,
    (timed, taken): (Taken, Taken),
    record: Option<recorded::Cost>,
    observed_s: f64,
) -> Item {
    let timed_s = timed.over_ns as f64 / 1e9;
    let way = match record {
        Some(record) => format!(
            "{:.0} ns of tracepoint overhead a run, measured at the start on threads of highwater's own",
            record.way_ns
        ),
        None => "without tracepoint overhead".to_owned(),
    };
    Item {
        name,
        cpu_s: seconds_of_programs(taken, record),
        cpu_s_between: None,
        basis: Basis::AtMost,
        events: taken.runs,
        of: "runs of eBPF programs",
        how: format!(
            "{:.0} ns each, timed by the kernel for {timed_s:.1} s of {observed_s:.1}, and {way}; {} context switches \
             of all processes of the machine together",
            timed.run_ns as f64 / timed.runs.max(1) as f64,
            taken.switches
        ),
    }
}

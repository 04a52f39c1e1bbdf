//! What `explain` added to the process that it explains.

use super::launch::Launched;
use super::spent::Seen;
use super::tracked::Tracked;
use bpf::fdinfo;
use bpf::uprobes::changes;
use heap::linked::traps::{Calls, Traps};
use observe::overhead::pair::PairCost;
use observe::overhead::{Basis, Item, Overhead, StopCause, Stopped, own};

/// The most that the probe maps (`CAP_BYTES` of probe/heap/src/settings.rs); the caller may have set another limit.
fn probe_bytes_max() -> Option<u64> {
    const CAP_BYTES: u64 = 8 << 20;
    std::env::var_os("HIGHWATER_PROBE_CAP")
        .is_none()
        .then_some(CAP_BYTES)
}

/// `probe_bytes`: resident of the probe, in the process.
pub fn overhead(
    tracked: &Tracked,
    launched: Option<&Launched>,
    observed_s: f64,
    budget_share: f64,
    probe_bytes: u64,
) -> Overhead {
    let probe = tracked.snapshot.probe.as_ref();
    let spent = tracked.spent.since(launched.is_some());
    let mut items = Vec::new();
    let seen = tracked.spent.seen;
    if let Some(probe) = seen {
        let pair = launched.and_then(|launched| launched.pair);
        items.push(counting(
            spent.calls,
            tracked.spent.exact_calls,
            probe,
            pair,
        ));
        items.push(Item {
            name: "samples",
            cpu_s: spent.slow_ns as f64 / 1e9,
            cpu_s_between: None,
            basis: Basis::Measured,
            events: probe.samples,
            of: "samples",
            how: "by the probe, in the process".into(),
        });
    }
    let traps = probe.and_then(|probe| probe.traps);
    items.extend(traps.as_ref().map(uprobes));
    items.extend(probe.and_then(|probe| probe.mapping_calls).map(mappings));
    let mut overhead = Overhead {
        observed_s,
        subject_cpu_s: spent.cpu_s,
        items,
        unmeasured: Vec::new(),
        subject_bytes: probe_bytes,
        subject_bytes_max: launched.and(seen).and_then(|_| probe_bytes_max()),
        // Maps are gone when the probes came off for good.
        kernel_bytes: fdinfo::kernel_bytes().max(traps.map_or(0, |traps| traps.kernel_bytes)),
        breakpoints: traps.map_or(0, |traps| traps.places as u64),
        map_readings: tracked.reader.map_readings,
        breakpoint_changes: changes::of(tracked.reader.member.pid as u32),
        pauses: tracked.heaps.pauses(),
        own_cpu_s: own::cpu_s(),
        own_rss_peak_bytes: own::rss_peak_bytes(),
        budget_share,
        stopped: Vec::new(),
    };
    let until_stop_s = tracked.spent.until_stop_s(launched.is_some());
    overhead.stopped = stopped(&overhead, until_stop_s, seen, traps)
        .into_iter()
        .collect();
    overhead
}

/// The difference in a program's CPU time, over what is said of it, was between these in bench/overhead/explain
/// (bench/results/2026-11-26-cost.md). A program that computes between its calls hides a part of the counting; one
/// whose heap has grown old loses more of its caches than the trial's.
const LEAST: f64 = 0.6;
const MOST: f64 = 1.5;

fn counting(calls: u64, exact_calls: u64, probe: Seen, pair: Option<PairCost>) -> Item {
    let exact = exact_calls.min(calls) as f64 / 2.0;
    let sampled = calls as f64 / 2.0 - exact;
    let (cpu_ns, how) = match pair {
        Some(pair) => (
            exact * pair.exact_ns(probe.live_bytes) + sampled * pair.counted_ns(probe.live_bytes),
            format!(
                "{:.1} ns a pair freed at once, {:.1} at random; {:.1} and {:.1} while bytes were exact; tried at the \
                 start in processes of highwater's own",
                pair.at_once_ns, pair.random_ns, pair.exact_at_once_ns, pair.exact_random_ns
            ),
        ),
        None => {
            let pair_ns = probe.pair_ps as f64 / 1e3;
            let how = "the probe's counters alone, tried by the probe at its start: the call through it comes on top";
            ((exact + sampled) * pair_ns, how.to_owned())
        }
    };
    Item {
        name: "counting",
        cpu_s: cpu_ns / 1e9,
        cpu_s_between: pair.map(|_| (cpu_ns * LEAST / 1e9, cpu_ns * MOST / 1e9)),
        basis: Basis::Estimated,
        events: calls,
        of: "calls of malloc and free",
        how,
    }
}

fn uprobes(traps: &Traps) -> Item {
    Item {
        name: "uprobes",
        cpu_s: traps.cpu_s(),
        cpu_s_between: None,
        basis: Basis::Estimated,
        events: traps.hits,
        of: "hits",
        how: format!(
            "{:.0} ns a hit and {:.1} us a sample, tried at the start on functions of highwater's own",
            traps.hit_ns(),
            traps.cost.sample_ns / 1e3
        ),
    }
}

fn mappings(calls: Calls) -> Item {
    Item {
        name: "mappings",
        cpu_s: calls.cpu_s,
        cpu_s_between: None,
        basis: Basis::Estimated,
        events: calls.seen,
        of: "calls of mmap and mremap",
        how: match (calls.came_off, calls.dropped) {
            (true, _) => "by uprobes, which came off before the end: more calls than their part of the budget, or \
                          ended from outside"
                .into(),
            (false, 0) => "by uprobes; what a hit takes, as above".into(),
            (false, dropped) => format!("by uprobes; {dropped} more were not taken in"),
        },
    }
}

fn stopped(
    overhead: &Overhead,
    until_stop_s: Option<f64>,
    probe: Option<Seen>,
    traps: Option<Traps>,
) -> Option<Stopped> {
    let cpu_s = until_stop_s.unwrap_or(overhead.subject_cpu_s);
    let cost_share = overhead.added_s() / cpu_s.max(1e-2);
    let mostly = overhead.dearest();
    if let Some((after_s, cause)) = traps.and_then(|traps| traps.stopped) {
        return Some(Stopped {
            mechanism: "uprobes",
            cause,
            after_s,
            cost_share,
            mostly,
        });
    }
    let after_s = probe?.over_budget_s?;
    Some(Stopped {
        mechanism: "the probe",
        cause: StopCause::OverBudget,
        after_s,
        cost_share,
        mostly,
    })
}

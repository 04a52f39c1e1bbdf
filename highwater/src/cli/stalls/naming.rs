//! From a finding's numbers to names: threads, functions, what was being done.

use report::stall::{Culprit, Hop, Row};
use sched::places::Stack;
use sched::watch::{OURSELVES, OWN_THREADS, Watch};
use stalls::cause::Cause;
use stalls::event::{StackId, Tid, WaitKind};
use stalls::finding::{Finding, Link};
use stalls::walk::LeafKind;

/// Stacks of waiters and names of stalled threads in one row.
const WAITERS_SHOWN: usize = 4;
const THREADS_SHOWN: usize = 16;
const DEADLOCK: &str = "deadlock: waits for a lock that comes free only after this wait";

/// `others`: who used the CPUs meanwhile, where the switches do not tell.
pub fn row(finding: &Finding, watch: &Watch, others: &[(String, u64)]) -> Row {
    let starved = finding.cause == Cause::CpuStarvation;
    let mut ran_instead: Vec<(String, u64)> = finding
        .ran_instead
        .iter()
        .map(|(text, ns)| (watch.places.words(*text).to_string(), *ns))
        .collect();
    if ran_instead.is_empty() && starved {
        ran_instead = others.to_vec();
    }
    let waiters = finding.waiters.iter().take(WAITERS_SHOWN);
    Row {
        cause: finding.cause,
        count: finding.count,
        threads: finding.threads.len(),
        longest_ns: finding.longest_ns,
        total_ns: finding.total_ns,
        period_ns: finding.period_ns,
        episodes: finding.episodes,
        agreeing: finding.agreeing,
        open: finding.open,
        inferred: finding.inferred,
        culprit: culprit(finding, watch, &ran_instead),
        chain: finding.chain.iter().map(|link| hop(link, watch)).collect(),
        ran_instead: if starved { ran_instead } else { Vec::new() },
        waiters: waiters
            .map(|(stack, ns)| (frames(watch, *stack), *ns))
            .collect(),
        stalled: finding
            .threads
            .iter()
            .take(THREADS_SHOWN)
            .map(|tid| thread(watch, *tid))
            .collect(),
    }
}

fn culprit(finding: &Finding, watch: &Watch, ran_instead: &[(String, u64)]) -> Culprit {
    let culprit = &finding.culprit;
    match finding.cause {
        Cause::CpuQuota => {
            return Culprit {
                doing: throttled(watch),
                ..Culprit::default()
            };
        }
        Cause::CpuStarvation => {
            // The subject's own threads are always among them; whoever else ran is the news.
            let own = [OWN_THREADS, OURSELVES];
            let others = ran_instead
                .iter()
                .find(|(name, _)| !own.contains(&name.as_str()));
            let first = others.or(ran_instead.first()).map(|(name, _)| name.clone());
            let doing = match &first {
                Some(name) => format!("runnable while {name} ran"),
                None => "runnable while others ran".to_string(),
            };
            return Culprit {
                thread: first.unwrap_or_default(),
                doing,
                ..Culprit::default()
            };
        }
        _ => {}
    }
    let stack = watch.places.stack_of(culprit.stack);
    let release = watch.places.stack_of(culprit.release);
    // Whoever lets go is in the function that held. A culprit that runs nothing of the program's own
    // (a library's goroutine that reads for another) stands for the one that waited for it.
    let held = watch.places.stack_of(culprit.held);
    let took = || took(finding, watch);
    // Who was seen at a device is named by that: what it let go of afterwards may be anything.
    let device = matches!(finding.cause, Cause::Disk | Cause::PageFault);
    let at_device = device && stack.own_function().is_some();
    let let_go = || {
        let rests = culprit.rests.iter().map(|id| watch.places.stack_of(*id));
        let held = release.held_in(stack, &rests.collect::<Vec<_>>());
        let after = release.own_function().filter(|_| !at_device);
        held.or(after).or_else(took)
    };
    // Who waits for a reply that another thread asks for waits for nothing that is held.
    let holds = finding.cause != Cause::Network;
    let own = holds.then(let_go).flatten().or_else(|| {
        let others = [stack, held];
        others.into_iter().find_map(Stack::own_function)
    });
    let purges = finding.cause == Cause::Allocator && stack.allocator;
    let inner = stack.own_function_within(own).filter(|_| purges);
    let function = inner.or(own).or(stack.function()).map(str::to_string);
    let shown = [culprit.stack, culprit.held, culprit.release]
        .into_iter()
        .find(|id| watch.places.stack_of(*id).own_function().is_some())
        .unwrap_or(culprit.stack);
    Culprit {
        thread: thread(watch, culprit.tid),
        tid: (culprit.tid != 0).then_some(culprit.tid),
        doing: doing(finding, watch, stack.function()),
        function,
        stack: frames(watch, shown),
    }
}

/// The function of the culprit's that took the lock, by what its waiters are in.
fn took<'a>(finding: &Finding, watch: &'a Watch) -> Option<&'a str> {
    let during = [finding.culprit.stack, finding.culprit.held];
    let waiters = finding.waiters.iter().take(WAITERS_SHOWN);
    waiters
        .flat_map(|(waiter, _)| during.map(|during| watch.holder(*waiter, during)))
        .find_map(|found| found)
}

fn throttled(watch: &Watch) -> String {
    match watch.quota_groups().first() {
        Some(group) => format!("throttled by cgroup quota of {group}"),
        None => "throttled by cgroup quota".to_string(),
    }
}

fn doing(finding: &Finding, watch: &Watch, function: Option<&str>) -> String {
    let words = watch.places.words(finding.culprit.doing);
    if !words.is_empty() {
        return words.to_string();
    }
    match (finding.culprit.kind, function) {
        (LeafKind::OnCpu, Some(function)) => format!("on CPU in {function}"),
        (LeafKind::OnCpu, None) => "on CPU".to_string(),
        (LeafKind::Runnable, _) => "runnable".to_string(),
        (LeafKind::Wait(kind), _) => waited_for(kind, 0),
        (LeafKind::Deadlock, _) => DEADLOCK.to_string(),
        (LeafKind::Unseen, _) => String::new(),
    }
}

fn hop(link: &Link, watch: &Watch) -> Hop {
    Hop {
        thread: thread(watch, link.hop.tid),
        waited_for: waited_for(link.hop.kind, link.hop.object),
        ns: link.ns,
    }
}

fn waited_for(kind: WaitKind, object: u64) -> String {
    let at = if object == 0 {
        String::new()
    } else {
        format!(" {object:#x}")
    };
    match kind {
        WaitKind::Lock => format!("lock{at}"),
        WaitKind::Queue => format!("condition{at}"),
        WaitKind::Inbound => "the next request".into(),
        WaitKind::Network => "network".into(),
        WaitKind::Disk => "disk".into(),
        WaitKind::Fault => "a page".into(),
        WaitKind::Memory => "the address space".into(),
        WaitKind::Sleep => "time".into(),
        WaitKind::Other => "CPU".into(),
        WaitKind::Unknown => "waits too short to be looked at".into(),
    }
}

fn thread(watch: &Watch, tid: Tid) -> String {
    watch.name(tid)
}

fn frames(watch: &Watch, stack: StackId) -> Vec<String> {
    let frames = &watch.places.stack_of(stack).frames;
    frames.iter().map(|frame| frame.name.clone()).collect()
}

//! From a finding's numbers to names: threads, functions, what was being done. What comes out is a value, without ids
//! into a watch that goes on: it can be recorded, tested, and shown later.

#[cfg(test)]
mod tests;

use sched::places::Stack;
use sched::recording::RecordedNames;
use sched::watch::{OURSELVES, OWN_THREADS, Watch};

use crate::cause::Cause;
use crate::event::{StackId, TextId, Tid, WaitKind};
use crate::finding::{Finding, Link};
use crate::hot::hottest;
use crate::recurrence::joined;
use crate::walk::LeafKind;

/// A finding with its numbers turned into names. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFinding {
    pub cause: Cause,
    pub count: usize,
    pub threads: usize,
    pub longest_ns: u64,
    pub total_ns: u64,
    pub period_ns: Option<u64>,
    pub episodes: usize,
    pub agreeing: usize,
    pub open: bool,
    pub inferred: bool,
    pub culprit: NamedCulprit,
    pub chain: Vec<NamedHop>,
    pub ran_instead: Vec<(String, u64)>,
    /// Where the waiters wait, innermost function first, with the time behind each.
    pub waiters: Vec<(Vec<String>, u64)>,
    /// Names of some of the threads that were stalled.
    pub stalled: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedCulprit {
    pub thread: String,
    pub tid: Option<u64>,
    pub function: Option<String>,
    /// Of a function of a package that the program depends on: the first caller in each further package, up to the
    /// program's own.
    pub callers: Vec<String>,
    pub activity: String,
    /// Innermost first.
    pub stack: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NamedHop {
    pub thread: String,
    pub waited_for: String,
    pub ns: u64,
}

/// Where names come from: a watch, or what a test says.
pub trait Names {
    /// Of a thread; nothing where it has none.
    fn thread(&self, tid: Tid) -> String;
    fn stack(&self, id: StackId) -> &Stack;
    fn words(&self, id: TextId) -> &str;
    /// The function that took the lock which a waiter with one stack waits for, while its holder had another.
    fn holder(&self, waiter: StackId, during: StackId) -> Option<&str>;
    /// Control groups with a CPU quota.
    fn quota_groups(&self) -> Vec<String>;
}

impl Names for Watch {
    fn thread(&self, tid: Tid) -> String {
        self.name(tid)
    }

    fn stack(&self, id: StackId) -> &Stack {
        self.places.stack_of(id)
    }

    fn words(&self, id: TextId) -> &str {
        self.places.words(id)
    }

    fn holder(&self, waiter: StackId, during: StackId) -> Option<&str> {
        Watch::holder(self, waiter, during)
    }

    fn quota_groups(&self) -> Vec<String> {
        Watch::quota_groups(self)
    }
}

impl Names for RecordedNames {
    fn thread(&self, tid: Tid) -> String {
        RecordedNames::thread(self, tid)
    }

    fn stack(&self, id: StackId) -> &Stack {
        RecordedNames::stack(self, id)
    }

    fn words(&self, id: TextId) -> &str {
        RecordedNames::words(self, id)
    }

    fn holder(&self, waiter: StackId, during: StackId) -> Option<&str> {
        RecordedNames::holder(self, waiter, during)
    }

    fn quota_groups(&self) -> Vec<String> {
        self.quota_groups.clone()
    }
}

/// Stacks of waiters and names of stalled threads in one row.
const WAITERS_SHOWN: usize = 4;
const THREADS_SHOWN: usize = 16;
const DEADLOCK: &str = "deadlock: waits for a lock that comes free only after this wait";

/// `others`: who used the CPUs meanwhile, where the switches do not tell.
pub fn named(finding: &Finding, names: &impl Names, others: &[(String, u64)]) -> NamedFinding {
    let starved = finding.cause == Cause::CpuStarvation;
    let mut ran_instead: Vec<(String, u64)> = finding
        .ran_instead
        .iter()
        .map(|(text, ns)| (names.words(*text).to_string(), *ns))
        .collect();
    if ran_instead.is_empty() && starved {
        ran_instead = others.to_vec();
    }
    let waiters = finding.waiters.iter().take(WAITERS_SHOWN);
    NamedFinding {
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
        culprit: culprit(finding, names, &ran_instead),
        chain: finding.chain.iter().map(|link| hop(link, names)).collect(),
        ran_instead: if starved { ran_instead } else { Vec::new() },
        waiters: waiters
            .map(|(stack, ns)| (names.stack(*stack).names(), *ns))
            .collect(),
        stalled: finding
            .threads
            .iter()
            .take(THREADS_SHOWN)
            .map(|tid| thread(names, *tid))
            .collect(),
    }
}

/// Who kept threads from a CPU; none where that is not the cause.
fn without_cpu(
    cause: Cause,
    names: &impl Names,
    ran_instead: &[(String, u64)],
) -> Option<NamedCulprit> {
    match cause {
        Cause::CpuQuota => Some(NamedCulprit {
            activity: throttled(names),
            ..NamedCulprit::default()
        }),
        Cause::CpuStarvation => {
            // The subject's own threads are always among them; whoever else ran is the news.
            let own = [OWN_THREADS, OURSELVES];
            let others = ran_instead
                .iter()
                .find(|(name, _)| !own.contains(&name.as_str()));
            let first = others.or(ran_instead.first()).map(|(name, _)| name.clone());
            let activity = match &first {
                Some(name) => format!("runnable while {name} ran"),
                None => "runnable while others ran".to_string(),
            };
            Some(NamedCulprit {
                thread: first.unwrap_or_default(),
                activity,
                ..NamedCulprit::default()
            })
        }
        _ => None,
    }
}

fn culprit(finding: &Finding, names: &impl Names, ran_instead: &[(String, u64)]) -> NamedCulprit {
    let culprit = &finding.culprit;
    if let Some(sampled) = sampled(finding, names) {
        return sampled;
    }
    if let Some(without_cpu) = without_cpu(finding.cause, names, ran_instead) {
        return without_cpu;
    }
    let stack = names.stack(culprit.stack);
    if let Some(asked) = asked_to_collect(finding, names, stack) {
        return asked;
    }
    let release = names.stack(culprit.release);
    // Whoever lets go is in the function that held. A culprit that runs nothing of the program's own
    // (a library's goroutine that reads for another) stands for the one that waited for it.
    let held = names.stack(culprit.held);
    let took = || took(finding, names);
    // Who was seen at a device is named by that: what it let go of afterwards may be anything.
    let device = matches!(finding.cause, Cause::Disk | Cause::PageFault);
    let at_device = device && stack.own_function().is_some();
    let let_go = || {
        let rests = culprit.rests.iter().map(|id| names.stack(*id));
        let held = release.held_in(stack, &rests.collect::<Vec<_>>());
        let after = release.own_function_that_let_go().filter(|_| !at_device);
        held.or(after).or_else(took)
    };
    // Who waits for a reply that another thread asks for waits for nothing that is held.
    let holds = !matches!(finding.cause, Cause::Network | Cause::Process);
    let own = holds.then(let_go).flatten().or_else(|| {
        let others = [stack, held];
        others.into_iter().find_map(Stack::own_function)
    });
    // A library's goroutine that reads a reply has no function of the program's: the one that asked for it has.
    let asked = || {
        let waiters = finding.waiters.iter().filter(|_| !holds);
        let mut stacks = waiters.map(|(stack, _)| names.stack(*stack));
        stacks.find_map(Stack::own_function)
    };
    let own = own.or_else(asked);
    let purges = finding.cause == Cause::Allocator && stack.allocator;
    let inner = stack.own_function_within(own).filter(|_| purges);
    let collects = culprit.kind == LeafKind::OnCpu && stack.collects_garbage();
    let innermost = || stack.function().filter(|_| !collects);
    let function = inner.or(own).or_else(innermost).map(str::to_string);
    let shown = [culprit.stack, culprit.held, culprit.release]
        .into_iter()
        .find(|id| names.stack(*id).own_function().is_some())
        .unwrap_or(culprit.stack);
    let callers = function.as_deref().map(|function| {
        let stacks = [culprit.stack, culprit.held, culprit.release].into_iter();
        let callers = stacks.map(|id| names.stack(id).callers_of(function));
        callers.max_by_key(Vec::len).unwrap_or_default()
    });
    NamedCulprit {
        thread: thread(names, culprit.tid),
        tid: (culprit.tid != 0).then_some(culprit.tid),
        activity: activity(finding, names, stack, stack.function()),
        callers: callers.unwrap_or_default(),
        function,
        stack: names.stack(shown).names(),
    }
}

/// Of the time in which collections made others wait, the part that a waiter was in that asked for them.
const ASKED_FOR: u64 = 2;

/// Collections most of which the program itself asked for: the waiter that did is to blame, and not the collector.
fn asked_to_collect(finding: &Finding, names: &impl Names, stack: &Stack) -> Option<NamedCulprit> {
    let culprit = &finding.culprit;
    if culprit.kind != LeafKind::OnCpu || !stack.collects_garbage() {
        return None;
    }
    let spans = finding.members.iter().map(|of| (of.start_ns, of.end_ns));
    let spans = joined(spans, 0).into_iter();
    let all_ns: u64 = spans.map(|(start_ns, end_ns)| end_ns - start_ns).sum();
    let waiters = finding.waiters.iter();
    let mut waiters = waiters.map(|(id, ns)| (names.stack(*id), *ns));
    let (asked, _) =
        waiters.find(|(waiter, ns)| waiter.asks_for_collection() && ns * ASKED_FOR >= all_ns)?;
    let function = asked.own_function().map(str::to_owned);
    Some(NamedCulprit {
        thread: thread(names, culprit.tid),
        tid: (culprit.tid != 0).then_some(culprit.tid),
        activity: "garbage collection, asked for by System.gc()".to_owned(),
        callers: function
            .as_deref()
            .map(|function| asked.callers_of(function))
            .unwrap_or_default(),
        function,
        stack: asked.names(),
    })
}

/// Slow code is where most of its samples are.
fn sampled(finding: &Finding, names: &impl Names) -> Option<NamedCulprit> {
    let culprit = &finding.culprit;
    let samples = culprit.samples.iter();
    let samples: Vec<(&Stack, u64)> = samples.map(|(id, ns)| (names.stack(*id), *ns)).collect();
    let (stack, function) = hottest(&samples).filter(|_| finding.cause == Cause::OnCpu)?;
    Some(NamedCulprit {
        thread: thread(names, culprit.tid),
        tid: (culprit.tid != 0).then_some(culprit.tid),
        activity: activity(finding, names, stack, Some(function)),
        callers: stack.callers_of(function),
        function: Some(function.to_owned()),
        stack: stack.names(),
    })
}

/// The function of the culprit's that took the lock, by what its waiters are in.
fn took<'a>(finding: &Finding, names: &'a impl Names) -> Option<&'a str> {
    let during = [finding.culprit.stack, finding.culprit.held];
    let waiters = finding.waiters.iter().take(WAITERS_SHOWN);
    waiters
        .flat_map(|(waiter, _)| during.map(|during| names.holder(*waiter, during)))
        .find_map(|found| found)
}

fn throttled(names: &impl Names) -> String {
    match names.quota_groups().first() {
        Some(group) => format!("throttled by cgroup quota of {group}"),
        None => "throttled by cgroup quota".to_string(),
    }
}

fn activity(
    finding: &Finding,
    names: &impl Names,
    stack: &Stack,
    function: Option<&str>,
) -> String {
    let words = names.words(finding.culprit.activity);
    if !words.is_empty() {
        return words.to_string();
    }
    let is_network = finding.cause == Cause::Network;
    match (finding.culprit.kind, function) {
        (LeafKind::OnCpu, _) if stack.collects_garbage() => "garbage collection".to_owned(),
        (LeafKind::OnCpu, Some(function)) => format!("on CPU in {function}"),
        (LeafKind::OnCpu, None) => "on CPU".to_string(),
        (LeafKind::Runnable, _) => "runnable".to_string(),
        // See `untaken::Untaken`.
        (LeafKind::Wait(WaitKind::Inbound | WaitKind::Outbound), _) if is_network => {
            "a wait for something else while requests lie there".to_string()
        }
        (LeafKind::Wait(WaitKind::Inbound | WaitKind::Outbound), _) => {
            "a wait within a request".to_string()
        }
        (LeafKind::Wait(kind), _) => waited_for(kind, 0),
        (LeafKind::Deadlock, _) => DEADLOCK.to_string(),
        (LeafKind::Unseen, _) => String::new(),
    }
}

fn hop(link: &Link, names: &impl Names) -> NamedHop {
    NamedHop {
        thread: thread(names, link.hop.tid),
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
        WaitKind::Outbound => "the next call or reply".into(),
        WaitKind::Network => "network".into(),
        WaitKind::Process => "another process".into(),
        WaitKind::Disk => "disk".into(),
        WaitKind::Fault => "a page".into(),
        WaitKind::Memory => "the address space".into(),
        WaitKind::Sleep => "time".into(),
        WaitKind::Other => "CPU".into(),
        WaitKind::Unknown => "waits too short to be sampled".into(),
    }
}

fn thread(names: &impl Names, tid: Tid) -> String {
    names.thread(tid)
}

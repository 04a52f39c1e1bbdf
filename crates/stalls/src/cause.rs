//! The cause of one wait, from what it waited for and what filled it.

use super::event::{StackId, TextId, Tid, WaitKind};
use super::group::Groups;
use super::home::Homes;
use super::poll::is_broken_off;
use super::quota::Quota;
use super::segment::{Segment, State};
use super::share::{
    Hop, LeafKind, Share, delays_a_request, is_at_work, is_held, is_idle, is_of_a_fellow, is_reply,
    is_stall, others, queues_for_work, rests_in_a_pool,
};
use super::suspect::Suspects;
use super::timeline::Timelines;
use super::tokens::Tokens;
use super::turns::Turns;
use super::walk::walk;
use observe::table::Table;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Lock,
    CpuStarvation,
    CpuQuota,
    Disk,
    Network,
    Process,
    PageFault,
    Allocator,
    Runtime,
    Sleep,
    OnCpu,
}

impl Cause {
    pub const ALL: [Cause; 11] = [
        Cause::Lock,
        Cause::CpuStarvation,
        Cause::CpuQuota,
        Cause::Disk,
        Cause::Network,
        Cause::Process,
        Cause::PageFault,
        Cause::Allocator,
        Cause::Runtime,
        Cause::Sleep,
        Cause::OnCpu,
    ];

    /// As it stands in tables and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Lock => "lock",
            Cause::CpuStarvation => "cpu-starvation",
            Cause::CpuQuota => "cpu-quota",
            Cause::Disk => "disk",
            Cause::Network => "network",
            Cause::Process => "process",
            Cause::PageFault => "page-fault",
            Cause::Allocator => "allocator",
            Cause::Runtime => "runtime",
            Cause::Sleep => "sleep",
            Cause::OnCpu => "on-cpu",
        }
    }
}

/// What a thread was doing that others, or it itself, had to wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    pub tid: Tid,
    pub kind: LeafKind,
    pub activity: TextId,
    pub stack: StackId,
    pub allocator: bool,
    pub after: TextId,
    /// Its stack when it let the waiter go.
    pub release: StackId,
    /// That of whoever ended the waiter's own wait.
    pub held: StackId,
}

impl Leaf {
    /// Of which no more is known.
    pub fn of(tid: Tid, kind: LeafKind) -> Leaf {
        Leaf {
            tid,
            kind,
            activity: 0,
            stack: 0,
            allocator: false,
            after: 0,
            release: 0,
            held: 0,
        }
    }
}

/// A stretch of a busy period in which the thread got nowhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub start_ns: u64,
    pub end_ns: u64,
    pub cause: Cause,
    pub waited_for: WaitKind,
    /// The lock or condition; 0 when the wait is for none.
    pub object: u64,
    pub leaf: Leaf,
    pub hops: Vec<Hop>,
    pub waiter_stack: StackId,
    pub inferred: bool,
}

impl Part {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A segment, judged.
#[derive(Debug, Clone, PartialEq)]
pub enum Judged {
    OnCpu,
    Idle {
        timed: bool,
        /// Behind another of its kind, who had a lock and waited for work.
        behind: bool,
    },
    Part(Part),
}

/// A wait for another thread is a stall when at least this share of it was filled by one;
/// a worker that waits for work is idle, although its feeder has an occasional page fault.
const STALLED_SHARE: f64 = 0.5;

/// A wait has another cause than the CPU's shortage when at least this share of it was filled by
/// something else: a disk, a reply, a function. Take the shortage away, and that still is a stall.
const WITHOUT_SHORTAGE: f64 = 0.2;

/// What a wait is judged by.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub lines: &'a Timelines,
    pub quota: &'a Quota,
    pub groups: &'a Groups,
    pub homes: &'a Homes,
    pub suspects: &'a Suspects,
    pub turns: &'a Turns,
    pub tokens: &'a Tokens,
}

pub fn judge(known: Known, tid: Tid, segment: &Segment) -> Judged {
    match segment.state {
        State::Running => Judged::OnCpu,
        State::Runnable { after } => Judged::Part(runnable(known.quota, tid, segment, after)),
        State::Blocked { wait, .. } => match wait.kind {
            WaitKind::Inbound | WaitKind::Outbound | WaitKind::Other | WaitKind::Unknown => {
                idle(false)
            }
            WaitKind::Sleep if wait.is_stop() => Judged::Part(direct(tid, segment)),
            // A goroutine that sleeps gives its thread to another: a thread that does is the runtime's own.
            WaitKind::Sleep if known.groups.carriers => idle(true),
            WaitKind::Sleep if !known.homes.sleeps_at_work(tid, &wait) => idle(true),
            WaitKind::Process if !asks_at_work(known, tid) => idle(false),
            WaitKind::Sleep
            | WaitKind::Network
            | WaitKind::Process
            | WaitKind::Disk
            | WaitKind::Fault => Judged::Part(direct(tid, segment)),
            _ if is_broken_off(&wait) => idle(true),
            WaitKind::Lock | WaitKind::Queue | WaitKind::Memory => answered(known, tid, segment),
        },
    }
}

/// A wait for a child is idle in a thread that does nothing else.
fn asks_at_work(known: Known, tid: Tid) -> bool {
    known.groups.answers_clients(tid) || known.homes.asks_at_work(tid)
}

fn idle(timed: bool) -> Judged {
    let behind = false;
    Judged::Idle { timed, behind }
}

fn runnable(quota: &Quota, tid: Tid, segment: &Segment, after: TextId) -> Part {
    let cause = cpu_cause(quota, segment.start_ns, segment.end_ns);
    let leaf = Leaf {
        after,
        ..Leaf::of(tid, LeafKind::Runnable)
    };
    part(segment, cause, 0, leaf)
}

fn cpu_cause(quota: &Quota, start_ns: u64, end_ns: u64) -> Cause {
    if quota.fills(start_ns, end_ns) {
        Cause::CpuQuota
    } else {
        Cause::CpuStarvation
    }
}

/// The thread's own wait for a device, a peer, a page or the clock.
fn direct(tid: Tid, segment: &Segment) -> Part {
    let State::Blocked { wait, .. } = segment.state else {
        unreachable!("only a blocked segment comes here");
    };
    let leaf = Leaf {
        activity: wait.activity,
        stack: wait.stack,
        allocator: wait.allocator,
        ..Leaf::of(tid, LeafKind::Wait(wait.kind))
    };
    let cause = match of_leaf(&leaf) {
        Some(cause) => cause,
        None if wait.kind == WaitKind::Sleep => Cause::Sleep,
        None => Cause::Disk,
    };
    Part {
        waiter_stack: wait.stack,
        ..part(segment, cause, 0, leaf)
    }
}

/// A wait that another thread answers.
fn answered(known: Known, tid: Tid, segment: &Segment) -> Judged {
    let State::Blocked { wait, by, release } = segment.state else {
        unreachable!("only a blocked segment comes here");
    };
    let mut shares = walk(
        known.lines,
        known.suspects,
        tid,
        (&wait, by, release),
        segment,
    );
    let kind = match wait.kind {
        // Who stands behind the one in front waits for work as well.
        WaitKind::Lock if known.turns.are_taken_at(wait.object) => WaitKind::Queue,
        kind => kind,
    };
    let for_one = known.tokens.is_for_one(&wait);
    // An interpreter waits for all it ever waits for at one place of its code; what is waited for tells them apart.
    let seldom = || for_one && known.homes.are_rare(tid, known.tokens.times(tid, &wait));
    let at_work = wait.kind == WaitKind::Queue && (known.homes.is_rare(tid, &wait) || seldom());
    let queues = |share: &Share| queues_for_work(share, tid, known.groups);
    let queued: u64 = shares.iter().filter(|s| queues(s)).map(Share::ns).sum();
    let most_ns = STALLED_SHARE * segment.ns() as f64;
    let behind = wait.kind == WaitKind::Lock && queued as f64 >= most_ns;
    let reply = |share: &Share| is_reply(share, tid, known.groups);
    let within = wait.kind == WaitKind::Queue && known.homes.is_within_a_request(tid, &wait);
    let delays = |share: &Share| within && delays_a_request(share, tid, known.groups);
    let token = at_work && for_one;
    let held = |share: &Share| {
        is_held(share) && (share.helper == 0 || reply(share))
            || token && share.kind != LeafKind::Unseen
            || is_at_work(share, known.homes)
    };
    match kind {
        WaitKind::Queue => {
            let at_rest = |share: &Share| rests_in_a_pool(share, tid, known.groups, known.homes);
            shares.retain(|share| {
                let work = at_work && held(share) || delays(share);
                is_stall(share) && !at_rest(share) || reply(share) || work
            });
        }
        _ => shares.retain(|share| !queues(share)),
    }
    let stalled: u64 = shares.iter().map(Share::ns).sum();
    if behind || kind == WaitKind::Queue && (stalled as f64) < most_ns {
        let timed = wait.timed;
        return Judged::Idle { timed, behind };
    }
    let inferred = shares.iter().any(|share| share.inferred);
    let most = dominant(&shares);
    let fellow = |share: &Share| delays(share) && is_of_a_fellow(share, tid, known.groups);
    // In a request, what is not another request's is a reply and no token.
    let at_work = match within {
        true => token || most.is_some_and(fellow),
        false => at_work,
    };
    stalled_by(known, (tid, segment), most, (kind, at_work), inferred)
}

/// A wait that is a stall, by the share that filled most of it: `at_work`, it was for something that only one has.
fn stalled_by(
    known: Known,
    (tid, segment): (Tid, &Segment),
    most: Option<&Share>,
    (kind, at_work): (WaitKind, bool),
    inferred: bool,
) -> Judged {
    let State::Blocked { wait, .. } = segment.state else {
        unreachable!("only a blocked segment comes here");
    };
    let called = most.is_some_and(|share| share.helper != 0);
    let (leaf, hops) = match most {
        Some(share) => (
            leaf_of(known.lines, share, segment),
            others(&share.hops, tid, known.groups),
        ),
        // Of a file: another process has it, and what is known of that is in the words of the wait.
        None => {
            let activity = if wait.is_of_a_file() {
                wait.activity
            } else {
                0
            };
            let unseen = Leaf::of(0, LeafKind::Unseen);
            (Leaf { activity, ..unseen }, Vec::new())
        }
    };
    let waits_for_peers = of_leaf(&leaf).is_none_or(|cause| cause == Cause::Network);
    let kind = match at_work && waits_for_peers && !called {
        true => WaitKind::Lock,
        false => kind,
    };
    let cause = cause_of(known.quota, segment, kind, wait.allocator, &leaf, &hops);
    Judged::Part(Part {
        hops,
        waiter_stack: wait.stack,
        inferred,
        ..part(segment, cause, if at_work { 0 } else { wait.object }, leaf)
    })
}

fn part(segment: &Segment, cause: Cause, object: u64, leaf: Leaf) -> Part {
    Part {
        start_ns: segment.start_ns,
        end_ns: segment.end_ns,
        cause,
        waited_for: match segment.state {
            State::Blocked { wait, .. } => wait.kind,
            _ => WaitKind::Other,
        },
        object,
        leaf,
        hops: Vec::new(),
        waiter_stack: 0,
        inferred: false,
    }
}

/// The share of the thread and kind that filled most. The CPU's shortage is the answer only where
/// it filled nearly all.
fn dominant(shares: &[Share]) -> Option<&Share> {
    // A convoy of a thousand has as many shares: added up once.
    let mut sums: Table<(Tid, LeafKind), u64> = Table::default();
    for share in shares {
        *sums.entry((share.tid, share.kind)).or_default() += share.ns();
    }
    let sum = |of: &Share| sums.get(&(of.tid, of.kind)).copied();
    let known = |share: &&Share| share.kind != LeafKind::Unseen;
    let runnable = |share: &&Share| share.kind == LeafKind::Runnable;
    let all: u64 = shares.iter().map(Share::ns).sum();
    let seen: u64 = shares.iter().filter(known).map(Share::ns).sum();
    let short: u64 = shares.iter().filter(runnable).map(Share::ns).sum();
    let another = (seen - short) as f64 >= WITHOUT_SHORTAGE * all as f64;
    // Nor where most of the time nobody was seen at all.
    let shortage = !another && short * 2 >= all;
    let seen = |share: &&Share| known(share) && (shortage || !runnable(share));
    let most = shares.iter().filter(seen).max_by_key(|share| sum(share))?;
    // Many short waits of which nobody knows what for, beside some that were looked at: it was those.
    let unknown = |share: &Share| share.kind == LeafKind::Wait(WaitKind::Unknown);
    let told = |share: &&Share| {
        share.tid == most.tid && matches!(share.kind, LeafKind::Wait(_)) && !unknown(share)
    };
    let instead = shares.iter().filter(told).max_by_key(|share| sum(share));
    let best = instead.filter(|_| unknown(most)).unwrap_or(most);
    // Of its stretches, the longest has the wait with the best look at it.
    shares
        .iter()
        .filter(|s| (s.tid, s.kind) == (best.tid, best.kind))
        .max_by_key(|s| (s.stack != 0, s.ns()))
}

fn leaf_of(lines: &Timelines, share: &Share, wait: &Segment) -> Leaf {
    let mut leaf = Leaf {
        tid: share.tid,
        kind: share.kind,
        activity: share.activity,
        stack: share.stack,
        allocator: share.allocator,
        after: share.after,
        release: share.release,
        held: share.held,
    };
    if let LeafKind::OnCpu | LeafKind::Runnable = share.kind
        && let Some(thread) = lines.thread(share.tid)
    {
        let all = thread.samples(share.start_ns, share.end_ns);
        let samples: Vec<_> = all.filter(|s| s.stack != 0 || s.allocator).collect();
        let in_allocator = samples.iter().filter(|s| s.allocator).count();
        leaf.allocator = in_allocator * 2 > samples.len();
        if let Some(sample) = samples.get(samples.len() / 2) {
            leaf.stack = sample.stack;
            leaf.activity = sample.activity;
        }
        if leaf.stack == 0 && share.release == 0 {
            // Without privileges nothing is seen of a thread that is in the kernel, on a CPU.
            leaf.held = thread.sampled_stack(wait.start_ns, wait.end_ns);
        }
    }
    leaf
}

fn cause_of(
    quota: &Quota,
    segment: &Segment,
    waited_for: WaitKind,
    in_allocator: bool,
    leaf: &Leaf,
    hops: &[Hop],
) -> Cause {
    // Whoever has the allocator's lock and no CPU gives nothing back.
    if leaf.kind == LeafKind::Runnable && !leaf.allocator {
        return cpu_cause(quota, segment.start_ns, segment.end_ns);
    }
    if in_allocator || leaf.allocator || waited_for == WaitKind::Memory {
        return Cause::Allocator;
    }
    let throttled = quota.fills(segment.start_ns, segment.end_ns);
    // Nobody seen, or a holder that idles: it let go before, and the waiter was throttled.
    if throttled && (leaf.kind == LeafKind::Unseen || is_idle(leaf.kind)) {
        return Cause::CpuQuota;
    }
    let through_lock = hops.iter().any(|hop| hop.kind == WaitKind::Lock);
    if waited_for == WaitKind::Lock || through_lock {
        return Cause::Lock;
    }
    of_leaf(leaf).unwrap_or(Cause::Lock)
}

fn of_leaf(leaf: &Leaf) -> Option<Cause> {
    match leaf.kind {
        _ if leaf.allocator => Some(Cause::Allocator),
        LeafKind::Wait(WaitKind::Network) => Some(Cause::Network),
        LeafKind::Wait(WaitKind::Process) => Some(Cause::Process),
        LeafKind::Wait(WaitKind::Disk) => Some(Cause::Disk),
        LeafKind::Wait(WaitKind::Fault) => Some(Cause::PageFault),
        LeafKind::Wait(WaitKind::Memory) => Some(Cause::Allocator),
        _ => None,
    }
}

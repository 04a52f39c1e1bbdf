//! One stretch of a wait, what filled it, and whether that was work.

use super::event::{StackId, TextId, Tid, Wait, WaitKind};
use super::group::Groups;
use super::home::Homes;

/// What a thread was in that filled somebody's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeafKind {
    OnCpu,
    Runnable,
    Wait(WaitKind),
    /// It waits for a lock whose holder waits, over others or at once, for a lock of its own.
    Deadlock,
    /// Nothing is known of the thread at that time, or nobody is known to have woken it.
    Unseen,
}

/// One stretch of a wait and what filled it.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    pub start_ns: u64,
    pub end_ns: u64,
    pub tid: Tid,
    pub kind: LeafKind,
    pub activity: TextId,
    pub stack: StackId,
    /// Where a leaf that waits does so.
    pub place: u32,
    pub allocator: bool,
    /// Who had the CPU, for a runnable leaf.
    pub after: TextId,
    /// The leaf's stack when it let the waiter go: the function that held what was waited for.
    pub release: StackId,
    /// The same of the thread that ended the waiter's own wait, when the leaf lies further down.
    pub held: StackId,
    /// From the waiter's waker to the leaf: each thread that itself waited, and for what.
    pub hops: Vec<Hop>,
    pub inferred: bool,
    /// A wait that another process ended, or, where nobody saw it, most likely did.
    pub outside: bool,
    /// `tid` waited for this thread, which waited for the reply in its stead; 0: for itself.
    pub helper: Tid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub tid: Tid,
    pub kind: WaitKind,
    pub object: u64,
}

impl Share {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A thread that waits until another one has done something: it calls it, as it were.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub tid: Tid,
    pub wait: Wait,
    /// When it began to wait.
    pub since_ns: u64,
    /// Its stack when it let the one go that waited for it.
    pub release: StackId,
}

impl Caller {
    /// `None`: it does not wait for a thread.
    pub fn of(tid: Tid, wait: &Wait, since_ns: u64, release: StackId) -> Option<Caller> {
        let calls = wait.kind == WaitKind::Queue;
        calls.then_some(Caller {
            tid,
            wait: *wait,
            since_ns,
            release,
        })
    }
}

/// A share that keeps a waiter for work from its work against its feeder's will.
pub fn is_stall(share: &Share) -> bool {
    let kind = matches!(
        share.kind,
        LeafKind::Runnable | LeafKind::Wait(WaitKind::Disk | WaitKind::Fault | WaitKind::Memory)
    );
    // A guess at one that idles says nothing of the locks on the way to it.
    let guess = share.inferred && is_idle(share.kind);
    kind || !guess && share.hops.iter().any(|hop| hop.kind == WaitKind::Lock)
}

/// A thread that asks others in the stead of the waiter's pool is at it.
pub fn is_reply(share: &Share, tid: Tid, groups: &Groups) -> bool {
    let asked = match share.helper {
        0 => share.tid,
        helper => helper,
    };
    matches!(share.kind, LeafKind::Wait(kind) if kind.is_for_an_answer()) && groups.asks(tid, asked)
}

pub fn is_idle(kind: LeafKind) -> bool {
    use WaitKind::{Inbound, Other, Outbound, Queue, Unknown};
    matches!(
        kind,
        LeafKind::Wait(Queue | Inbound | Outbound | Other | Unknown)
    )
}

/// A share in which somebody did something, and was not idle himself: what a thread that was at its work waited for.
pub fn is_held(share: &Share) -> bool {
    // A pipe or a local socket is a queue; but with an answer from another process it is a reply.
    let answered = share.outside && share.kind == LeafKind::Wait(WaitKind::Queue);
    let busy = matches!(
        share.kind,
        LeafKind::OnCpu | LeafKind::Wait(WaitKind::Network | WaitKind::Process | WaitKind::Sleep)
    );
    busy || answered && share.activity != 0
}

/// In the middle of a request: a request of the same kind did something, and is waited for.
pub fn delays_a_request(share: &Share, tid: Tid, groups: &Groups) -> bool {
    is_held(share) && is_of_a_fellow(share, tid, groups)
}

/// Requests that wait for each other, at a pool of connections or whatever each gives back when it is done: one of the
/// waiter's own kind, or the thread that this one waits for.
pub fn is_of_a_fellow(share: &Share, tid: Tid, groups: &Groups) -> bool {
    let fellow = |other: Tid| other != tid && groups.of(other) == groups.of(tid);
    fellow(share.tid) || share.hops.iter().any(|hop| fellow(hop.tid))
}

/// A share in which somebody waited, for a client even, in the middle of his own work.
pub fn is_at_work(share: &Share, homes: &Homes) -> bool {
    let LeafKind::Wait(kind) = share.kind else {
        return false;
    };
    let wait = Wait {
        place: share.place,
        ..Wait::of(kind, 0)
    };
    is_idle(share.kind) && kind != WaitKind::Unknown && homes.is_rare(share.tid, &wait)
}

/// One of the waiter's own kind that waits for work: of a pool that hands the waiting from one to the other (an async
/// runtime's workers take turns at the clients), through whatever lock, all are idle.
pub fn rests_in_a_pool(share: &Share, tid: Tid, groups: &Groups, homes: &Homes) -> bool {
    let kin = share.tid != tid && groups.of(share.tid) == groups.of(tid);
    kin && is_idle(share.kind) && !is_at_work(share, homes)
}

/// The hops past those of the waiter's own kind, who stood in the line before it: each has its own word to wait on in
/// some locks, and is no link of a chain.
pub fn others(hops: &[Hop], tid: Tid, groups: &Groups) -> Vec<Hop> {
    let kin = |hop: &Hop| groups.of(hop.tid) == groups.of(tid);
    let own_word = |hop: &Hop| hop.object == 0 || hop.kind == WaitKind::Queue;
    let others = hops.iter().filter(|hop| !(kin(hop) && own_word(hop)));
    others.copied().collect()
}

/// The lock's holder is one of the waiter's own kind and waits for work: a pool that takes
/// turns at one queue, one of them in front. Those behind are as idle as the first.
pub fn queues_for_work(share: &Share, tid: Tid, groups: &Groups) -> bool {
    let kin = |other: Tid| other != tid && groups.of(other) == groups.of(tid);
    let in_front = |hop: &Hop| kin(hop.tid) && hop.kind == WaitKind::Queue;
    // Of a guess at one of its kind nothing was seen but that it waits as well.
    let guessed = share.inferred
        && matches!(
            share.kind,
            LeafKind::Unseen | LeafKind::Wait(WaitKind::Lock)
        );
    // Of a thread that gives the pool its work from elsewhere, what comes is the work.
    let asks = share.helper == 0 || is_reply(share, tid, groups);
    let outside = matches!(share.kind, LeafKind::Wait(kind) if kind.is_for_an_answer());
    let held_up = outside && asks || is_stall(share);
    let idles = is_idle(share.kind);
    // A guess at the one that gives it its work, asleep or idle: there is none.
    let rests = idles || share.kind == LeafKind::Wait(WaitKind::Sleep);
    let no_work = share.inferred && rests && groups.is_fed_by(tid, share.tid);
    !held_up && (no_work || share.hops.iter().any(in_front) || kin(share.tid) && (idles || guessed))
}

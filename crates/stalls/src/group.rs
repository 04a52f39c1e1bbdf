//! Threads that do the same work, and what a busy period of theirs costs when nothing is wrong.

use std::collections::HashSet;

use super::event::{StackId, Tid};
use observe::table::Table;

#[cfg(test)]
mod tests;

/// Threads with the same entry function, by a number that the observer gives.
pub type GroupId = u64;

/// What a thread is held against, of all that are watched.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Members of each group: those that others wake, and those that a clock wakes. Where a runtime starts all threads
    /// by one function of its own, this tells background threads from the pool.
    members: Table<GroupId, [usize; 2]>,
    /// Busy periods of the busiest thread.
    most_begun: u64,
    /// Threads that ended idle waits of others.
    feeders: HashSet<Tid>,
}

/// How a busy period began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    ByClock,
    /// Something from outside came.
    ByClients,
    ByOthers,
}

/// A lone thread that others of the program give something to this many times as seldom as the busiest one begins is
/// a background thread.
const SELDOM: u64 = 20;

/// Members of a group that a clock wakes are background threads when there are this many times as many others.
const POOL_TIMES: usize = 3;

/// Busy periods remembered per group.
const KEPT: usize = 512;
/// Below this many periods a median says nothing.
pub const PERIODS_MIN: usize = 5;
/// A stall is at least this many times the group's ordinary time on a CPU.
const TIMES_ORDINARY: u64 = 3;
/// The least stall that is looked at unless the user names another.
pub const LEAST_NS: u64 = 1_000_000;
/// From here on a stall is one however long the group ordinarily works: periods that run into each other, or jobs of
/// seconds, would hide all.
const MOST_NS: u64 = 100_000_000;
/// Time on a CPU counts as a stall only this far outside the group's habit.
pub const ON_CPU_TIMES: u64 = 10;
pub const ON_CPU_LEAST_NS: u64 = 20_000_000;

#[derive(Debug, Default, Clone)]
struct Habit {
    on_cpu_ns: Vec<u64>,
    next: usize,
    median_ns: u64,
}

#[derive(Debug, Default)]
pub struct Groups {
    of: Table<Tid, GroupId>,
    habits: Table<GroupId, Habit>,
    rhythm: Table<Tid, Rhythm>,
    pools: Table<GroupId, Pool>,
    library: HashSet<Tid>,
    /// Threads that were started and ended while they were watched.
    jobs: HashSet<Tid>,
    /// How many requests each thread answered, where requests are seen.
    answered: Table<Tid, u64>,
    /// The threads carry goroutines that nobody sees.
    pub carriers: bool,
    /// What the user asked for instead of the adapted threshold.
    pub fixed_ns: Option<u64>,
}

/// A thread serves clients when they begin this part of its busy periods: between two of them it may wait for answers
/// from its own program, several times.
const CLIENTS_PART: u64 = 4;

/// Of the threads that hand something to one.
const FEEDERS_KEPT: usize = 4;

/// Stacks with which a thread rested.
const RESTS_KEPT: usize = 4;

/// How a thread's busy periods begin, and where it rests until then.
#[derive(Debug, Default, Clone, Copy)]
struct Rhythm {
    by_timer: u64,
    by_others: u64,
    /// Those of `by_others` that came from outside.
    by_clients: u64,
    /// Some threads that ended its idle waits; 0: none yet. And how often each did.
    fed_by: [Tid; FEEDERS_KEPT],
    fed: [u64; FEEDERS_KEPT],
    rests: [StackId; RESTS_KEPT],
}

/// How the busy periods of a whole group begin, but for those that one of its own begins: a pool whose one thread waits
/// for clients, and wakes the others.
#[derive(Debug, Default, Clone, Copy)]
struct Pool {
    begun: u64,
    by_clients: u64,
}

impl Rhythm {
    fn begun(self) -> u64 {
        self.by_timer + self.by_others
    }

    fn serves_clients(self) -> bool {
        self.by_clients * CLIENTS_PART >= self.begun().max(1)
    }
}

impl Groups {
    pub fn set(&mut self, tid: Tid, group: GroupId) {
        self.library.remove(&tid);
        self.of.insert(tid, group);
    }

    /// It runs nothing of the program's own: a library's or the runtime's, and nobody's request.
    pub fn is_a_librarys(&mut self, tid: Tid) {
        self.library.insert(tid);
    }

    /// It was started for one thing, and is over: its life is a busy period.
    pub fn was_a_job(&mut self, tid: Tid) {
        self.jobs.insert(tid);
    }

    pub fn of(&self, tid: Tid) -> GroupId {
        self.of.get(&tid).copied().unwrap_or(own(tid))
    }

    /// It sent a client the answer to a request.
    pub fn answers(&mut self, tid: Tid) {
        *self.answered.entry(tid).or_default() += 1;
    }

    /// It answers clients, and did so more than by chance: whatever else it waits for, they wait for it.
    pub fn answers_clients(&self, tid: Tid) -> bool {
        self.answered
            .get(&tid)
            .is_some_and(|times| *times >= PERIODS_MIN as u64)
    }

    /// A thread that is gone.
    pub fn forget(&mut self, tid: Tid) {
        self.of.remove(&tid);
        self.rhythm.remove(&tid);
        self.library.remove(&tid);
        self.jobs.remove(&tid);
        self.answered.remove(&tid);
        self.habits.remove(&own(tid));
        self.pools.remove(&own(tid));
    }

    pub fn learn(&mut self, tid: Tid, on_cpu_ns: u64) {
        let habit = self.habits.entry(self.of(tid)).or_default();
        match habit.on_cpu_ns.get_mut(habit.next) {
            Some(slot) => *slot = on_cpu_ns,
            None => habit.on_cpu_ns.push(on_cpu_ns),
        }
        habit.next = (habit.next + 1) % KEPT;
        // A median of 512 numbers at every period would cost more than the rest.
        let few = habit.on_cpu_ns.len() < 16;
        if few || habit.next.is_multiple_of(1 + habit.on_cpu_ns.len() / 8) {
            habit.median_ns = median(&habit.on_cpu_ns);
        }
    }

    /// A busy period of `tid` began, made by `by` where that is known.
    pub fn began(&mut self, tid: Tid, begun: Begun, by: Option<Tid>) {
        let rhythm = self.rhythm.entry(tid).or_default();
        if let Some(by) = by.filter(|by| !rhythm.fed_by.contains(by))
            && let Some(free) = rhythm.fed_by.iter_mut().find(|tid| **tid == 0)
        {
            *free = by;
        }
        if let Some(at) = rhythm.fed_by.iter().position(|known| by == Some(*known)) {
            rhythm.fed[at] += 1;
        }
        match begun {
            Begun::ByClock => rhythm.by_timer += 1,
            _ => rhythm.by_others += 1,
        }
        let by_clients = u64::from(begun == Begun::ByClients);
        rhythm.by_clients += by_clients;
        let group = self.of(tid);
        if by.is_none_or(|by| self.of(by) != group) {
            let pool = self.pools.entry(group).or_default();
            pool.begun += 1;
            pool.by_clients += by_clients;
        }
    }

    /// An idle wait of `tid` was looked at.
    pub fn rested(&mut self, tid: Tid, stack: StackId) {
        let rests = &mut self.rhythm.entry(tid).or_default().rests;
        let place = rests
            .iter()
            .position(|known| *known == stack || *known == 0);
        if let Some(place) = place {
            rests[place] = stack;
        }
    }

    /// The stacks of some of its idle waits.
    pub fn rests_of(&self, tid: Tid) -> impl Iterator<Item = StackId> {
        let rests = self.rhythm_of(tid).rests.into_iter();
        rests.filter(|stack| *stack != 0)
    }

    /// The least stall worth a row, for this thread.
    pub fn threshold_ns(&self, tid: Tid) -> u64 {
        let ordinary = self.habits.get(&self.of(tid)).map_or(0, |h| h.median_ns);
        self.fixed_ns
            .unwrap_or((ordinary * TIMES_ORDINARY).clamp(LEAST_NS, MOST_NS))
    }

    /// The least time on a CPU in one busy period that is a stall, once the habit is known.
    pub fn on_cpu_threshold_ns(&self, tid: Tid) -> Option<u64> {
        if let Some(fixed_ns) = self.fixed_ns {
            return Some(fixed_ns);
        }
        let habit = self.habits.get(&self.of(tid))?;
        let known = habit.on_cpu_ns.len() >= 4 * PERIODS_MIN;
        known.then(|| (habit.median_ns * ON_CPU_TIMES).max(ON_CPU_LEAST_NS))
    }

    /// It was seen to rest between two things that it did, or was started for one. Of any other the time on a CPU from
    /// one wait to the next says nothing: that is how long it met nobody.
    pub fn rests(&self, tid: Tid) -> bool {
        self.jobs.contains(&tid) || self.rhythm_of(tid).begun() > 0
    }

    /// Alone in its group, and begun by a clock or seldom: a background thread, whose own waits nobody feels; so are
    /// several of one entry that a clock begins seldom. Of a server that starts a thread for each request, or for each
    /// piece of it, all are alike, known or not.
    pub fn is_background(&self, tid: Tid, sizes: &Sizes) -> bool {
        if self.library.contains(&tid) {
            return true;
        }
        if self.jobs.contains(&tid) {
            return self.jobs.len() as u64 * SELDOM <= sizes.most_begun;
        }
        let rhythm = self.rhythm_of(tid);
        let answered = self.answered(tid);
        let by_clock = match rhythm.by_timer {
            0 => rhythm.by_others == 0,
            times => times + answered >= rhythm.by_others,
        };
        // Of one whom nobody else begins, it is its helpers that give it work.
        let others = rhythm.begun().saturating_sub(answered);
        let begun = if others == 0 { rhythm.begun() } else { others };
        let seldom = !rhythm.serves_clients() && begun * SELDOM <= sizes.most_begun;
        let alone = self.is_alone(tid, sizes);
        alone && (by_clock || seldom || self.is_fed_by_a_pool(tid, sizes))
            || self.is_timed(tid) && (seldom || self.is_beside_a_pool(tid, sizes))
    }

    /// Of what it begins, a good part is for clients.
    pub fn serves_clients(&self, tid: Tid) -> bool {
        self.rhythm_of(tid).serves_clients()
    }

    /// Several threads of another group hand it something: whoever of them needs what it does waits for it. Those that
    /// serve clients may leave the answer to it, and then it hears of clients or hands something on.
    fn is_fed_by_a_pool(&self, tid: Tid, sizes: &Sizes) -> bool {
        let rhythm = self.rhythm_of(tid);
        let inside = |by: &Tid| {
            let of = self.rhythm_of(*by);
            let serves = of.by_clients * 2 >= of.begun();
            self.of(*by) != self.of(tid) && *by != 0 && !(serves && sizes.feeders.contains(&tid))
        };
        let feeders: Vec<Tid> = rhythm.fed_by.into_iter().filter(inside).collect();
        let alike = |by: &Tid| {
            feeders
                .iter()
                .filter(|t| self.of(**t) == self.of(*by))
                .count()
        };
        rhythm.by_clients == 0 && feeders.iter().any(|by| alike(by) >= 2)
    }

    /// `by` gives it most of what it does.
    pub fn is_fed_by(&self, tid: Tid, by: Tid) -> bool {
        let rhythm = self.rhythm_of(tid);
        let at = rhythm.fed_by.into_iter().position(|known| known == by);
        at.is_some_and(|at| rhythm.fed[at] * 2 > rhythm.by_others)
    }

    /// How often it was begun by helpers that have most of their work from itself: an answer begins nothing new.
    fn answered(&self, tid: Tid) -> u64 {
        let rhythm = self.rhythm_of(tid);
        let feeders = rhythm.fed_by.into_iter().zip(rhythm.fed);
        let helpers = feeders.filter(|(by, _)| *by != 0 && self.is_fed_by(*by, tid));
        helpers.map(|(_, times)| times).sum()
    }

    /// `tid` waits for the answer when it waits for `other`: its pool hands that one things, and has its own work from
    /// elsewhere, from clients or from a thread that it hands nothing to.
    pub fn asks(&self, tid: Tid, other: Tid) -> bool {
        let pool = self.of(tid);
        let hands_to = |to: Tid| {
            let mut by = self.rhythm_of(to).fed_by.into_iter();
            by.any(|by| by != 0 && self.of(by) == pool)
        };
        let own = self.rhythm_of(tid);
        let all = self.pools.get(&pool).copied().unwrap_or_default();
        let serves = own.serves_clients()
            || self.answers_clients(tid)
            || all.by_clients * CLIENTS_PART >= all.begun.max(1);
        let elsewhere = |by: Tid| by != 0 && by != other && self.of(by) != pool && !hands_to(by);
        self.of(other) != pool
            && hands_to(other)
            && (serves || own.fed_by.into_iter().any(elsewhere))
    }

    fn is_beside_a_pool(&self, tid: Tid, sizes: &Sizes) -> bool {
        let members = sizes.members.get(&self.of(tid)).copied();
        self.is_timed(tid) && members.is_some_and(|[woken, timed]| timed * POOL_TIMES <= woken)
    }

    /// None of its group is woken as it is.
    pub fn is_alone(&self, tid: Tid, sizes: &Sizes) -> bool {
        let members = sizes.members.get(&self.of(tid)).copied();
        members.unwrap_or_default()[usize::from(self.is_timed(tid))] <= 1
    }

    /// How many of these threads each group has, of either kind.
    pub fn sizes(&self, watched: &[Tid]) -> Sizes {
        let fed_by = self.rhythm.values().flat_map(|rhythm| rhythm.fed_by);
        let mut sizes = Sizes {
            feeders: fed_by.filter(|by| *by != 0).collect(),
            ..Sizes::default()
        };
        for tid in watched {
            let members = sizes.members.entry(self.of(*tid)).or_default();
            members[usize::from(self.is_timed(*tid))] += 1;
            sizes.most_begun = sizes.most_begun.max(self.rhythm_of(*tid).begun());
        }
        sizes
    }

    /// Mostly a clock wakes it.
    fn is_timed(&self, tid: Tid) -> bool {
        let rhythm = self.rhythm_of(tid);
        rhythm.by_timer > rhythm.by_others
    }

    fn rhythm_of(&self, tid: Tid) -> Rhythm {
        self.rhythm.get(&tid).copied().unwrap_or_default()
    }
}

/// The group of a thread without one, past the observer's numbers.
fn own(tid: Tid) -> GroupId {
    GroupId::MAX - tid
}

fn median(values: &[u64]) -> u64 {
    let mut some = values.to_vec();
    match some.len() {
        0 => 0,
        count => *some.select_nth_unstable(count / 2).1,
    }
}

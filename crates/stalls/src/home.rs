//! Where each thread ordinarily waits: the places of its loop, told from those in the middle of its work.
//!
//! A lock that parks every waiter on a word of its own, a semaphore, a pool of connections: to the kernel a
//! wait for them is a wait for the next item of a queue. They differ by how often a thread comes by: at its queue
//! each time round, at a lock that was taken now and then.

use super::event::{Tid, Wait, WaitKind};
use observe::table::Table;

/// Places remembered of one thread; the rarest gives way.
const PLACES_MAX: usize = 8;
/// Waits that a thread's commonest place must have had before another counts as rare.
const KNOWN_FROM: u32 = 16;
/// A place is rare with less than this part of the commonest place's waits: a request may wait at one place of its
/// work several times for each time that it is waited for.
const RARE: u32 = 8;
/// A shorter wait is part of what a thread does: for an interpreter's lock, for the one that takes what it hands on.
const REST_NS: u64 = 1_000_000;
/// Rests from which on it is known where a thread has its work from; and the waits for a child that go with one, to
/// start it, to read what it says, and for its end.
const RESTS_MIN: u32 = 4;
const ASKED_PER_REST: u32 = 4;
/// Waits for one client's next request from which on a thread is known to work for clients.
const SERVED_MIN: u32 = 2;

#[derive(Debug, Default)]
pub struct Homes {
    of: Table<Tid, Vec<Home>>,
    /// Where each thread waited last.
    last: Table<Tid, u32>,
    /// How often each thread waited for a child, and came to rest for a while, by no clock of its own.
    asked: Table<Tid, (u32, u32)>,
    /// The connection of a client that each thread waited for last, and how often in a row for that one.
    served: Table<Tid, (u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Home {
    place: u32,
    times: u32,
    /// As many as `times`, but that of waits one after another here only the first counts.
    rounds: u32,
    /// It sleeps there.
    sleeps: bool,
}

impl Homes {
    /// Only waits that may be idle count: a disk that answers each write in many steps is no loop's head.
    pub fn waited(&mut self, tid: Tid, wait: &Wait) {
        if wait.one_client {
            let (connection, served) = self.served.entry(tid).or_default();
            if *connection != wait.object {
                // A pool whose threads take the clients in turns.
                (*connection, *served) = (wait.object, 0);
            }
            *served = served.saturating_add(1);
        }
        if wait.place == 0 || !may_idle(wait.kind) {
            return;
        }
        let sleeps = wait.kind == WaitKind::Sleep;
        let again = self.last.insert(tid, wait.place) == Some(wait.place);
        let places = self.of.entry(tid).or_default();
        if let Some(home) = places.iter_mut().find(|home| home.place == wait.place) {
            home.times = home.times.saturating_add(1);
            home.rounds = home.rounds.saturating_add(u32::from(!again));
            return;
        }
        if places.len() == PLACES_MAX {
            let rarest = (0..places.len()).min_by_key(|at| places[*at].times);
            places.swap_remove(rarest.unwrap_or(0));
        }
        places.push(Home {
            place: wait.place,
            times: 1,
            rounds: 1,
            sleeps,
        });
    }

    /// Such a wait lasted for so long.
    pub fn lasted(&mut self, tid: Tid, wait: &Wait, ns: u64) {
        let is_rest = may_idle(wait.kind) && !wait.timed;
        if (is_rest || wait.kind == WaitKind::Process) && ns >= REST_NS {
            let (asked, rested) = self.asked.entry(tid).or_default();
            *asked = asked.saturating_add(u32::from(!is_rest));
            *rested = rested.saturating_add(u32::from(is_rest));
        }
    }

    /// The thread seldom waits here: it was at work, and not at the head of its loop.
    pub fn is_rare(&self, tid: Tid, wait: &Wait) -> bool {
        self.is_seldom(tid, wait, |home| home.times)
    }

    /// So many waits are few beside those at the thread's commonest place.
    pub fn are_rare(&self, tid: Tid, times: u32) -> bool {
        let most = self.commonest(tid).map_or(0, |home| home.times);
        most >= KNOWN_FROM && times.saturating_mul(RARE) < most
    }

    /// The thread works for one client at a time, and not much less often than it waits here: its work comes by that
    /// client's connection, and this wait is in the middle of a request.
    pub fn is_within_a_request(&self, tid: Tid, wait: &Wait) -> bool {
        let (served, rounds) = self.served_and_rounds(tid, wait);
        wait.place != 0 && served >= SERVED_MIN && served.saturating_mul(RARE) >= rounds
    }

    /// The thread has one client, and comes to wait here no more often than for that client's next request: a thread
    /// of a pool does for its next piece of work.
    pub fn is_once_a_request(&self, tid: Tid, wait: &Wait) -> bool {
        let (served, rounds) = self.served_and_rounds(tid, wait);
        served >= SERVED_MIN && served >= rounds
    }

    /// How often the thread waited for the next request on one client's connection, and came to wait here.
    fn served_and_rounds(&self, tid: Tid, wait: &Wait) -> (u32, u32) {
        let served = self.served.get(&tid).map_or(0, |(_, served)| *served);
        let places = self.of.get(&tid).map_or(&[][..], Vec::as_slice);
        let here = places.iter().find(|home| home.place == wait.place);
        (served, here.map_or(0, |home| home.rounds))
    }

    /// The thread sleeps here during its work: rarely, however often in a row to look for something, and it is
    /// no clock that begins its work; or in some of the requests of one client.
    pub fn sleeps_at_work(&self, tid: Tid, wait: &Wait) -> bool {
        let by_clock = self.commonest(tid).is_none_or(|home| home.sleeps);
        let rarely = !by_clock && self.is_seldom(tid, wait, |home| home.rounds);
        // One that sleeps each time round, and reads from a client in between, goes by the clock.
        let (served, rounds) = self.served_and_rounds(tid, wait);
        rarely || served >= SERVED_MIN && served >= 2 * rounds.max(1)
    }

    /// The thread waits for a child during its work: it works for one client, or comes to rest elsewhere, and not much
    /// less often. One that only reads what a child writes, or sees to it, is idle meanwhile.
    pub fn asks_at_work(&self, tid: Tid) -> bool {
        let served = self.served.get(&tid).map_or(0, |(_, served)| *served);
        let (asked, rested) = self.asked.get(&tid).copied().unwrap_or_default();
        let is_often = rested >= RESTS_MIN && rested.saturating_mul(ASKED_PER_REST) >= asked;
        served >= SERVED_MIN || is_often
    }

    fn is_seldom(&self, tid: Tid, wait: &Wait, times: fn(&Home) -> u32) -> bool {
        let Some(places) = self.of.get(&tid).filter(|_| wait.place != 0) else {
            return false;
        };
        let here = places.iter().find(|home| home.place == wait.place);
        self.are_rare(tid, here.map_or(0, times))
    }

    fn commonest(&self, tid: Tid) -> Option<&Home> {
        self.of.get(&tid)?.iter().max_by_key(|home| home.times)
    }

    pub fn forget(&mut self, keep: impl Fn(Tid) -> bool) {
        self.of.retain(|tid, _| keep(*tid));
        self.last.retain(|tid, _| keep(*tid));
        self.asked.retain(|tid, _| keep(*tid));
        self.served.retain(|tid, _| keep(*tid));
    }
}

fn may_idle(kind: WaitKind) -> bool {
    use WaitKind::{Inbound, Other, Outbound, Queue, Sleep, Unknown};
    matches!(kind, Queue | Sleep | Inbound | Outbound | Other | Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u32) -> Wait {
        Wait {
            place,
            ..Wait::of(WaitKind::Queue, 0)
        }
    }

    #[test]
    fn a_place_is_rare_beside_one_that_is_common() {
        let mut homes = Homes::default();
        homes.waited(1, &at(7));
        assert!(!homes.is_rare(1, &at(7)), "nothing is known yet");
        for _ in 0..40 {
            homes.waited(1, &at(9));
        }
        assert!(homes.is_rare(1, &at(7)));
        assert!(!homes.is_rare(1, &at(9)));
        assert!(homes.are_rare(1, 4) && !homes.are_rare(1, 5) && !homes.are_rare(2, 0));
        assert!(!homes.is_rare(1, &at(0)), "a place that is not known");
        assert!(!homes.is_rare(2, &at(7)), "another thread");
    }

    #[test]
    fn a_thread_that_writes_much_still_waits_for_work_at_its_queue() {
        let mut homes = Homes::default();
        let disk = Wait {
            place: 3,
            ..Wait::of(WaitKind::Disk, 0)
        };
        for _ in 0..20 {
            (0..10).for_each(|_| homes.waited(1, &disk));
            homes.waited(1, &at(7));
        }
        assert!(!homes.is_rare(1, &at(7)));
    }

    #[test]
    fn who_rests_elsewhere_waits_for_a_child_at_work() {
        let mut homes = Homes::default();
        let child = Wait::of(WaitKind::Process, 0);
        let timed = Wait {
            timed: true,
            ..at(7)
        };
        (0..20).for_each(|_| homes.lasted(1, &child, REST_NS));
        assert!(!homes.asks_at_work(1), "it does nothing else");
        (0..40).for_each(|_| homes.lasted(1, &at(7), REST_NS - 1));
        (0..40).for_each(|_| homes.lasted(1, &timed, 5 * REST_NS));
        assert!(!homes.asks_at_work(1), "it takes an interpreter's lock");
        (0..4).for_each(|_| homes.lasted(1, &at(7), REST_NS));
        assert!(!homes.asks_at_work(1), "it rarely hands on what it reads");
        homes.lasted(1, &at(7), REST_NS);
        assert!(homes.asks_at_work(1));
        homes.lasted(3, &child, REST_NS);
        (0..3).for_each(|_| homes.lasted(3, &at(7), REST_NS));
        assert!(
            !homes.asks_at_work(3) && !homes.asks_at_work(2),
            "too little is known"
        );
    }

    #[test]
    fn who_sleeps_now_and_then_between_requests_is_at_work() {
        let mut homes = Homes::default();
        let sleep = Wait {
            place: 3,
            ..Wait::of(WaitKind::Sleep, 0)
        };
        for _ in 0..3 {
            (0..20).for_each(|_| homes.waited(1, &at(7)));
            // Some looks for a lock in one request, by the clock.
            (0..9).for_each(|_| homes.waited(1, &sleep));
        }
        assert!(homes.sleeps_at_work(1, &sleep));
        (0..40).for_each(|_| {
            homes.waited(3, &sleep);
            homes.waited(3, &at(7));
        });
        assert!(!homes.sleeps_at_work(3, &sleep), "each time round");
    }

    #[test]
    fn a_clocks_thread_that_sleeps_elsewhere_too_is_not_at_work() {
        let mut homes = Homes::default();
        let sleep = |place| Wait {
            place,
            ..Wait::of(WaitKind::Sleep, 0)
        };
        for _ in 0..40 {
            homes.waited(1, &sleep(3));
            homes.waited(1, &sleep(4));
        }
        assert!(homes.is_rare(1, &sleep(5)));
        assert!(!homes.sleeps_at_work(1, &sleep(5)));
    }

    #[test]
    fn the_rarest_place_gives_way() {
        let mut homes = Homes::default();
        for place in 1..=20 {
            (0..place).for_each(|_| homes.waited(1, &at(place)));
        }
        assert_eq!(homes.of[&1].len(), PLACES_MAX);
        assert!(!homes.is_rare(1, &at(20)));
    }
}

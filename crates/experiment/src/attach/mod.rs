//! Processes that run already: found by pid, by what they execute, by their unit, variables or cgroup, or in a file
//! of groups; watched, and never signalled.
//!
//! Membership may change while the run goes on. A search every few seconds ([`search`]) says which process is in
//! which arm now; what changed since the last one is told as happenings, so that the record has, for every snapshot,
//! the arm of every process: one row for each stretch of one process in one arm.

pub mod glob;
pub(super) mod process;
mod search;
mod slot;
mod table;
mod unit;

use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::Subject;
use super::happening::{Happening, What};
use super::placeholder::{Values, expand};
use crate::file::Experiment;
use search::{Found, Search, Sighting};
use slot::{Slot, State};

/// An expression that matches more processes was surely meant to be narrower.
pub const MATCHES_MAX: usize = 1000;
/// From one search to the next; a short run searches more often, so that it sees what it is about.
const SEARCH_EVERY: Duration = Duration::from_secs(5);
const SEARCH_EVERY_MIN: Duration = Duration::from_secs(1);
/// Searches of a run, at least.
const SEARCHES_MIN: u32 = 20;
/// After a process vanished its successor is looked for sooner: a unit in a crash loop lives for a moment.
const SEARCH_SOON: Duration = Duration::from_millis(500);
/// Restarts that only systemd saw, told one by one at most.
const UNSEEN_MAX: u64 = 100;

/// The attached subject. Replicas of an arm are numbered by age, the oldest first; who joins later gets the next
/// number.
#[derive(Debug)]
pub struct Attached {
    plan: Experiment,
    run: String,
    slots: Vec<Slot>,
    hunt: Hunt,
    every: Duration,
    next_search: Duration,
    /// Arms that were stopped; all of them at the end.
    dismissed: BTreeSet<String>,
    /// Processes that are not what these arms say: they are not taken again.
    refused: BTreeSet<(String, (i32, u64))>,
    /// Notes that were told already.
    told: BTreeSet<String>,
    /// Told by the next poll: which replica, whether it counts for nothing, why.
    leaving: Vec<(usize, bool, String)>,
    /// What was to be known at the start.
    notes: Vec<String>,
}

/// A search takes milliseconds, or as long as systemctl does: it has a thread of its own.
#[derive(Debug)]
enum Hunt {
    Idle(Search),
    Under(JoinHandle<(Search, Result<Sighting, String>)>),
    /// The searching thread panicked, which is a bug of ours: membership stays as it was.
    Lost,
}

/// A replica that a record knows, for a run that is taken up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub arm: String,
    pub replica: u32,
    pub incarnation: u32,
    pub pid: i32,
    pub start_ticks: u64,
    pub command: Vec<String>,
    pub name: Option<String>,
    pub unit: Option<String>,
    pub ended: bool,
}

impl Attached {
    /// Finds all processes of the plan.
    ///
    /// # Errors
    /// In words: a pid that does not run, an expression that matches nothing or too much, a process in two arms, a
    /// unit that systemd does not know, a file of groups that cannot be read.
    pub fn new(plan: &Experiment, run: &str) -> Result<Self, String> {
        let mut search = Search::new(plan)?;
        let sighting = search.scan(now_s())?;
        if let Some(problem) = sighting.problems.first() {
            return Err(problem.clone());
        }
        let mut attached = Self::idle(plan, run, search);
        attached.notes = sighting.notes.clone();
        attached.told = sighting.notes.iter().cloned().collect();
        attached.join(sighting, Duration::ZERO, &mut Vec::new());
        for slot in &mut attached.slots {
            slot.why.clear();
        }
        Ok(attached)
    }

    /// Goes on with what a record knows; who came or went meanwhile is told by the first search.
    ///
    /// # Errors
    /// In words, as [`Attached::new`], for signs that cannot be read at all.
    pub fn resume(plan: &Experiment, run: &str, known: Vec<Known>) -> Result<Self, String> {
        let mut attached = Self::idle(plan, run, Search::new(plan)?);
        attached.next_search = Duration::ZERO;
        for one in known {
            let by_pid = plan
                .subject
                .attach
                .iter()
                .any(|g| g.pids.contains(&one.pid));
            let slot = Slot {
                arm: one.arm.clone(),
                replica: one.replica,
                incarnation: one.incarnation,
                state: if one.ended { State::Gone } else { State::Known },
                dismissed: false,
                why: "found again after highwater was replaced".into(),
                unit_restarts: None,
                found: Found {
                    pid: one.pid,
                    start_ticks: one.start_ticks,
                    command: one.command,
                    arm: one.arm,
                    name: one.name,
                    unit: one.unit,
                    by_pid,
                },
            };
            // Rows are in order: the last incarnation of a replica stands for it.
            attached
                .slots
                .retain(|old| (&old.arm, old.replica) != (&slot.arm, slot.replica));
            attached.slots.push(slot);
        }
        Ok(attached)
    }

    fn idle(plan: &Experiment, run: &str, search: Search) -> Self {
        let every = (plan.duration / SEARCHES_MIN).clamp(SEARCH_EVERY_MIN, SEARCH_EVERY);
        Self {
            plan: plan.clone(),
            run: run.into(),
            slots: Vec::new(),
            hunt: Hunt::Idle(search),
            every,
            next_search: every,
            dismissed: BTreeSet::new(),
            refused: BTreeSet::new(),
            told: BTreeSet::new(),
            leaving: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// What was to be known of the processes when they were found: units that do not run, arms without a process.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Begins a search when it is time, and takes what the one before brought.
    fn search(&mut self, now: Duration, out: &mut Vec<Happening>) {
        match std::mem::replace(&mut self.hunt, Hunt::Lost) {
            Hunt::Under(thread) if thread.is_finished() => {
                let Ok((search, sighting)) = thread.join() else {
                    return;
                };
                self.hunt = Hunt::Idle(search);
                self.next_search = now + self.every;
                match sighting {
                    Ok(sighting) => self.compare(sighting, now, out),
                    Err(why) => self.tell(now, format!("{why}; the groups stay as they were"), out),
                }
            }
            Hunt::Idle(mut search) if now >= self.next_search && search.is_open() => {
                self.hunt = Hunt::Under(std::thread::spawn(move || {
                    let sighting = search.scan(now_s());
                    (search, sighting)
                }));
            }
            other => self.hunt = other,
        }
    }

    /// What changed since the last search.
    fn compare(&mut self, sighting: Sighting, now: Duration, out: &mut Vec<Happening>) {
        for note in &sighting.notes {
            self.tell(now, note.clone(), out);
        }
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| slot.is_watched() && !slot.found.by_pid)
        {
            let found = sighting
                .found
                .iter()
                .find(|one| one.key() == slot.found.key());
            match found {
                Some(found) if found.arm == slot.arm => {}
                Some(found) => {
                    let words = format!("(pid {}) moves to arm {}", found.pid, found.arm);
                    out.push(slot.leave(now, Some(found.arm.clone()), false, &words));
                }
                None if !super::service::is_alive(slot.found.pid, slot.found.start_ticks) => {}
                None => {
                    let words = format!("(pid {}) is in no arm any more", slot.found.pid);
                    out.push(slot.leave(now, None, false, &words));
                }
            }
        }
        self.count_restarts(&sighting, now, out);
        self.join(sighting, now, out);
    }

    /// Restarts that systemd made between two searches.
    fn count_restarts(&mut self, sighting: &Sighting, now: Duration, out: &mut Vec<Happening>) {
        let units = search::by_name(&sighting.units);
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| !slot.dismissed && slot.state != State::Away)
        {
            let unit = slot.found.unit.as_deref().and_then(|name| units.get(name));
            let Some(count) = unit.and_then(|unit| unit.restarts) else {
                continue;
            };
            let (base, seen) = slot.unit_restarts.unwrap_or((count, 0));
            // Started by hand, a unit counts anew.
            let (base, seen) = if count < base {
                (count, 0)
            } else {
                (base, seen)
            };
            // One that is still to come is told when it is taken.
            let own =
                u64::from(slot.state == State::Gone && unit.is_some_and(|u| u.main_pid.is_some()));
            let unseen = (count - base).saturating_sub(seen + own).min(UNSEEN_MAX);
            for _ in 0..unseen {
                let words = format!(
                    "{}: systemd restarted it between two searches",
                    slot.words()
                );
                out.push(slot.say(now, What::Restarted, words));
            }
            slot.unit_restarts = Some((base, seen + unseen));
        }
    }

    /// Takes processes that no replica of their arm stands for yet.
    fn join(&mut self, sighting: Sighting, now: Duration, out: &mut Vec<Happening>) {
        let units: Vec<_> = sighting.units.clone();
        let restarts = |unit: &Option<String>| {
            let unit = units
                .iter()
                .find(|known| Some(&known.name) == unit.as_ref())?;
            Some((unit.restarts?, 0))
        };
        for found in sighting.found {
            let refused = self.refused.contains(&(found.arm.clone(), found.key()));
            let known = self
                .slots
                .iter()
                .any(|slot| slot.is_watched() && slot.found.key() == found.key());
            if refused || known || self.dismissed.contains(&found.arm) {
                continue;
            }
            let why = self.origin(&found);
            let unit = found.unit.clone();
            match self.place_of(&found) {
                Some(at) => {
                    let slot = &mut self.slots[at];
                    if slot.found.key() != found.key() {
                        let words = format!("{} has a successor: pid {}", slot.words(), found.pid);
                        out.push(slot.say(now, What::Restarted, words));
                        slot.unit_restarts =
                            slot.unit_restarts.map(|(base, seen)| (base, seen + 1));
                    }
                    slot.take(found, why);
                }
                None => {
                    let replica = self.next_replica(&found.arm);
                    let mut slot = Slot::new(found, replica, why);
                    slot.unit_restarts = restarts(&unit);
                    self.slots.push(slot);
                }
            }
        }
    }

    /// The replica of its arm that it takes the place of: the one of its name, else one without a name.
    fn place_of(&self, found: &Found) -> Option<usize> {
        let free = |slot: &&Slot| slot.arm == found.arm && !slot.is_watched() && !slot.dismissed;
        let mine = |slot: &&Slot| match &found.name {
            Some(name) => slot.found.name.as_ref() == Some(name),
            None => {
                let nameless = slot.found.name.is_none() && !slot.found.by_pid;
                slot.found.key() == found.key() || (nameless && slot.state == State::Gone)
            }
        };
        let fits = |slot: &&Slot| free(slot) && mine(slot);
        let same = self
            .slots
            .iter()
            .position(|slot| fits(&slot) && slot.found.key() == found.key());
        same.or_else(|| self.slots.iter().position(|slot| fits(&slot)))
    }

    /// Where it was before, in words.
    fn origin(&self, found: &Found) -> String {
        let is_it = |slot: &&Slot| {
            let named = found.name.is_some() && slot.found.name == found.name;
            named || slot.found.key() == found.key()
        };
        match self.slots.iter().rev().find(is_it) {
            Some(slot) if slot.arm != found.arm => {
                let how = match slot.found.key() == found.key() {
                    true => "without a restart",
                    false => "and was restarted",
                };
                format!("which came from arm {} {how}", slot.arm)
            }
            Some(_) => "which came back".into(),
            None => "which is new".into(),
        }
    }

    fn next_replica(&self, arm: &str) -> u32 {
        let used = self.slots.iter().filter(|slot| slot.arm == arm);
        used.map(|slot| slot.replica + 1).max().unwrap_or(0)
    }

    /// Once.
    fn tell(&mut self, now: Duration, words: String, out: &mut Vec<Happening>) {
        if let Some(slot) = self
            .slots
            .first()
            .filter(|_| self.told.insert(words.clone()))
        {
            out.push(slot.say(now, What::Degraded, words));
        }
    }

    fn metrics_url(&self, slot: &Slot) -> Option<String> {
        let url = self.plan.subject.metrics.as_ref()?;
        expand(url, &slot.values(&self.run, self.plan.seed)).ok()
    }
}

impl Subject for Attached {
    fn poll(&mut self, now: Duration) -> Vec<Happening> {
        let mut out = Vec::new();
        for (at, discard, why) in std::mem::take(&mut self.leaving) {
            out.push(self.slots[at].leave(now, None, discard, &why));
        }
        self.search(now, &mut out);
        for at in 0..self.slots.len() {
            let metrics = self.metrics_url(&self.slots[at]);
            let before = self.slots[at].state;
            self.slots[at].poll(now, metrics, &mut out);
            if self.slots[at].state == State::Gone && before != State::Gone {
                self.next_search = self.next_search.min(now + SEARCH_SOON);
            }
        }
        out
    }

    fn stop_arm(&mut self, arm: &str, why: &str) {
        self.dismissed.insert(arm.to_owned());
        for (at, slot) in self
            .slots
            .iter_mut()
            .enumerate()
            .filter(|(_, slot)| slot.arm == arm)
        {
            if slot.is_watched() {
                let words = format!("is watched no more, and runs on: {why}");
                self.leaving.push((at, false, words));
            }
            slot.dismissed = true;
        }
    }

    fn leave_out(&mut self, arm: &str, replica: u32, why: &str) -> bool {
        let mut watched = self.slots.iter().enumerate();
        let at = watched.find(|(_, slot)| slot.arm == arm && slot.replica == replica);
        let Some(at) = at.map(|(at, _)| at) else {
            return false;
        };
        let others = |slot: &&Slot| slot.arm == arm && slot.replica != replica && slot.is_watched();
        let waits = |slot: &Slot| {
            self.leaving
                .iter()
                .any(|(at, ..)| self.slots[*at].who() == slot.who())
        };
        if !self.slots.iter().filter(others).any(|slot| !waits(slot)) {
            return false;
        }
        let key = self.slots[at].found.key();
        self.refused.insert((arm.to_owned(), key));
        self.leaving.push((at, true, format!("is left out: {why}")));
        true
    }

    fn stop_all(&mut self, _why: &str) {
        for arm in &self.plan.arms {
            self.dismissed.insert(arm.name.clone());
        }
        self.slots.iter_mut().for_each(|slot| slot.dismissed = true);
    }

    fn is_over(&self) -> bool {
        let is_open = match &self.hunt {
            Hunt::Idle(search) => search.is_open(),
            Hunt::Under(_) => true,
            Hunt::Lost => false,
        };
        if self
            .plan
            .arms
            .iter()
            .all(|arm| self.dismissed.contains(&arm.name))
        {
            return true;
        }
        !is_open && !self.slots.iter().any(Slot::is_watched)
    }

    fn values(&self, arm: &str, replica: u32) -> Option<Values> {
        let is_it = |slot: &&Slot| slot.arm == arm && slot.replica == replica;
        let slot = self.slots.iter().find(is_it)?;
        Some(slot.values(&self.run, self.plan.seed))
    }
}

/// The calendar time, for the instants in a file of groups; seconds since the epoch.
fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests;

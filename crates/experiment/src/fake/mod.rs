//! A subject without any process: each arm follows a scripted curve, and time is whatever the caller says. The whole
//! pipeline runs on it in milliseconds, and gives the same numbers every time.
//!
//! The script of an arm is its `curve`, see [`curve::Curve`].

pub mod curve;
mod latency;
mod parse;
mod reading;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use curve::{Curve, End};
pub use reading::{Chance, Reading};

use super::Subject;
use super::happening::{Ending, Happening, Role, Started, What, Who};
use super::order::{interleaved, replica_seed};
use super::placeholder::Values;
use super::restart::{Next, Restarts};
use crate::file::Experiment;

/// The fake subject. Clones share their processes: one is driven by the run, another is read by the observer.
#[derive(Debug, Clone)]
pub struct Fake {
    replicas: Arc<Mutex<Vec<Replica>>>,
    run: String,
}

#[derive(Debug)]
struct Replica {
    arm: String,
    replica: u32,
    seed: u64,
    curve: Curve,
    chance: Chance,
    /// Bytes.
    memory_limit: Option<u64>,
    incarnation: u32,
    restarts: Restarts,
    state: State,
    dismissed: bool,
    number: i32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Waiting { until: Duration },
    Alive { begun: Duration, ready: bool },
    Over,
}

impl Fake {
    /// # Errors
    /// An arm without a curve, or with one that cannot be read: in words, with the arm's name.
    pub fn new(plan: &Experiment, run: &str) -> Result<Self, String> {
        let mut curves = Vec::new();
        for arm in &plan.arms {
            let text = arm
                .curve
                .as_deref()
                .ok_or(format!("arm {}: a fake subject needs a curve", arm.name))?;
            curves.push(Curve::parse(text).map_err(|why| format!("arm {}: {why}", arm.name))?);
        }
        let order = interleaved(plan.arms.len(), plan.replicas, plan.seed);
        let replicas = order
            .into_iter()
            .zip(1..)
            .map(|((arm, replica), number)| Replica {
                arm: plan.arms[arm].name.clone(),
                replica,
                seed: replica_seed(plan.seed, replica),
                curve: curves[arm].clone(),
                chance: Chance::new(plan.seed, &plan.arms[arm].name, replica),
                memory_limit: plan.subject.memory_limit,
                incarnation: 0,
                restarts: Restarts::new(plan.subject.restart),
                state: State::Waiting {
                    until: Duration::ZERO,
                },
                dismissed: false,
                number,
            });
        Ok(Self {
            replicas: Arc::new(Mutex::new(replicas.collect())),
            run: run.into(),
        })
    }

    /// What an observer would read of a replica at `now`; `None` while it does not run.
    pub fn sample(&self, arm: &str, replica: u32, now: Duration) -> Option<Reading> {
        let replicas = self.replicas();
        let replica = find(&replicas, arm, replica)?;
        let State::Alive { begun, .. } = replica.state else {
            return None;
        };
        Some(
            replica
                .curve
                .reading(now.saturating_sub(begun), &replica.chance),
        )
    }

    /// Latencies in nanoseconds of the requests that arrived in `[from, to)`; empty while the replica does not run or
    /// when its curve has no `latency`. 100 requests arrive per second, on schedule: what waits in a pause counts.
    pub fn latencies_ns(&self, arm: &str, replica: u32, from: Duration, to: Duration) -> Vec<u64> {
        let replicas = self.replicas();
        let Some(replica) = find(&replicas, arm, replica) else {
            return Vec::new();
        };
        let State::Alive { begun, .. } = replica.state else {
            return Vec::new();
        };
        let since = |time: Duration| time.saturating_sub(begun);
        latency::latencies_ns(&replica.curve, &replica.chance, since(from), since(to))
    }

    fn replicas(&self) -> MutexGuard<'_, Vec<Replica>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(replicas: &'a [Replica], arm: &str, replica: u32) -> Option<&'a Replica> {
    replicas
        .iter()
        .find(|candidate| candidate.arm == arm && candidate.replica == replica)
}

impl Subject for Fake {
    fn poll(&mut self, now: Duration) -> Vec<Happening> {
        let mut out = Vec::new();
        for replica in self.replicas().iter_mut() {
            replica.poll(now, &mut out);
        }
        out
    }

    fn stop_arm(&mut self, arm: &str, _why: &str) {
        self.replicas()
            .iter_mut()
            .filter(|replica| replica.arm == arm)
            .for_each(Replica::dismiss);
    }

    fn stop_all(&mut self, _why: &str) {
        self.replicas().iter_mut().for_each(Replica::dismiss);
    }

    fn is_over(&self) -> bool {
        self.replicas()
            .iter()
            .all(|replica| replica.state == State::Over)
    }

    fn values(&self, arm: &str, replica: u32) -> Option<Values> {
        let replicas = self.replicas();
        let replica = find(&replicas, arm, replica)?;
        Some(Values {
            run: self.run.clone(),
            arm: Some(replica.arm.clone()),
            replica: Some(replica.replica),
            seed: replica.seed,
            pid: matches!(replica.state, State::Alive { .. }).then(|| replica.pid()),
            ..Values::default()
        })
    }
}

impl Replica {
    /// No real process has such a number.
    fn pid(&self) -> i32 {
        -self.number
    }

    fn dismiss(&mut self) {
        self.dismissed = true;
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<Happening>) {
        match self.state {
            State::Waiting { .. } if self.dismissed => self.state = State::Over,
            State::Waiting { until } if now >= until => self.start(now, out),
            _ => {}
        }
        if let State::Alive { begun, ready } = self.state {
            self.live(begun, ready, now, out);
        }
    }

    fn start(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let started = Started {
            pid: self.pid(),
            // Differs between incarnations, as that of a real process does.
            start_ticks: u64::try_from(now.as_millis() / 10).unwrap_or(u64::MAX)
                + u64::from(self.incarnation),
            ..Started::default()
        };
        self.say(
            now,
            What::Started(Box::new(started)),
            "started (simulated)",
            out,
        );
        self.state = State::Alive {
            begun: now,
            ready: false,
        };
    }

    fn live(&mut self, begun: Duration, ready: bool, now: Duration, out: &mut Vec<Happening>) {
        let age = now.saturating_sub(begun);
        if !ready && self.curve.ready_after.is_some_and(|after| age >= after) {
            self.say(now, What::Ready, "is ready", out);
            self.state = State::Alive { begun, ready: true };
        }
        if self.dismissed {
            return self.end(Ending::Stopped, "exit code 0", age, now, out);
        }
        if let Some((ending, exit)) = self.curve.ended(age, self.memory_limit, &self.chance) {
            self.end(ending, exit, age, now, out);
        }
    }

    fn end(
        &mut self,
        ending: Ending,
        exit: &str,
        age: Duration,
        now: Duration,
        out: &mut Vec<Happening>,
    ) {
        let what = What::Ended {
            ending,
            exit: Some(exit.into()),
        };
        self.say(now, what, &format!("ended as scripted: {exit}"), out);
        let next = if self.dismissed {
            Next::Rest
        } else {
            self.restarts.after(ending, age)
        };
        self.state = match next {
            Next::Rest => State::Over,
            Next::GiveUp(why) => {
                self.say(now, What::GaveUp, &why, out);
                State::Over
            }
            Next::StartAfter(wait) => {
                self.say(
                    now,
                    What::Restarted,
                    &format!("is started again in {wait:?}"),
                    out,
                );
                self.incarnation += 1;
                State::Waiting { until: now + wait }
            }
        };
    }

    fn say(&self, at: Duration, what: What, words: &str, out: &mut Vec<Happening>) {
        let who = Who {
            arm: self.arm.clone(),
            replica: self.replica,
            incarnation: self.incarnation,
            role: Role::Subject,
        };
        let words = format!("{} {words}", who.words());
        out.push(Happening {
            at,
            who,
            what,
            words,
        });
    }
}

#[cfg(test)]
mod tests;

//! Guards on the trend: an interim verdict now and then, on what is recorded so far.

use std::time::Duration;

use experiment::file::{Check, Condition, Experiment};
use observe::metric;
use observe::snapshot::{Role, TimeNs};
use record::run::Run;
use record::{ReadOptions, Reader};
use series::arms::{arm_series, seconds_between};
use verdict::check::judge_check;
use verdict::run::steady::steady;
use verdict::{Rules, arm};

/// From one interim verdict to the next, at least; each reads the whole series of RSS.
const EVERY_MIN: Duration = Duration::from_secs(30);
/// Interim verdicts of a run, at most.
const VERDICTS_MAX: u32 = 50;
/// Snapshots of RSS that an interim verdict reads at most: the judge works on 64 bins anyway.
const SNAPSHOTS_MAX: u32 = 2_000;

/// The guards that name a trend.
pub struct TrendGuards {
    checks: Vec<Check>,
    every: Duration,
    next: TimeNs,
}

/// A broken one: the arm and why.
pub struct Broken {
    pub arm: String,
    pub words: String,
}

impl TrendGuards {
    pub fn new(experiment: &Experiment, now: TimeNs) -> TrendGuards {
        let is_trend = |check: &&Check| matches!(check.condition, Condition::Trend { .. });
        let checks = experiment.guard.iter().filter(is_trend).cloned().collect();
        let every = (experiment.duration / VERDICTS_MAX).max(EVERY_MIN);
        TrendGuards {
            checks,
            every,
            next: now,
        }
    }

    /// Judges when it is time. An arm whose trend cannot be told yet breaks nothing.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn evaluate(&mut self, reader: &Reader, now: TimeNs) -> anyhow::Result<Vec<Broken>> {
        if self.checks.is_empty() || now < self.next {
            return Ok(Vec::new());
        }
        self.next = TimeNs(now.0 + self.every.as_nanos() as i64);
        let plan = reader.experiment()?;
        let every = (plan.duration / SNAPSHOTS_MAX).max(plan.interval);
        let run = reader.run(&ReadOptions::metrics([metric::RSS.name]).every(every))?;
        Ok(self.broken(&run, now))
    }

    fn broken(&self, run: &Run, now: TimeNs) -> Vec<Broken> {
        let mut broken = Vec::new();
        for series in arm_series(run, metric::RSS.name, run.experiment.warmup) {
            let verdict = arm::judge(&series.arm, &steady(run, &series), &Rules::default());
            let named = |check: &&Check| check.arms.is_empty() || check.arms.contains(&series.arm);
            let due = |check: &&Check| age(run, &series.arm, now) >= check.after;
            for check in self.checks.iter().filter(named).filter(due) {
                let cost = Default::default();
                let outcome = judge_check(check, &series.arm, run, &verdict, &cost);
                if outcome.passed == Some(false) {
                    let words = format!("guard {}: {}", outcome.check, outcome.observed);
                    broken.push(Broken {
                        arm: series.arm.clone(),
                        words,
                    });
                }
            }
        }
        broken
    }
}

/// Age of the arm's youngest living process.
fn age(run: &Run, arm: &str, now: TimeNs) -> Duration {
    let living = run.processes.iter().filter(|process| {
        process.role == Role::Subject && process.arm == arm && process.ended.is_none()
    });
    let ages = living.map(|process| seconds_between(process.started, now).max(0.0));
    Duration::from_secs_f64(ages.fold(f64::INFINITY, f64::min).min(1e12))
}

//! `--until-decided`: the stop rule in the loop. The arms are judged where a stage of the rule begins and at no
//! other analysis, and the run ends when their order is decided and the question of the experiment is answered.

use experiment::file::Experiment;
use observe::metric;
use observe::snapshot::{Fact, ProcessId, Role, TimeNs};
use record::run::Run;
use record::{ReadOptions, Reader};
use units::written;
use verdict::Rules;
use verdict::arm::ArmVerdict;
use verdict::run::RunVerdict;
use verdict::run::judge::judge_run;
use verdict::run::stopped::{InterimAnalysis, STOP_FACT, Stopping, stopping};
use verdict::stop::{STAGE_GROWTH, Stages, evaluate};

/// The first analysis may decide, and spends half of the allowance of error: it must not be wasted on a window
/// with fewer analyses than this, or on less than this part of the longest.
const FIRST_ANALYSES: f64 = 60.0;
const FIRST_PART: f64 = 1.0 / 64.0;
/// Analyses of RSS that are read for one verdict, at most: the judge works on 64 bins anyway.
const ANALYSES_MAX: u32 = 2_000;

/// When the rule looks. Windows in seconds, the warm-up not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    pub first_s: f64,
    /// The window of the last analysis, which is that of the longest run.
    pub last_s: f64,
}

impl Schedule {
    /// Stages grow by a quarter and end with the longest window.
    pub fn of(experiment: &Experiment) -> Schedule {
        let last_s =
            (experiment.duration - experiment.warmup.min(experiment.duration)).as_secs_f64();
        let least_s = (FIRST_ANALYSES * experiment.interval.as_secs_f64()).max(FIRST_PART * last_s);
        let stages = ((last_s / least_s).ln() / STAGE_GROWTH.ln())
            .floor()
            .max(0.0);
        Schedule {
            first_s: last_s / STAGE_GROWTH.powf(stages),
            last_s,
        }
    }

    /// How many analyses may decide.
    pub fn count(&self) -> u32 {
        ((self.last_s / self.first_s).ln() / STAGE_GROWTH.ln()).round() as u32 + 1
    }

    /// The window of the stage after `began_s`.
    fn after(&self, began_s: f64) -> f64 {
        match began_s > 0.0 {
            true => STAGE_GROWTH * began_s,
            false => self.first_s,
        }
    }
}

/// The rule at work.
pub struct Deciding {
    schedule: Schedule,
    warmup_s: f64,
    /// Conditions of the experiment are only told from here on.
    earliest_s: f64,
    state: Stopping,
    /// Whose facts hold the state.
    own: ProcessId,
}

impl Deciding {
    /// Goes on with what the record holds of a run that was broken off.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn new(
        experiment: &Experiment,
        reader: &Reader,
        own: ProcessId,
    ) -> anyhow::Result<Deciding> {
        let facts = ReadOptions {
            without_histograms: true,
            ..ReadOptions::metrics([])
        };
        let known = stopping(&reader.run(&facts)?);
        let after = experiment
            .verify
            .iter()
            .map(|check| check.after.as_secs_f64());
        Ok(Deciding {
            schedule: Schedule::of(experiment),
            warmup_s: experiment.warmup.as_secs_f64(),
            earliest_s: after.fold(0.0, f64::max),
            state: known.unwrap_or_else(|| Stopping {
                at_most_s: experiment.duration.as_secs_f64(),
                stages: Stages::default(),
                last: None,
            }),
            own,
        })
    }

    /// Whether a run that is taken up again was begun with the rule.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn is_recorded(reader: &Reader) -> anyhow::Result<bool> {
        let facts = ReadOptions {
            without_histograms: true,
            ..ReadOptions::metrics([])
        };
        Ok(stopping(&reader.run(&facts)?).is_some())
    }

    /// The state, to be recorded.
    pub fn fact(&self) -> Fact {
        Fact {
            process: self.own,
            key: STOP_FACT.to_owned(),
            value: serde_json::to_string(&self.state).unwrap_or_default(),
        }
    }

    /// Judges when a stage begins; `after_s` is the time since every process was ready. True when there was an
    /// analysis: its fact is to be recorded.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn analyse(&mut self, reader: &Reader, after_s: f64) -> anyhow::Result<bool> {
        let window_s = self.schedule.after(self.state.stages.began_s);
        if after_s - self.warmup_s < window_s || window_s > 1.001 * self.schedule.last_s {
            return Ok(false);
        }
        let run = read(reader)?;
        self.judge(&run, window_s, after_s);
        Ok(true)
    }

    fn judge(&mut self, run: &Run, window_s: f64, after_s: f64) {
        let rules = Rules::default();
        let said = judge_run(run, &rules);
        let horizon_s = (self.state.at_most_s - after_s).max(0.0);
        let stages = &mut self.state.stages;
        let verdict = evaluate(stages, &living(&said), window_s, horizon_s, &rules);
        // Nothing may be settled twice at one window, by rounding.
        stages.began_s = stages.began_s.max(window_s);
        let ends = verdict.decided && said.decided && after_s >= self.earliest_s;
        self.state.last = Some(InterimAnalysis {
            window_s,
            after_s,
            verdict,
            ends,
        });
    }

    /// Why the run is over, once it is decided.
    pub fn ends(&self) -> Option<String> {
        let last = self.state.last.as_ref().filter(|last| last.ends)?;
        Some(format!(
            "{} after {} of at most {}",
            last.verdict.words,
            written::seconds(last.after_s),
            written::seconds(self.state.at_most_s)
        ))
    }

    /// How far it is, for the line of progress and the end of a run that stays undecided.
    pub fn words(&self) -> String {
        match &self.state.last {
            Some(last) if last.verdict.decided => {
                format!(
                    "{}, but not every arm can be classified yet",
                    last.verdict.words
                )
            }
            Some(last) => last.verdict.words.clone(),
            None => format!(
                "undecided, first decision after {}",
                written::seconds(self.schedule.first_s + self.warmup_s)
            ),
        }
    }
}

/// The record as the judge needs it, without the rule's own word.
fn read(reader: &Reader) -> anyhow::Result<Run> {
    let plan = reader.experiment()?;
    let every = (plan.duration / ANALYSES_MAX).max(plan.interval);
    let mut run = reader.run(&ReadOptions::metrics([metric::RSS.name]).every(every))?;
    let own = run
        .processes
        .iter_mut()
        .filter(|p| p.role == Role::Highwater);
    own.for_each(|p| drop(p.facts.remove(STOP_FACT)));
    Ok(run)
}

/// Arms that still run: of one that ended early nothing more is to be learned by waiting.
fn living(said: &RunVerdict) -> Vec<ArmVerdict> {
    let rows = said.arms.iter().filter(|row| row.aborted.is_none());
    let rows = rows.filter(|row| !row.memory.processes.is_empty());
    rows.map(|row| row.memory.clone()).collect()
}

/// Time since every process was ready, of a run taken up again with what lies behind it.
pub fn after_s(settled: TimeNs, now: TimeNs, already: std::time::Duration) -> f64 {
    (now.0 - settled.0).max(0) as f64 / 1e9 + already.as_secs_f64()
}

//! `replay --tune`: settings of an allocator that are worth their CPU, found by replays, and the picture of them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Report;
use super::remedies::recipe_of;
use super::runs::{self, Played};
use crate::cli::exit::Usage;
use crate::cli::pictures;
use replay::{Arm, Forecast, Range, ReplayError, Runner, Search, front, knobs, spread};
use report::plot::front::{Tried, svg};
use report::visible::shortened;
use trace::Trace;

/// Arms of the front that are replayed again and ranked: more do not fit a table that is read.
const FRONT_MAX: usize = 5;
/// Of the time, the share that the search has; the rest replays what it found again.
const SEARCH_SHARE: f64 = 0.8;
/// So many settings that did not run to the end, one after the other, end a search.
const FAILURES_MAX: u32 = 10;
/// Letters of the program's name in a title.
const NAME_MAX: usize = 40;

/// What a search of one allocator came to.
pub struct Tuned {
    /// Of the allocator as it comes.
    pub allocator: String,
    pub tried: Vec<Trial>,
    /// Names of the arms that were replayed again, the least memory first.
    pub front: Vec<String>,
    pub elapsed: Duration,
}

/// Settings that were replayed once.
pub struct Trial {
    pub arm: String,
    pub mean_bytes: f64,
    pub cpu_ns: f64,
}

/// What a search needs to know.
pub struct Tuning<'a> {
    pub runner: &'a Runner<'a>,
    pub trace: &'a Trace,
    /// Of the recorded program.
    pub threads: usize,
    pub seed: u64,
    /// Replays of each arm of the front.
    pub repeat: u32,
    pub quiet: bool,
    pub is_over: &'a dyn Fn() -> bool,
}

impl Tuning<'_> {
    /// Searches settings of the allocator of an arm while `time` lasts; what it came to, and its front.
    ///
    /// # Errors
    /// The replayer cannot be started, or the user interrupted.
    pub fn search(&self, base: &Arm, time: Duration) -> anyhow::Result<(Tuned, Vec<Played>)> {
        let recipe = recipe_of(base);
        let known = recipe.map_or(Vec::new(), |recipe| knobs(recipe, self.threads));
        let begun = Instant::now();
        let bar = runs::spinner(self.quiet);
        let mut search = Search::new(known, self.seed);
        let mut found: Vec<(Arm, Trial)> = Vec::new();
        let mut failures = 0;
        while begun.elapsed() < time.mul_f64(SEARCH_SHARE) && failures < FAILURES_MAX {
            let settings = search.ask().context("settings to try")?;
            let arm = Arm::with(base.library.clone(), recipe, &settings)
                .map_err(|error| Usage(error.to_string()))?;
            bar.set_message(format!("{} tried; {}", found.len(), arm.name));
            bar.tick();
            let ran = match self.runner.run(&arm, self.is_over) {
                // What was found until then is reported.
                Err(ReplayError::Interrupted) => break,
                ran => ran?,
            };
            let measured = Forecast::of(&[ran], self.trace).map(|forecast| {
                let cpu_ns = forecast.user_ns.median + forecast.system_ns.median;
                (forecast.mean_bytes.median, cpu_ns)
            });
            search.tell(measured);
            failures = if measured.is_some() { 0 } else { failures + 1 };
            found.extend(measured.map(|(mean_bytes, cpu_ns)| {
                let trial = Trial {
                    arm: arm.name.clone(),
                    mean_bytes,
                    cpu_ns,
                };
                (arm, trial)
            }));
        }
        bar.finish_and_clear();
        let (arms, points) = merged(&found);
        // After an interrupt nothing is replayed again, and what was tried is reported.
        let most = if (self.is_over)() { 0 } else { FRONT_MAX };
        let best = spread(&front(&points), most);
        let arms: Vec<Arm> = best.iter().map(|at| arms[*at].clone()).collect();
        let tuned = Tuned {
            allocator: base.name.clone(),
            front: arms.iter().map(|arm| arm.name.clone()).collect(),
            tried: found.into_iter().map(|(_, trial)| trial).collect(),
            elapsed: begun.elapsed(),
        };
        // What stands on the front by chance does not stay there when it is replayed again.
        let arms = arms.into_iter().map(|arm| (arm, false)).collect();
        let played = runs::all(self.runner, arms, self.repeat, self.quiet, self.is_over)?;
        Ok((tuned, played))
    }
}

/// Each arm once, with the medians of its trials: (mean bytes, CPU nanoseconds).
fn merged(found: &[(Arm, Trial)]) -> (Vec<Arm>, Vec<(f64, f64)>) {
    let mut all: Vec<(&Arm, Vec<&Trial>)> = Vec::new();
    for (arm, trial) in found {
        match all
            .iter_mut()
            .find(|(other, _)| other.environment == arm.environment)
        {
            Some((_, trials)) => trials.push(trial),
            None => all.push((arm, vec![trial])),
        }
    }
    let median = |trials: &[&Trial], of: fn(&Trial) -> f64| {
        Range::of(trials.iter().map(|trial| of(trial))).map_or(0.0, |range| range.median)
    };
    all.into_iter()
        .map(|(arm, trials)| {
            let point = (
                median(&trials, |trial| trial.mean_bytes),
                median(&trials, |trial| trial.cpu_ns),
            );
            (arm.clone(), point)
        })
        .unzip()
}

/// Draws what was tried into a file.
///
/// # Errors
/// It ends in neither .svg nor .png, or cannot be written.
pub fn draw(path: &Path, report: &Report) -> anyhow::Result<()> {
    let cpu_of = |forecast: &Forecast| forecast.user_ns.median + forecast.system_ns.median;
    let forecast_of = |played: &Played| Forecast::of(&played.runs, &report.trace);
    let recorded = report.played.iter().find(|played| played.is_recorded);
    let today = recorded.and_then(forecast_of);
    let today_ns = today
        .as_ref()
        .map_or(1.0, |forecast| cpu_of(forecast).max(1.0));
    let point = |forecast: &Forecast| (cpu_of(forecast) / today_ns, forecast.mean_bytes.median);
    let tried: Vec<Tried> = report
        .tuned
        .iter()
        .map(|tuned| {
            let again = tuned.front.iter().filter_map(|name| {
                let played = report
                    .played
                    .iter()
                    .find(|played| played.arm.name == *name)?;
                forecast_of(played)
            });
            let again: Vec<Forecast> = again.collect();
            let by_memory = |forecast: &Forecast| (forecast.mean_bytes.median, cpu_of(forecast));
            let points: Vec<(f64, f64)> = again.iter().map(by_memory).collect();
            Tried {
                name: tuned.allocator.clone(),
                points: tuned
                    .tried
                    .iter()
                    .map(|trial| (trial.cpu_ns / today_ns, trial.mean_bytes))
                    .collect(),
                front: front(&points)
                    .into_iter()
                    .map(|at| point(&again[at]))
                    .collect(),
            }
        })
        .collect();
    let program = report.trace.about("program").unwrap_or("the program");
    let program = shortened(program, NAME_MAX);
    let title = format!("Memory and CPU of {program} by the settings of its allocator");
    let sheet = svg(&title, today.as_ref().map(point), &tried).map_err(anyhow::Error::msg)?;
    pictures::write(path, &sheet)
}

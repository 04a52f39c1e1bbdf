//! When the recording runs that tells what holds objects, and what its search took.

use std::time::Instant;

use super::Jvm;
use super::counters::Counters;
use super::exchange::Listener;
use super::held;
use super::paused::Stops;
use super::recording::Recording;
use super::sample::Sample;
use crate::{Error, Holder, Limits, Search};

/// The recording of one JVM, and the last search in it.
#[derive(Debug, Default)]
pub(super) struct Searched {
    recording: Option<Recording>,
    /// Why there is none; it is not tried again.
    problem: Option<Error>,
    pub(super) last: Search,
}

impl Jvm {
    /// Whether a recording is to be started: none runs, and none failed to start. Before JDK 17 the search for what
    /// holds objects works with three collectors alone; with others the JVM prints a warning to the program's output.
    pub(super) fn may_record(&self, counters: Option<&Counters>) -> Result<bool, Error> {
        if self.searched.recording.is_some() || self.searched.problem.is_some() {
            return Ok(false);
        }
        let collector = counters.and_then(Counters::collector);
        let is_known = matches!(collector, Some("Serial" | "Parallel" | "G1"));
        match is_known || self.major().is_some_and(|major| major >= 17) {
            true => Ok(true),
            false => Err(Error::Unsupported(
                "before JDK 17 they are known with the collectors Serial, Parallel and G1".into(),
            )),
        }
    }

    /// `17` of `HotSpot JVM 17.0.15+6 (G1)`.
    fn major(&self) -> Option<u32> {
        let version = self.runtime.strip_prefix("HotSpot JVM ")?;
        let digits = version.split(|letter: char| !letter.is_ascii_digit());
        digits.into_iter().next()?.parse().ok()
    }

    /// Keeps what came of starting a recording.
    pub(super) fn record(&mut self, started: Result<Recording, Error>) {
        match started {
            Ok(recording) => self.searched.recording = Some(recording),
            Err(problem) => self.searched.problem = Some(problem),
        }
    }

    pub(super) fn search(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        self.searched.last = Search::default();
        let outside = self.holders_outside(types, limits).unwrap_or_default();
        if limits.pause.is_zero() {
            return outside;
        }
        let recorded = self
            .samples(limits)
            .map(|samples| held::holders(&samples, types));
        match recorded {
            Ok(recorded) if outside.is_empty() => recorded,
            Ok(recorded) => with_makers(outside, &recorded),
            Err(error) => {
                let what = match outside.is_empty() {
                    true => "what holds objects, and where they were allocated",
                    false => "where objects were allocated",
                };
                self.searched.last.missing = Some(format!("{what}: {error}"));
                outside
            }
        }
    }

    fn samples(&mut self, limits: &Limits) -> Result<Vec<Sample>, Error> {
        let listener = Listener {
            target: &self.target,
            deadline: Instant::now() + limits.time,
            bytes_max: limits.bytes,
        };
        let recording = match (&self.searched.recording, &self.searched.problem) {
            (Some(recording), _) => recording,
            (None, Some(problem)) => return Err(problem.clone()),
            (None, None) => {
                let why = "nothing was recorded: the allowed pause is too short for that";
                return Err(Error::Refused(why.into()));
            }
        };
        let mut stops = Stops::start(self, limits.pause)?;
        let samples = stops.run(|| recording.samples(&listener));
        let paused = stops.so_far();
        self.searched.last.paused = paused.unwrap_or_default();
        samples
    }

    /// Stops the recording that is ours, and removes its folder.
    pub(super) fn stop_recording(&mut self) -> Result<(), Error> {
        let Some(recording) = self.searched.recording.take() else {
            return Ok(());
        };
        let name = recording.name().to_owned();
        match recording.stop(&self.target) {
            Err(Error::Gone) | Ok(()) => Ok(()),
            Err(error) => Err(Error::Refused(format!(
                "the recording {name} of JDK Flight Recorder, which highwater started, may still run (end it with jcmd \
                 PID JFR.stop name={name}): {error}"
            ))),
        }
    }
}

/// With the functions that a recording saw make the objects, where it did.
fn with_makers(mut holders: Vec<Holder>, recorded: &[Holder]) -> Vec<Holder> {
    for holder in &mut holders {
        let of_type = |of: &&Holder| of.type_name == holder.type_name && !of.makers.is_empty();
        let most = recorded.iter().filter(of_type).max_by_key(|of| of.objects);
        if let Some(most) = most {
            holder.makers.clone_from(&most.makers);
        }
    }
    holders
}

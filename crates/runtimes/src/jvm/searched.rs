//! When the recording runs that tells what holds objects, and what its search took.

use std::time::{Duration, Instant};

use super::Jvm;
use super::exchange::Listener;
use super::held;
use super::jfr::Sample;
use super::paused::Stops;
use super::recording::Recording;
use crate::{Error, Holder, Limits, Search};

/// For the commands that stop a recording.
const STOPPING: Duration = Duration::from_secs(5);
const REPLY_BYTES: usize = 1 << 20;

/// The recording of one JVM, and the last search in it.
#[derive(Debug, Default)]
pub(super) struct Searched {
    recording: Option<Recording>,
    /// Why there is none; it is not tried again.
    problem: Option<Error>,
    pub(super) last: Search,
}

impl Searched {
    /// No recording runs, and none failed to start.
    pub(super) fn is_due(&self) -> bool {
        self.problem.is_none() && self.recording.is_none()
    }
}

impl Jvm {
    /// Keeps what came of starting a recording.
    pub(super) fn record(&mut self, started: Result<Recording, Error>) {
        match started {
            Ok(recording) => self.searched.recording = Some(recording),
            Err(problem) => self.searched.problem = Some(problem),
        }
    }

    pub(super) fn search(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        self.searched.last = Search::default();
        if limits.pause.is_zero() {
            return Vec::new();
        }
        let found = self
            .samples(limits)
            .map(|samples| held::holders(&samples, types));
        found.unwrap_or_else(|error| {
            let sentence = format!("what holds objects, and where they were allocated: {error}");
            self.searched.last.missing = Some(sentence);
            Vec::new()
        })
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
                let why = "nothing was recorded: the program was not stopped before";
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
        let listener = Listener {
            target: &self.target,
            deadline: Instant::now() + STOPPING,
            bytes_max: REPLY_BYTES,
        };
        let name = recording.name().to_owned();
        match recording.stop(&listener) {
            Err(Error::Gone) | Ok(()) => Ok(()),
            Err(error) => Err(Error::Refused(format!(
                "the recording {name} of JDK Flight Recorder, which highwater started, may still run (end it with jcmd \
                 PID JFR.stop name={name}): {error}"
            ))),
        }
    }
}

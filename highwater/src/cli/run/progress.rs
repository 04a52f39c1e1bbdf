//! How far the run is, on stderr: one line with the remaining time on a terminal, a line a minute elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::out::say;

/// Without a terminal: from one line to the next.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Says how far a run is. Nothing at all when quiet.
pub struct Progress {
    kind: Kind,
}

enum Kind {
    Quiet,
    Bar(ProgressBar),
    Lines { last: Option<Instant> },
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        let kind = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Quiet,
            (false, true) => Kind::Bar(bar()),
            (false, false) => Kind::Lines { last: None },
        };
        Progress { kind }
    }

    /// `done` of `whole` has passed; `words` say what is going on ("16 processes, 240 snapshots").
    pub fn tell(&mut self, done: Duration, whole: Duration, words: &str) {
        match &mut self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => {
                bar.set_length(whole.as_millis() as u64);
                bar.set_position(done.min(whole).as_millis() as u64);
                bar.set_message(format!("{words}, {} left", left(done, whole)));
            }
            Kind::Lines { last } => {
                if last.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
                    *last = Some(Instant::now());
                    say!("highwater: {words}, {} left", left(done, whole));
                }
            }
        }
    }

    /// A line that stays.
    pub fn say(&self, words: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => bar.suspend(|| say!("{words}")),
            Kind::Lines { .. } => say!("{words}"),
        }
    }

    pub fn end(&self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
    ProgressBar::new(1).with_style(style.expect("a constant template"))
}

fn left(done: Duration, whole: Duration) -> String {
    units::written::duration(whole.saturating_sub(done))
}

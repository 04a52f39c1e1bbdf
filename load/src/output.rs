//! The lines of a load program: one per interval, and a last one for what is left.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{now_ns, sleep_until};
use crate::recorder::Recorder;

/// How often the end and a stop are looked for.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// Shorter intervals would mostly measure the writing of lines.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Sums over a whole load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub requests: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// Writes what a recorder holds, line by line.
pub struct Output<'a, W> {
    recorder: &'a Recorder,
    out: &'a mut W,
    totals: Totals,
}

impl<'a, W: Write> Output<'a, W> {
    pub fn new(recorder: &'a Recorder, out: &'a mut W) -> Output<'a, W> {
        Output {
            recorder,
            out,
            totals: Totals::default(),
        }
    }

    /// Writes a line per interval, the first at `start_ns` plus one interval, until `end_ns`
    /// (without a line for it), a stop, or nobody reads the lines any more.
    ///
    /// # Errors
    /// When the lines cannot be written, other than to a closed pipe.
    pub fn until(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        interval: Duration,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let interval_ns = interval.max(INTERVAL_MIN).as_nanos() as u64;
        for line_ns in (1..).map(|count| start_ns.saturating_add(interval_ns * count)) {
            let due_ns = line_ns.min(end_ns);
            while now_ns() < due_ns {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                sleep_until(due_ns.min(now_ns() + POLL.as_nanos() as u64));
            }
            if due_ns == end_ns || !self.write_line()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes the interval that ends now; false when nobody reads any more.
    ///
    /// # Errors
    /// When the line cannot be written, other than to a closed pipe.
    pub fn write_line(&mut self) -> io::Result<bool> {
        let interval = self.recorder.take(now_ns());
        self.totals.requests += interval.requests;
        self.totals.errors += interval.errors;
        self.totals.dropped += interval.dropped;
        match writeln!(self.out, "{}", interval.to_json()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Sums over the lines so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

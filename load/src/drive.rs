//! The loop for protocols of request and response.
//!
//! One thread, the pacer, puts each request into a bounded backlog when it is due; a fixed number
//! of connections take them out, one request at a time each. While the server stops, requests
//! wait in the backlog with their due times running; when the backlog is full, further ones are
//! dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arrivals::{Arrivals, Spacing};
use crate::clock::{now_ns, sleep_until};
use crate::output::{Output, POLL, Totals};
use crate::recorder::Recorder;

/// How long the end waits for answers that are under way.
const END_GRACE: Duration = Duration::from_secs(1);

/// One load, in numbers.
#[derive(Debug, Clone)]
pub struct Plan {
    pub rate_per_s: f64,
    pub spacing: Spacing,
    pub seed: u64,
    /// Without one the load runs until it is stopped.
    pub duration: Option<Duration>,
    /// Requests in flight at most; at least one is used.
    pub connections: usize,
    /// Requests that may wait for a connection.
    pub backlog: usize,
    /// One line of output per interval.
    pub interval: Duration,
}

/// What came of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// Given up after the connection's own time limit.
    TimedOut,
    Failed,
}

/// One connection to the server, used by one thread. It reconnects by itself and has a time limit
/// of its own: a request must return.
pub trait Connection: Send + 'static {
    /// Sends request `number` (from 0, over all connections) and waits for its answer.
    fn request(&mut self, number: u64) -> Outcome;
}

struct Due {
    number: u64,
    due_ns: u64,
}

/// What the pacer, the connections and the printing thread share.
struct Shared {
    recorder: Recorder,
    ended: AtomicBool,
    /// Per connection: when the request in flight was due; 0 when there is none.
    in_flight_due_ns: Vec<AtomicU64>,
}

/// Runs the load until its duration is over, `stop` is set, or `out` no longer takes lines (its
/// reader is gone). Requests still in flight after a grace of a second are errors.
///
/// # Errors
/// When `out` fails other than by a closed pipe, or no thread can be started.
pub fn run<C: Connection>(
    plan: &Plan,
    connect: impl Fn() -> C,
    out: &mut impl Write,
    stop: &Arc<AtomicBool>,
) -> io::Result<Totals> {
    let connections = plan.connections.max(1);
    let start_ns = now_ns();
    let shared = Arc::new(Shared {
        recorder: Recorder::new(start_ns),
        ended: AtomicBool::new(false),
        in_flight_due_ns: (0..connections).map(|_| AtomicU64::new(0)).collect(),
    });
    let (sender, receiver) = sync_channel(plan.backlog.max(1));
    let receiver = Arc::new(Mutex::new(receiver));
    let mut threads = Vec::new();
    for slot in 0..connections {
        let (shared, receiver, connection) = (shared.clone(), receiver.clone(), connect());
        let name = format!("connection-{slot}");
        threads.push(spawn(name, move || {
            send_requests(&shared, slot, &receiver, connection)
        })?);
    }
    let (pacer_shared, pacer_plan) = (shared.clone(), plan.clone());
    threads.push(spawn("pacer".into(), move || {
        pace(&pacer_shared, &pacer_plan, start_ns, &sender)
    })?);

    let end_ns = plan
        .duration
        .map_or(u64::MAX, |duration| after(start_ns, duration));
    let mut output = Output::new(&shared.recorder, out);
    let printed = output.until(start_ns, end_ns, plan.interval, stop);
    shared.ended.store(true, Ordering::SeqCst);
    printed?;
    wait_for(&threads, END_GRACE);
    count_unanswered(&shared, &receiver);
    output.write_line()?;
    Ok(output.totals())
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name)
        .stack_size(256 * 1024)
        .spawn(work)
}

fn pace(shared: &Shared, plan: &Plan, start_ns: u64, backlog: &SyncSender<Due>) {
    let arrivals = Arrivals::new(plan.rate_per_s, plan.spacing, plan.seed);
    let end_ns = plan
        .duration
        .map_or(u64::MAX, |duration| after(start_ns, duration));
    for (number, offset_ns) in (0..).zip(arrivals) {
        let due_ns = start_ns + offset_ns;
        if due_ns >= end_ns || !sleep_towards(due_ns, &shared.ended) {
            return;
        }
        match backlog.try_send(Due { number, due_ns }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => shared.recorder.dropped(1),
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

/// Sleeps until `due_ns`; false when the load ended meanwhile.
fn sleep_towards(due_ns: u64, ended: &AtomicBool) -> bool {
    while !ended.load(Ordering::Relaxed) {
        let now = now_ns();
        if now >= due_ns {
            return true;
        }
        sleep_until(due_ns.min(now + POLL.as_nanos() as u64));
    }
    false
}

fn send_requests<C: Connection>(
    shared: &Shared,
    slot: usize,
    backlog: &Mutex<Receiver<Due>>,
    mut connection: C,
) {
    let in_flight = &shared.in_flight_due_ns[slot];
    loop {
        let next = backlog
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .recv();
        let Ok(due) = next else { return };
        if shared.ended.load(Ordering::SeqCst) {
            shared.recorder.dropped(1);
            continue;
        }
        in_flight.store(due.due_ns, Ordering::SeqCst);
        let outcome = connection.request(due.number);
        let end_ns = now_ns();
        if in_flight.swap(0, Ordering::SeqCst) == 0 {
            return; // too late: the end has counted it
        }
        match outcome {
            Outcome::Answered => shared.recorder.answered(due.due_ns, end_ns),
            Outcome::TimedOut => shared.recorder.timed_out(due.due_ns, end_ns),
            Outcome::Failed => shared.recorder.failed(),
        }
    }
}

fn wait_for(threads: &[JoinHandle<()>], grace: Duration) {
    let deadline_ns = after(now_ns(), grace);
    while now_ns() < deadline_ns && threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(POLL.min(grace));
    }
}

/// What never got an answer: in flight is given up now, in the backlog is dropped.
fn count_unanswered(shared: &Shared, backlog: &Mutex<Receiver<Due>>) {
    let now = now_ns();
    for slot in &shared.in_flight_due_ns {
        let due_ns = slot.swap(0, Ordering::SeqCst);
        if due_ns > 0 {
            shared.recorder.timed_out(due_ns, now);
        }
    }
    // A connection that waits for work holds this lock only while the backlog is empty.
    if let Ok(backlog) = backlog.try_lock() {
        shared.recorder.dropped(backlog.try_iter().count() as u64);
    }
}

fn after(start_ns: u64, duration: Duration) -> u64 {
    start_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Interval, new_histogram};

    struct Fake {
        wait: Duration,
        outcome: fn(u64) -> Outcome,
        returned: Arc<AtomicU64>,
    }

    impl Fake {
        fn new(wait_ms: u64, outcome: fn(u64) -> Outcome) -> Fake {
            let wait = Duration::from_millis(wait_ms);
            Fake {
                wait,
                outcome,
                returned: Arc::default(),
            }
        }
    }

    impl Connection for Fake {
        fn request(&mut self, number: u64) -> Outcome {
            std::thread::sleep(self.wait);
            self.returned.fetch_add(1, Ordering::SeqCst);
            (self.outcome)(number)
        }
    }

    fn plan(rate_per_s: f64, millis: u64, backlog: usize) -> Plan {
        Plan {
            rate_per_s,
            spacing: Spacing::Even,
            seed: 1,
            duration: Some(Duration::from_millis(millis)),
            connections: 2,
            backlog,
            interval: Duration::from_millis(100),
        }
    }

    fn lines(out: &[u8]) -> Vec<Interval> {
        let text = std::str::from_utf8(out).unwrap();
        text.lines()
            .map(|line| Interval::parse(line).unwrap())
            .collect()
    }

    #[test]
    fn every_request_is_counted_once_and_intervals_join() {
        let mut out = Vec::new();
        let outcome = |number| match number % 4 {
            0 => Outcome::Failed,
            1 => Outcome::TimedOut,
            _ => Outcome::Answered,
        };
        let returned = Arc::new(AtomicU64::new(0));
        let connect = || Fake {
            returned: returned.clone(),
            ..Fake::new(0, outcome)
        };
        let stop = Arc::new(AtomicBool::new(false));
        let totals = run(&plan(400.0, 500, 1000), connect, &mut out, &stop).unwrap();
        assert_eq!(
            totals.requests + totals.errors,
            returned.load(Ordering::SeqCst),
            "{totals:?}"
        );
        // 199 are due before the end; a slow machine may not come to all of them.
        assert!(
            totals.requests + totals.errors + totals.dropped <= 199,
            "{totals:?}"
        );
        assert!(totals.errors > 0 && totals.requests > 0, "{totals:?}");
        let lines = lines(&out);
        assert!(
            lines
                .windows(2)
                .all(|pair| pair[0].end_ns == pair[1].start_ns)
        );
        assert_eq!(
            lines.iter().map(|line| line.requests).sum::<u64>(),
            totals.requests
        );
        let recorded: u64 = lines
            .iter()
            .map(|line| line.decode_histogram().unwrap().len())
            .sum();
        assert!(recorded >= totals.requests && recorded < totals.requests + totals.errors);
    }

    #[test]
    fn a_full_backlog_drops_and_counts() {
        let mut out = Vec::new();
        let connect = || Fake::new(200, |_| Outcome::Answered);
        let stop = Arc::new(AtomicBool::new(false));
        let totals = run(&plan(1000.0, 300, 5), connect, &mut out, &stop).unwrap();
        assert!(totals.dropped > 0, "{totals:?}");
        assert!(
            totals.requests + totals.errors + totals.dropped <= 299,
            "{totals:?}"
        );
    }

    #[test]
    fn waiting_in_the_backlog_counts_as_latency() {
        let mut out = Vec::new();
        let connect = || Fake::new(50, |_| Outcome::Answered);
        let stop = Arc::new(AtomicBool::new(false));
        // 100 a second for two connections that manage 40: the last waits for more than 300 ms.
        run(&plan(100.0, 600, 1000), connect, &mut out, &stop).unwrap();
        let mut all = new_histogram();
        for line in lines(&out) {
            all.add(line.decode_histogram().unwrap()).unwrap();
        }
        assert!(all.max() > 300_000_000, "longest {} ns", all.max());
    }

    #[test]
    fn a_request_that_hangs_is_an_error_at_the_end() {
        let mut out = Vec::new();
        let connect = || Fake::new(60_000, |_| Outcome::Answered);
        let stop = Arc::new(AtomicBool::new(false));
        let totals = run(&plan(100.0, 500, 100), connect, &mut out, &stop).unwrap();
        assert_eq!((totals.requests, totals.errors), (0, 2), "{totals:?}");
        let last = lines(&out).pop().unwrap().decode_histogram().unwrap();
        assert_eq!(last.len(), 2, "their waiting is recorded as a lower bound");
    }

    #[test]
    fn stop_ends_an_endless_load_and_so_does_a_closed_pipe() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let connect = || Fake::new(0, |_| Outcome::Answered);
        let endless = Plan {
            duration: None,
            ..plan(100.0, 0, 10)
        };
        let stop = Arc::new(AtomicBool::new(true));
        run(&endless, connect, &mut Vec::new(), &stop).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        run(&endless, connect, &mut Closed, &stop).unwrap();
    }
}

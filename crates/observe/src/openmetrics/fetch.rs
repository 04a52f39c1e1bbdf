//! Fetching endpoints beside the snapshot: a slow or dead one costs only itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::body::read_body;
use crate::snapshot::{ProcessId, TimeNs};

/// Threads that fetch. More than one endpoint that never answers must not hold up the others.
const THREADS: usize = 8;
/// Largest page after decompression; a large service's has about 1 MB.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// Pages of all endpoints that are fetched and not yet parsed.
const HELD_BYTES_MAX: u64 = 128 << 20;
/// An endpoint that failed is left alone for 1, 2, 4 ... of this, up to 64.
const BACKOFF_NS: i64 = 1_000_000_000;
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

struct Job {
    process: ProcessId,
    snapshot: u64,
    url: String,
}

/// What came of one fetch.
#[derive(Debug)]
pub struct Fetched {
    pub process: ProcessId,
    /// The page, or in words why there is none.
    pub page: Result<String, String>,
    pub took: Duration,
    snapshot: u64,
}

/// A few threads, started when the first endpoint is seen; they end with the observer.
#[derive(Debug)]
pub struct Fetcher {
    jobs: Sender<Job>,
    done: Receiver<Fetched>,
    snapshot: u64,
    held_bytes: Arc<AtomicU64>,
    /// The snapshot for which each endpoint is being fetched now.
    under_way: HashMap<ProcessId, u64>,
    resting: HashMap<ProcessId, Rest>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: TimeNs,
    failures: u32,
}

impl Fetcher {
    /// `timeout` ends a single fetch, connection and page together.
    pub fn new(timeout: Duration) -> std::io::Result<Fetcher> {
        let (jobs, queue) = channel::<Job>();
        let (report, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let agent = agent(timeout);
        let held_bytes = Arc::new(AtomicU64::new(0));
        for index in 0..THREADS {
            let (queue, report, agent) = (queue.clone(), report.clone(), agent.clone());
            let held_bytes = held_bytes.clone();
            std::thread::Builder::new()
                .name(format!("fetch-{index}"))
                .spawn(move || work(&queue, &report, &agent, &held_bytes))?;
        }
        Ok(Fetcher {
            jobs,
            done,
            snapshot: 0,
            held_bytes,
            under_way: HashMap::new(),
            resting: HashMap::new(),
        })
    }

    /// A new snapshot begins.
    pub fn begin(&mut self) {
        self.snapshot += 1;
    }

    /// Asks for one endpoint. False when the one of an earlier snapshot has not come back yet, or when
    /// it failed a moment ago and is left alone.
    pub fn ask(&mut self, process: ProcessId, url: &str, now: TimeNs) -> bool {
        self.take_late(now);
        let rests = self
            .resting
            .get(&process)
            .is_some_and(|rest| now < rest.until);
        if rests || self.under_way.contains_key(&process) {
            return false;
        }
        let job = Job {
            process,
            snapshot: self.snapshot,
            url: url.to_owned(),
        };
        let sent = self.jobs.send(job).is_ok();
        if sent {
            self.under_way.insert(process, self.snapshot);
        }
        sent
    }

    /// Waits until `deadline` for the pages of this snapshot. What comes later is dropped: it would be
    /// recorded at an instant at which it was not true.
    pub fn collect(&mut self, deadline: Instant, now: TimeNs) -> (Vec<Fetched>, Vec<ProcessId>) {
        let mut fetched = Vec::new();
        while self
            .under_way
            .values()
            .any(|&snapshot| snapshot == self.snapshot)
        {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.done.recv_timeout(left) {
                Ok(one) => fetched.extend(self.book(one, now)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let late = |(process, snapshot): (&ProcessId, &u64)| {
            (*snapshot == self.snapshot).then_some(*process)
        };
        let late = self.under_way.iter().filter_map(late).collect();
        (fetched, late)
    }

    pub fn forget(&mut self, wanted: impl Fn(ProcessId) -> bool) {
        self.resting.retain(|process, _| wanted(*process));
    }

    fn take_late(&mut self, now: TimeNs) {
        while let Ok(late) = self.done.try_recv() {
            self.book(late, now);
        }
    }

    /// Takes note of an answer; gives it back when it is for this snapshot.
    fn book(&mut self, fetched: Fetched, now: TimeNs) -> Option<Fetched> {
        self.under_way.remove(&fetched.process);
        match &fetched.page {
            Ok(page) => {
                self.held_bytes
                    .fetch_sub(page.len() as u64, Ordering::Relaxed);
                self.resting.remove(&fetched.process);
            }
            Err(_) => {
                let known = self
                    .resting
                    .get(&fetched.process)
                    .map_or(0, |rest| rest.failures);
                let wait = BACKOFF_NS << known.min(BACKOFF_DOUBLINGS_MAX);
                let until = TimeNs(now.0.saturating_add(wait));
                self.resting.insert(
                    fetched.process,
                    Rest {
                        until,
                        failures: known + 1,
                    },
                );
            }
        }
        (fetched.snapshot == self.snapshot).then_some(fetched)
    }
}

fn agent(timeout: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(3)
        // The subject is beside us; a proxy of the environment is not meant for it.
        .proxy(None)
        .user_agent("highwater")
        .build();
    ureq::Agent::new_with_config(config)
}

fn work(
    queue: &Mutex<Receiver<Job>>,
    report: &Sender<Fetched>,
    agent: &ureq::Agent,
    held_bytes: &AtomicU64,
) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job {
            process,
            snapshot,
            url,
        }) = job
        else {
            return;
        };
        let begin = Instant::now();
        let page = fetch(agent, &url).and_then(|page| hold(page, &url, held_bytes));
        if report
            .send(Fetched {
                process,
                page,
                took: begin.elapsed(),
                snapshot,
            })
            .is_err()
        {
            return;
        }
    }
}

fn fetch(agent: &ureq::Agent, url: &str) -> Result<String, String> {
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let words = |error: ureq::Error| format!("{url}: {error}");
    let mut response = agent
        .get(url)
        .header("Accept", accept)
        .call()
        .map_err(words)?;
    let bytes = read_body(response.body_mut(), PAGE_BYTES_MAX).map_err(|error| match error {
        ureq::Error::BodyExceedsLimit(_) => format!(
            "{url}: its page is larger than {} MiB after decompression, and none of it is read; let it export fewer \
             series, or name an endpoint that does",
            PAGE_BYTES_MAX >> 20
        ),
        other => words(other),
    })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned()))
}

/// Counts a page among those that wait to be parsed, if there is room for it.
fn hold(page: String, url: &str, held_bytes: &AtomicU64) -> Result<String, String> {
    let bytes = page.len() as u64;
    let room = |held: u64| (held + bytes <= HELD_BYTES_MAX).then_some(held + bytes);
    match held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
        Ok(_) => Ok(page),
        Err(_) => Err(format!(
            "{url}: the pages of all endpoints together are larger than {} MiB, and this one is not read; let them \
             export fewer series",
            HELD_BYTES_MAX >> 20
        )),
    }
}

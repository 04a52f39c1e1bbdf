//! The service: threads that are started in order, and end in order.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::answers;
use crate::background::{self, Activity, Stop};
use crate::corpus::{Corpus, Document};
use crate::database::{Access, Reader, fill, read};
use crate::fault::{Fault, Faults};
use crate::figures::Figures;
use crate::http::response::SMALL;
use crate::http::{Accepted, Bounded, Queue, Response, request};
use crate::spans::otlp::Otlp;
use crate::spans::{Export, Processor, Tracer, Value, Way, processor, unix_ns};

/// Connections that wait for a worker at most: five seconds of 200 requests a second.
const WAITING_MAX: usize = 1_024;
/// Edits that wait for the next batch at most.
const EDITS_MAX: usize = 2_000;
/// How long the end of the service may go unnoticed by the thread that accepts.
const ACCEPT_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// What a client that was refused may still send before its connection is closed, and for how long.
const LINGER: Duration = Duration::from_millis(50);

/// What there is to run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub listen: SocketAddr,
    /// Folder of the database, which is made anew.
    pub data: PathBuf,
    pub documents: usize,
    pub publications: usize,
    pub workers: usize,
    /// Edits per second.
    pub events: f64,
    /// From batch to batch.
    pub sync: Duration,
    /// For the whole of a request's head, and for the whole of an answer.
    pub patience: Duration,
    /// `host:port`, and the certificate that signed its own; without it no span is made.
    pub collector: Option<(String, Vec<u8>)>,
    pub faults: Faults,
    pub seed: u64,
}

/// What all threads share.
pub struct State {
    pub access: Access,
    /// Reads once and never again: SQLite takes a reader's mapping away whenever somebody has written, and this one's
    /// stays, and with it the pages in memory.
    _keeper: Mutex<Reader>,
    pub corpus: Corpus,
    pub figures: Figures,
    pub activity: Activity,
    /// What was searched for since the last flush.
    pub searches: Mutex<HashMap<String, u64>>,
    pub edits: Queue<Document>,
    pub tracer: Tracer,
    pub processor: Option<Arc<Processor>>,
    patience: Duration,
    /// Bytes of one write; all, unless given.
    piece: Option<usize>,
}

/// A service that runs.
pub struct Service {
    pub state: Arc<State>,
    pub address: SocketAddr,
    listener: Option<TcpListener>,
    waiting: Arc<Queue<Accepted>>,
    stop: Arc<Stop>,
    /// In the order in which they are waited for.
    threads: Vec<JoinHandle<()>>,
    exporter: Option<JoinHandle<()>>,
}

impl Service {
    /// Fills the database and starts all threads; it answers when this returns.
    ///
    /// # Errors
    /// When the folder cannot be written, the address is taken, or no thread can be started.
    pub fn start(plan: &Plan) -> Result<Service> {
        let state = Arc::new(State::new(plan)?);
        let listener = TcpListener::bind(plan.listen)
            .with_context(|| format!("listening on {}", plan.listen))?;
        listener
            .set_nonblocking(true)
            .context("accepting without waiting")?;
        let mut service = Service {
            address: listener.local_addr()?,
            state,
            listener: Some(listener),
            waiting: Arc::new(Queue::new(WAITING_MAX)),
            stop: Arc::default(),
            threads: Vec::new(),
            exporter: None,
        };
        service.start_exporter(plan)?;
        service.start_workers(plan.workers)?;
        service.start_background(plan)?;
        Ok(service)
    }

    fn start_exporter(&mut self, plan: &Plan) -> Result<()> {
        let (Some(processor), Some((address, authority))) =
            (&self.state.processor, &plan.collector)
        else {
            return Ok(());
        };
        let mut exporter: Box<dyn Export> = Box::new(Otlp::new(address, authority)?);
        let processor = processor.clone();
        self.exporter = Some(spawn("exporter", move || processor.run(&mut *exporter))?);
        Ok(())
    }

    fn start_workers(&mut self, count: usize) -> Result<()> {
        let (state, waiting, stop) = (self.state.clone(), self.waiting.clone(), self.stop.clone());
        if let Some(listener) = self.listener.take() {
            let accept = move || accept(&state, &listener, &waiting, &stop);
            self.threads.push(spawn("accept", accept)?);
        }
        for number in 0..count.max(1) {
            let (state, waiting) = (self.state.clone(), self.waiting.clone());
            let reader = state.access.reader()?;
            self.threads
                .push(spawn(&format!("worker-{number}"), move || {
                    while let Some(accepted) = waiting.pop() {
                        serve(&state, &reader, &accepted);
                    }
                })?);
        }
        Ok(())
    }

    fn start_background(&mut self, plan: &Plan) -> Result<()> {
        let (events, seed, sync) = (plan.events, plan.seed, plan.sync);
        self.background("event-consumer", move |state, stop| {
            background::consume_events(state, stop, events, seed)
        })?;
        self.background("sync-writer", move |state, stop| {
            background::sync_edits(state, stop, sync)
        })?;
        self.background("stats-flush", background::flush_searches)?;
        self.background("activity", background::track_activity)
    }

    fn background(
        &mut self,
        name: &str,
        work: impl FnOnce(&State, &Stop) + Send + 'static,
    ) -> Result<()> {
        let (state, stop) = (self.state.clone(), self.stop.clone());
        self.threads.push(spawn(name, move || work(&state, &stop))?);
        Ok(())
    }

    /// Takes no more connections, answers those that wait, writes and exports what is left.
    ///
    /// # Errors
    /// When a thread panicked.
    pub fn end(self) -> Result<()> {
        self.stop.set();
        let mut panicked = 0;
        for thread in self.threads {
            panicked += usize::from(thread.join().is_err());
        }
        if let (Some(processor), Some(exporter)) = (&self.state.processor, self.exporter) {
            processor.close();
            panicked += usize::from(exporter.join().is_err());
        }
        anyhow::ensure!(panicked == 0, "{panicked} threads panicked");
        Ok(())
    }
}

impl State {
    fn new(plan: &Plan) -> Result<State> {
        let corpus = Corpus::new(plan.seed, plan.documents, plan.publications);
        std::fs::create_dir_all(&plan.data).with_context(|| format!("making {:?}", plan.data))?;
        let path = plan.data.join("search.db");
        fill::fill(&path, &corpus, &plan.faults).with_context(|| format!("filling {path:?}"))?;
        let access = Access::open(&path, &plan.faults)?;
        let keeper = access.reader()?;
        keeper.read(read::warm).context("reading everything once")?;
        let way = if plan.faults.has(Fault::ExporterLock) {
            Way::UnderLock
        } else {
            Way::Drain
        };
        let processor = plan
            .collector
            .as_ref()
            .map(|_| Arc::new(Processor::new(way, processor::EVERY)));
        Ok(State {
            access,
            _keeper: Mutex::new(keeper),
            corpus,
            figures: Figures::default(),
            activity: Activity::default(),
            searches: Mutex::default(),
            edits: Queue::new(EDITS_MAX),
            tracer: Tracer::new(processor.clone(), plan.seed),
            processor,
            patience: plan.patience,
            piece: plan.faults.has(Fault::SmallBuffer).then_some(SMALL),
        })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .with_context(|| format!("starting the thread {name}"))
}

/// Takes connections until it is time to end, and then those that had come by then.
fn accept(state: &State, listener: &TcpListener, waiting: &Queue<Accepted>, stop: &Stop) {
    loop {
        let is_last = stop.is_set();
        // Whatever poll says, accept says why there is none.
        let _ = poll(
            &mut [PollFd::new(listener, PollFlags::IN)],
            Some(&ACCEPT_POLL),
        );
        let error = accept_all(state, listener, waiting);
        if is_last {
            return waiting.close();
        }
        if error.kind() != io::ErrorKind::WouldBlock {
            // No descriptor is free, or the client is gone already: the next may do better.
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

/// Takes what there is, until there is a reason why there is no more.
fn accept_all(state: &State, listener: &TcpListener, waiting: &Queue<Accepted>) -> io::Error {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        let accepted = Accepted {
            stream,
            at: Instant::now(),
            unix_ns: unix_ns(),
        };
        if waiting.push(accepted).is_err() {
            state.figures.overflowed.fetch_add(1, Relaxed);
        }
    }
}

/// Reads, answers, closes.
fn serve(state: &State, reader: &Reader, accepted: &Accepted) {
    let begun = Instant::now();
    let stream = &accepted.stream;
    let mut bounded = Bounded {
        stream,
        deadline: begun + state.patience,
    };
    let request = match request::read_request(&mut bounded) {
        Ok(request) => request,
        Err(refused) => {
            state.figures.refused.fetch_add(1, Relaxed);
            if let Some(response) = Response::to(&refused) {
                send(state, stream, &response);
                hear_out(stream);
            }
            return;
        }
    };
    let mut span = state.tracer.start("http.request", accepted.unix_ns);
    let queue_ms = (begun - accepted.at).as_secs_f64() * 1e3;
    answers::describe(
        &mut span,
        &request,
        queue_ms,
        begun.elapsed().as_secs_f64() * 1e3,
    );
    let response = answers::answer(&request, reader, state, &span);
    span.set(
        "http.response.status_code",
        Value::Whole(response.status.into()),
    );
    state.activity.now.fetch_add(1, Relaxed);
    send(state, stream, &response);
}

fn send(state: &State, stream: &TcpStream, response: &Response) {
    let mut bounded = Bounded {
        stream,
        deadline: Instant::now() + state.patience,
    };
    let _ = stream.set_nodelay(true);
    if let Some(piece) = state.piece {
        // Without this the kernel would take all pieces at once, on a path that it thinks is fast.
        let _ = socket2::SockRef::from(stream).set_send_buffer_size(piece);
    }
    let count = match response.write(&mut bounded, state.piece) {
        Ok(()) => &state.figures.answered,
        Err(_) => &state.figures.unsent,
    };
    count.fetch_add(1, Relaxed);
}

/// Closing a connection with unread bytes would take the answer back from a client that is still sending.
fn hear_out(stream: &TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let bounded = Bounded {
        stream,
        deadline: Instant::now() + LINGER,
    };
    let _ = std::io::copy(
        &mut std::io::Read::take(bounded, 1 << 16),
        &mut std::io::sink(),
    );
}

/// `host:port` and the file of the certificate, as they are given on the command line.
///
/// # Errors
/// When the file cannot be read.
pub fn collector(address: &str, authority: &std::path::Path) -> Result<(String, Vec<u8>)> {
    let pem = std::fs::read(authority)
        .with_context(|| format!("reading {authority:?}: has the collector been started?"))?;
    address
        .rsplit_once(':')
        .ok_or_else(|| anyhow!("--collector {address} is no HOST:PORT"))?;
    Ok((address.to_string(), pem))
}

//! Names of stacks, looked up in a thread of their own, one for all processes of a program: they share what is read of
//! its files.
//!
//! The debug information of a large program takes seconds to read, and minutes where there is no CPU
//! time to be had; a lookup that has begun cannot be stopped. So whoever waits for names waits until a
//! moment of its own choice, and takes what is there. The stacks that matter most are named twice:
//! first from the symbol tables, which is quick, then with inlined functions, files and lines.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::linux::fs::MetadataExt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use abi::PYTHON_CODE;

use super::probe::LoadedObject;
use super::smaps::Area;
use super::symbols::{Symbols, nameless, symbolizer};
use ::symbols::frame::Frame;
use symbols::perf_map::Ignored;

/// Stacks that are named from the symbol tables first.
const QUICK_MAX: usize = 256;

/// Stacks of one process that are named: all of a probe with the default cap of 8 MiB.
const STACKS_MAX: usize = 16_384;

/// How long what was read of files is kept with nothing to name: reading it again takes a moment, and the debug
/// information of a large program is hundreds of megabytes.
const KEPT: Duration = Duration::from_secs(5);

/// Processes of one program of which names are remembered meanwhile; the memory is emptied when it is full.
const PROCESSES_MAX: usize = 64;

/// Stacks to name, the most important first.
pub struct Request {
    pub areas: Vec<Area>,
    pub objects: Vec<LoadedObject>,
    /// See [`super::probe::ProbeSnapshot::python`].
    pub python: Arc<Vec<Frame>>,
    /// Key and return addresses, innermost first.
    pub stacks: Vec<(u64, Vec<u64>)>,
}

enum Answer {
    Named(u64, Vec<Frame>),
    /// The end of a request.
    Done {
        without_symbols: Vec<String>,
        ignored_perf_map: Option<Ignored>,
    },
}

/// A request of one process.
struct Job {
    /// Of the [`Namer`]: a pid may be used again.
    number: u64,
    pid: i32,
    request: Request,
    told: Sender<Answer>,
}

/// The thread that names; it ends with the last one that may ask it.
struct Thread(Sender<Job>);

/// The threads by the program's file (device, inode).
static THREADS: Mutex<BTreeMap<(u64, u64), Weak<Thread>>> = Mutex::new(BTreeMap::new());

/// Names the stacks of one process.
pub struct Namer {
    number: u64,
    pid: i32,
    /// Once there was something to ask.
    thread: Option<Arc<Thread>>,
    /// Of the requests that are not answered to their end, the oldest first.
    answers: VecDeque<Receiver<Answer>>,
    asked: HashSet<u64>,
    /// The thread came to an end before it had answered.
    broken: bool,
    /// Modules for which the lookup failed as a whole: stripped of everything, or out of reach.
    pub without_symbols: Vec<String>,
    /// Why the perf map of the process is not used.
    pub ignored_perf_map: Option<Ignored>,
    /// Stacks of the last request that were left out, [`STACKS_MAX`] being named already.
    pub left_out: usize,
}

impl Namer {
    pub fn new(pid: i32) -> Namer {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Namer {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            pid,
            thread: None,
            answers: VecDeque::new(),
            asked: HashSet::new(),
            broken: false,
            without_symbols: Vec::new(),
            ignored_perf_map: None,
            left_out: 0,
        }
    }

    pub fn has_asked(&self, stack: u64) -> bool {
        self.asked.contains(&stack)
    }

    /// Not all was told: some stacks have no names, or only those of the symbol tables.
    pub fn is_behind(&self) -> bool {
        self.broken || !self.answers.is_empty()
    }

    /// Asks; the answers come with [`Namer::collect`].
    pub fn ask(&mut self, mut request: Request) {
        self.left_out = 0;
        request.stacks.retain(|(stack, _)| {
            let is_taken = self.asked.contains(stack) || self.asked.len() < STACKS_MAX;
            match is_taken {
                true => _ = self.asked.insert(*stack),
                false => self.left_out += 1,
            }
            is_taken
        });
        if request.stacks.is_empty() {
            return;
        }
        let (told, answers) = channel();
        let job = Job {
            number: self.number,
            pid: self.pid,
            request,
            told,
        };
        let thread = self.thread.get_or_insert_with(|| thread_of(job.pid));
        match thread.0.send(job) {
            Ok(()) => self.answers.push_back(answers),
            Err(_) => self.broken = true,
        }
    }

    /// Takes in what was named, until that is everything or the time is over.
    pub fn collect(&mut self, until: Instant, frames: &mut BTreeMap<u64, Vec<Frame>>) {
        while let Some(answers) = self.answers.front() {
            let left = until.saturating_duration_since(Instant::now());
            match answers.recv_timeout(left) {
                Ok(Answer::Named(stack, named)) => {
                    frames.insert(stack, named);
                }
                Ok(Answer::Done {
                    without_symbols,
                    ignored_perf_map,
                }) => {
                    self.answers.pop_front();
                    self.without_symbols = without_symbols;
                    self.ignored_perf_map = ignored_perf_map;
                }
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    self.answers.pop_front();
                    self.broken = true;
                }
            }
        }
    }
}

/// The thread for a process: that of its program if there is one.
fn thread_of(pid: i32) -> Arc<Thread> {
    let Ok(program) = std::fs::metadata(format!("/proc/{pid}/exe")) else {
        return Arc::new(start());
    };
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    threads.retain(|_, thread| thread.strong_count() > 0);
    let known = threads
        .entry((program.st_dev(), program.st_ino()))
        .or_default();
    known.upgrade().unwrap_or_else(|| {
        let thread = Arc::new(start());
        *known = Arc::downgrade(&thread);
        thread
    })
}

/// Where no thread can be started, nothing is named.
fn start() -> Thread {
    let (jobs, asked) = channel::<Job>();
    let name = move || while name_until_idle(&asked) {};
    let _ = std::thread::Builder::new().name("names".into()).spawn(name);
    Thread(jobs)
}

/// Names what is asked until nothing is for a while, and forgets what was read for it. Whether it may be asked again.
fn name_until_idle(asked: &Receiver<Job>) -> bool {
    let Ok(mut job) = asked.recv() else {
        return false;
    };
    let shared = Rc::new(symbolizer(true));
    let mut processes: HashMap<u64, [Symbols; 2]> = HashMap::new();
    loop {
        if processes.len() >= PROCESSES_MAX {
            processes.clear();
        }
        let symbols = processes.entry(job.number).or_insert_with(|| {
            [false, true].map(|debug| Symbols::sharing(job.pid, debug, Rc::clone(&shared)))
        });
        answer(symbols, &job);
        job = match asked.recv_timeout(KEPT) {
            Ok(job) => job,
            Err(end) => return end == RecvTimeoutError::Timeout,
        };
    }
}

/// `None` when nobody takes the answers any more.
fn answer([quick, full]: &mut [Symbols; 2], job: &Job) -> Option<()> {
    quick.python_frames = job.request.python.clone();
    full.python_frames = job.request.python.clone();
    let first = job.request.stacks.len().min(QUICK_MAX);
    name_stacks(quick, &job.request, first, &job.told)?;
    name_stacks(full, &job.request, usize::MAX, &job.told)?;
    let done = Answer::Done {
        without_symbols: full.without_symbols.clone(),
        ignored_perf_map: full.perf_map.ignored.clone(),
    };
    job.told.send(done).ok()
}

/// `None` when nobody takes the answers any more.
fn name_stacks(
    symbols: &mut Symbols,
    request: &Request,
    most: usize,
    told: &Sender<Answer>,
) -> Option<()> {
    for (stack, addresses) in request.stacks.iter().take(most) {
        let frames = symbols.frames(&request.areas, &request.objects, addresses, true);
        told.send(Answer::Named(*stack, frames)).ok()?;
    }
    Some(())
}

/// Module and offset of every frame, for a stack that was not named in time.
pub fn unnamed(areas: &[Area], addresses: &[u64]) -> Vec<Frame> {
    let native = addresses
        .iter()
        .filter(|address| **address & PYTHON_CODE == 0);
    let frame = |address: &u64| nameless(areas, address.wrapping_sub(1));
    native.map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smaps::parse_smaps;

    #[inline(never)]
    fn a_function_to_name() -> u64 {
        std::hint::black_box(11)
    }

    fn own_areas() -> Vec<Area> {
        parse_smaps(&std::fs::read("/proc/self/smaps").unwrap()).unwrap()
    }

    #[test]
    fn names_come_with_file_and_line() {
        let mut namer = Namer::new(std::process::id() as i32);
        let address = a_function_to_name as *const () as u64 + 1;
        namer.ask(Request {
            areas: own_areas(),
            objects: Vec::new(),
            python: Arc::default(),
            stacks: vec![(7, vec![address])],
        });
        let mut frames = BTreeMap::new();
        namer.collect(Instant::now() + Duration::from_secs(300), &mut frames);
        let frame = frames[&7].last().unwrap();
        let name = frame.function.as_deref().unwrap();
        assert!(name.contains("a_function_to_name"), "{frame:?}");
        assert!(
            frame.file.as_deref().unwrap().ends_with("namer.rs"),
            "{frame:?}"
        );
        assert!(namer.has_asked(7) && !namer.has_asked(8) && !namer.is_behind());
    }

    #[test]
    fn processes_of_one_program_share_what_is_read_of_it() {
        let ask = || {
            let mut namer = Namer::new(std::process::id() as i32);
            let address = a_function_to_name as *const () as u64 + 1;
            namer.ask(Request {
                areas: own_areas(),
                objects: Vec::new(),
                python: Arc::default(),
                stacks: vec![(7, vec![address])],
            });
            namer
        };
        let (mut first, mut second) = (ask(), ask());
        let threads = [&first, &second].map(|namer| namer.thread.clone().unwrap());
        assert!(Arc::ptr_eq(&threads[0], &threads[1]));
        for namer in [&mut first, &mut second] {
            let mut frames = BTreeMap::new();
            namer.collect(Instant::now() + Duration::from_secs(300), &mut frames);
            assert!(frames[&7].last().unwrap().line.is_some(), "{frames:?}");
        }
        // What one that is gone asked for holds up no other.
        let gone = ask();
        drop(gone);
        let mut third = ask();
        assert!(third.is_behind());
        let mut frames = BTreeMap::new();
        third.collect(Instant::now() + Duration::from_secs(300), &mut frames);
        assert_eq!(frames.len(), 1);
        assert!(!third.is_behind());
    }

    #[test]
    fn what_a_thread_that_ended_was_asked_is_not_waited_for() {
        let mut namer = Namer::new(0);
        let (jobs, asked) = channel();
        namer.thread = Some(Arc::new(Thread(jobs)));
        let request = |stack| Request {
            areas: Vec::new(),
            objects: Vec::new(),
            python: Arc::default(),
            stacks: vec![(stack, Vec::new())],
        };
        namer.ask(request(1));
        drop(asked);
        namer.ask(request(2));
        let begin = Instant::now();
        namer.collect(begin + Duration::from_secs(300), &mut BTreeMap::new());
        assert!(namer.is_behind() && begin.elapsed() < Duration::from_secs(100));
    }

    fn named_in(path: &std::path::Path) -> (BTreeMap<u64, Vec<Frame>>, Namer) {
        let object = LoadedObject {
            start: 0x1000,
            end: 0x2000,
            bias: 0,
            path: path.to_str().unwrap().to_owned(),
        };
        let mut namer = Namer::new(std::process::id() as i32);
        namer.ask(Request {
            areas: own_areas(),
            objects: vec![object],
            python: Arc::default(),
            stacks: vec![(7, vec![0x1010])],
        });
        let mut frames = BTreeMap::new();
        namer.collect(Instant::now() + Duration::from_secs(60), &mut frames);
        (frames, namer)
    }

    /// A program that opens a pipe that nobody writes waits for ever.
    #[test]
    fn a_pipe_in_the_place_of_a_library_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.so");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let (frames, namer) = named_in(&path);
        assert!(!namer.is_behind(), "it waits for the pipe");
        assert_eq!(frames[&7][0].function, None);
        assert!(frames[&7][0].module.ends_with("pipe.so"), "{frames:?}");
    }

    #[test]
    fn so_many_stacks_are_named_and_no_more() {
        let mut namer = Namer::new(std::process::id() as i32);
        let request = |from: u64, count: u64| Request {
            areas: Vec::new(),
            objects: Vec::new(),
            python: Arc::default(),
            stacks: (from..from + count).map(|key| (key, Vec::new())).collect(),
        };
        namer.ask(request(0, STACKS_MAX as u64));
        assert_eq!(namer.left_out, 0);
        namer.ask(request(1 << 20, 3));
        assert_eq!(namer.left_out, 3);
        assert!(!namer.has_asked(1 << 20) && namer.has_asked(5));
        namer.ask(request(5, 1));
        assert_eq!(namer.left_out, 0, "what was named is named again");
    }

    #[test]
    fn without_a_name_it_is_module_and_offset() {
        let address = a_function_to_name as *const () as u64 + 1;
        let frame = unnamed(&own_areas(), &[address]).remove(0);
        assert_eq!(frame.function, None);
        assert!(!frame.module.is_empty() && frame.offset > 0, "{frame:?}");
    }
}

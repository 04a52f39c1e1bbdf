//! Goroutines: threads do not wait in a Go program, goroutines do. Probes on four functions of its
//! runtime (`gopark`, `ready`, `execute`, `goexit1`) tell who parks and why, who makes whom runnable,
//! which goroutine is on which thread, and which one ends; the analysis then sees goroutines as it
//! sees threads.

mod program;

use std::collections::{HashMap, VecDeque};
use std::io;

pub use self::program::Program;
use self::program::{EXECUTE, EXIT, GOPARK, READY};
use super::event::{ENDED_KEPT, Event, GOROUTINES, StackId, Tid, Wait, WaitKind, Waker, What};
use super::places::Places;
use super::waits::Waits;
use bpf::uprobes::hits::Hits;
use bpf::uprobes::record::{Fields, Hit};

/// 12,000 hits between two turns of 40 ms: ten times what the budget allows.
const RING_BYTES: u32 = 4 << 20;
/// Go's own calling convention since 1.17 has its arguments in the first three, AX, BX and CX, and the goroutine in the
/// last, R14.
const FIELDS: Fields = Fields {
    registers: &[80, 40, 88, 8],
    frames: 32,
};
/// A lock that gopark was not told. Otherwise it is told the root of the tree of waiters: one of 251,
/// so that two mutexes seldom share one.
const SOME_LOCK: u64 = 1;

/// One hit of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub at_ns: u64,
    pub tid: u32,
    /// Innermost first; without the caller of the probed function.
    pub stack: Vec<u64>,
    pub args: [u64; 3],
    pub goroutine: u64,
    /// Of which function.
    pub kind: u32,
}

impl Probe {
    fn of(hit: Hit) -> Probe {
        let [first, second, third, goroutine] = hit.registers;
        // Return addresses point behind the call.
        let inner = hit.stack.first().copied();
        let outer = hit.stack.iter().skip(1).map(|address| address - 1);
        Probe {
            at_ns: hit.at_ns,
            tid: hit.tid,
            stack: inner.into_iter().chain(outer).collect(),
            args: [first, second, third],
            goroutine,
            kind: hit.kind,
        }
    }
}

pub struct Goroutines {
    pid: u32,
    program: Program,
    pub hits: Hits,
    on: HashMap<u32, Carried>,
    lives: Lives,
}

/// What a goroutine was started for, as far as its stacks told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    Unknown,
    /// A server's library parks its goroutines where nothing of the program's own is on the stack, a thousand
    /// times perhaps, until a handler waits for something.
    ForALibrary,
    ForTheProgram,
}

/// Goroutines that were seen. The runtime uses a goroutine's structure again when it has ended: each life is another
/// goroutine.
#[derive(Debug, Default)]
struct Lives {
    /// By the address of the structure.
    now: HashMap<u64, Tid>,
    count: Tid,
    /// The living, and the newest that ended.
    started: HashMap<Tid, Started>,
    ended: VecDeque<Tid>,
}

impl Lives {
    fn of(&mut self, address: u64) -> Tid {
        *self.now.entry(address).or_insert_with(|| {
            self.count += 1;
            let tid = GOROUTINES + self.count;
            self.started.insert(tid, Started::Unknown);
            tid
        })
    }

    fn end(&mut self, address: u64) {
        self.ended.extend(self.now.remove(&address));
        if self.ended.len() > ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.started.remove(&oldest);
        }
    }

    fn is_open(&self, goroutine: Tid) -> bool {
        let started = self.started.get(&goroutine);
        started.is_some_and(|started| *started != Started::ForTheProgram)
    }

    /// Once it was seen at the program's own work it stays the program's.
    fn learn(&mut self, goroutine: Tid, is_own: bool) -> bool {
        if !self.is_open(goroutine) {
            return false;
        }
        let now = match is_own {
            true => Started::ForTheProgram,
            false => Started::ForALibrary,
        };
        let known = self.started.get_mut(&goroutine);
        known.is_some_and(|known| std::mem::replace(known, now) != now)
    }
}

/// Which goroutine a thread carried from when on, newest last. Records of switches may be told later
/// than the hits that came after them: they are asked for by their own time.
#[derive(Debug, Default)]
struct Carried {
    since: VecDeque<(u64, Option<Tid>)>,
}

impl Carried {
    /// Changes of one thread that are remembered: some milliseconds of a busy one.
    const KEPT: usize = 64;

    fn now(&self) -> Option<Tid> {
        self.since.back().and_then(|(_, goroutine)| *goroutine)
    }

    fn at(&self, t_ns: u64) -> Option<Tid> {
        let after = self.since.partition_point(|(at_ns, _)| *at_ns <= t_ns);
        self.since.get(after.checked_sub(1)?)?.1
    }

    fn becomes(&mut self, at_ns: u64, goroutine: Option<Tid>) {
        if self.since.len() == Carried::KEPT {
            self.since.pop_front();
        }
        self.since.push_back((at_ns, goroutine));
    }
}

impl Goroutines {
    /// Probes the program of `pid`, in that process alone.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn watch(pid: u32, program: &Program) -> io::Result<Goroutines> {
        Ok(Goroutines {
            pid,
            hits: Hits::of(program.target(), program.places(), FIELDS, RING_BYTES)?,
            program: program.clone(),
            on: HashMap::new(),
            lives: Lives::default(),
        })
    }

    /// The goroutine that was on a thread at a time of the last some milliseconds.
    pub fn on_thread(&self, tid: u32, at_ns: u64) -> Option<Tid> {
        self.on.get(&tid)?.at(at_ns)
    }

    pub fn seen(&self) -> Vec<Tid> {
        self.lives.started.keys().copied().collect()
    }

    /// A goroutine parked on a stack that begins in the program's own code, or not: true when that is news.
    pub fn learns(&mut self, goroutine: Tid, is_own: bool) -> bool {
        self.lives.learn(goroutine, is_own)
    }

    /// Hits since the last call, by time.
    pub fn drain(&mut self) -> Vec<Probe> {
        self.hits.drain().into_iter().map(Probe::of).collect()
    }

    /// The event that a hit stands for; and the goroutine, when it parked and its group is still to be learnt.
    pub fn event(
        &mut self,
        probe: &Probe,
        stack: StackId,
        waits: &mut Waits,
        places: &mut Places,
    ) -> (Option<Event>, Option<Tid>) {
        let at_ns = probe.at_ns;
        let [first, second, third] = probe.args;
        if probe.kind == GOPARK {
            let tid = self.leaves(probe);
            let wait = self.wait(third as u8, second, stack, waits, places);
            let ungrouped = self.lives.is_open(tid).then_some(tid);
            let what = What::Blocked(wait);
            return (Some(Event { at_ns, tid, what }), ungrouped);
        }
        if probe.kind == EXIT {
            let tid = self.leaves(probe);
            self.lives.end(probe.goroutine);
            let what = What::Exited;
            return (Some(Event { at_ns, tid, what }), None);
        }
        let tid = self.lives.of(first);
        if probe.kind == READY {
            let on = self.on.get(&probe.tid).and_then(Carried::now);
            let by = on.map_or(Waker::Outside, Waker::Thread);
            let release = stack;
            let what = What::Woken { by, release };
            return (Some(Event { at_ns, tid, what }), None);
        }
        debug_assert_eq!(probe.kind, EXECUTE);
        self.leaves_its_thread(tid, at_ns);
        self.carries(probe.tid, at_ns, Some(tid));
        let what = What::In { after: 0 };
        (Some(Event { at_ns, tid, what }), None)
    }

    /// The goroutine that leaves its thread by itself.
    fn leaves(&mut self, probe: &Probe) -> Tid {
        let goroutine = self.lives.of(probe.goroutine);
        self.carries(probe.tid, probe.at_ns, None);
        self.leaves_its_thread(goroutine, probe.at_ns);
        goroutine
    }

    /// A thread that came back from a system call without a processor goes to sleep, and another
    /// one executes its goroutine: what the first one does from then on is not the goroutine's.
    fn leaves_its_thread(&mut self, goroutine: Tid, at_ns: u64) {
        let carriers = self.on.values_mut();
        for carried in carriers.filter(|carried| carried.now() == Some(goroutine)) {
            carried.becomes(at_ns, None);
        }
    }

    fn carries(&mut self, tid: u32, at_ns: u64, goroutine: Option<Tid>) {
        self.on.entry(tid).or_default().becomes(at_ns, goroutine);
    }

    fn wait(
        &self,
        reason: u8,
        lock: u64,
        stack: StackId,
        waits: &mut Waits,
        places: &mut Places,
    ) -> Wait {
        let words = self.program.reason(reason);
        let kind = match words {
            "semacquire" if is_of_mutex(places, stack) => WaitKind::Lock,
            _ => kind_of(words),
        };
        let mut wait = match kind {
            WaitKind::Network => {
                let way = match writes(places, stack) {
                    true => "write",
                    false => "read",
                };
                let fd = self.program.descriptor(self.pid, lock, way == "write");
                let wait = fd.map(|fd| waits.of_transfer(fd, way, places));
                // The poller waits for no file: the connection is closed, and its number is a file's by now.
                let wait = wait.filter(|wait| wait.kind != WaitKind::Disk);
                wait.unwrap_or(Wait::of(WaitKind::Inbound, 0))
            }
            WaitKind::Lock => Wait::of(WaitKind::Lock, lock.max(SOME_LOCK)),
            kind => Wait::of(kind, lock),
        };
        if wait.activity == 0 {
            wait.activity = places.text(words);
        }
        // A goroutine's stack lies elsewhere each time: its calls alone are the place.
        (wait.stack, wait.place) = (stack, stack);
        wait
    }
}

fn writes(places: &Places, stack: StackId) -> bool {
    let frames = &places.stack_of(stack).frames;
    let inner = frames.iter().take(6);
    inner
        .clone()
        .any(|f| f.name.contains("Write") || f.name.contains("onnect"))
        && !inner.clone().any(|f| f.name.contains("Read"))
}

/// Before Go 1.20 the runtime had one word for mutexes and for all else that has a semaphore.
fn is_of_mutex(places: &Places, stack: StackId) -> bool {
    let mut frames = places.stack_of(stack).frames.iter().take(6);
    frames.any(|frame| frame.name == "sync.runtime_SemacquireMutex")
}

/// The runtime's own words for why a goroutine parks.
fn kind_of(reason: &str) -> WaitKind {
    match reason {
        "sleep" => WaitKind::Sleep,
        "IO wait" => WaitKind::Network,
        _ if reason.starts_with("sync.Mutex") || reason.starts_with("sync.RWMutex") => {
            WaitKind::Lock
        }
        "semacquire" | "sync.Cond.Wait" | "sync.WaitGroup.Wait" => WaitKind::Queue,
        _ if reason.starts_with("chan ") && !reason.contains("nil") => WaitKind::Queue,
        _ if reason.starts_with("select") && !reason.contains("no cases") => WaitKind::Queue,
        _ => WaitKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_told_late_is_of_the_goroutine_of_its_own_time() {
        let mut carried = Carried::default();
        carried.becomes(10, Some(1));
        carried.becomes(20, None);
        carried.becomes(30, Some(2));
        let on = [5, 10, 19, 25, 31].map(|at| carried.at(at));
        assert_eq!(on, [None, Some(1), Some(1), None, Some(2)]);
        assert_eq!(carried.now(), Some(2));
        for at in 0..1_000 {
            carried.becomes(40 + at, Some(at));
        }
        assert_eq!(carried.since.len(), Carried::KEPT);
        assert_eq!((carried.at(31), carried.now()), (None, Some(999)));
    }

    #[test]
    fn a_goroutine_of_a_servers_library_is_the_programs_whenever_it_parks_in_a_handler() {
        let mut lives = Lives::default();
        let seven = lives.of(0x7000);
        assert!(lives.learn(seven, false), "nothing was known");
        for _ in 0..10_000 {
            assert!(lives.is_open(seven));
            assert!(!lives.learn(seven, false));
        }
        assert!(lives.learn(seven, true));
        assert!(!lives.is_open(seven));
        assert!(
            !lives.learn(seven, false),
            "as the library's a stack was read of a system call"
        );
        assert!(!lives.is_open(seven));
    }

    #[test]
    fn a_structure_that_is_used_again_is_another_goroutine() {
        let mut lives = Lives::default();
        let (first, other) = (lives.of(0x7000), lives.of(0x8000));
        lives.learn(first, true);
        assert_eq!(lives.of(0x7000), first);
        lives.end(0x7000);
        let second = lives.of(0x7000);
        assert!(![first, other].contains(&second) && lives.is_open(second));
        assert!(!lives.is_open(first), "what it was is remembered");
        for _ in 0..2 * ENDED_KEPT {
            lives.of(0x9000);
            lives.end(0x9000);
        }
        assert_eq!(lives.started.len(), ENDED_KEPT + 2);
    }

    #[test]
    fn reasons_are_sorted_by_the_runtimes_own_words() {
        let cases = [
            ("sync.Mutex.Lock", WaitKind::Lock),
            ("sync.RWMutex.RLock", WaitKind::Lock),
            ("IO wait", WaitKind::Network),
            ("chan receive", WaitKind::Queue),
            ("chan receive (nil chan)", WaitKind::Other),
            ("select", WaitKind::Queue),
            ("sleep", WaitKind::Sleep),
            ("GC worker (idle)", WaitKind::Other),
        ];
        for (reason, kind) in cases {
            assert_eq!(kind_of(reason), kind, "{reason}");
        }
    }
}

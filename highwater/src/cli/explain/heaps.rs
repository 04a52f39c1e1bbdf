//! The managed heaps of the processes that are followed: when they are read, and for how long.

use std::time::{Duration, Instant};

use memory::managed::{HeapHistory, ManagedGrowth};
use observe::clock::read_ns;
use observe::overhead::Times;
use runtimes::{Error, Limits, ManagedHeap, Touch};
use rustix::time::ClockId;

/// Snapshots that an observation is divided into; those that stop the program are fewer.
const SNAPSHOTS: u32 = 16;
const PAUSING_SNAPSHOTS: u32 = 12;
/// After a pause the program runs so many times as long before it is stopped again; before the last time less, for
/// without a second snapshot the first was for nothing.
const PAUSE_REST: u32 = 50;
const LAST_PAUSE_REST: u32 = 3;
/// After a snapshot our CPU time rests so many times: reading the heaps of all processes takes a tenth of one core. A
/// heap that is so large that this leaves fewer than [`SNAPSHOTS_LEAST`] takes a quarter at most.
const REST: u32 = 9;
const REST_LEAST: u32 = 3;
/// Fewer decide nothing.
const SNAPSHOTS_LEAST: u32 = 4;
/// Of one snapshot, and of the search for holders.
const READING_MAX: Duration = Duration::from_secs(10);
/// The same once the user has interrupted.
const HURRIED_MAX: Duration = Duration::from_secs(3);
const BYTES_MAX: usize = 256 << 20;
/// A reader that fails so often in a row is not asked again.
const FAILURES_MAX: usize = 3;
/// Types whose holders are searched.
const HELD_MAX: usize = 6;
/// A program that was just started has no runtime yet: it is asked for again so often.
const OPENINGS_MAX: usize = 4;

/// The managed heaps of one process.
#[derive(Default)]
pub struct Heaps {
    heaps: Vec<Heap>,
    openings: usize,
    next: Option<Instant>,
    /// Runtimes that could not be opened, in words.
    problems: Vec<String>,
    /// How often a runtime stopped the program, and for how long.
    pauses: Times,
}

struct Heap {
    reader: Box<dyn ManagedHeap>,
    history: HeapHistory,
    /// Until when the program may not be stopped again, not even for the last snapshot, and when it is to be.
    rests_until: Option<Instant>,
    next_pause: Option<Instant>,
    failures: usize,
    /// Of the last failure.
    problem: Option<Error>,
}

/// How the heaps of one observation are read.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub duration: Duration,
    /// The longest that a runtime may stop the program at once, for one snapshot.
    pub pause: Duration,
    /// The program was started for this observation: what its start takes is left out.
    pub at_start: bool,
    /// The user wants the answer now: nothing is stopped any more, and little is read.
    pub is_hurried: bool,
}

impl Plan {
    fn limits(&self) -> Limits {
        Limits {
            time: match self.is_hurried {
                true => HURRIED_MAX,
                false => READING_MAX.max(self.pause * 2),
            },
            bytes: BYTES_MAX,
            pause: self.pause,
        }
    }

    /// Of the search for holders, which stops the program once more where the runtime does it.
    fn holder_limits(&self) -> Limits {
        Limits {
            pause: if self.is_hurried {
                Duration::ZERO
            } else {
                self.pause
            },
            ..self.limits()
        }
    }
}

impl Heaps {
    /// Opens readers where there are none yet; what they will do to the process, a sentence each.
    pub fn open_due(&mut self, pid: u32, plan: &Plan) -> Vec<String> {
        if !self.heaps.is_empty() || self.openings >= OPENINGS_MAX || !self.is_due() {
            return Vec::new();
        }
        self.openings += 1;
        self.problems.clear();
        for opened in runtimes::open(pid) {
            match opened {
                Ok(reader) => self.heaps.push(Heap::new(reader)),
                Err(problem) => self.problems.push(problem.to_string()),
            }
        }
        if plan.pause.is_zero() {
            return Vec::new();
        }
        self.heaps
            .iter()
            .filter_map(|heap| heap.reader.warning())
            .collect()
    }

    /// After an exec: other heaps, and what was done to the process so far.
    pub fn renewed(&self) -> Heaps {
        Heaps {
            pauses: self.pauses,
            ..Heaps::default()
        }
    }

    pub fn pauses(&self) -> Times {
        self.pauses
    }

    /// Takes the snapshots that are due. `at_s`: since the observation began. How long no heap is to be read now.
    pub fn read_due(&mut self, at_s: f64, plan: &Plan) -> Duration {
        if !self.is_due() {
            return Duration::ZERO;
        }
        let (begin, cpu_ns) = (Instant::now(), read_ns(ClockId::ThreadCPUTime));
        self.read(at_s, plan, false);
        let took_ns = read_ns(ClockId::ThreadCPUTime) - cpu_ns;
        let rest = rest(Duration::from_nanos(took_ns.max(0) as u64), plan.duration);
        self.next = Some(begin + (plan.duration / SNAPSHOTS).max(rest));
        rest
    }

    /// The last snapshot of each, whether or not one is due.
    pub fn read_last(&mut self, at_s: f64, plan: &Plan) {
        self.read(at_s, plan, true);
    }

    /// When it is read again; `None`: it was not read yet.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// What grew in the heap that grew most, with its holders. Snapshots before `from_s` are left out.
    pub fn growth(&mut self, from_s: f64, plan: &Plan) -> Option<ManagedGrowth> {
        let grown = |heap: &Heap| {
            heap.history
                .growth(from_s)
                .map_or(-1.0, |growth| growth.grown_bytes())
        };
        let most = self
            .heaps
            .iter_mut()
            .max_by(|a, b| grown(a).total_cmp(&grown(b)))?;
        let mut growth = most.history.growth(from_s)?;
        let types: Vec<String> = held(&growth);
        if !types.is_empty() {
            growth.holders = most.reader.holders(&types, &plan.holder_limits());
            let search = most.reader.last_search();
            growth.paused_s += search.paused.as_secs_f64();
            add(&mut self.pauses, search.paused);
            growth.missing.extend(search.missing);
        }
        growth
            .missing
            .extend(most.problem.as_ref().map(Error::to_string));
        Some(growth)
    }

    /// Gives back what was opened in the process.
    pub fn finish(&mut self) {
        for heap in &mut self.heaps {
            if let Err(problem) = heap.reader.finish() {
                self.problems.push(problem.to_string());
            }
        }
    }

    /// What could not be read, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let unread = self.heaps.iter().filter(|heap| heap.history.len() < 2);
        let why = |heap: &Heap| {
            let runtime = heap.reader.runtime();
            match &heap.problem {
                Some(problem) => format!("The heap of {runtime} was not read: {problem}."),
                None => {
                    format!("The heap of {runtime} was read once only: its growth is not known.")
                }
            }
        };
        let problems = self
            .problems
            .iter()
            .map(|problem| format!("A managed heap: {problem}."));
        problems.chain(unread.map(why)).collect()
    }

    fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Reads all but those that may not be stopped now. The last snapshot need not be far from the one before.
    fn read(&mut self, at_s: f64, plan: &Plan, is_last: bool) {
        let begin = Instant::now();
        let may_pause = |heap: &Heap| {
            let until = if is_last {
                heap.rests_until
            } else {
                heap.next_pause
            };
            until.is_none_or(|until| begin >= until) && !plan.is_hurried
        };
        let asked = |heap: &&mut Heap| {
            heap.failures < FAILURES_MAX && (!heap.pauses(plan) || may_pause(heap))
        };
        for heap in self.heaps.iter_mut().filter(asked) {
            let asked = Instant::now();
            let taken = heap.reader.snapshot(&plan.limits());
            // How long the program was stopped for an answer that never came is not known.
            let paused = taken
                .as_ref()
                .map_or(asked.elapsed(), |snapshot| snapshot.cost.paused);
            if heap.pauses(plan) {
                add(&mut self.pauses, paused);
            }
            let now = Instant::now();
            heap.rests_until = Some(now + paused * LAST_PAUSE_REST);
            let next = now + paused * PAUSE_REST;
            heap.next_pause = Some(next.max(asked + plan.duration / PAUSING_SNAPSHOTS));
            match taken {
                Ok(snapshot) => {
                    heap.history.add(at_s, snapshot);
                    (heap.failures, heap.problem) = (0, None);
                }
                Err(problem) => {
                    heap.failures += 1;
                    heap.problem = Some(problem);
                }
            }
        }
    }
}

impl Heap {
    fn new(reader: Box<dyn ManagedHeap>) -> Heap {
        Heap {
            history: HeapHistory::new(reader.runtime(), reader.language()),
            reader,
            rests_until: None,
            next_pause: None,
            failures: 0,
            problem: None,
        }
    }

    /// Whether a snapshot stops the program.
    fn pauses(&self, plan: &Plan) -> bool {
        self.reader.touch() == Touch::Pauses && !plan.pause.is_zero()
    }
}

/// After a reading that took so much CPU time.
fn rest(took: Duration, of: Duration) -> Duration {
    (took * REST).min((of / SNAPSHOTS_LEAST).max(took * REST_LEAST))
}

fn add(pauses: &mut Times, paused: Duration) {
    if !paused.is_zero() {
        pauses.add(paused.as_nanos() as u64);
    }
}

/// The types whose holders are worth a search: of the program's own and of the language's, those that grow most.
fn held(growth: &ManagedGrowth) -> Vec<String> {
    let is_own = |name: &str| !runtimes::is_of_the_language(growth.language, name);
    let mut own: Vec<_> = growth.types.iter().filter(|of| is_own(&of.name)).collect();
    own.sort_by(|a, b| b.objects.grown.total_cmp(&a.objects.grown));
    let mut names: Vec<String> = own
        .iter()
        .take(HELD_MAX / 2)
        .map(|of| of.name.clone())
        .collect();
    let roots = growth.roots.iter().map(|of| of.root.name.clone());
    names.extend(roots.take(HELD_MAX / 2));
    for of in &growth.types {
        if names.len() < HELD_MAX && !names.contains(&of.name) {
            names.push(of.name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_heap_is_read_four_times() {
        let rest = |took_ms, of_s| rest(Duration::from_millis(took_ms), Duration::from_secs(of_s));
        assert_eq!(rest(100, 20), Duration::from_millis(900));
        assert_eq!(rest(1_000, 20), Duration::from_secs(5));
        assert_eq!(
            rest(3_000, 20),
            Duration::from_secs(9),
            "a quarter of a core"
        );
    }
}

//! Goroutines: all of them, by what they wait for and where they were started.

use std::cell::RefCell;
use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::budget::Budget;
use super::layout::Layout;
use symbols::golang::pclntab::{Table, words};
use symbols::golang::words::u64_at;

/// Goroutines that are read; of more, one in some.
const GOROUTINES_MAX: u64 = 1_000_000;
/// More than this many are not believed: their stacks would fill the address space.
const COUNT_MAX: u64 = 1 << 32;
/// Frames of one stack, innermost first.
const FRAMES_MAX: usize = 64;
/// Read of a stack at once, from its inner end. A goroutine that waits has about 1 kB on it.
const WINDOW: usize = 2048;
/// The runtime's own limit for one stack on 64-bit machines is 1 GB.
const STACK_BYTES_MAX: u64 = 2 << 30;
/// Of `struct g` that is read: up to `startpc` in every version.
const G_BYTES: usize = 328;
/// Addresses whose steps are remembered, 40 bytes each.
const STEPS_MAX: usize = 100_000;
/// Attempts to read a goroutine that does not change meanwhile.
const ATTEMPTS: u32 = 3;
/// Pointers read at once.
const POINTERS: u64 = 8192;
const GROUP_BYTES: usize = 120;

// Offsets in `struct g` that are the same in all versions.
const STACK_LOW: usize = 0;
const STACK_HIGH: usize = 8;
const SCHED_SP: usize = 56;
const SCHED_PC: usize = 64;
const SCHED_G: usize = 72;

/// What a goroutine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Runnable,
    Running,
    Syscall,
    /// The number of a reason.
    Waiting(u8),
}

/// `struct g`, as far as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goroutine {
    pub state: State,
    pub created_at: u64,
    pub start: u64,
    pub stack: (u64, u64),
    /// The (pc, sp) at which it goes on.
    pub place: (u64, u64),
}

/// Goroutines that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub state: State,
    pub created_at: u64,
    pub start: u64,
    /// Return addresses, innermost first; empty while it runs.
    pub stack: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub goroutines: u64,
    pub bytes: u64,
}

pub type Groups = HashMap<Key, Count>;

/// How stacks are unwound on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A call pushes the return address.
    Amd64,
    /// A function saves the link register at the end of its frame.
    Arm64,
}

pub struct Reader<'a, M> {
    pub memory: &'a dyn Memory,
    pub table: &'a Table<M>,
    pub layout: Layout,
    pub machine: Machine,
    /// By address: goroutines that are alike are at the same addresses. Without it one takes twice as long.
    pub steps: RefCell<HashMap<u64, Option<Step>>>,
}

/// How a stack goes on from an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    frame_bytes: u64,
    moves_stack: bool,
}

impl<M: Memory> Reader<'_, M> {
    /// The groups of `runtime.allgs`, and sentences on what is not in them.
    pub fn read(&self, all: u64, count: u64, budget: &mut Budget) -> (Groups, Vec<String>) {
        let (mut groups, mut missing) = (Groups::new(), Vec::new());
        if count > COUNT_MAX {
            missing.push("The list of goroutines is damaged.".to_owned());
            return (groups, missing);
        }
        let every = count.div_ceil(GOROUTINES_MAX).max(1);
        if every > 1 {
            missing.push(format!(
                "Of {count} goroutines one in {every} was read; counts are scaled."
            ));
        }
        let (mut index, mut failed) = (0, 0);
        'all: while index < count {
            let length = POINTERS.min(count - index);
            let pointers = all.checked_add(8 * index);
            let Some(bytes) =
                pointers.and_then(|at| self.memory.bytes(at, 8 * length, 8 * POINTERS))
            else {
                missing.push(format!(
                    "The list of goroutines ends after {index} of {count}."
                ));
                break;
            };
            for pointer in words(&bytes).step_by(every as usize) {
                if !budget.step() {
                    let why = budget.spent().unwrap_or_default();
                    missing.push(format!(
                        "Of {count} goroutines about {index} were read: {why}."
                    ));
                    break 'all;
                }
                index += every;
                failed += u64::from(self.add(pointer, every, &mut groups, budget).is_none());
            }
        }
        if failed > 0 {
            missing.push(format!("{failed} goroutines could not be read."));
        }
        (groups, missing)
    }

    /// `None`: it is not one.
    fn add(&self, at: u64, every: u64, groups: &mut Groups, budget: &mut Budget) -> Option<()> {
        let Some((goroutine, stack)) = self.goroutine(at)? else {
            return Some(());
        };
        let key = Key {
            state: goroutine.state,
            created_at: goroutine.created_at,
            start: goroutine.start,
            stack,
        };
        if !groups.contains_key(&key) && !budget.keep(GROUP_BYTES + 8 * key.stack.len()) {
            return Some(());
        }
        let count = groups.entry(key).or_default();
        let stack_bytes = goroutine.stack.1 - goroutine.stack.0;
        count.goroutines = count.goroutines.saturating_add(every);
        count.bytes = count
            .bytes
            .saturating_add(every.saturating_mul(stack_bytes));
        Some(())
    }

    /// One of them with its stack, the same before and after its stack was read; `Some(None)`: it has ended.
    fn goroutine(&self, at: u64) -> Option<Option<(Goroutine, Vec<u64>)>> {
        for _ in 0..ATTEMPTS {
            let goroutine = match read_goroutine(self.memory, at, &self.layout) {
                Some(Some(goroutine)) => goroutine,
                Some(None) => return Some(None),
                None => continue,
            };
            if goroutine.state == State::Running {
                return Some(Some((goroutine, Vec::new())));
            }
            let stack = self.stack(&goroutine);
            if read_goroutine(self.memory, at, &self.layout) == Some(Some(goroutine)) {
                return Some(Some((goroutine, stack)));
            }
        }
        // It changes all the time: it runs.
        let goroutine = read_goroutine(self.memory, at, &self.layout)?;
        let running = goroutine.map(|goroutine| Goroutine {
            state: State::Running,
            ..goroutine
        });
        Some(running.map(|goroutine| (goroutine, Vec::new())))
    }

    /// As the runtime's own unwinder goes: by the size of each frame. Frame pointers are not needed.
    fn stack(&self, goroutine: &Goroutine) -> Vec<u64> {
        self.places(goroutine)
            .into_iter()
            .map(|(pc, _)| pc)
            .collect()
    }

    /// The return address and the stack pointer of each frame, innermost first.
    pub fn places(&self, goroutine: &Goroutine) -> Vec<(u64, u64)> {
        let (mut pc, mut sp) = goroutine.place;
        let stack = Window::new(self.memory, sp, goroutine.stack.1);
        let mut places = Vec::new();
        while places.len() < FRAMES_MAX && pc != 0 {
            places.push((pc, sp));
            let is_inner = places.len() == 1;
            let step = self.step(pc).filter(|step| is_inner || !step.moves_stack);
            let Some(next) = step.and_then(|step| self.caller(&stack, step, sp)) else {
                break;
            };
            (pc, sp) = next;
        }
        places
    }

    /// `None`: the stack ends there, or cannot be followed.
    fn step(&self, pc: u64) -> Option<Step> {
        if let Some(step) = self.steps.borrow().get(&pc) {
            return *step;
        }
        let step = self.table.function(pc).and_then(|function| {
            let frame_bytes = self.table.frame_bytes(&function, pc)?;
            let moves_stack = function.moves_stack();
            (!function.is_outermost()).then_some(Step {
                frame_bytes,
                moves_stack,
            })
        });
        let mut steps = self.steps.borrow_mut();
        if steps.len() == STEPS_MAX {
            steps.clear();
        }
        steps.insert(pc, step);
        step
    }

    /// The place to which a frame returns.
    fn caller(&self, stack: &Window, step: Step, sp: u64) -> Option<(u64, u64)> {
        let end = sp.checked_add(step.frame_bytes)?;
        match self.machine {
            Machine::Amd64 => Some((stack.word(end)?, end.checked_add(8)?)),
            // Without a frame the address is in the link register, which is not known: no goroutine parks there.
            Machine::Arm64 if step.frame_bytes == 0 => None,
            Machine::Arm64 => Some((stack.word(sp)?, end)),
        }
    }
}

/// The part of a stack that is in use.
struct Window<'a> {
    memory: &'a dyn Memory,
    start: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn new(memory: &dyn Memory, sp: u64, end: u64) -> Window<'_> {
        let length = end.saturating_sub(sp).min(WINDOW as u64);
        Window {
            memory,
            start: sp,
            end,
            bytes: memory.bytes(sp, length, WINDOW as u64).unwrap_or_default(),
        }
    }

    fn word(&self, at: u64) -> Option<u64> {
        let within = at.checked_sub(self.start)?;
        if at.checked_add(8)? > self.end {
            return None;
        }
        let read = usize::try_from(within)
            .ok()
            .and_then(|within| u64_at(&self.bytes, within));
        read.or_else(|| self.memory.u64(at))
    }
}

/// One goroutine; `Some(None)`: it has ended, or is not started. `None`: there is none.
pub fn read_goroutine(memory: &dyn Memory, at: u64, layout: &Layout) -> Option<Option<Goroutine>> {
    const SCANNED: u32 = 0x1000;
    let mut bytes = [0; G_BYTES];
    memory.read(at, &mut bytes)?;
    let word = |offset: usize| u64_at(&bytes, offset);
    let status = symbols::golang::words::u32_at(&bytes, layout.status)? & !SCANNED;
    let state = match status {
        1 => State::Runnable,
        2 => State::Running,
        3 => State::Syscall,
        // 8: its stack is being copied; 9: preempted; 10: found leaked by a profile of Go 1.26 and later.
        4 | 8 | 9 | 10 => State::Waiting(bytes[layout.wait_reason]),
        // 0: new; 6: ended; 11: for a thread of C.
        0 | 6 | 11 => return Some(None),
        _ => return None,
    };
    let (low, high) = (word(STACK_LOW)?, word(STACK_HIGH)?);
    let (pc, sp) = match state {
        State::Syscall => (word(layout.syscall_sp + 8)?, word(layout.syscall_sp)?),
        _ => (word(SCHED_PC)?, word(SCHED_SP)?),
    };
    if low >= high || high - low > STACK_BYTES_MAX || word(SCHED_G)? != at {
        return None;
    }
    // The runtime clears the place when it lets a goroutine run, and changes the state at another moment.
    let is_on_its_stack = (low..=high).contains(&sp) || state == State::Syscall;
    let state = if is_on_its_stack {
        state
    } else {
        State::Running
    };
    Some(Some(Goroutine {
        state,
        created_at: word(layout.created_at)?,
        start: word(layout.start)?,
        stack: (low, high),
        place: (pc, sp),
    }))
}

/// As every goroutine does that was ever started, those that have ended too.
pub fn points_to_itself(memory: &dyn Memory, at: u64) -> bool {
    let pointer = at.checked_add(SCHED_G as u64).and_then(|at| memory.u64(at));
    at != 0 && pointer == Some(at)
}

/// It was started by the runtime for itself: pprof and `runtime.NumGoroutine` leave it out, too.
pub fn is_system(start: &str) -> bool {
    const OF_PROGRAM: [&str; 3] = [
        "runtime.main",
        "runtime.corostart",
        "runtime.handleAsyncEvent",
    ];
    super::names::is_runtime(start) && !OF_PROGRAM.contains(&start)
}

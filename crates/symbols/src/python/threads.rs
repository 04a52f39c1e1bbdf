//! Which functions of Python a thread is in.
//!
//! Offsets are of `Include/internal/pycore_runtime.h`, `pycore_interp.h`, `pycore_frame.h` and
//! `Include/cpython/pystate.h` of 3.11.

use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, Instant};

use observe::fact::image::Image;
use observe::fact::maps::parse_maps;
use observe::fact::memory::{Memory, ProcessMemory};

use super::{VERSION, is_interpreter};

/// Of the runtime: the first interpreter. Of an interpreter: the next one, and its first thread.
const INTERPRETERS: u64 = 40;
const NEXT_INTERPRETER: u64 = 0;
const THREADS: u64 = 16;
/// Of a thread's state.
const NEXT_THREAD: u64 = 8;
const CFRAME: u64 = 56;
const NATIVE_ID: u64 = 160;
/// Of what its CFRAME points to, which is on the thread's own stack: the innermost frame.
const CURRENT: u64 = 8;
/// Of a frame.
const CODE: u64 = 32;
const PREVIOUS: u64 = 48;

/// Interpreters and threads that are gone through; more are not looked for.
const STATES_MAX: usize = 4_096;
/// Threads that run no Python are asked for again and again: for each, the list is not read anew before that.
const BELIEVED: Duration = Duration::from_secs(1);
/// Functions told of a thread at most: the innermost, and the outermost, which tell what it was started for.
const INNERMOST: usize = 20;
const OUTERMOST: usize = 4;
/// Frames that are gone through.
const DEPTH_MAX: usize = 256;

/// The threads of one process that runs Python.
pub struct PythonThreads {
    pid: u32,
    runtime: u64,
    /// The state of each thread, by its number where the process lives.
    states: HashMap<u64, u64>,
    /// Threads that had no state, and when.
    missed: HashMap<u64, Instant>,
}

impl PythonThreads {
    /// `None`: it does not run CPython 3.11, or its memory may not be read.
    pub fn of(pid: u32) -> Option<PythonThreads> {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let maps = parse_maps(&maps).ok()?;
        let files = maps
            .iter()
            .filter(|mapping| mapping.offset == 0 && is_interpreter(&mapping.path));
        let memory = memory_of(pid)?;
        let runtime = files
            .filter_map(|mapping| runtime_of(&memory, mapping.start))
            .next()?;
        Some(PythonThreads {
            pid,
            runtime,
            states: HashMap::new(),
            missed: HashMap::new(),
        })
    }

    /// The code objects of the functions that a thread which waits is in, innermost first; none of one that runs no
    /// Python.
    /// `native`: its number where the process lives.
    pub fn functions(&mut self, native: u64) -> Vec<u64> {
        let found = memory_of(self.pid).and_then(|memory| {
            let state = self.state_of(&memory, native)?;
            innermost(&memory, state).map(|frame| functions(&memory, frame))
        });
        found.unwrap_or_default()
    }

    fn state_of(&mut self, memory: &impl Memory, native: u64) -> Option<u64> {
        let is_its = |state: &u64| memory.u64(state.wrapping_add(NATIVE_ID)) == Some(native);
        let known = self.states.get(&native).copied().filter(is_its);
        let missed = self.missed.get(&native);
        if known.is_some() || missed.is_some_and(|at| at.elapsed() < BELIEVED) {
            return known;
        }
        self.states = states(memory, self.runtime);
        let found = self.states.get(&native).copied();
        if found.is_none() {
            if self.missed.len() >= STATES_MAX {
                self.missed.clear();
            }
            self.missed.insert(native, Instant::now());
        }
        found
    }
}

fn memory_of(pid: u32) -> Option<ProcessMemory> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    Some(ProcessMemory::new(memory.into()))
}

/// `_PyRuntime` of the file that is mapped from `start` on.
fn runtime_of(memory: &impl Memory, start: u64) -> Option<u64> {
    let (image, bias) = Image::mapped_at(memory, start)?;
    let version = bias.wrapping_add(image.export("Py_Version")?.address);
    let is_known = memory.u64(version)? >> 16 == VERSION;
    let runtime = image.export("_PyRuntime").filter(|_| is_known)?;
    Some(bias.wrapping_add(runtime.address))
}

/// The states of all threads, by their numbers. Threads come and go meanwhile: the caller compares the number again.
fn states(memory: &impl Memory, runtime: u64) -> HashMap<u64, u64> {
    let word = |at: u64, offset| memory.u64(at.checked_add(offset)?).filter(|to| *to != 0);
    let mut states = HashMap::new();
    let (mut interpreter, mut steps) = (word(runtime, INTERPRETERS), 0);
    while let Some(at) = interpreter.filter(|_| steps < STATES_MAX) {
        let mut thread = word(at, THREADS);
        while let Some(state) = thread.filter(|_| steps < STATES_MAX) {
            states.extend(word(state, NATIVE_ID).map(|native| (native, state)));
            thread = word(state, NEXT_THREAD);
            steps += 1;
        }
        interpreter = word(at, NEXT_INTERPRETER);
        steps += 1;
    }
    states
}

fn innermost(memory: &impl Memory, state: u64) -> Option<u64> {
    let current = memory
        .u64(state.wrapping_add(CFRAME))?
        .checked_add(CURRENT)?;
    memory.u64(current).filter(|frame| *frame != 0)
}

fn functions(memory: &impl Memory, frame: u64) -> Vec<u64> {
    let (mut functions, mut next) = (Vec::new(), Some(frame));
    while let Some(frame) = next.filter(|_| functions.len() < DEPTH_MAX) {
        // At once: the code object and the frame outside.
        let mut words = [[0; 8]; ((PREVIOUS - CODE) / 8 + 1) as usize];
        let at = frame.wrapping_add(CODE);
        let Some(()) = memory.read(at, words.as_flattened_mut()) else {
            break;
        };
        let [code, .., previous] = words.map(u64::from_le_bytes);
        if code == 0 {
            break;
        }
        functions.push(code);
        next = Some(previous).filter(|to| *to != 0);
    }
    if let Some(between) = functions.len().checked_sub(INNERMOST + OUTERMOST) {
        functions.drain(INNERMOST..INNERMOST + between);
    }
    functions
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::super::functions::PythonFunctions;
    use super::*;
    use testkit::skipped;

    const PROGRAM: &str = "
import threading, time, sys
class Shop:
    def close(self):
        time.sleep(60)
def work():
    Shop().close()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print(threading.enumerate()[1].native_id, flush=True)
time.sleep(60)
";

    #[test]
    fn a_thread_that_sleeps_is_in_the_functions_that_it_called() {
        let python = Command::new("python3.11")
            .args(["-c", PROGRAM])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut python) = python else {
            return skipped("python3.11 is missing");
        };
        let mut said = [0; 16];
        let count = python.stdout.as_mut().unwrap().read(&mut said).unwrap();
        let native = String::from_utf8_lossy(&said[..count]);
        let native = native.trim().parse().unwrap();
        let mut threads = PythonThreads::of(python.id()).unwrap();
        let (codes, none) = (threads.functions(native), threads.functions(1));
        let mut known = PythonFunctions::default();
        let names = codes.iter().filter_map(|code| {
            let frame = known.at(python.id() as i32, *code)?;
            frame.function
        });
        let names: Vec<String> = names.collect();
        python.kill().unwrap();
        python.wait().unwrap();
        assert_eq!(names[..2], ["Shop.close", "work"], "{names:?}");
        assert!(none.is_empty(), "no thread of that number");
        assert!(threads.functions(native).is_empty(), "it has ended");
        assert!(PythonThreads::of(std::process::id()).is_none());
    }

    /// Words of eight bytes from 0x1000 on.
    struct Words(HashMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            for (at, word) in (address..).step_by(8).zip(out.chunks_mut(8)) {
                let known = self.0.get(&at).copied().unwrap_or(0);
                word.copy_from_slice(&known.to_le_bytes());
            }
            Some(())
        }
    }

    #[test]
    fn lists_that_lead_in_circles_come_to_an_end() {
        let words = Words(HashMap::from([
            (0x1000 + INTERPRETERS, 0x2000),
            (0x2000 + THREADS, 0x3000),
            (0x2000 + NEXT_INTERPRETER, 0x2000),
            (0x3000 + NATIVE_ID, 7),
            (0x3000 + NEXT_THREAD, 0x3000),
            (0x3000 + CFRAME, 0x4000),
            (0x4000 + CURRENT, 0x5000),
            (0x5000 + CODE, 0x6000),
            (0x5000 + PREVIOUS, 0x5000),
        ]));
        assert_eq!(states(&words, 0x1000), HashMap::from([(7, 0x3000)]));
        let frame = innermost(&words, 0x3000).unwrap();
        assert_eq!(functions(&words, frame), [0x6000; INNERMOST + OUTERMOST]);
    }
}

//! Which functions of Python a thread is in.

use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, Instant};

use observe::fact::memory::{Memory, ProcessMemory};

use super::find::{Runtime, find};
use super::layout::Layout;
use super::states::{Number, State, alive, states};

/// Threads that run no Python are asked for again and again: for each, the list is not read anew before that.
const BELIEVED: Duration = Duration::from_secs(1);
/// Of those, so many are remembered.
const MISSED_MAX: usize = 4_096;
/// Functions told of a thread at most: the innermost, and the outermost, which tell what it was started for.
const INNERMOST: usize = 20;
const OUTERMOST: usize = 4;
/// Frames that are gone through.
const DEPTH_MAX: usize = 256;

/// The threads of one process that runs Python.
pub struct PythonThreads {
    pid: u32,
    runtime: Runtime,
    number: Number,
    /// The state of each thread, by its number where the process lives.
    states: HashMap<u64, State>,
    /// Threads that had no state, and when.
    missed: HashMap<u64, Instant>,
}

impl PythonThreads {
    /// `None`: it does not run a CPython that is known, or its memory may not be read.
    pub fn of(pid: u32) -> Option<PythonThreads> {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let memory = memory_of(pid)?;
        let runtime = find(&memory, &maps)?.ok()?;
        Some(PythonThreads {
            pid,
            number: Number::of(&memory, &runtime, &alive(pid))?,
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
            let layout = &self.runtime.layout;
            innermost(&memory, layout, state).map(|frame| functions(&memory, layout, frame))
        });
        found.unwrap_or_default()
    }

    fn state_of(&mut self, memory: &impl Memory, native: u64) -> Option<u64> {
        let thread_id = self.runtime.layout.thread_id;
        let is_its = |state: &State| {
            memory.u64(state.address.wrapping_add(thread_id)) == Some(state.thread_id)
        };
        let known = self.states.get(&native).copied().filter(is_its);
        let missed = self.missed.get(&native);
        if known.is_some() || missed.is_some_and(|at| at.elapsed() < BELIEVED) {
            return known.map(|state| state.address);
        }
        let found = states(memory, &self.runtime, self.number);
        self.states = found
            .into_iter()
            .map(|state| (state.native, state))
            .collect();
        let found = self.states.get(&native).map(|state| state.address);
        if found.is_none() {
            if self.missed.len() >= MISSED_MAX {
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

fn innermost(memory: &impl Memory, layout: &Layout, state: u64) -> Option<u64> {
    let first = memory.u64(state.checked_add(layout.thread_frame)?)?;
    let frame = match layout.current_frame {
        Some(offset) => memory.u64(first.checked_add(offset)?)?,
        None => first,
    };
    (frame != 0).then_some(frame)
}

/// What is no function, as the frames by which C calls Python have it, is left to who reads the code objects.
fn functions(memory: &impl Memory, layout: &Layout, frame: u64) -> Vec<u64> {
    let (mut functions, mut next) = (Vec::new(), Some(frame));
    while let Some(frame) = next.filter(|_| functions.len() < DEPTH_MAX) {
        let word = |offset: u64| memory.u64(frame.checked_add(offset)?);
        let Some(code) = word(layout.frame.code).filter(|code| *code != 0) else {
            break;
        };
        functions.push(layout.untagged(code));
        next = word(layout.frame.previous).filter(|to| *to != 0);
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
    use super::super::states::tests::Words;
    use super::*;
    use testkit::{pythons, skipped};

    const PROGRAM: &str = "
import os, threading, time, sys
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
        let pythons = pythons(8..=14);
        if pythons.is_empty() {
            return skipped("no python3 is here");
        }
        for (minor, python) in pythons {
            let mut python = Command::new(python)
                .args(["-c", PROGRAM])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
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
            let close = if minor < 11 { "close" } else { "Shop.close" };
            assert_eq!(names[..2], [close, "work"], "3.{minor}: {names:?}");
            assert!(none.is_empty(), "no thread of that number");
            assert!(threads.functions(native).is_empty(), "it has ended");
        }
        assert!(PythonThreads::of(std::process::id()).is_none());
    }

    #[test]
    fn frames_that_lead_in_circles_come_to_an_end() {
        for minor in 8..=14 {
            let layout = Layout::of(minor).unwrap();
            let mut words = HashMap::from([
                (0x5000 + layout.frame.code, 0x6000),
                (0x5000 + layout.frame.previous, 0x5000),
                (0x3000 + layout.thread_frame, 0x5000),
            ]);
            if let Some(offset) = layout.current_frame {
                words.insert(0x3000 + layout.thread_frame, 0x4000);
                words.insert(0x4000 + offset, 0x5000);
            }
            let words = Words(words);
            let frame = innermost(&words, &layout, 0x3000).unwrap();
            let found = functions(&words, &layout, frame);
            assert_eq!(found, [0x6000; INNERMOST + OUTERMOST], "3.{minor}");
        }
    }
}

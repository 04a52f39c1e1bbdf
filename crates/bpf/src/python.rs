//! What programs/python.h needs to know of a process that runs CPython, and what it gives.
//!
//! In: a pid, and an object whose programs walk the frames of Python. Out: the object's constants and maps, and the
//! frames of its records. Called by: `heap`, `sched`.

use std::fs::File;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};

use crate::btf::{Field, View};
use crate::map::{Array, Hash};
use crate::object::Object;
use observe::fact::memory::ProcessMemory;
use symbols::python::find::{Runtime, find};
use symbols::python::layout::{Layout, Version};
use symbols::python::states::{NATIVE_BEHIND, Number, alive, newest, states};

/// Frames of a stack that are kept, the innermost.
pub const FRAMES: usize = 24;
/// Threads whose states are remembered.
const STATES_MAX: u32 = 4_096;
/// From one reading of the list of threads to the next, at the least; and as a multiple of what the last one took.
const APART: Duration = Duration::from_millis(200);
const APART_TIMES: u32 = 50;

/// A frame as the programs keep it: a code object, 0 for none, and the instruction as the frame has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct PythonFrame {
    pub code: u64,
    pub instruction: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Process {
    newest: u64,
    device: u64,
    inode: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct State {
    address: u64,
    thread: u64,
}

/// A CPython in a process.
pub struct Interpreter {
    pub runtime: Runtime,
    pub memory: ProcessMemory,
    number: Number,
    process: Process,
}

impl Interpreter {
    /// `None`: there is none whose frames can be walked, or its memory may not be read.
    pub fn of(pid: u32) -> Option<Interpreter> {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let memory = ProcessMemory::new(File::open(format!("/proc/{pid}/mem")).ok()?.into());
        let runtime = find(&memory, &maps)?.ok()?;
        let namespace = Namespace::of(pid).ok()?;
        Some(Interpreter {
            number: Number::of(&memory, &runtime, &alive(pid))?,
            process: Process {
                newest: newest(&memory, &runtime)?,
                device: namespace.device,
                inode: namespace.inode,
            },
            runtime,
            memory,
        })
    }
}

/// A thread of our own made up as one that runs Python: for what a walk costs, and for tests.
pub struct Made {
    /// As frames of 3.13 are: code, the frame outside, and at the end of what is read the instruction.
    pub frames: Vec<[u64; 9]>,
    pub state: Box<[u64; 21]>,
    /// The address of the newest state.
    pub newest: Box<u64>,
}

impl Made {
    /// The current thread, in so many functions. Frame `n`, from the innermost, has the code object `n + 1`.
    pub fn deep(frames: u64) -> Made {
        let layout = Made::layout();
        let mut made = Made {
            frames: vec![[0; 9]; frames as usize],
            state: Box::new([0; 21]),
            newest: Box::new(0),
        };
        for number in 0..frames as usize {
            let outer = made
                .frames
                .get(number + 1)
                .map_or(0, |frame| frame.as_ptr() as u64);
            let frame = &mut made.frames[number];
            frame[(layout.frame.code / 8) as usize] = number as u64 + 1;
            frame[(layout.frame.previous / 8) as usize] = outer;
            frame[(layout.frame.instruction / 8) as usize] = 100 + number as u64;
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let number_at = layout.thread_id + NATIVE_BEHIND;
        let first = made.frames.first().map_or(0, |frame| frame.as_ptr() as u64);
        for (offset, word) in [
            (layout.thread_frame, first),
            (layout.thread_id, 1),
            (number_at, thread),
        ] {
            made.state[(offset / 8) as usize] = word;
        }
        *made.newest = made.state.as_ptr() as u64;
        made
    }

    pub fn layout() -> Layout {
        Layout::of(13).expect("it is known")
    }

    /// It is read while `self` lives.
    ///
    /// # Errors
    /// Our own memory may not be read.
    pub fn interpreter(&self) -> io::Result<Interpreter> {
        self.interpreter_as(Made::layout())
    }

    /// The same, to be read as if it were of another version.
    ///
    /// # Errors
    /// Our own memory may not be read.
    pub fn interpreter_as(&self, layout: Layout) -> io::Result<Interpreter> {
        let namespace = Namespace::of(std::process::id())?;
        Ok(Interpreter {
            runtime: Runtime {
                address: 0,
                type_type: 0,
                version: Version {
                    minor: layout.minor,
                    micro: None,
                },
                layout,
            },
            memory: ProcessMemory::new(File::open("/proc/self/mem")?.into()),
            number: match layout.minor {
                ..=10 => Number::InLibrary(0),
                _ => Number::InState,
            },
            process: Process {
                newest: &raw const *self.newest as u64,
                device: namespace.device,
                inode: namespace.inode,
            },
        })
    }
}

/// In which a process has its number, as the kernel names it inside.
struct Namespace {
    device: u64,
    inode: u64,
}

impl Namespace {
    fn of(pid: u32) -> io::Result<Namespace> {
        let found = std::fs::metadata(format!("/proc/{pid}/ns/pid"))?;
        let device = found.st_dev();
        Ok(Namespace {
            device: u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device)),
            inode: found.st_ino(),
        })
    }
}

/// The states of the threads of one process, which its programs share.
pub struct Walks {
    pub interpreter: Interpreter,
    states: Hash<u32, State>,
    missed: Array,
    /// How many walks had missed theirs when the list was last read, and when it may be read again.
    read: (u64, Instant),
}

impl Walks {
    /// Prepares an object: without an interpreter its programs walk nothing.
    ///
    /// # Errors
    /// No right to make maps.
    pub fn prepare(
        object: &mut Object,
        interpreter: Option<Interpreter>,
    ) -> io::Result<Option<Walks>> {
        let layout = interpreter.as_ref().map(|found| &found.runtime.layout);
        set(
            object,
            layout,
            interpreter.as_ref().map(|found| found.number),
        );
        let most = if interpreter.is_some() { STATES_MAX } else { 1 };
        let process = Array::create(object, "python_process")?;
        let states = Hash::create_lru(object, "python_states", most)?;
        let missed = Array::create(object, "python_missed")?;
        let Some(interpreter) = interpreter else {
            return Ok(None);
        };
        process.write(0, interpreter.process);
        let mut walks = Walks {
            interpreter,
            states,
            missed,
            read: (0, Instant::now()),
        };
        walks.read_states();
        Ok(Some(walks))
    }

    /// Reads the list of threads again, when there were some that had no state, and not too often.
    pub fn refresh(&mut self) {
        let missed = self.missed.read(0);
        if missed != self.read.0 && Instant::now() >= self.read.1 {
            self.read_states();
            self.read.0 = missed;
        }
    }

    fn read_states(&mut self) {
        let begin = Instant::now();
        let own = &self.interpreter;
        for state in states(&own.memory, &own.runtime, own.number) {
            let (address, thread) = (state.address, state.thread_id);
            // Numbers of threads have less than 32 bits.
            self.states
                .put(state.native as u32, State { address, thread });
        }
        let after = APART.max(begin.elapsed() * APART_TIMES);
        self.read.1 = Instant::now() + after;
    }
}

/// Where the fields of CPython's structures lie, and that there are any.
fn set(object: &mut Object, layout: Option<&Layout>, number: Option<Number>) {
    let frame = layout.map(|layout| layout.frame);
    let frame_bytes = match layout.map_or(0, |layout| layout.minor) {
        // To behind the instruction's number, of an object.
        ..=10 => frame.map_or(8, |frame| frame.instruction + 8),
        // No more than is there: a frame may be the last in its mapping.
        _ => frame.map_or(8, |frame| frame.locals),
    };
    let of = |offset: fn(&Layout) -> u64| layout.map_or(0, offset);
    for (name, value) in [
        ("IS_PYTHON", layout.is_some().into()),
        ("STATE_NEXT", of(|layout| layout.next_thread)),
        ("STATE_THREAD", of(|layout| layout.thread_id)),
        ("STATE_FRAME", of(|layout| layout.thread_frame)),
        (
            "HAS_CFRAME",
            of(|layout| layout.current_frame.is_some().into()),
        ),
        (
            "CFRAME_CURRENT",
            of(|layout| layout.current_frame.unwrap_or(0)),
        ),
        ("NUMBER_IN_STATE", (number == Some(Number::InState)).into()),
        (
            "NUMBER_AT",
            match number {
                Some(Number::InLibrary(at)) => at,
                _ => 0,
            },
        ),
        ("FRAME_BYTES", frame_bytes),
    ] {
        object.set(name, value as u32);
    }
    let field = |name, offset: Option<u64>| Field::word(name, offset.unwrap_or(0) as i16);
    object.view(View {
        name: "python_frame_view",
        fields: vec![
            field("code", frame.map(|frame| frame.code)),
            field("previous", frame.map(|frame| frame.previous)),
            field("instruction", frame.map(|frame| frame.instruction)),
        ],
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::heap;

    #[test]
    fn all_is_as_the_programs_have_it() {
        let object = Object::parse(heap()).unwrap();
        crate::assert_layout!(object, "python_frame", PythonFrame { code, instruction });
        crate::assert_layout!(
            object,
            "python_process",
            Process {
                newest,
                device,
                inode
            }
        );
        crate::assert_layout!(object, "python_state", State { address, thread });
    }

    /// The programs read so much of a frame onto their stack.
    #[test]
    fn the_fields_of_frames_are_among_what_is_read() {
        const READ_MAX: u64 = 14 * 8;
        for minor in 8..=14 {
            let frame = Layout::of(minor).unwrap().frame;
            let bytes = if minor <= 10 {
                frame.instruction + 8
            } else {
                frame.locals
            };
            assert!(bytes <= READ_MAX, "3.{minor}");
            for offset in [frame.code, frame.previous, frame.instruction] {
                assert!(offset + 8 <= bytes, "3.{minor}");
            }
        }
    }
}

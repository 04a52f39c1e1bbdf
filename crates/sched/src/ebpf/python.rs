//! Functions of Python at samples of the clock: walked in the kernel just before perf writes the sample.

use std::collections::HashMap;
use std::io;

use bpf::map::{Ring, begins_with};
use bpf::object::Object;
use bpf::python::{Interpreter, PythonFrame, Walks};

use super::raw::PythonHead;
use crate::room::Room;

/// A sample of perf is written this long after the walk at the most; the next one of a thread comes 5 ms later.
const BEFORE_NS: u64 = 2_000_000;
/// Threads whose last walk is kept.
const THREADS_MAX: usize = 16_384;

/// The walks of one process.
pub(super) struct PythonSamples {
    walks: Walks,
    ring: Ring,
    /// By thread, the last ones, the newest last: when, and the code objects.
    last: HashMap<u32, Vec<(u64, Vec<u64>)>>,
}

impl PythonSamples {
    /// `None`: the process runs no CPython that is known; its samples are walked by nobody.
    ///
    /// # Errors
    /// No right to make maps.
    pub(super) fn prepare(
        object: &mut Object,
        pid: u32,
        room: Room,
    ) -> io::Result<Option<PythonSamples>> {
        let interpreter = Interpreter::of(pid);
        let bytes = match (&interpreter, room) {
            (None, _) => 4 << 10,
            (Some(_), Room::One) => 256 << 10,
            (Some(_), Room::Many) => 64 << 10,
        };
        let walks = Walks::prepare(object, interpreter)?;
        let ring = Ring::create(object, "python_ring", bytes)?;
        Ok(walks.map(|walks| PythonSamples {
            walks,
            ring,
            last: HashMap::new(),
        }))
    }

    /// The code objects of the functions that a thread was in when its sample was taken, innermost first.
    pub(super) fn at(&mut self, tid: u32, at_ns: u64) -> Vec<u64> {
        // What the sample belongs to was written before it.
        self.drain();
        let walks = self.last.entry(tid).or_default();
        let before = walks.iter().rposition(|(walked_ns, _)| *walked_ns <= at_ns);
        let Some(index) = before else {
            return Vec::new();
        };
        let (walked_ns, codes) = std::mem::take(&mut walks[index]);
        walks.drain(..=index);
        match at_ns - walked_ns {
            ..BEFORE_NS => codes,
            _ => Vec::new(),
        }
    }

    fn drain(&mut self) {
        let layout = &self.walks.interpreter.runtime.layout;
        let last = &mut self.last;
        self.ring.drain(|bytes| {
            let Some((head, frames)) = begins_with::<PythonHead>(bytes) else {
                return;
            };
            if last.len() >= THREADS_MAX {
                last.clear();
            }
            let codes = codes(frames).map(|code| layout.untagged(code));
            let walk = (head.at_ns, codes.collect());
            last.entry(head.tid as u32).or_default().push(walk);
        });
        self.walks.refresh();
    }
}

/// Up to the first frame without one.
fn codes(frames: &[u8]) -> impl Iterator<Item = u64> {
    let frames = frames.chunks_exact(size_of::<PythonFrame>());
    let codes = frames.map(|bytes| bytemuck::pod_read_unaligned::<PythonFrame>(bytes).code);
    codes.take_while(|code| *code != 0)
}

//! Functions of Python at samples of the clock, walked in the kernel just before perf writes the sample, and where
//! waits for devices begin.

use std::collections::{HashMap, VecDeque};
use std::io;

use bpf::map::{Ring, begins_with};
use bpf::object::Object;
use bpf::python::{Interpreter, PythonFrame, Walks};

use super::raw::PythonHead;
use crate::room::Room;

/// The times of a walk and of its sample differ by some microseconds (perf takes its own before the walk or after it,
/// by the kernel's version); the next sample of a thread comes 5 ms later.
const APART_NS: u64 = 2_000_000;
/// Threads whose last walk is kept.
const THREADS_MAX: usize = 16_384;
/// Of each thread: samples of more than a second, which the rings do not hold.
const WALKS_MAX: usize = 256;

/// The walks of one process.
pub(super) struct PythonSamples {
    walks: Walks,
    ring: Ring,
    /// By thread, the last ones, the newest last: when, and the code objects.
    last: HashMap<u32, VecDeque<(u64, Vec<u64>)>>,
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
        // A walk is written before its sample.
        self.drain();
        let walks = self.last.entry(tid).or_default();
        let nearest = (0..walks.len()).min_by_key(|index| walks[*index].0.abs_diff(at_ns));
        let Some(index) = nearest.filter(|index| walks[*index].0.abs_diff(at_ns) < APART_NS) else {
            return Vec::new();
        };
        // Those before it may be of samples on another CPU, whose ring is read later.
        walks
            .remove(index)
            .map_or_else(Vec::new, |(_, codes)| codes)
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
            let walks = last.entry(head.tid as u32).or_default();
            if walks.len() >= WALKS_MAX {
                walks.pop_front();
            }
            walks.push_back(walk);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::layout::switch_event;
    use crate::ebpf::{PROG_TYPE_PERF_EVENT, PROG_TYPE_TRACEPOINT, format_of};
    use bpf::allowed::Allowed;
    use bpf::kernel::Tracing;
    use bpf::map::{Array, Hash};
    use bpf::object::{Object, sched};
    use bpf::python::Made;
    use symbols::python::layout::Layout;
    use testkit::skipped;

    #[test]
    fn the_kernel_takes_the_walks_of_every_version() {
        if let Err(why) = Allowed::try_all().bpf {
            return skipped(&format!("programs need root: {why}"));
        }
        let made = Made::deep(3);
        for minor in 8..=14 {
            let mut object = Object::parse(sched()).unwrap();
            object.set("PID", std::process::id());
            object.set("AT_ONCE", 0);
            let threads = Hash::<u32, crate::ebpf::Thread>::create(&mut object, "threads", 1);
            threads.unwrap();
            let lost = Array::<u64>::create(&mut object, "lost");
            lost.unwrap();
            let python = made.interpreter_as(Layout::of(minor).unwrap()).unwrap();
            Walks::prepare(&mut object, Some(python)).unwrap();
            Ring::create(&mut object, "python_ring", 4 << 10).unwrap();
            bpf::registers::prepare(&mut object).unwrap();
            for name in ["limits", "places", "passed"] {
                Array::<u64>::create(&mut object, name).unwrap();
            }
            Ring::create(&mut object, "ring", 4 << 10).unwrap();
            let loaded = object.load("on_sample", (PROG_TYPE_PERF_EVENT, 0));
            loaded.unwrap_or_else(|error| panic!("3.{minor}: {error}"));
            let format = format_of(&Tracing::open().unwrap(), "sched/sched_switch");
            object.view(switch_event(&format.unwrap()).unwrap());
            let loaded = object.load("on_switch", (PROG_TYPE_TRACEPOINT, 0));
            loaded.unwrap_or_else(|error| panic!("3.{minor}, at waits: {error}"));
        }
    }
}

//! The eBPF collector: programs on `sched_switch` and `sched_waking` (bpf's programs/sched.bpf.c), and on samples of
//! the clock. The kernel drops everything that is not of the watched process.

pub mod layout;
mod python;
mod raw;
pub mod record;
pub mod tracepoint;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;

use self::python::PythonSamples;
use self::record::{Record, Thread};
use super::pace::{self, Pace};
use super::room::Room;
use bpf::kernel::{Tracing, event, open_event};
use bpf::map::{Array, Hash, Ring};
use bpf::object::{self, Object};

const PROG_TYPE_TRACEPOINT: u32 = 5;
const PROG_TYPE_PERF_EVENT: u32 = 7;
/// The limit while a watch is opened, which takes tens of milliseconds.
const AT_FIRST_NS: u64 = 1_000_000;
pub struct Ebpf {
    ring: Ring,
    threads: Hash<u32, Thread>,
    lost: Array,
    /// Nanoseconds; who is off its CPU for less is not told of. The second is for waits for devices.
    limits: Array,
    pace: Pace,
    /// Where the process runs Python.
    python: Option<Box<PythonSamples>>,
    /// Nothing was read yet.
    unread: bool,
    pub ours: Ours,
    /// Those on the tracepoints.
    pub programs: Box<bpf::timed::Programs>,
    _attached: Vec<OwnedFd>,
}

/// Programs for samples, which come of every process: let pass what happens in the watched one.
pub struct Ours {
    pub all: OwnedFd,
    /// Not more than some thousands a second.
    pub some: OwnedFd,
}

impl Ebpf {
    /// Attaches to every switch and wake of `pid`'s threads; `tids` are those that live now. `at_once`: leavings are
    /// told as they happen.
    pub fn attach(pid: u32, tids: &[u32], room: Room, at_once: bool) -> io::Result<Ebpf> {
        let tracing = Tracing::open()?;
        let mut object = Object::parse(object::sched())?;
        object.set("PID", pid);
        object.set("AT_ONCE", at_once.into());
        object.view(layout::switch_event(&format_of(
            &tracing,
            "sched/sched_switch",
        )?)?);
        object.view(layout::waking_event(&format_of(
            &tracing,
            "sched/sched_waking",
        )?)?);
        bpf::registers::prepare(&mut object)?;
        let threads = Hash::create(
            &mut object,
            "threads",
            layout::threads_max(room, tids.len()),
        )?;
        let ring = Ring::create(&mut object, "ring", layout::ring_bytes(room))?;
        let lost = Array::create(&mut object, "lost")?;
        let limits = Array::create(&mut object, "limits")?;
        let python = PythonSamples::prepare(&mut object, pid, room)?.map(Box::new);
        for name in ["places", "passed"] {
            Array::<u64>::create(&mut object, name)?;
        }
        for tid in tids {
            threads.insert(*tid, Thread::watched())?;
        }
        // Until the reader reads: what comes before it is ready would fill the ring.
        for kind in [0, 1] {
            limits.write(kind, AT_FIRST_NS);
        }
        let (mut held, mut programs) = (Vec::new(), Vec::new());
        for (tracepoint, name) in [
            ("sched/sched_switch", "on_switch"),
            ("sched/sched_waking", "on_waking"),
        ] {
            let program = object.load(name, (PROG_TYPE_TRACEPOINT, 0))?;
            held.extend(attach(&tracing, tracepoint, &program)?);
            programs.push(program);
        }
        let sampled = |name: &str| object.load(name, (PROG_TYPE_PERF_EVENT, 0));
        let ours = Ours {
            all: sampled("on_sample")?,
            some: sampled("on_some")?,
        };
        // With the walks it costs something.
        if python.is_some() {
            programs.push(ours.all.try_clone()?);
        }
        Ok(Ebpf {
            ours,
            programs: Box::new(bpf::timed::Programs::new(programs)),
            ring,
            threads,
            lost,
            limits,
            python,
            pace: Pace::default(),
            unread: true,
            _attached: held,
        })
    }

    /// What came since the last call, in the order of the ring.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) {
        let mut count = 0;
        self.ring.drain(|bytes| {
            if let Some(record) = record::parse(bytes) {
                count += 1;
                take(record);
            }
        });
        self.pace.came(count);
    }

    /// The code objects of the functions of Python that `tid` was in at a sample of the clock, innermost first.
    pub fn python_at(&mut self, tid: u32, at_ns: u64) -> Vec<u64> {
        let python = self.python.as_mut();
        python.map_or_else(Vec::new, |python| python.at(tid, at_ns))
    }

    /// As many records as may be: with too many of them, the shortest waits are left out in the kernel.
    pub fn adapt(&mut self, now_ns: u64) {
        let first = std::mem::take(&mut self.unread).then_some(0);
        if let Some(limit_ns) = self.pace.adapt(now_ns).or(first) {
            self.limits.write(0, limit_ns);
            self.limits.write(1, limit_ns.min(pace::OF_DEVICES_NS));
        }
    }

    /// Waits below this were left out at some time.
    pub fn left_out_below_ns(&self) -> u64 {
        self.pace.highest_ns
    }

    /// What `tid` waits in for long, where that was not told; and who woke it, where it was since.
    /// `drained_ns`: when the ring was read.
    pub fn untold(&self, tid: u32, drained_ns: u64) -> [Option<Record>; 2] {
        let thread = self.threads.get(tid);
        thread.map_or([None, None], |thread| thread.untold(drained_ns))
    }

    /// Since when `tid` is off its CPU.
    pub fn off_since_ns(&self, tid: u32) -> Option<u64> {
        self.threads.get(tid)?.off_since_ns()
    }

    /// A thread that ended must not keep its number watched: another process may get it.
    pub fn forget(&self, tid: u32) {
        self.threads.remove(tid);
    }

    /// Whether there was room for it.
    pub fn watch(&self, tid: u32) -> bool {
        self.threads.insert(tid, Thread::watched()).is_ok()
    }

    pub fn lost(&self) -> u64 {
        self.lost.read(0)
    }
}

/// `name`: with the folder of its subsystem.
pub fn format_of(tracing: &Tracing, name: &str) -> io::Result<String> {
    tracing.read(&format!("events/{name}/format"))
}

/// One event is enough for all CPUs: programs hang on the tracepoint, not on the event.
fn attach(tracing: &Tracing, name: &str, program: &OwnedFd) -> io::Result<[OwnedFd; 1]> {
    let id = tracing.read(&format!("events/{name}/id"))?;
    let id = id.trim().parse().map_err(io::Error::other)?;
    let mut attr = event(perf::PERF_TYPE_TRACEPOINT, id);
    // Without a period it counts, and samples nothing.
    let fd = open_event(&mut attr, -1, 0)?;
    // SAFETY: both descriptors live; the ioctls take a descriptor and nothing.
    let results = unsafe {
        [
            perf_event_open_sys::ioctls::SET_BPF(fd.as_raw_fd(), program.as_raw_fd() as u32),
            perf_event_open_sys::ioctls::ENABLE(fd.as_raw_fd(), 0),
        ]
    };
    match results.iter().all(|result| *result == 0) {
        true => Ok([fd]),
        false => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::record::Told;
    use super::*;
    use bpf::allowed::Allowed;
    use testkit::skipped;

    /// A thread of ours sleeps, and another one wakes a third: each is told with what its registers had.
    #[test]
    fn the_kernel_takes_the_programs_and_they_tell_of_our_threads() {
        if let Err(why) = Allowed::try_all().bpf {
            return skipped(&format!("programs need root: {why}"));
        }
        for at_once in [false, true] {
            let mut ebpf = Ebpf::attach(std::process::id(), &[], Room::Many, at_once).unwrap();
            ebpf.limits.write(0, 0);
            let (tell, told) = std::sync::mpsc::channel::<()>();
            let sleeper = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                rustix::thread::gettid().as_raw_nonzero().get() as u32
            });
            let woken = std::thread::spawn(move || {
                told.recv().unwrap();
                rustix::thread::gettid().as_raw_nonzero().get() as u32
            });
            std::thread::sleep(Duration::from_millis(20));
            tell.send(()).unwrap();
            let (sleeper, woken) = (sleeper.join().unwrap(), woken.join().unwrap());
            let mut records = Vec::new();
            ebpf.drain(|record| records.push(record));
            assert_eq!(ebpf.lost(), 0);
            let of = |tid: u32| records.iter().filter(move |record| record.tid == tid);
            let slept = |record: &&Record| match &record.what {
                Told::Out { user, .. } | Told::Whole { user, .. } => {
                    i64::from(user.number) == libc::SYS_clock_nanosleep && user.sp != 0
                }
                _ => false,
            };
            assert!(of(sleeper).any(|record| slept(&record)), "{records:#?}");
            let us = std::process::id();
            let wakes = |record: &&Record| match record.what {
                Told::Waking { process, .. } => process == us,
                _ => false,
            };
            assert!(of(woken).any(|record| wakes(&record)), "{records:#?}");
            assert!(of(woken).all(|record| record.at_ns > 0));
        }
    }
}

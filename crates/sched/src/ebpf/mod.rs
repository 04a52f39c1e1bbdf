//! The eBPF collector: two small programs on `sched_switch` and `sched_waking`, written as
//! instructions ([`program`]) so that no compiler and no kernel headers are needed to build or to
//! run; the kernel drops everything that is not of the watched process.

mod maps;
mod place;
pub mod program;
pub mod record;
mod threads;
pub mod tracepoint;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;

use self::record::Record;
use self::threads::Threads;
use super::pace::{self, Pace};
use super::room::Room;
use bpf::kernel::{Tracing, event, open_event};
use bpf::load::load_for;
use bpf::map::{Counter, Ring};

const PROG_TYPE_TRACEPOINT: u32 = 5;
const PROG_TYPE_PERF_EVENT: u32 = 7;
/// The limit while a watch is opened, which takes tens of milliseconds.
const AT_FIRST_NS: u64 = 1_000_000;
pub struct Ebpf {
    ring: Ring,
    tids: Threads,
    lost: Counter,
    limits: Counter,
    pace: Pace,
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
    _passed: Counter,
}

impl Ebpf {
    /// Attaches to every switch and wake of `pid`'s threads; `tids` are those that live now. `at_once`: leavings are
    /// told as they happen.
    pub fn attach(pid: u32, tids: &[u32], room: Room, at_once: bool) -> io::Result<Ebpf> {
        let tracing = Tracing::open()?;
        let maps = maps::Maps {
            pid,
            tids: Threads::create(program::threads_max(room, tids.len()))?,
            ring: Ring::create(program::ring_bytes(room))?,
            lost: Counter::create(1)?,
            limits: Counter::create(2)?,
            places: Counter::create(place::PLACES)?,
            at_once,
        };
        for tid in tids {
            maps.tids.insert(*tid)?;
        }
        // Until the reader reads: what comes before it is ready would fill the ring.
        for kind in [0, 1] {
            maps.limits.write(kind, AT_FIRST_NS);
        }
        let switch = program::Fields::parse_switch(&format_of(&tracing, "sched_switch")?)?;
        let waking = program::Fields::parse_waking(&format_of(&tracing, "sched_waking")?)?;
        let attached = [
            ("sched_switch", program::switch(&maps, &switch)),
            ("sched_waking", program::waking(&maps, &waking)),
        ];
        let (mut held, mut programs) = (Vec::new(), Vec::new());
        for (name, code) in attached {
            let program = load(name, PROG_TYPE_TRACEPOINT, &code)?;
            held.extend(attach(&tracing, name, &program)?);
            programs.push(program);
        }
        let passed = Counter::create(1)?;
        let sampled = |code: Vec<u64>| load("samples", PROG_TYPE_PERF_EVENT, &code);
        let ours = Ours {
            all: sampled(program::ours(&maps))?,
            some: sampled(program::some_of_ours(&maps, &passed))?,
            _passed: passed,
        };
        Ok(Ebpf {
            ours,
            programs: Box::new(bpf::timed::Programs::new(programs)),
            ring: maps.ring,
            tids: maps.tids,
            lost: maps.lost,
            limits: maps.limits,
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
        match self.tids.get(tid) {
            Some(value) => record::untold(&value, drained_ns),
            None => [None, None],
        }
    }

    /// Since when `tid` is off its CPU.
    pub fn off_since_ns(&self, tid: u32) -> Option<u64> {
        record::off_since_ns(&self.tids.get(tid)?)
    }

    /// A thread that ended must not keep its number watched: another process may get it.
    pub fn forget(&self, tid: u32) {
        self.tids.remove(tid);
    }

    /// Whether there was room for it.
    pub fn watch(&self, tid: u32) -> bool {
        self.tids.insert(tid).is_ok()
    }

    pub fn lost(&self) -> u64 {
        self.lost.read()
    }
}

fn format_of(tracing: &Tracing, name: &str) -> io::Result<String> {
    tracing.read(&format!("events/sched/{name}/format"))
}

fn load(name: &str, prog_type: u32, code: &[u64]) -> io::Result<OwnedFd> {
    load_for(name, (prog_type, 0), code)
}

/// One event is enough for all CPUs: programs hang on the tracepoint, not on the event.
fn attach(tracing: &Tracing, name: &str, program: &OwnedFd) -> io::Result<[OwnedFd; 1]> {
    let id = tracing.read(&format!("events/sched/{name}/id"))?;
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

//! The perf events: the clock and major faults of all CPUs (root), or switches, clock and faults
//! of each thread of one process (anybody, own processes).

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;

use super::clocks::Clocks;
use super::ebpf::Ours;
use super::gap::{Gap, Losses, Reading};
use super::room::Room;
use super::time::now_ns;
use bpf::kernel::{event, open_event};
use bpf::ring::{REGISTERS, Record, Ring, SAMPLE};

/// Samples of the clock a second and CPU.
pub const SAMPLES_PER_SECOND: u64 = 199;
/// Bytes of stack copied with a sample; what lies further out changes seldom and is read later.
const STACK_BYTES: u32 = 4 * 1024;
/// Where a ring has room for this many stacks, up to four times as much: of what is read later, a part may be of a
/// later moment.
const STACKS_IN_A_RING: usize = 64;
const STACK_BYTES_MOST: u32 = 4 * STACK_BYTES;
/// As much as tells the innermost functions.
const STACK_BYTES_FEW: u32 = 512;
/// 1 MiB a CPU for root, 64 stacks of the watched process; without, the kernel allows 516 KiB a CPU, the page of
/// positions included.
const PAGES_ROOT: usize = 256;
const PAGES_USER: usize = 128;
/// Of one process among many.
const PAGES_OF_MANY: usize = 32;
/// Of all CPUs together, 32 MiB: with more CPUs the rings are smaller.
const PAGES_ALL: usize = 8_192;
/// Less would not hold the longest record.
const PAGES_LEAST: usize = 4;

pub struct Events {
    rings: Vec<Option<(OwnedFd, Ring)>>,
    /// Of each ring.
    losses: Vec<Losses>,
    cpus: Vec<i32>,
    /// Of each thread, its events on every CPU.
    threads: HashMap<u32, Vec<OwnedFd>>,
    clocks: Clocks,
    refused: HashSet<u32>,
    /// The number of `sched_waking`, where its samples come too; then the kernel's own time is sampled as well.
    wakes: Option<u64>,
    /// The kernel lets new threads of a watched one inherit its events, and not new processes.
    inherits: bool,
    pub lost: u64,
    system_wide: Vec<OwnedFd>,
}

impl Events {
    /// The clock and the major faults of every CPU, as far as `ours` lets them pass.
    pub fn of_all_cpus(ours: &Ours, room: Room) -> io::Result<Events> {
        let mut events = Events::empty();
        let most = match room {
            Room::One => PAGES_ROOT,
            Room::Many => PAGES_OF_MANY,
        };
        let pages = pages_of(most, events.cpus.len());
        for at in 0..events.cpus.len() {
            let mut clock = clock(true);
            clock.sample_stack_user = stack_bytes(pages);
            let filtered = [(clock, &ours.all), (faults(true), &ours.some)];
            for (mut attr, program) in filtered {
                let event = open_event(&mut attr, -1, events.cpus[at])?;
                let_pass(&event, program)?;
                events.join(at, event, pages, None)?;
            }
        }
        Ok(events)
    }

    /// Nothing yet; threads come with [`Events::watch`].
    pub fn of_threads() -> Events {
        Events::empty()
    }

    /// The same, with a sample at each waking of or by one of them; `number` is that tracepoint's.
    pub fn of_threads_and_wakes(number: u64) -> Events {
        Events {
            wakes: Some(number),
            ..Events::empty()
        }
    }

    fn empty() -> Events {
        let cpus = online_cpus();
        Events {
            rings: cpus.iter().map(|_| None).collect(),
            losses: cpus.iter().map(|_| Losses::default()).collect(),
            cpus,
            threads: HashMap::new(),
            clocks: Clocks::default(),
            refused: HashSet::new(),
            wakes: None,
            inherits: true,
            lost: 0,
            system_wide: Vec::new(),
        }
    }

    /// Switches and faults of a thread; those it starts later are watched with it, from Linux 5.13 on. Before, they
    /// come by [`Events::watch_new`]: there only whole processes could be inherited, children with them.
    pub fn watch(&mut self, tid: u32, inherit: bool) -> io::Result<()> {
        if self.threads.contains_key(&tid) || self.refused.contains(&tid) {
            return Ok(());
        }
        for at in 0..self.cpus.len() {
            let wakes = self.wakes.map(wakes);
            for mut attr in [switches_and_faults()].into_iter().chain(wakes) {
                attr.set_exclude_kernel(u64::from(self.wakes.is_none()));
                let opened = self.open(&mut attr, tid, self.cpus[at], inherit);
                let fd = opened.inspect_err(|_| {
                    self.refused.insert(tid);
                    self.threads.remove(&tid);
                })?;
                self.join(at, fd, pages_of(PAGES_USER, self.cpus.len()), Some(tid))?;
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        attr: &mut perf::perf_event_attr,
        tid: u32,
        cpu: i32,
        inherit: bool,
    ) -> io::Result<OwnedFd> {
        let inherit = inherit && self.inherits;
        attr.set_inherit(u64::from(inherit));
        attr.set_inherit_thread(u64::from(inherit));
        let opened = open_event(attr, tid as i32, cpu);
        match opened {
            Err(error) if inherit && error.raw_os_error() == Some(libc::EINVAL) => {
                self.inherits = false;
                attr.set_inherit(0);
                attr.set_inherit_thread(0);
                open_event(attr, tid as i32, cpu)
            }
            opened => opened,
        }
    }

    /// A thread that a watched one has started.
    pub fn watch_new(&mut self, tid: u32) {
        if !self.inherits {
            // It may have ended, or no file may be left: it goes without, as a thread that is refused.
            let _ = self.watch(tid, false);
        }
        self.watch_clock(tid);
    }

    /// Samples a thread by the clock, as long as [`Events::sample`] does not say otherwise. Not those it starts: each
    /// is switched on and off by itself. Where no file is left, it goes without.
    pub fn watch_clock(&mut self, tid: u32) {
        if self.clocks.has(tid) {
            return;
        }
        let rings = self.rings.iter().zip(&self.cpus);
        let opened = rings.filter_map(|(ring, cpu)| {
            let mut attr = clock(false);
            attr.set_exclude_kernel(u64::from(self.wakes.is_none()));
            let event = open_event(&mut attr, tid as i32, *cpu).ok()?;
            send_to(&event, &ring.as_ref()?.0).ok()?;
            Some(event)
        });
        self.clocks.take(tid, opened.collect());
    }

    /// Samples of a thread that was given to [`Events::watch`], as large as they get, at a period, until the value is
    /// dropped.
    ///
    /// # Errors
    /// The kernel refuses, or the thread is not watched.
    pub fn sample_every(&self, tid: u32, period_ns: u64) -> io::Result<Vec<OwnedFd>> {
        let rings = self.rings.iter().zip(&self.cpus);
        let opened = rings.map(|(ring, cpu)| {
            let mut attr = clock(false);
            attr.sample_stack_user = STACK_BYTES_MOST;
            attr.set_freq(0);
            attr.__bindgen_anon_1.sample_period = period_ns;
            let event = open_event(&mut attr, tid as i32, *cpu)?;
            let ring = ring.as_ref().ok_or(io::ErrorKind::NotFound)?;
            send_to(&event, &ring.0)?;
            Ok(event)
        });
        opened.collect()
    }

    /// Whether the clock samples a thread from now on.
    pub fn sample(&mut self, tid: u32, on: bool) {
        self.clocks.switch(tid, on);
    }

    /// It left its CPU.
    pub fn left(&mut self, tid: u32) {
        self.clocks.left(tid);
    }

    /// Every tenth of a second: those that switch often are not sampled, until somebody says otherwise.
    pub fn judge_clocks(&mut self) {
        self.clocks.judge();
    }

    pub fn is_sampled(&self, tid: u32) -> bool {
        self.clocks.is_on(tid)
    }

    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
        self.clocks.forget(tid);
        self.refused.remove(&tid);
    }

    pub fn watches_any(&self) -> bool {
        !self.threads.is_empty()
    }

    pub fn is_watched(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Sends an event's records to its CPU's ring; the first one there brings the ring.
    fn join(&mut self, at: usize, fd: OwnedFd, pages: usize, tid: Option<u32>) -> io::Result<()> {
        match &self.rings[at] {
            Some((first, _)) => {
                send_to(&fd, first)?;
                match tid {
                    Some(tid) => self.threads.entry(tid).or_default().push(fd),
                    None => self.system_wide.push(fd),
                }
            }
            None => {
                let ring = Ring::map(&fd, pages)?;
                self.rings[at] = Some((fd, ring));
                if let Some(tid) = tid {
                    self.threads.entry(tid).or_default();
                }
            }
        }
        Ok(())
    }

    /// Gives the time of which records are missing.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) -> Option<Gap> {
        let mut gap: Option<Gap> = None;
        for (cpu, losses) in self.rings.iter_mut().zip(&mut self.losses) {
            let Some((_, ring)) = cpu else {
                continue;
            };
            let reading = read(ring, &mut take);
            self.lost += reading.lost;
            let of_this = losses.of(reading, now_ns());
            gap = of_this.map(|of_this| of_this.joined(gap)).or(gap);
        }
        gap
    }
}

/// Of each CPU's ring; a power of two.
fn pages_of(most: usize, cpus: usize) -> usize {
    let each = (PAGES_ALL / cpus.max(1)).max(PAGES_LEAST);
    most.min(1 << each.ilog2())
}

/// With a sample that goes into a ring of so many pages.
fn stack_bytes(pages: usize) -> u32 {
    let each = pages * rustix::param::page_size() / STACKS_IN_A_RING;
    (each as u32).clamp(STACK_BYTES, STACK_BYTES_MOST)
}

fn read(ring: &mut Ring, mut take: impl FnMut(Record)) -> Reading {
    let mut reading = Reading {
        full: ring.is_full(),
        ..Reading::default()
    };
    ring.drain(|record| match record {
        Record::Lost(count) => reading.lost += count,
        other => {
            reading.newest_ns = reading.newest_ns.max(other.at_ns());
            take(other);
        }
    });
    reading
}

/// The event's records go to the ring of `first`, on the same CPU.
fn send_to(event: &OwnedFd, first: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors live.
    let result =
        unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), first.as_raw_fd()) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The event writes only what the program lets pass; before 4.9 a kernel has no such programs.
fn let_pass(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors live.
    let result = unsafe {
        perf_event_open_sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn sampled(attr: &mut perf::perf_event_attr) {
    attr.sample_type = u64::from(SAMPLE);
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = STACK_BYTES;
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_sample_id_all(1);
}

fn clock(all: bool) -> perf::perf_event_attr {
    let config = u64::from(perf::PERF_COUNT_SW_CPU_CLOCK);
    let mut attr = event(perf::PERF_TYPE_SOFTWARE, config);
    sampled(&mut attr);
    attr.__bindgen_anon_1.sample_freq = SAMPLES_PER_SECOND;
    attr.set_freq(1);
    if !all {
        attr.set_exclude_kernel(1);
    }
    attr
}

fn switches_and_faults() -> perf::perf_event_attr {
    let mut attr = faults(false);
    attr.set_context_switch(1);
    attr.set_task(1);
    attr
}

fn faults(all: bool) -> perf::perf_event_attr {
    let config = u64::from(perf::PERF_COUNT_SW_PAGE_FAULTS_MAJ);
    let mut attr = event(perf::PERF_TYPE_SOFTWARE, config);
    sampled(&mut attr);
    // In a storm each thread has thousands a second: a ring of whole stacks would overflow.
    attr.sample_stack_user = STACK_BYTES_FEW;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_exclude_kernel(u64::from(!all));
    attr
}

/// A sample of the waker, with as much of its stack as tells the function that let go.
fn wakes(number: u64) -> perf::perf_event_attr {
    let mut attr = event(perf::PERF_TYPE_TRACEPOINT, number);
    sampled(&mut attr);
    attr.sample_stack_user = STACK_BYTES_FEW;
    attr.__bindgen_anon_1.sample_period = 1;
    attr
}

/// The numbers in /sys/devices/system/cpu/online: "0-3,6".
pub fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_list(text.trim());
    if cpus.is_empty() { vec![0] } else { cpus }
}

fn parse_list(text: &str) -> Vec<i32> {
    let range = |part: &str| -> Option<(i32, i32)> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    text.split(',')
        .filter_map(range)
        .flat_map(|(first, last)| first..=last)
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rings_of_many_cpus_are_smaller() {
        use super::{PAGES_ALL, PAGES_ROOT, pages_of};
        assert_eq!(pages_of(PAGES_ROOT, 2), PAGES_ROOT);
        for cpus in [33, 64, 100, 256, 1_024] {
            let pages = pages_of(PAGES_ROOT, cpus);
            assert!(pages.is_power_of_two() && pages < PAGES_ROOT);
            assert!(pages * cpus <= PAGES_ALL, "{cpus} CPUs");
        }
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(super::parse_list("0-3,6"), [0, 1, 2, 3, 6]);
        assert_eq!(super::parse_list("0"), [0]);
        assert!(super::parse_list("").is_empty());
    }
}

//! Looks at threads that are off their CPU: what they wait for, their stack, a lock's holder. The
//! thread is never stopped.

use super::super::places::Frame;
use super::super::waits::parse_syscall;
use super::seen::parse_counts;
use super::threads::Known;
use super::{Source, Watch};
use crate::event::{Tid, Wait, WaitKind, What};
use symbols::registers::Registers;

/// A wait shorter than this is not looked at.
const SAMPLE_AFTER_NS: u64 = 1_500_000;
/// A condition or an idle wait is looked at this seldom: it tells little that is new.
const SELDOM_NS: u64 = 200_000_000;
/// A wait for a peer that lasts longer is asked about again, that often.
const LASTS_NS: u64 = 300_000_000;
/// A wait so young that it would be left out is looked at this seldom: what the thread waits for, and where it does
/// so most often, is learnt from them.
const YOUNG_NS: u64 = 20_000_000;
/// Samples of one turn; a turn is ten milliseconds or forty and a sample some twenty microseconds.
const SAMPLES_PER_TURN: usize = 16;
/// Past this time no further sample is begun in a turn: the rings are more urgent.
const SAMPLING_NS: u64 = 5_000_000;
/// A thread that is said to be on a CPU, or to want one, for longer than this is held against /proc.
const DOUBT_AFTER_NS: u64 = 200_000_000;
/// Threads whose stacks are read before the watch begins; those of a thousand would take seconds,
/// and come with the samples.
const STACKS_AT_FIRST: usize = 200;
/// As root, a thread that is on a CPU for this long is counted, so many in a turn: each costs a few microseconds.
const COUNTED_AFTER_NS: u64 = 2_000_000;
const COUNTED_PER_TURN: usize = 8;
/// Who has a CPU of a virtual machine that its host gave away.
const THE_HOST: &str = "another guest of this machine's host";

/// What a sample found, before its stack has names.
struct Seen {
    tid: u32,
    at_ns: u64,
    wait: Wait,
    /// None: the wait has its stack already.
    addresses: Vec<u64>,
    /// Where the stack ends, without privileges.
    sp: Option<u64>,
}

impl Watch {
    /// Looks at those that wait long enough and were not looked at in this wait; a lock's holder
    /// changes, so locks are looked at in every turn.
    pub(super) fn sample_waits(&mut self, now: u64, groups: &mut Vec<(Tid, Option<u64>)>) {
        self.read_counts(now);
        let mut due = self.due(now);
        // Those not looked at for longest go first.
        due.sort_unstable();
        // The rings were read since `now`.
        let begun_ns = crate::time::now_ns();
        let mut seen = Vec::new();
        for (_, tid) in due.into_iter().take(SAMPLES_PER_TURN) {
            seen.extend(self.sample_wait(now, tid));
            if crate::time::now_ns().saturating_sub(begun_ns) > SAMPLING_NS {
                break;
            }
        }
        // The first name of a library takes tens of milliseconds, in which the others' waits would end.
        for seen in seen {
            self.report_sample(seen, groups);
        }
    }

    /// When each thread that is to be looked at was looked at last.
    fn due(&mut self, now: u64) -> Vec<(u64, u32)> {
        let limit_ns = self.pace.limit_ns();
        let due = |(tid, known): (&u32, &Known)| {
            let blocked = known.blocked.filter(|_| known.lives)?;
            let age_ns = now.saturating_sub(blocked.since_ns);
            let unsampled_ns = now.saturating_sub(known.last_sample_ns);
            let kind = blocked.wait.kind;
            // Without privileges only a sample tells what a wait is: young ones are samples.
            let sample = age_ns >= known.limit_ns(limit_ns) || unsampled_ns >= YOUNG_NS;
            let long = age_ns >= SAMPLE_AFTER_NS || kind == WaitKind::Unknown && sample;
            let again = kind == WaitKind::Lock && unsampled_ns >= SAMPLE_AFTER_NS;
            // What is not acknowledged is sent again after 200 ms.
            let lasts = kind == WaitKind::Network && age_ns.min(unsampled_ns) >= LASTS_NS;
            let seldom = matches!(
                kind,
                WaitKind::Inbound
                    | WaitKind::Outbound
                    | WaitKind::Sleep
                    | WaitKind::Queue
                    | WaitKind::Other
            );
            let rested = unsampled_ns >= SELDOM_NS || !(seldom && known.grouped);
            (long && rested && (!blocked.sampled || again || lasts))
                .then_some((known.last_sample_ns, *tid))
        };
        self.threads.iter().filter_map(due).collect()
    }

    /// Records that were lost leave a thread running, or wanting to, for as long as it really waits: seconds of an
    /// idle one. Whoever is found waiting twice, and nothing was told of it in between, was told wrongly.
    pub(super) fn doubt(&mut self, now: u64) {
        let doubtful = |known: &super::Known| {
            let since = known.told_ns.max(known.checked_ns);
            let at_work = known.lives && known.blocked.is_none() && known.told_ns > 0;
            at_work && now.saturating_sub(since) >= DOUBT_AFTER_NS
        };
        let tids: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, known)| doubtful(known))
            .map(|(tid, _)| *tid)
            .take(SAMPLES_PER_TURN)
            .collect();
        for tid in tids {
            let waits = self.read_call(tid).is_some();
            let Some(known) = self.threads.get(tid) else {
                continue;
            };
            known.checked_ns = now;
            let again = std::mem::replace(&mut known.found_waiting, waits.then_some(known.told_ns));
            if waits && again == Some(known.told_ns) {
                self.missed_switches += 1;
                self.tell(crate::time::now_ns(), tid, What::Unsure);
                self.sample_first(tid);
            }
        }
    }

    fn sample_wait(&mut self, now: u64, tid: u32) -> Option<Seen> {
        self.wait_samples += 1;
        let known = self.threads.get(tid)?;
        known.last_sample_ns = now;
        let blocked = known.blocked?;
        let (mut wait, addresses, sp) = match blocked.registers {
            Some(registers) if !blocked.sampled => {
                let mut addresses = self.stacks.of_blocked(registers);
                self.add_python(tid, &mut addresses);
                if self.is_over(tid, blocked.since_ns) {
                    return None;
                }
                // Asked anew: at the switch a connection may have been too young for the tables.
                let mut wait = match &blocked.call {
                    Some(call) => self.waits.of_call(call, &mut self.places),
                    None => blocked.wait,
                };
                wait.place = blocked.wait.place;
                if let Some(call) = &blocked.call {
                    let (waits, places) = (&mut self.waits, &mut self.places);
                    waits.tell_file_holder(&mut wait, call, places);
                    waits.tell_what_is_unsent(&mut wait, call, places);
                }
                (wait, addresses, None)
            }
            Some(_) => {
                let mut wait = blocked.wait;
                if let (WaitKind::Network, Some(call)) = (wait.kind, &blocked.call) {
                    let (waits, places) = (&mut self.waits, &mut self.places);
                    wait.activity = waits.of_call(call, places).activity;
                    waits.tell_what_is_unsent(&mut wait, call, places);
                }
                (wait, Vec::new(), None)
            }
            None => self.read_wait(tid, blocked.sampled.then_some(&blocked.wait))?,
        };
        let threads = &self.threads;
        let named = self.waits.holder(&wait, |tid| threads.outer(tid).is_some());
        wait.holder = named.and_then(|tid| threads.outer(tid));
        // What the switch itself told holds from the wait's beginning. What /proc told holds now:
        // a switch that is still in the ring may have come before, and this may be another wait.
        let at_ns = match blocked.registers {
            Some(_) => blocked.since_ns + 1,
            None => crate::time::now_ns(),
        };
        Some(Seen {
            tid,
            at_ns,
            wait,
            addresses,
            sp,
        })
    }

    fn report_sample(&mut self, seen: Seen, groups: &mut Vec<(Tid, Option<u64>)>) {
        let Seen {
            tid,
            at_ns,
            mut wait,
            addresses,
            sp,
        } = seen;
        if !addresses.is_empty() {
            wait.stack = self.places.stack(&addresses);
        }
        let stack = self.places.stack_of(wait.stack);
        wait.allocator |= stack.allocator;
        if wait.kind == WaitKind::Queue && stack.locks {
            wait.kind = WaitKind::Lock;
            // Its word is the waiter's own, and no lock's.
            (wait.object, wait.holder) = (0, None);
        }
        if let Some(known) = self.threads.get(tid)
            && let Some(blocked) = &mut known.blocked
        {
            blocked.sampled = true;
            blocked.wait = wait;
            known.waits_for = Some(wait.kind);
            known.seen = sp.map(|sp| (sp, wait.stack)).or(known.seen);
        }
        self.tell(at_ns, tid, What::Sample(wait));
        groups.extend(self.group(tid, wait.stack));
        // A goroutine that is in a system call, and does not park.
        let carried = self.go.as_ref().and_then(|go| go.on_thread(tid, at_ns));
        if let Some(goroutine) = carried.filter(|_| wait.stack != 0) {
            groups.extend(self.group_of_goroutine(goroutine, wait.stack));
        }
    }

    /// Whether a wait ended since it began at `since_ns`, by the kernel's own word: what was read of its stack may be
    /// the stack of what came after.
    fn is_over(&self, tid: u32, since_ns: u64) -> bool {
        match &self.source {
            Source::Ebpf(ebpf) => ebpf.off_since_ns(tid) != Some(since_ns),
            Source::Threads => false,
        }
    }

    /// What /proc says the thread is in, with its stack and where that ends. A wait that was looked at before keeps its
    /// stack.
    fn read_wait(
        &mut self,
        tid: u32,
        before: Option<&Wait>,
    ) -> Option<(Wait, Vec<u64>, Option<u64>)> {
        let (wait, registers) = self.read_call(tid)?;
        if let Some(before) = before
            && before.object == wait.object
        {
            let stack = before.stack;
            return Some((Wait { stack, ..wait }, Vec::new(), None));
        }
        let mut addresses = self.stacks.of_blocked_without_fp(registers);
        let native = addresses.len();
        self.add_python(tid, &mut addresses);
        if addresses.len() > native && !self.is_at(tid, &registers) {
            return None;
        }
        Some((wait, addresses, Some(registers.sp)))
    }

    /// The thread waits still, or again, where it did.
    fn is_at(&mut self, tid: u32, registers: &Registers) -> bool {
        let now = self.files.read(tid, "syscall", parse_syscall);
        now.is_some_and(|(_, sp, pc)| (sp, pc) == (registers.sp, registers.pc))
    }

    fn read_call(&mut self, tid: u32) -> Option<(Wait, Registers)> {
        let (call, sp, pc) = self.files.read(tid, "syscall", parse_syscall)?;
        let wait = Wait {
            place: place_of(pc, sp),
            ..self.waits.of_call(&call, &mut self.places)
        };
        let registers = Registers {
            pc,
            sp,
            fp: 0,
            lr: 0,
        };
        Some((wait, registers))
    }

    /// A thread that waits already when the watch begins.
    pub(super) fn sample_first(&mut self, tid: u32) {
        let read = match self.threads.len() <= STACKS_AT_FIRST {
            true => self.read_wait(tid, None),
            false => self
                .read_call(tid)
                .map(|(wait, _)| (wait, Vec::new(), None)),
        };
        let Some((mut wait, addresses, sp)) = read else {
            return;
        };
        wait.stack = self.places.stack(&addresses);
        let now = crate::time::now_ns();
        if let Some(known) = self.threads.get(tid) {
            known.seen = sp.map(|sp| (sp, wait.stack));
            known.off_since_ns = now;
            known.blocked = Some(super::threads::Blocked {
                since_ns: now,
                wait,
                call: None,
                registers: None,
                sampled: false,
            });
        }
        self.tell(now, tid, What::Sample(wait));
    }

    /// The group of a thread is the outermost function of the program's own on its stack.
    pub(super) fn group(&mut self, tid: u32, stack: u32) -> Option<(Tid, Option<u64>)> {
        let stack = self.places.stack_of(stack);
        if self.python.is_some() && stack.waits_for_python() {
            return None;
        }
        let group = group_of(stack.beginning()?);
        let known = self.threads.get(tid)?;
        if known.grouped {
            return None;
        }
        known.grouped = true;
        Some((Tid::from(tid), Some(group)))
    }

    /// The kernel's own counts of time on a CPU and of time without one, for threads that switched; as root, where
    /// the switches tell the latter, of those that are on a CPU for long and once more when they left it.
    fn read_counts(&mut self, now: u64) {
        let due: Vec<u32> = match (&self.source, &self.go) {
            (Source::Threads, _) => self.threads.tids(),
            (Source::Ebpf(_), None) => self.long_on_cpu(now),
            (Source::Ebpf(_), Some(_)) => return,
        };
        let host = self.places.text(THE_HOST);
        for tid in due {
            let known = self.threads.at(tid);
            known.followed = known.running_since_ns.is_some();
            if !std::mem::take(&mut known.switched) && !known.followed {
                continue;
            }
            let Some(counts) = self.files.read(tid, "schedstat", parse_counts) else {
                continue;
            };
            let before = self.threads.at(tid).counts.replace(counts);
            if let (Source::Threads, Some(before)) = (&self.source, before) {
                let ns = counts.run_delay_ns.saturating_sub(before.run_delay_ns);
                self.tell(now, tid, What::RunDelay { ns });
            }
            let ns = counts.on_cpu_ns;
            self.tell(now, tid, What::Ran { ns, host });
        }
    }

    fn long_on_cpu(&mut self, now: u64) -> Vec<u32> {
        let long = |known: &super::Known| match known.running_since_ns {
            Some(since_ns) => now.saturating_sub(since_ns) >= COUNTED_AFTER_NS,
            None => known.followed,
        };
        let lasting = self
            .threads
            .iter()
            .filter(|(_, known)| known.lives && long(known));
        let tids: Vec<u32> = lasting
            .map(|(tid, _)| *tid)
            .take(COUNTED_PER_TURN)
            .collect();
        tids.iter()
            .for_each(|tid| self.threads.at(*tid).switched = true);
        tids
    }
}

/// The place of a wait, from where its thread entered the kernel; never 0.
pub(super) fn place_of(pc: u64, sp: u64) -> u32 {
    let mixed = (pc ^ sp.rotate_left(21)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// Threads that were started for the same function are one group.
pub(super) fn group_of(beginning: &[Frame]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for frame in beginning {
        (&frame.module, &frame.name, frame.start).hash(&mut hasher);
    }
    // The upper half is for threads without a group.
    hasher.finish() >> 1
}

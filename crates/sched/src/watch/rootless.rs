//! Switch records of the subject's own threads to events. Without privileges nobody tells who woke whom; with them, and
//! without eBPF, samples of the wakers do.

use super::super::gap::Gap;
use super::Watch;
use super::seen::parse_counts;
use super::short::Switch;
use super::threads::Blocked;
use crate::event::{Tid, Wait, WaitKind, Waker, What};
use bpf::ring::{Record, Sample};
use symbols::registers::Registers;

/// Resident pages that a process must lose from one turn to the next for somebody to give memory back: 4 MiB.
const FALLEN_PAGES: u64 = 1_024;

/// Whoever gave that much back in one turn ran for at least this long in it.
const GIVING_LEAST_NS: u64 = 1_000_000;

/// As in the programs for eBPF: samples of a thread begin when it is at work for this long.
const SAMPLED_AFTER_NS: u64 = 1_000_000;

/// The waker's stack is read when the wait that it ends lasted this long.
const STACK_AFTER_NS: u64 = 1_000_000;

/// Who made whom runnable; `by` and the rest only for one of the subject's own.
struct Waking {
    at_ns: u64,
    woken: u32,
    by: Option<u32>,
    user: Option<Registers>,
    stack: Vec<u8>,
}

impl Watch {
    pub(super) fn drain_threads(&mut self) {
        let Some(mut events) = self.samples.take() else {
            return;
        };
        let (mut switches, mut wakes, mut exits) = (vec![], vec![], vec![]);
        // What was recorded up to now is read; later records are not, of some CPUs.
        let read_ns = crate::time::now_ns();
        let gap = events.drain(|record| match record {
            Record::In { at_ns, tid } => {
                self.threads.at(tid).at_work.came(at_ns);
                switches.push(Switch {
                    at_ns,
                    tid,
                    ..Switch::default()
                });
            }
            Record::Out {
                at_ns,
                tid,
                preempted,
            } => {
                self.costs.recorded.switches += 1;
                self.threads.at(tid).at_work.only_preempted = preempted;
                switches.push(Switch {
                    at_ns,
                    tid,
                    out: Some(preempted),
                    away_ns: 0,
                });
            }
            Record::Exit { at_ns, tid } => exits.push((at_ns, tid)),
            Record::Sample(sample) => wakes.extend(self.waking_or_sampled(&sample)),
            Record::Lost(_) => {}
        });
        self.costs.recorded.lost = events.lost;
        switches
            .iter()
            .filter(|switch| switch.out.is_some())
            .for_each(|switch| events.left(switch.tid));
        self.samples = Some(events);
        // What was written while a full ring was read comes with the next reading.
        let unseen = gap.or(self.gap);
        switches.retain(|switch| unseen.is_none_or(|gap| !gap.covers(switch.at_ns)));
        self.gap = gap;
        switches.sort_by_key(|switch| switch.at_ns);
        let switches = self.without_short(switches);
        // An absence is two records here, and one as root.
        self.pace.came(switches.len() as u64 / 2);
        self.pace.adapt(crate::time::now_ns());
        wakes.sort_by_key(|waking| waking.at_ns);
        let mut wakes = wakes.into_iter().peekable();
        for switch in switches {
            while let Some(waking) = wakes.next_if(|waking| waking.at_ns <= switch.at_ns) {
                self.waking(&waking);
            }
            self.switched(&switch);
        }
        wakes.for_each(|waking| self.waking(&waking));
        self.ended(&exits);
        if let Some(gap) = gap {
            self.doubt_since(gap);
        }
        if self.woken_at.is_none() {
            self.watch_size(crate::time::now_ns());
        }
        self.sample_who_is_at_work(read_ns);
    }

    fn waking_or_sampled(&mut self, sample: &Sample) -> Option<Waking> {
        let waking = self.waking_of(sample);
        if waking.is_some() {
            self.costs.recorded.wakings += 1;
            return waking;
        }
        self.costs.recorded.samples += 1;
        if self.is_worth_unwinding(sample) {
            self.sampled(sample);
        }
        None
    }

    /// Threads, and when they ended.
    fn ended(&mut self, exits: &[(u64, u32)]) {
        for (at_ns, tid) in exits {
            self.tell(*at_ns, *tid, What::Exited);
        }
    }

    /// Who is on a CPU for long is sampled from now on, however often it switches at other times.
    fn sample_who_is_at_work(&mut self, now: u64) {
        let Some(events) = &mut self.samples else {
            return;
        };
        // By every record, those of absences that were left out too.
        let at_work = |(_, known): &(&u32, &super::Known)| {
            let since = known.running_since_ns.unwrap_or(now);
            now.saturating_sub(since.max(known.at_work.since_ns)) >= SAMPLED_AFTER_NS
        };
        for (tid, _) in self.threads.iter().filter(at_work) {
            events.sample(*tid, true);
        }
    }

    /// A major fault, or a thread that is at work for long: what ordinary requests compute is not worth unwinding.
    fn is_worth_unwinding(&mut self, sample: &Sample) -> bool {
        let known = self.threads.at(sample.tid);
        let long = sample.at_ns.saturating_sub(known.at_work.since_ns) >= SAMPLED_AFTER_NS;
        if !long {
            known.sampled_ns = sample.at_ns;
        }
        long || sample.address != 0
    }

    /// Records are missing: what a thread was in then is believed only where it has not been on a CPU since, by the
    /// kernel's count. Of the others it is known again when they are seen; and what the kernel counts of their
    /// waiting for a CPU meanwhile belongs to no wait that was seen.
    fn doubt_since(&mut self, gap: Gap) {
        for tid in self.threads.tids() {
            let counts = self.files.read(tid, "schedstat", parse_counts);
            let known = self.threads.at(tid);
            let same = counts.map(|c| c.on_cpu_ns) == known.counts.map(|c| c.on_cpu_ns);
            if !known.switched && known.counts.is_some() && same {
                continue;
            }
            (known.blocked, known.running_since_ns, known.counts) = (None, None, counts);
            self.tell(gap.from_ns + 1, tid, What::Unsure);
            self.sample_first(tid);
        }
    }

    /// Without privileges nobody sees what a thread does inside the kernel. But when the process gets smaller by
    /// much while one of its threads runs and is never seen in its own code, that is what the thread does.
    pub(super) fn watch_size(&mut self, now: u64) {
        let Some(pages) = self.files.read(self.pid, "statm", parse_resident) else {
            return;
        };
        let (before, since_ns) = std::mem::replace(&mut self.size, (pages, now));
        if before.saturating_sub(pages) < FALLEN_PAGES {
            return;
        }
        // The one that gave it back ran for long in that turn: it may have left its CPU since.
        let stretch = |known: &super::Known| {
            let end = match known.running_since_ns {
                Some(_) => now,
                None => known.off_since_ns,
            };
            let start = known.came_ns.max(since_ns);
            let long = end.saturating_sub(start) >= GIVING_LEAST_NS;
            (long && known.sampled_ns < since_ns).then_some(start.midpoint(end))
        };
        // Who is not sampled is in its own code as likely as not.
        let root = matches!(self.source, super::Source::Ebpf(_));
        let events = self.samples.as_ref();
        let sampled = |tid: &u32| root || events.is_some_and(|events| events.is_sampled(*tid));
        let threads = self.threads.iter().filter(|(tid, _)| sampled(tid));
        let threads: Vec<(u32, u64, bool)> = threads
            .filter_map(|(tid, known)| {
                Some((*tid, stretch(known)?, known.running_since_ns.is_some()))
            })
            .collect();
        let activity = self
            .places
            .text("giving memory back (the process got smaller meanwhile)");
        // It counts for those alone that others wait for just now.
        for (tid, at_ns, runs) in threads {
            let stack = if runs { self.stack_of_running(tid) } else { 0 };
            let allocator = true;
            let what = What::OnCpu {
                stack,
                activity,
                allocator,
            };
            self.tell(at_ns, tid, what);
        }
    }

    /// A sample of `sched_waking`, kept until the switches before it are told.
    fn waking_of(&self, sample: &Sample) -> Option<Waking> {
        let at = usize::try_from(self.woken_at?).ok()?;
        let woken = sample.raw.get(at..at + 4)?.try_into().ok();
        let ours = sample.pid == self.pid;
        Some(Waking {
            at_ns: sample.at_ns,
            woken: woken.map(u32::from_ne_bytes)?,
            by: ours.then_some(sample.tid),
            user: sample.user.filter(|_| ours),
            stack: sample.stack.to_vec(),
        })
    }

    fn waking(&mut self, waking: &Waking) {
        if !self.threads.lives(waking.woken) {
            return;
        }
        let since = self.threads.get(waking.woken).and_then(|k| k.blocked);
        let long = since.is_some_and(|b| waking.at_ns.saturating_sub(b.since_ns) >= STACK_AFTER_NS);
        let release = match waking.user.filter(|_| long) {
            Some(user) => {
                let mut addresses = self.stacks.of_bytes(user, &waking.stack);
                self.insert_tail_call(&mut addresses);
                self.places.stack(&addresses)
            }
            None => 0,
        };
        let by = waking
            .by
            .map_or(Waker::Outside, |tid| Waker::Thread(Tid::from(tid)));
        self.tell(waking.at_ns, waking.woken, What::Woken { by, release });
    }

    fn switched(&mut self, switch: &Switch) {
        let Switch {
            at_ns,
            tid,
            out,
            away_ns,
        } = *switch;
        match out {
            None => self.came(at_ns, tid),
            Some(preempted) => {
                self.was_away(at_ns, tid, away_ns);
                self.left(at_ns, tid, preempted);
            }
        }
    }

    fn came(&mut self, at_ns: u64, tid: u32) {
        let known = self.threads.at(tid);
        known.blocked = None;
        known.came_ns = at_ns;
        known.told_ns = at_ns;
        known.running_since_ns = Some(at_ns);
        known.switched = true;
        self.tell(at_ns, tid, What::In { after: 0 });
    }

    fn left(&mut self, at_ns: u64, tid: u32, preempted: bool) {
        let known = self.threads.at(tid);
        known.running_since_ns = None;
        known.off_since_ns = at_ns;
        known.told_ns = at_ns;
        known.switched = true;
        if preempted {
            self.tell(at_ns, tid, What::Preempted);
            return;
        }
        let wait = Wait::of(WaitKind::Unknown, 0);
        known.blocked = Some(Blocked {
            since_ns: at_ns,
            wait,
            call: None,
            registers: None,
            sampled: false,
        });
        self.tell(at_ns, tid, What::Blocked(wait));
    }
}

/// The second number of /proc/PID/statm: resident pages.
fn parse_resident(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_is_the_second_number() {
        // Linux 6.18, /proc/self/statm.
        assert_eq!(parse_resident("1390 512 480 9 0 115 0\n"), Some(512));
        assert_eq!(parse_resident(""), None);
    }
}

//! Records of the eBPF programs to events.

use super::super::ebpf::record::{Before, GONE, Record, STATES, STOPPED, Short, Told, User};
use super::super::golang::{Goroutines, Probe};
use super::super::waits::Call;
use super::sample::{group_of, place_of};
use super::threads::Blocked;
use super::{OURSELVES, OWN_THREADS, Source, Watch};
use crate::event::{StackId, TextId, Tid, Wait, Waker, What};
use bpf::ring;
use symbols::call_site::Target;
use symbols::registers::Registers;

/// Threads that are asked in one turn for what they wait in; each costs a system call of half a microsecond.
const ASKED_PER_TURN: usize = 256;

/// Programs that had a CPU of ours and are remembered.
const PROGRAMS_MAX: usize = 8_192;

impl Watch {
    /// `cut_ns`: of a Go program, whose records come by two ways, what is newer stays for the next turn.
    pub(super) fn drain_ebpf(&mut self, cut_ns: u64) {
        let mut records = std::mem::take(&mut self.records);
        let drained_ns = crate::time::now_ns();
        if let Source::Ebpf(ebpf) = &mut self.source {
            ebpf.drain(|record| records.push(record));
        }
        let now = crate::time::now_ns();
        let mut lost = 0;
        if let Source::Ebpf(ebpf) = &mut self.source {
            ebpf.adapt(now);
            lost = ebpf.lost();
        }
        let newest_ns = records.iter().map(|record| record.at_ns).max();
        self.ask_after_untold(drained_ns, &mut records);
        match self.go.take() {
            None => {
                records.iter().for_each(|record| self.told(record));
                records.clear();
                self.records = records;
            }
            Some(go) => self.merge(records, go, cut_ns),
        }
        if lost > std::mem::replace(&mut self.lost_seen, lost) {
            self.doubt_all(newest_ns.unwrap_or(now) + 1);
        }
        self.drain_samples();
        // Purges shorter than the time between two samples of the clock.
        if self.go.is_none() {
            self.watch_size(now);
        }
    }

    /// The ring was full since its newest record: what a thread was in then is believed only where the kernel
    /// still has the same beginning of that wait.
    fn doubt_all(&mut self, at_ns: u64) {
        let Source::Ebpf(ebpf) = &self.source else {
            return;
        };
        let since = |tid: &u32| (*tid, ebpf.off_since_ns(*tid));
        let threads: Vec<_> = self.threads.tids().iter().map(since).collect();
        for (tid, since_ns) in threads {
            let known = self.threads.at(tid);
            if known
                .blocked
                .is_some_and(|blocked| Some(blocked.since_ns) == since_ns)
            {
                continue;
            }
            (known.blocked, known.on_cpu, known.running_since_ns) = (None, None, None);
            self.tell(at_ns, tid, What::Unsure);
        }
    }

    /// Waits that last, of which the kernel tells only when they end: asked for, some threads in each turn.
    fn ask_after_untold(&mut self, drained_ns: u64, records: &mut Vec<Record>) {
        let Source::Ebpf(ebpf) = &self.source else {
            return;
        };
        let may_wait =
            |(_, known): &(&u32, &super::Known)| known.lives && known.on_cpu != Some(false);
        let tids = self.threads.iter().filter(may_wait).map(|(tid, _)| *tid);
        let tids: Vec<u32> = tids.collect();
        let turn = self.asked % tids.len().max(1);
        self.asked = turn + ASKED_PER_TURN;
        let some = tids.iter().cycle().skip(turn);
        for tid in some.take(ASKED_PER_TURN.min(tids.len())) {
            records.extend(ebpf.untold(*tid, drained_ns).into_iter().flatten());
        }
    }

    /// Which goroutine is on a thread changes all the time: both kinds of records in one order, and of
    /// both only what came before the cut. Past it one kind may know more than the other, and a
    /// goroutine would be given another one's leaving or coming.
    fn merge(&mut self, mut records: Vec<Record>, mut go: Goroutines, cut_ns: u64) {
        let mut probed = std::mem::take(&mut self.probes);
        probed.extend(go.drain());
        probed.sort_by_key(|probe| probe.at_ns);
        self.go = Some(go);
        self.probes = probed.split_off(probed.partition_point(|probe| probe.at_ns <= cut_ns));
        let (now, later) = records.drain(..).partition(|record| record.at_ns <= cut_ns);
        self.records = later;
        let now: Vec<Record> = now;
        let mut probed = probed.iter().peekable();
        for record in &now {
            while let Some(probe) = probed.next_if(|probe| probe.at_ns <= record.at_ns) {
                self.probed(probe);
            }
            self.told(record);
        }
        probed.for_each(|probe| self.probed(probe));
    }

    fn probed(&mut self, probe: &Probe) {
        let Some(mut go) = self.go.take() else {
            return;
        };
        let stack = match probe.stack.is_empty() {
            true => 0,
            false => self.places.stack(&probe.stack),
        };
        let (event, ungrouped) = go.event(probe, stack, &mut self.waits, &mut self.places);
        self.held.extend(event);
        self.go = Some(go);
        if let Some(goroutine) = ungrouped {
            let news = self.group_of_goroutine(goroutine, stack);
            self.groups.extend(news);
        }
    }

    /// By what it was started for, as far as this stack of it tells; `None` where that is no news.
    pub(super) fn group_of_goroutine(
        &mut self,
        goroutine: Tid,
        stack: StackId,
    ) -> Option<(Tid, Option<u64>)> {
        let group = self.group_at(stack);
        let go = self.go.as_mut()?;
        go.learns(goroutine, group.is_some())
            .then_some((goroutine, group))
    }

    /// By where a goroutine's stack begins; none where that is in a library. Goroutines park at the same places again
    /// and again, and names are long to compare.
    fn group_at(&mut self, stack: StackId) -> Option<u64> {
        const STACKS_MAX: usize = 4_096;
        if self.of_stacks.len() == STACKS_MAX {
            self.of_stacks.clear();
        }
        let places = &self.places;
        let group = || places.stack_of(stack).beginning().map(group_of);
        *self.of_stacks.entry(stack).or_insert_with(group)
    }

    pub(super) fn drain_samples(&mut self) {
        let Some(mut events) = self.samples.take() else {
            return;
        };
        // Samples are evidence, and no state: what is missing of them makes no wait.
        let _ = events.drain(|record| {
            if let ring::Record::Sample(sample) = record {
                self.costs.recorded.samples += 1;
                self.sampled(&sample);
            }
        });
        self.samples = Some(events);
    }

    fn told(&mut self, record: &Record) {
        let (at_ns, tid) = (record.at_ns, record.tid);
        match &record.what {
            Told::Whole {
                since_ns,
                state,
                short,
                user,
                woken,
                after,
            } => {
                self.was_away_shortly(*since_ns, tid, short);
                self.went_off(*since_ns, tid, *state, user);
                if let Some((woken_ns, waker, process)) = *woken {
                    self.woken(woken_ns, tid, (waker, process), None);
                }
                self.came_after(at_ns, tid, after);
            }
            Told::Out { state, short, user } => {
                self.was_away_shortly(at_ns, tid, short);
                self.went_off(at_ns, tid, *state, user);
            }
            Told::In { after } => self.came_after(at_ns, tid, after),
            Told::Waking {
                waker,
                process,
                user,
            } => self.woken(at_ns, tid, (*waker, *process), user.as_deref()),
            Told::Place { user, stack } => {
                self.placed(at_ns, tid, (call(user), registers(user)), stack);
            }
        }
    }

    fn was_away_shortly(&mut self, at_ns: u64, tid: u32, short: &Short) {
        let devices = short.deep_ns > short.other_ns;
        if !(devices && self.waited_for_devices(at_ns, tid, short.deep_ns)) {
            self.was_away(at_ns, tid, short.other_ns + short.deep_ns);
        }
    }

    fn went_off(&mut self, at_ns: u64, tid: u32, state: u32, user: &User) {
        let known = self.threads.at(tid);
        if std::mem::replace(&mut known.left_ns, at_ns) == at_ns {
            // Asked for before it was told.
            return;
        }
        // A thread that leaves a CPU twice without having come back: a record is missing.
        let missed = known.on_cpu.replace(false) == Some(false);
        (known.told_ns, known.off_since_ns, known.running_since_ns) = (at_ns, at_ns, None);
        known.wanted_cpu_ns = None;
        self.missed_switches += u64::from(missed);
        if state & STATES == 0 {
            self.threads.at(tid).blocked = None;
            self.tell(at_ns, tid, What::Preempted);
        } else if state & GONE != 0 {
            self.tell(at_ns, tid, What::Exited);
        } else if state & STOPPED != 0 {
            self.stopped(at_ns, tid);
        } else {
            self.blocked(at_ns, tid, user);
        }
    }

    /// Wherever it was: what it waited for is not what it waits for now.
    fn stopped(&mut self, since_ns: u64, tid: u32) {
        let wait = Wait {
            activity: self.places.text("stopped by a signal or a debugger"),
            ..Wait::stop()
        };
        self.threads.at(tid).blocked = Some(Blocked {
            since_ns,
            wait,
            call: None,
            registers: None,
            sampled: true,
        });
        self.tell(since_ns, tid, What::Blocked(wait));
    }

    fn came_after(&mut self, at_ns: u64, tid: u32, before: &Before) {
        let known = self.threads.at(tid);
        let missed = known.on_cpu.replace(true) == Some(true);
        (known.told_ns, known.came_ns, known.running_since_ns) = (at_ns, at_ns, Some(at_ns));
        known.blocked = None;
        let parked = std::mem::take(&mut known.parked);
        self.missed_switches += u64::from(missed);
        let after = self.ran_before(before);
        match parked {
            false => self.tell(at_ns, tid, What::In { after }),
            true => self.without_goroutine(at_ns, tid, What::In { after }),
        }
    }

    fn blocked(&mut self, since_ns: u64, tid: u32, user: &User) {
        let call = call(user);
        if self.go.is_some() && call.is_futex() {
            // The runtime parks its thread, and not the goroutine that it carried last.
            self.threads.at(tid).parked = true;
            return;
        }
        let mut wait = Wait {
            place: place_of(user.pc, user.sp),
            ..self.waits.of_call(&call, &mut self.places)
        };
        wait.stack = self.stack_of_place(since_ns, tid, wait.place);
        wait.allocator |= self.places.stack_of(wait.stack).allocator;
        self.threads.at(tid).blocked = Some(Blocked {
            since_ns,
            wait,
            call: Some(call),
            registers: Some(registers(user)),
            sampled: false,
        });
        self.tell(since_ns, tid, What::Blocked(wait));
    }

    fn woken(
        &mut self,
        at_ns: u64,
        tid: u32,
        (waker, process): (u32, u32),
        user: Option<&(User, [u8; super::super::ebpf::record::STACK_BYTES])>,
    ) {
        if let Some(known) = self.threads.get(tid) {
            known.blocked = None;
        }
        let by = match process == self.pid {
            true => Waker::Thread(u64::from(waker)),
            false => Waker::Outside,
        };
        let release = user.map_or(0, |(user, stack)| self.release_of(registers(user), stack));
        self.tell(at_ns, tid, What::Woken { by, release });
    }

    /// The waker's stack. The same few come thousands of times: each is unwound once.
    fn release_of(&mut self, at: Registers, stack: &[u8]) -> StackId {
        const KEPT_MAX: usize = 4_096;
        // Functions that a runtime runs are data, and further out than the copy: equal copies may be of different ones.
        let is_known_by_copy = !self.stacks.reads_managed();
        let print = self.stacks.fingerprint(at, stack);
        if let Some(known) = self.releases.get(&print).filter(|_| is_known_by_copy) {
            return *known;
        }
        let mut addresses = self.stacks.of_bytes(at, stack);
        self.insert_tail_call(&mut addresses);
        let id = self.places.stack(&addresses);
        if self.releases.len() == KEPT_MAX {
            self.releases.clear();
        }
        self.releases.insert(print, id);
        id
    }

    /// A function whose last act is the call that lets go may leave no frame: the compiler jumps.
    /// What the caller really called then stands in its call instruction.
    pub(super) fn insert_tail_call(&mut self, addresses: &mut Vec<u64>) {
        const INNERMOST: usize = 6;
        for at in 1..addresses.len().min(INNERMOST) {
            let Some(Target::Function(called)) = self.calls.before(addresses[at] + 1) else {
                continue;
            };
            if self.places.is_another_function(called, addresses[at - 1]) {
                addresses.insert(at, called);
                return;
            }
        }
    }

    /// Who had the CPU that the thread got: the idle thread is nobody.
    fn ran_before(&mut self, before: &Before) -> TextId {
        let Before { tid, process, comm } = *before;
        if tid == 0 {
            return 0;
        }
        if process == self.pid {
            return self.places.text(OWN_THREADS);
        }
        if process == self.own_pid {
            return self.places.text(OURSELVES);
        }
        if let Some(words) = self.programs.get(&(process, comm)) {
            return *words;
        }
        let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
        let name = String::from_utf8_lossy(&comm[..end]);
        // Numbered threads of one program are one program.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || "-:/_".contains(c));
        let words = self.places.text(&format!("{name} (pid {process})"));
        if self.programs.len() < PROGRAMS_MAX {
            self.programs.insert((process, comm), words);
        }
        words
    }
}

fn call(user: &User) -> Call {
    Call {
        number: user.number.into(),
        args: user.arguments,
    }
}

fn registers(user: &User) -> Registers {
    Registers {
        pc: user.pc,
        sp: user.sp,
        fp: user.fp,
        lr: user.link,
    }
}

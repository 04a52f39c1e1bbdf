//! One thread's timeline: events in, segments out, closed as the next one begins.

mod counted;

use std::collections::VecDeque;

use self::counted::Count;
use super::event::{StackId, TextId, Wait, WaitKind, Waker, What};
use super::poll;
use super::segment::{Sample, Segment, State};

/// Samples of stacks on a CPU kept per thread.
const SAMPLES_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Thread {
    done: VecDeque<Segment>,
    now: Option<(u64, State)>,
    samples: VecDeque<Sample>,
    pub born_ns: u64,
    pub ended_ns: Option<u64>,
    /// Segments cut from the front so far: positions handed out stay valid.
    cut: u64,
    /// Segments before this position are part of an earlier [`What::RunDelay`].
    counted: u64,
    runnable_ns: u64,
    /// Time in closed stretches on a CPU.
    on_cpu_ns: u64,
    count: Option<Count>,
}

impl Thread {
    pub(super) fn born(at_ns: u64) -> Thread {
        Thread {
            born_ns: at_ns,
            ..Thread::default()
        }
    }

    /// Closed segments from position `from` on, with their positions.
    pub fn since(&self, from: u64) -> impl Iterator<Item = (u64, &Segment)> + '_ {
        let skip = from.saturating_sub(self.cut) as usize;
        let first = self.cut + skip as u64;
        self.done
            .iter()
            .skip(skip)
            .enumerate()
            .map(move |(at, segment)| (first + at as u64, segment))
    }

    /// The one that stands at `at` now.
    pub(super) fn segment_at(&self, at: usize) -> Option<Segment> {
        self.done.get(at).copied()
    }

    /// Time runnable and not running so far.
    pub(super) fn runnable_ns(&self) -> u64 {
        self.runnable_ns
    }

    /// The part of its life until `now_ns` that it was on a CPU.
    pub(super) fn on_cpu_share(&self, now_ns: u64) -> f64 {
        let running = match self.now {
            Some((since_ns, State::Running)) => now_ns.saturating_sub(since_ns),
            _ => 0,
        };
        let lived = now_ns.saturating_sub(self.born_ns).max(1);
        ((self.on_cpu_ns + running) as f64 / lived as f64).min(1.0)
    }

    /// How many segments that were.
    pub(super) fn drop_older_half(&mut self) -> usize {
        let half = self.done.len() / 2;
        self.done.drain(..half);
        self.cut += half as u64;
        half
    }

    /// Since when, and in what, the thread is now.
    pub fn now(&self) -> Option<(u64, State)> {
        self.now
    }

    /// Stacks seen on a CPU within `[start_ns, end_ns]`.
    pub fn samples(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Sample> + '_ {
        let from = self.samples.partition_point(|s| s.at_ns < start_ns);
        self.samples
            .iter()
            .skip(from)
            .take_while(move |s| s.at_ns <= end_ns)
    }

    /// The stack of its last wait that was looked at and lies in `[start_ns, end_ns]`; 0 without.
    pub fn sampled_stack(&self, start_ns: u64, end_ns: u64) -> StackId {
        let inside = |s: &&Segment| s.end_ns >= start_ns;
        let begun = last_before(&self.done, end_ns.saturating_add(1));
        let waits = self.done.range(..begun).rev();
        let stacks = waits.take_while(inside).map(|s| match s.state {
            State::Blocked { wait, .. } => wait.stack,
            _ => 0,
        });
        stacks.into_iter().find(|stack| *stack != 0).unwrap_or(0)
    }

    pub(super) fn before(&self, t_ns: u64, newest_ns: u64) -> Option<(Segment, usize)> {
        if let Some((since, state)) = self.now
            && since < t_ns
        {
            let segment = Segment {
                start_ns: since,
                end_ns: newest_ns.max(t_ns),
                state,
            };
            return Some((segment, self.done.len()));
        }
        let at = last_before(&self.done, t_ns).checked_sub(1)?;
        let segment = *self.done.get(at)?;
        (segment.end_ns >= t_ns).then_some((segment, at))
    }

    /// The end of the last segment that is over before `t_ns`; 0: there is none.
    pub(super) fn known_until(&self, t_ns: u64) -> u64 {
        let before = self.done.range(..last_before(&self.done, t_ns)).rev();
        let mut ends = before.map(|segment| segment.end_ns);
        ends.find(|end_ns| *end_ns < t_ns).unwrap_or(0)
    }

    /// The number of segments added.
    pub(super) fn push(&mut self, at_ns: u64, what: What) -> usize {
        match (what, self.now) {
            (What::In { after }, now) => self.got_cpu(at_ns, after, now),
            (What::Preempted, now) => {
                let added = self.leaves(at_ns, now);
                self.now = Some((at_ns, State::Runnable { after: 0 }));
                added
            }
            (What::Blocked(wait), now) => {
                let added = self.leaves(at_ns, now);
                self.now = Some((
                    at_ns,
                    State::Blocked {
                        wait,
                        by: None,
                        release: 0,
                    },
                ));
                added
            }
            (What::Sample(sample), now) => {
                self.sample(at_ns, sample, now);
                0
            }
            (What::Woken { by, release }, Some((since, State::Blocked { wait, .. }))) => {
                if let Waker::Thread(tid) = by {
                    poll::ended(&mut self.done, &wait, tid);
                }
                let by = Some(by);
                let closed = State::Blocked { wait, by, release };
                let added = self.close(at_ns, Some((since, closed)));
                self.now = Some((at_ns, State::Runnable { after: 0 }));
                added
            }
            (What::Woken { .. }, _) => 0,
            (What::Faulted { activity, stack }, _) => {
                self.faulted(at_ns, activity, stack);
                0
            }
            (
                What::OnCpu {
                    stack,
                    activity,
                    allocator,
                },
                _,
            ) => {
                self.sampled(Sample {
                    at_ns,
                    stack,
                    activity,
                    allocator,
                });
                0
            }
            (What::RunDelay { ns }, _) => self.run_delay(at_ns, ns),
            (What::Ran { ns, host }, _) => self.ran(at_ns, ns, host),
            (What::Unsure, _) => {
                self.now = None;
                self.counted = self.cut + self.done.len() as u64;
                0
            }
            (What::Exited, now) => {
                let added = self.leaves(at_ns, now);
                self.now = None;
                self.ended_ns = Some(at_ns);
                added
            }
        }
    }

    /// It became nothing before it became what it is now: a recording from elsewhere may say anything.
    pub(super) fn not_before(&self, at_ns: u64, what: What) -> u64 {
        let since_ns = match (self.now, self.done.back()) {
            (Some((since_ns, _)), _) => since_ns,
            (None, last) => last.map_or(0, |last| last.end_ns),
        };
        match what {
            What::OnCpu { .. } | What::Faulted { .. } => at_ns,
            _ => at_ns.max(since_ns),
        }
    }

    fn got_cpu(&mut self, at_ns: u64, after: TextId, now: Option<(u64, State)>) -> usize {
        let closed = match now {
            Some((since, State::Runnable { .. })) => Some((since, State::Runnable { after })),
            // It left meanwhile, and nobody told: for how long it ran before is not known.
            Some((_, State::Running)) => None,
            other => other,
        };
        let added = self.close(at_ns, closed);
        self.now = Some((at_ns, State::Running));
        // The number of one that ended is used anew.
        self.ended_ns = None;
        added
    }

    /// Leaves its CPU. One that had none got one meanwhile, and nobody told: how long it had to wait for it
    /// is not known, and never a stall.
    fn leaves(&mut self, at_ns: u64, now: Option<(u64, State)>) -> usize {
        let known = |(_, state): &(u64, State)| !matches!(state, State::Runnable { .. });
        self.close(at_ns, now.filter(known))
    }

    fn close(&mut self, at_ns: u64, now: Option<(u64, State)>) -> usize {
        let Some((start_ns, state)) = now else {
            return 0;
        };
        if at_ns <= start_ns {
            return 0;
        }
        match state {
            State::Runnable { .. } => self.runnable_ns += at_ns - start_ns,
            State::Running => self.on_cpu_ns += at_ns - start_ns,
            State::Blocked { .. } => {}
        }
        self.done.push_back(Segment {
            start_ns,
            end_ns: at_ns,
            state,
        });
        1
    }

    /// A sample learns about the wait that lasts; a thread never seen before is known from now on.
    fn sample(&mut self, at_ns: u64, sample: Wait, now: Option<(u64, State)>) {
        match now {
            None if self.ended_ns.is_none() => {
                self.now = Some((
                    at_ns,
                    State::Blocked {
                        wait: sample,
                        by: None,
                        release: 0,
                    },
                ));
            }
            Some((since, State::Blocked { wait, by, release })) => {
                self.fill_between(since, sample);
                let wait = wait.joined(sample);
                self.now = Some((since, State::Blocked { wait, by, release }));
            }
            // Woken before the sample came in: it still tells about the wait that just ended.
            Some((_, State::Runnable { .. } | State::Running)) => {
                if let Some(Segment {
                    state: State::Blocked { wait, .. },
                    end_ns,
                    ..
                }) = self.done.back_mut()
                    && *end_ns >= at_ns
                {
                    *wait = wait.joined(sample);
                }
            }
            None => {}
        }
    }

    /// Waits that nobody looked at, between two at a device that follow closely, were there too.
    fn fill_between(&mut self, since_ns: u64, sample: Wait) {
        const CLOSELY_NS: u64 = 30_000_000;
        let device = |kind| matches!(kind, WaitKind::Disk | WaitKind::Fault);
        if !device(sample.kind) {
            return;
        }
        let waits = |s: &Segment| match s.state {
            State::Blocked { wait, .. } => Some(wait.kind),
            _ => None,
        };
        let near = |s: &&Segment| s.end_ns + CLOSELY_NS >= since_ns;
        let recent = self.done.iter().rev().take_while(near);
        let kinds = recent
            .enumerate()
            .filter_map(|(at, s)| Some((at, waits(s)?)));
        let sampled = kinds
            .into_iter()
            .find(|(_, kind)| *kind != WaitKind::Unknown);
        let Some((back, _)) = sampled.filter(|(_, kind)| *kind == sample.kind) else {
            return;
        };
        for segment in self.done.iter_mut().rev().take(back) {
            if let State::Blocked { wait, .. } = &mut segment.state {
                *wait = wait.joined(sample);
            }
        }
    }

    fn faulted(&mut self, at_ns: u64, activity: TextId, stack: StackId) {
        // The kernel reports a fault when it has been served: the wait is the last one, and the
        // thread has run for no longer than the way out of the handler takes.
        const WAY_OUT_NS: u64 = 300_000;
        let last = self.done.iter_mut().rev().take(2);
        for segment in last {
            if let State::Blocked { wait, .. } = &mut segment.state {
                if segment.end_ns + WAY_OUT_NS >= at_ns && wait.kind != WaitKind::Lock {
                    wait.kind = WaitKind::Fault;
                    wait.activity = activity;
                    // In a storm of faults not every stack is unwound.
                    wait.stack = if stack == 0 { wait.stack } else { stack };
                }
                return;
            }
        }
    }

    fn sampled(&mut self, sample: Sample) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        // Some are told late; nearly all belong to the end.
        let later = self
            .samples
            .iter()
            .rev()
            .take_while(|s| s.at_ns > sample.at_ns);
        let at = self.samples.len() - later.count();
        self.samples.insert(at, sample);
    }

    pub(super) fn forget_before(&mut self, t_ns: u64) -> usize {
        let old = self.done.partition_point(|s| s.end_ns < t_ns);
        self.done.drain(..old);
        self.cut += old as u64;
        let old_samples = self.samples.partition_point(|s| s.at_ns < t_ns);
        self.samples.drain(..old_samples);
        old
    }
}

/// How many of the segments begin before `t_ns`. What is asked for lies near the end of a long history: searched
/// for from there in steps that double.
pub(super) fn last_before(segments: &VecDeque<Segment>, t_ns: u64) -> usize {
    let begins = |at: usize| segments[at].start_ns < t_ns;
    let (mut low, mut high, mut step) = (segments.len(), segments.len(), 8);
    while low > 0 && !begins(low - 1) {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    while low < high {
        let middle = low.midpoint(high);
        match begins(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

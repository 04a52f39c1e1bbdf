//! Looks at a process and its descendants again and again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::heaps::Plan;
use super::launch::{Launched, left_to_us};
use super::tracked::{Tracked, words_of};
use crate::cli::run::progress::Progress;
use heap::Uprobes;
use heap::family::{Member, descendants, read_everyone};
use observe::overhead::BUDGET_SHARE;
use observe::proc::ProcRoot;
use observe::proc::open::Lost;
use observe::proc::pid::why_not;
use report::visible::visible;
use units::written::bytes;

/// What one question may take in all, on a machine with no time.
pub const SEARCH_MAX: Duration = Duration::from_secs(12);

/// After a snapshot its CPU time rests so many times: looking takes a fifth of one core at most.
const REST: u32 = 4;

/// An observation with fewer snapshots than this in the window that is judged, where there was to be time for them,
/// goes on for up to so many times its duration. (Snapshots of a heap that grows are close together at first and far
/// apart at the end, and the first ones are left out as start-up: twelve in all may be seven that count.)
const SNAPSHOTS_WANTED: usize = 12;
const LONGER_MAX: u32 = 3;

/// Snapshots that are made again.
const REREADS_MAX: usize = 5;

/// After these parts of the observation blocks are asked after, up to half of it; of a process larger than this at
/// half of it only.
const ASKED_EVERY: f64 = 1.0 / 6.0;
const ASKED_EARLY_MAX: u32 = 3;
const ASKED_BYTES_MAX: f64 = 268_435_456.0;

/// Processes that are followed.
const PROCESSES_MAX: usize = 256;

/// Of those, the ones on whose allocators uprobes are put.
const PROBED_MAX: usize = 16;

/// Processes whose managed heaps are read: the largest.
const HEAPS_MAX: usize = 4;

/// A family of processes.
pub struct Follower {
    root: ProcRoot,
    first: i32,
    pub tracked: HashMap<Member, Tracked>,
    begin: Instant,
    progress: Progress,
    /// Processes that could not be read, and why.
    pub unread: BTreeMap<i32, Lost>,
    /// Times at which blocks were asked after.
    asked_early: u32,
    /// Share of a process's CPU time, or of a core, that uprobes may take.
    pub budget_share: f64,
    /// Nothing is put on any process.
    pub reads_only: bool,
    /// For managed heaps, and when one may be read again.
    plan: Plan,
    heaps_rest_until: Instant,
    /// CPU time that the snapshots took so far.
    cost: Duration,
}

impl Follower {
    pub fn new(root: ProcRoot, first: i32, quiet: bool, plan: Plan) -> Follower {
        Follower {
            root,
            first,
            tracked: HashMap::new(),
            begin: Instant::now(),
            progress: Progress::new(quiet),
            unread: BTreeMap::new(),
            asked_early: 0,
            budget_share: BUDGET_SHARE,
            reads_only: false,
            plan,
            heaps_rest_until: Instant::now(),
            cost: Duration::ZERO,
        }
    }

    /// Snapshots until the time is over, everything has ended or the user interrupts.
    pub fn follow(
        &mut self,
        duration: Duration,
        every: Duration,
        interrupted: &AtomicBool,
        mut launched: Option<&mut Launched>,
    ) -> anyhow::Result<()> {
        let mut known: Vec<Member> = Vec::new();
        // A program that was just started maps its libraries first.
        if launched.is_some() {
            std::thread::sleep(Duration::from_millis(50).min(every));
        }
        loop {
            let begin = Instant::now();
            let cost = self.cost;
            let alive = self.sample_all(&mut known, launched.is_some())?;
            let ended = launched
                .as_mut()
                .is_some_and(|launched| launched.has_ended());
            if alive == 0 && (ended || launched.is_none()) {
                break;
            }
            self.read_heaps();
            self.ask_early(duration);
            self.tell(duration);
            let until = match self.wants_more(duration, every) {
                true => duration * LONGER_MAX,
                false => duration,
            };
            if interrupted.load(Ordering::Relaxed) || self.begin.elapsed() >= until {
                break;
            }
            let rest = every
                .saturating_sub(begin.elapsed())
                .max((self.cost - cost) * REST);
            let left = until.saturating_sub(self.begin.elapsed());
            wait(rest.min(left), interrupted);
        }
        self.plan.is_hurried = interrupted.load(Ordering::Relaxed);
        self.progress.end();
        // What else was seen of its family is no answer to a question about a process that may not be read.
        let is_denied = launched.is_none() && self.unread.get(&self.first) == Some(&Lost::Denied);
        if self.tracked.is_empty() || is_denied {
            bail!(self.nothing_seen(launched.as_deref()));
        }
        Ok(())
    }

    /// A machine that is too busy to look as often as was asked for has not shown enough yet to judge growth.
    fn wants_more(&self, duration: Duration, every: Duration) -> bool {
        let judged = |tracked: &Tracked| tracked.history.snapshots_judged();
        let most = self.living().map(judged).max().unwrap_or(SNAPSHOTS_WANTED);
        most < SNAPSHOTS_WANTED && every * SNAPSHOTS_WANTED as u32 <= duration
    }

    fn nothing_seen(&self, launched: Option<&Launched>) -> String {
        let pid = self.first;
        if let Some(status) = launched.and_then(|launched| launched.status) {
            return format!("the program ended at once ({status}): nothing could be sampled");
        }
        if let Some(why) = self.unread.get(&pid) {
            return format!("pid {pid}: {}", words_of(why));
        }
        match why_not(&self.root, pid) {
            Some(why) => why.to_string(),
            None => format!("pid {pid} has no memory: it is ending"),
        }
    }

    /// Looks at every member that lives; their number.
    fn sample_all(&mut self, known: &mut Vec<Member>, launched: bool) -> anyhow::Result<usize> {
        let everyone = read_everyone(&self.root)?;
        let mut members = descendants(&everyone, self.first);
        match launched {
            // A daemon whose parent left before we saw it is ours now: we are the subreaper.
            true => members.extend(left_to_us(&everyone)),
            // Of a shell, highwater is a descendant too.
            false => {
                let of_own = descendants(&everyone, std::process::id() as i32);
                members.retain(|member| !of_own.contains(member));
            }
        }
        // A descendant whose parent has ended belongs to us (subreaper) or to init now.
        members.extend(known.iter().filter(|m| {
            everyone
                .iter()
                .any(|e| e.pid == m.pid && e.start_ticks == m.start_ticks)
        }));
        members.sort_by_key(|member| (member.pid, member.start_ticks));
        members.dedup_by_key(|member| (member.pid, member.start_ticks));
        members.truncate(PROCESSES_MAX);
        let mut alive = 0;
        for member in &members {
            alive += usize::from(self.snapshot_at(*member, launched));
        }
        for (member, tracked) in &mut self.tracked {
            let lives = |m: &Member| m.pid == member.pid && m.start_ticks == member.start_ticks;
            if !members.iter().any(lives) {
                tracked.end();
            }
        }
        *known = members;
        Ok(alive)
    }

    fn snapshot_at(&mut self, member: Member, at_start: bool) -> bool {
        let share = self.budget_share;
        let key = Member {
            parent: 0,
            ..member
        };
        if !self.tracked.contains_key(&key) {
            match Tracked::new(&self.root, member, self.begin.elapsed().as_secs_f64()) {
                Ok(mut tracked) => {
                    if !self.reads_only && self.tracked.len() < PROBED_MAX {
                        tracked.reader.uprobes = Uprobes::Wanted { at_start, share };
                    }
                    self.tracked.insert(key, tracked);
                }
                Err(lost) => return self.lose(member, lost),
            }
        }
        let Some(tracked) = self.tracked.get_mut(&key) else {
            return false;
        };
        let at_s = self.begin.elapsed().as_secs_f64();
        tracked.budget_share = share;
        match tracked.snapshot(&self.root, at_s) {
            Ok(cost) => {
                self.cost += cost;
                true
            }
            Err(lost) => {
                if lost == Lost::Gone {
                    tracked.end();
                }
                if tracked.history.moments.is_empty() {
                    self.tracked.remove(&key);
                }
                self.lose(member, lost)
            }
        }
    }

    fn lose(&mut self, member: Member, lost: Lost) -> bool {
        if lost != Lost::Gone {
            self.unread.insert(member.pid, lost);
        }
        false
    }

    /// A program may end by itself before the end: what is lost is asked after at half time too, and of a small one
    /// before. And the names of stacks are, so that most are known when the answer is due.
    fn ask_early(&mut self, duration: Duration) {
        let passed = self.begin.elapsed().as_secs_f64() / duration.as_secs_f64();
        let passed = ((passed / ASKED_EVERY) as u32).min(ASKED_EARLY_MAX);
        if passed <= self.asked_early {
            return;
        }
        self.asked_early = passed;
        let is_half = passed == ASKED_EARLY_MAX;
        if let Some(tracked) = self.grown_most() {
            let last = tracked.history.last();
            let rss = last.map_or(0.0, |moment| moment.account.rss_bytes);
            if is_half || rss < ASKED_BYTES_MAX {
                tracked.ask_names();
                tracked.ask_after_blocks(Instant::now() + SEARCH_MAX);
            }
        }
    }

    /// Of the largest processes, the managed heaps that are due.
    fn read_heaps(&mut self) {
        let at_s = self.begin.elapsed().as_secs_f64();
        let rss = |tracked: &Tracked| {
            tracked
                .history
                .last()
                .map_or(0.0, |moment| moment.account.rss_bytes)
        };
        let mut living: Vec<&mut Tracked> = self
            .tracked
            .values_mut()
            .filter(|tracked| !tracked.ended)
            .collect();
        living.sort_by(|a, b| rss(b).total_cmp(&rss(a)));
        living.truncate(HEAPS_MAX);
        // Those that wait longest first: a large heap must not keep the others from being read.
        living.sort_by_key(|tracked| tracked.heaps.next());
        for tracked in living {
            if Instant::now() < self.heaps_rest_until {
                return;
            }
            let pid = tracked.reader.member.pid as u32;
            for warning in tracked.heaps.open_due(pid, &self.plan) {
                self.progress
                    .say(&format!("highwater: {}", visible(&warning)));
            }
            let rest = tracked.heaps.read_due(at_s, &self.plan);
            self.heaps_rest_until = Instant::now() + rest;
        }
    }

    /// The last snapshots of the managed heaps of the process that the verdict is about, and what keeps alive what
    /// grows in them.
    pub fn conclude_heaps(&mut self) {
        let (at_s, plan) = (self.begin.elapsed().as_secs_f64(), self.plan);
        if let Some(tracked) = self.grown_most() {
            tracked.conclude_heaps(at_s, &plan);
        }
        for tracked in self.tracked.values_mut() {
            tracked.heaps.finish();
        }
    }

    fn tell(&mut self, duration: Duration) {
        let rss: f64 = self
            .living()
            .filter_map(|t| t.history.last())
            .map(|m| m.account.rss_bytes)
            .sum();
        let live: f64 = self
            .living()
            .filter_map(|t| t.history.last())
            .map(|m| m.account.live)
            .sum();
        let count = self.living().count();
        let processes = if count == 1 {
            String::new()
        } else {
            format!("{count} processes, ")
        };
        let words = format!("{processes}RSS {}, live heap {}", bytes(rss), bytes(live));
        self.progress.tell(self.begin.elapsed(), duration, &words);
    }

    /// What takes a while after the last snapshot.
    pub fn say(&self, words: &str) {
        self.progress.say(&format!("highwater: {words}"));
    }

    fn living(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.values().filter(|tracked| !tracked.ended)
    }

    /// A large block that is being resized at that moment is in no table: a last snapshot that misses much of
    /// what the counters know is made again.
    pub fn check_again(&mut self, until: Instant) {
        let (root, at_s) = (self.root.clone(), self.begin.elapsed().as_secs_f64());
        let Some(tracked) = self.grown_most() else {
            return;
        };
        for _ in 0..REREADS_MAX {
            let is_over = Instant::now() > until;
            if is_over || !tracked.misses_much() || tracked.snapshot(&root, at_s).is_err() {
                return;
            }
        }
    }

    /// The process that the verdict is about: the one that grew most; of those that did not, the
    /// largest.
    pub fn grown_most(&mut self) -> Option<&mut Tracked> {
        self.tracked
            .values_mut()
            .max_by(|a, b| a.history.weight().total_cmp(&b.history.weight()))
    }
}

/// Sleeps, and wakes up early when the user interrupts.
fn wait(time: Duration, interrupted: &AtomicBool) {
    let begin = Instant::now();
    while begin.elapsed() < time && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50).min(time.saturating_sub(begin.elapsed())));
    }
}

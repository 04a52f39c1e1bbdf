//! The accounts of one process over time, and what they say together.

use std::collections::BTreeMap;

use super::account::{Account, LiveBy, Part, account};
use super::areas::{Class, Range, Remembered};
use super::growth::{Growth, growth, window_start};
use super::limit::Overcount;
use super::outside::{self, OpenedGrowth, OutsideGrowth};
use super::sites::{
    ByStack, Outstanding, SiteGrowth, level_growth, outstanding, site_growth, stays, steady,
};
use heap::HeapSnapshot;
use heap::outside::Outside;
use heap::types::Objects;

/// Moments that are kept; when there are more, every other one goes.
const MOMENTS_MAX: usize = 512;

/// Stacks and tables of classes of all moments together, about 100 bytes each; when there are more, every other moment
/// goes as well, unless only `MOMENTS_MIN` are left. A program with the probe's default of 16,384 stacks keeps
/// 120 moments at least.
const STACKS_MAX: usize = 2_000_000;
const MOMENTS_MIN: usize = 32;

/// One snapshot, reduced to what growth is judged from.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Since the observation began.
    pub at_s: f64,
    pub time_ns: u64,
    pub account: Account,
    /// Allocated so far, where that is counted.
    pub allocated_bytes: Option<u64>,
    pub outstanding: ByStack,
    /// Resident bytes of the program's own mappings, by the stack that made them.
    pub mapped: BTreeMap<(Class, u64), f64>,
    /// Resident bytes of each mapped file and shared object.
    pub files: BTreeMap<String, f64>,
    pub threads: usize,
    /// What the kernel holds outside of the mappings, at the moments at which it was read.
    pub outside: Option<Outside>,
    /// Objects by their tables of virtual functions, where a walk reached the end of glibc's heap.
    pub objects: Option<BTreeMap<u64, Objects>>,
}

/// All snapshots of one process.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub moments: Vec<Moment>,
    /// Every how many snapshots one is kept.
    stride: usize,
    seen: usize,
    remembered: Remembered,
    /// Of the last snapshot.
    pub ranges: Vec<Range>,
}

/// A stretch between two moments, by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: usize,
    pub to: usize,
}

impl History {
    /// Adds a snapshot. `at_s`: seconds since the observation began.
    pub fn add(&mut self, at_s: f64, snapshot: &HeapSnapshot) {
        let (account, ranges) = account(snapshot, &mut self.remembered);
        self.ranges = ranges;
        let mut moment = Moment {
            at_s,
            time_ns: snapshot.time_ns,
            account,
            allocated_bytes: snapshot
                .probe
                .as_ref()
                .and_then(|probe| probe.allocated_bytes_exact),
            outstanding: snapshot.probe.as_ref().map(outstanding).unwrap_or_default(),
            mapped: mapped(&self.ranges),
            files: files(snapshot, &self.ranges),
            threads: snapshot.threads,
            outside: snapshot.outside.clone(),
            objects: snapshot
                .walk
                .as_ref()
                .filter(|walk| walk.complete)
                .map(|_| snapshot.types.by_table.clone()),
        };
        self.keep_division(&mut moment.account);
        self.seen += 1;
        // The latest moment always stands at the end; whether it stays is decided by the next.
        if self.stride > 1 && self.seen % self.stride != 1 {
            self.moments.pop();
        }
        self.moments.push(moment);
        if self.moments.len() > MOMENTS_MAX || self.has_too_many_stacks() {
            let mut index = 0;
            self.moments.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride = self.stride.max(1) * 2;
        }
    }

    fn has_too_many_stacks(&self) -> bool {
        let objects = |moment: &Moment| moment.objects.as_ref().map_or(0, BTreeMap::len);
        let stacks =
            |moment: &Moment| moment.outstanding.len() + moment.mapped.len() + objects(moment);
        let all: usize = self.moments.iter().map(stacks).sum();
        all > STACKS_MAX && self.moments.len() > MOMENTS_MIN
    }

    /// Drops the moments before one, unless fewer than `enough` would be left.
    pub fn forget_before(&mut self, at_s: f64, enough: usize) {
        let kept = self.moments.partition_point(|moment| moment.at_s < at_s);
        if self.moments.len() - kept >= enough {
            self.moments.drain(..kept);
        }
    }

    /// A heap that could be divided is divided in every snapshot: what one walk did not reach (the heap changed under
    /// it) is taken to be live, held and fragmented as in the snapshot before. What uprobes saw since they were put on
    /// is a part of the heap and no level of it: before the first walk that tells all of it nothing is judged.
    fn keep_division(&mut self, account: &mut Account) {
        let is_told = |by: LiveBy| !matches!(by, LiveBy::Nobody | LiveBy::SinceAttached);
        if is_told(account.live_by) {
            let is_part = |moment: &Moment| moment.account.live_by == LiveBy::SinceAttached;
            self.moments.retain(|moment| !is_part(moment));
            return;
        }
        let Some(before) = self.last().map(|moment| &moment.account) else {
            return;
        };
        let parts = before.live + before.held + before.fragmentation;
        if !is_told(before.live_by) || parts <= 0.0 {
            return;
        }
        let heap = account.live + account.held + account.fragmentation + account.undivided;
        account.anonymous -= account.undivided;
        account.undivided = 0.0;
        let share = heap / parts;
        account.live = before.live * share;
        account.held = before.held * share;
        account.fragmentation = before.fragmentation * share;
        account.live_by = before.live_by;
    }

    pub fn last(&self) -> Option<&Moment> {
        self.moments.last()
    }

    /// How much a process explains of a family's memory: its growth over the window, or a share of its size when there
    /// is none to speak of. The verdict is about the one with most.
    pub fn weight(&self) -> f64 {
        const SHARE_OF_SIZE: f64 = 0.05;
        // A helper that lived for a moment explains nothing.
        const MOMENTS_OF_HALF_A_WEIGHT: f64 = 8.0;
        let (Some(window), Some(last)) = (self.window(), self.last()) else {
            return 0.0;
        };
        let rss = last.account.rss_bytes;
        let grown = rss - self.moments[window.from].account.rss_bytes;
        let outside = self.outside_growths();
        let is_cache = |one: &&OutsideGrowth| one.grown.iter().all(|(of, _)| of.is_cache());
        let outside = outside
            .iter()
            .filter(|one| one.growth.still && !is_cache(one));
        let outside: f64 = outside.map(|one| one.growth.bytes).sum();
        let life = self.moments.len() as f64;
        (grown.max(0.0) + outside.max(0.0) + rss * SHARE_OF_SIZE)
            * (life / (life + MOMENTS_OF_HALF_A_WEIGHT))
    }

    /// The window that is judged: all but the start-up.
    pub fn window(&self) -> Option<Window> {
        let (first, last) = (self.moments.first()?, self.moments.last()?);
        let begin = window_start(first.at_s, last.at_s);
        let from = self
            .moments
            .iter()
            .position(|moment| moment.at_s >= begin)?;
        Some(Window {
            from,
            to: self.moments.len() - 1,
        })
    }

    /// Snapshots that fall into the window.
    pub fn snapshots_judged(&self) -> usize {
        self.window()
            .map_or(0, |window| window.to - window.from + 1)
    }

    /// The moments nearest to two times, seconds since the beginning.
    pub fn between(&self, from_s: f64, to_s: f64) -> Option<Window> {
        let nearest = |at: f64| {
            let distance = |moment: &Moment| (moment.at_s - at).abs();
            let all = self.moments.iter().enumerate();
            all.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
                .map(|(index, _)| index)
        };
        Some(Window {
            from: nearest(from_s)?,
            to: nearest(to_s)?,
        })
    }

    /// Growth of a quantity of the account over all moments.
    pub fn growth(&self, of: impl Fn(&Account) -> f64) -> Option<Growth> {
        let points: Vec<(f64, f64)> = self
            .moments
            .iter()
            .map(|moment| (moment.at_s, of(&moment.account)))
            .collect();
        growth(&points)
    }

    /// Growth of what the kernel holds outside of the mappings.
    pub fn outside_growths(&self) -> Vec<OutsideGrowth> {
        let (read, from_s) = self.outside_read();
        outside::growths(&read, from_s)
    }

    /// Growth of what it has open.
    pub fn opened_growth(&self) -> Option<OpenedGrowth> {
        let (read, from_s) = self.outside_read();
        outside::opened_growth(&read, from_s)
    }

    /// What was read outside of the mappings, with its seconds; and when the window begins.
    fn outside_read(&self) -> (Vec<(f64, &Outside)>, f64) {
        let from = self.window().map_or(0, |window| window.from);
        let from_s = self.moments.get(from).map_or(0.0, |moment| moment.at_s);
        let moments = self.moments.iter();
        let read = moments.filter_map(|moment| Some((moment.at_s, moment.outside.as_ref()?)));
        (read.collect(), from_s)
    }

    /// Growth of what is in use and was not counted by the probe, over the moments at which that is known.
    pub fn uncounted_growth(&self) -> Option<Growth> {
        let moments = self.moments.iter();
        let points: Vec<(f64, f64)> = moments
            .filter_map(|moment| Some((moment.at_s, moment.account.uncounted?)))
            .collect();
        growth(&points)
    }

    /// The last moment's, where the probe counts more than there can be at most moments of the second half: one alone
    /// may lie between two readings.
    pub fn overcount(&self) -> Option<Overcount> {
        let late = &self.moments[self.moments.len() / 2..];
        let over = late
            .iter()
            .filter(|moment| moment.account.overcount.is_some());
        let is_most = 2 * over.count() > late.len();
        late.last()?.account.overcount.filter(|_| is_most)
    }

    pub fn part_growths(&self) -> BTreeMap<Part, Growth> {
        let parts = Part::SUM.iter().chain(&Part::OF_WHICH);
        parts
            .filter_map(|&part| Some((part, self.growth(|account| account.part(part))?)))
            .collect()
    }

    /// Growth of the live heap's sites over a window that ends with `look`.
    pub fn heap_sites(&self, window: Window, snapshot: &HeapSnapshot) -> Vec<SiteGrowth> {
        let before = &self.moments[window.from];
        let Some(probe) = &snapshot.probe else {
            return Vec::new();
        };
        let mut growths = site_growth(&before.outstanding, before.time_ns, probe, snapshot.time_ns);
        let turning = growths.iter_mut().filter(|growth| growth.turns_over());
        turning.for_each(|growth| self.steady(growth, window, snapshot));
        growths
    }

    /// Takes the growth of a site at which most comes and goes from all snapshots of the window.
    fn steady(&self, growth: &mut SiteGrowth, window: Window, snapshot: &HeapSnapshot) {
        let Some(probe) = &snapshot.probe else { return };
        let moments = &self.moments[window.from..=window.to];
        let level = |moment: &Moment| {
            let sum = moment.outstanding.get(&growth.stack);
            (moment.at_s, sum.map_or(0.0, |sum| sum.bytes))
        };
        let levels: Vec<(f64, f64)> = moments.iter().map(level).collect();
        let squares = |moment: &Moment| {
            let sum = moment.outstanding.get(&growth.stack);
            (moment.at_s, sum.map_or(0.0, |sum| sum.squares))
        };
        let squares: Vec<(f64, f64)> = moments.iter().map(squares).collect();
        growth.grown_squares = level_growth(&squares);
        let since_ns = moments[0].time_ns;
        let until_ns = since_ns + snapshot.time_ns.saturating_sub(since_ns) / 4 * 3;
        let stays = stays(probe, growth.stack, since_ns, until_ns);
        steady(growth, &levels, &stays);
    }

    /// Growth of the live heap over a window: by its ends, as the sites that only add, or by its levels, as those
    /// that turn over; the lesser, because what swings at one snapshot is nobody's growth.
    pub fn live_growth(&self, window: Window) -> f64 {
        let moments = &self.moments[window.from..=window.to];
        let level = |moment: &Moment| (moment.at_s, moment.account.live);
        let levels: Vec<(f64, f64)> = moments.iter().map(level).collect();
        let ends = levels[levels.len() - 1].1 - levels[0].1;
        ends.min(level_growth(&levels))
    }

    /// The most that can have been live at any moment of a window's second half, bytes: what was live at a snapshot
    /// with all that was allocated until the next one. `None` where that is not counted throughout.
    pub fn live_at_most(&self, window: Window) -> Option<f64> {
        let half = window.from + (window.to - window.from) / 2;
        let between = |pair: &[Moment]| {
            let (before, after) = (pair[0].allocated_bytes?, pair[1].allocated_bytes?);
            Some(pair[0].account.live + after.checked_sub(before)? as f64)
        };
        let late = self.moments[half..=window.to].windows(2).map(between);
        late.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Growth of sites between two moments of the past: less is known of those than of the last snapshot.
    pub fn heap_sites_between(&self, window: Window) -> Vec<SiteGrowth> {
        let (before, after) = (&self.moments[window.from], &self.moments[window.to]);
        let stacks = after.outstanding.iter();
        stacks
            .map(|(&stack, &now)| {
                let old = before.outstanding.get(&stack).copied().unwrap_or_default();
                SiteGrowth {
                    stack,
                    now,
                    grown_bytes: now.bytes - old.bytes,
                    // Blocks that stayed cancel out; how many, the moments do not tell: an upper bound.
                    grown_error: (now.variance - old.variance).abs().sqrt(),
                    ..SiteGrowth::default()
                }
            })
            .collect()
    }

    /// Growth of the program's own mappings of one class by the stack that made them; of thread stacks, by the one
    /// that started the threads. Exact: no samples.
    pub fn mapping_sites(&self, window: Window, class: Class) -> Vec<SiteGrowth> {
        let (before, after) = (&self.moments[window.from], &self.moments[window.to]);
        let stacks = after.mapped.iter().filter(|((of, _), _)| *of == class);
        stacks
            .map(|(key @ &(_, stack), &bytes)| SiteGrowth {
                stack,
                now: Outstanding {
                    bytes,
                    variance: 0.0,
                    third: 0.0,
                    blocks: 1.0,
                    squares: 0.0,
                    samples: 1000,
                },
                grown_bytes: bytes - before.mapped.get(key).copied().unwrap_or(0.0),
                ..SiteGrowth::default()
            })
            .collect()
    }

    /// Files and shared objects that grew over a window, most first.
    pub fn grown_files(&self, window: Window) -> Vec<(String, f64)> {
        let (before, after) = (&self.moments[window.from], &self.moments[window.to]);
        let mut grown: Vec<(String, f64)> = after
            .files
            .iter()
            .map(|(name, bytes)| {
                (
                    name.clone(),
                    bytes - before.files.get(name).copied().unwrap_or(0.0),
                )
            })
            .filter(|(_, bytes)| *bytes > 0.0)
            .collect();
        grown.sort_by(|a, b| b.1.total_cmp(&a.1));
        grown
    }
}

fn mapped(ranges: &[Range]) -> BTreeMap<(Class, u64), f64> {
    let mut sums = BTreeMap::new();
    let is_own = |range: &&Range| matches!(range.class, Class::Anonymous | Class::Stack);
    for range in ranges.iter().filter(|r| is_own(r) && r.mapped_by != 0) {
        *sums.entry((range.class, range.mapped_by)).or_default() += range.rss_bytes as f64;
    }
    sums
}

fn files(snapshot: &HeapSnapshot, ranges: &[Range]) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let wanted = ranges
        .iter()
        .filter(|r| matches!(r.class, Class::File | Class::Shared));
    for range in wanted {
        let index = snapshot
            .areas
            .partition_point(|area| area.end <= range.start);
        let Some(area) = snapshot.areas.get(index) else {
            continue;
        };
        // Zero-initialised data lies right behind the file's own and has no name.
        let below = index.checked_sub(1).map(|below| &snapshot.areas[below]);
        let owner = below.filter(|below| area.name.is_empty() && below.end == area.start);
        let name = match owner {
            Some(owner) if !owner.name.is_empty() => {
                format!("{} (its zero-initialised data)", owner.name)
            }
            _ => area.name.clone(),
        };
        if !name.is_empty() {
            *sums.entry(name).or_default() += range.rss_bytes as f64;
        }
    }
    sums
}

#[cfg(test)]
mod tests;

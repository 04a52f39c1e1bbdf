//! What was read of each process, cut to what was asked for.

use std::collections::{BTreeMap, HashMap};

use super::given::{Given, Until};
use import::Row;
use series::order::median;
use series::series::{Point, Series};
use verdict::Rules;
use verdict::audit::{AuditInput, ProcessFacts};
use verdict::series::{SeriesVerdict, judge};

/// A name that has readings in two arms and goes to and fro this often is two processes of one name.
const SWITCHES: usize = 3;
/// A series of fewer readings is never thinned.
const THIN_MIN: usize = 2048;

/// Starts nearer to each other than this are one.
const START_SLACK_S: f64 = 5.0;

/// Everything read of one process.
#[derive(Debug, Default)]
pub struct Held {
    pub id: String,
    /// Its name within its arm.
    pub process: String,
    pub arms: Vec<(f64, String)>,
    pub points: Vec<Point>,
    pub hwm: Vec<Point>,
    pub starts_s: Vec<f64>,
    pub cpu_s: Vec<Point>,
    pub requests: Vec<Point>,
    pub lazy_free: Vec<Point>,
    pub huge_pages: Vec<Point>,
    /// The column of starts holds something else.
    pub no_starts: bool,
    /// What it runs, from each instant on.
    pub allocators: Vec<(f64, String)>,
    /// Bytes, when its source knows it.
    pub limit: Option<f64>,
    /// Of a fleet's series.
    pub labels: BTreeMap<String, String>,
    /// One reading in `1 << thinned` was kept.
    pub thinned: u32,
    /// Readings offered so far.
    pub seen: u64,
}

impl Held {
    /// Takes one reading.
    pub fn take(&mut self, row: &Row, arm: &str) {
        // An empty group in a file is a group that nobody wrote down, not a change of arms.
        if self.arms.last().is_none_or(|(_, a)| *a != arm) && !arm.is_empty() {
            self.arms.push((row.t_s, arm.to_owned()));
        }
        let kept = self.seen.is_multiple_of(1 << self.thinned);
        self.seen += 1;
        if !kept {
            return;
        }
        let t_s = row.t_s;
        self.points.push(Point {
            t_s,
            value: row.rss_bytes,
        });
        if let Some(value) = row.hwm_bytes.filter(|v| *v > 0.0) {
            self.hwm.push(Point { t_s, value });
        }
        self.take_facts(row);
    }

    fn take_facts(&mut self, row: &Row) {
        let t_s = row.t_s;
        for (into, value) in [
            (&mut self.cpu_s, row.cpu_s),
            (&mut self.requests, row.requests),
            (&mut self.lazy_free, row.lazy_free_bytes),
            (&mut self.huge_pages, row.huge_pages_bytes),
        ] {
            if let Some(value) = value.filter(|v| *v >= 0.0) {
                into.push(Point { t_s, value });
            }
        }
        let other = |known: &(f64, String)| known.1 != row.allocator;
        if !row.allocator.is_empty() && self.allocators.last().is_none_or(other) {
            self.allocators.push((t_s, row.allocator.clone()));
        }
        if let Some(start_s) = row.start_s.filter(|_| !self.no_starts) {
            self.take_start(start_s);
        }
    }

    /// A start is told with every reading, and computed from an age it may shiver. What is new with nearly every
    /// reading is the start of something else.
    fn take_start(&mut self, start_s: f64) {
        let near = |known: &f64| (start_s - known).abs() <= START_SLACK_S;
        if self.starts_s.iter().rev().take(2).any(near) {
            return;
        }
        self.starts_s.push(start_s);
        if self.starts_s.len() >= 8 && 3 * self.starts_s.len() > 2 * self.points.len() {
            self.no_starts = true;
            self.starts_s.clear();
        }
    }

    /// Keeps every other reading, of this and of what comes; how many are gone.
    pub fn thin(&mut self) -> usize {
        let before = self.points.len();
        if before < THIN_MIN {
            return 0;
        }
        for points in [
            &mut self.points,
            &mut self.hwm,
            &mut self.cpu_s,
            &mut self.requests,
            &mut self.lazy_free,
            &mut self.huge_pages,
        ] {
            let mut keep = false;
            points.retain(|_| {
                keep = !keep;
                keep
            });
            points.shrink_to_fit();
        }
        self.thinned += 1;
        before - self.points.len()
    }

    /// Judges the series, or the parts of it that were asked for.
    pub fn judge(&self, given: &Given) -> Vec<SeriesVerdict> {
        let mut verdicts = judge_parts(&self.series(given), &given.args.at, &given.rules);
        for v in verdicts.iter_mut().filter(|_| self.thinned > 0) {
            let kept = f64::from(1 << self.thinned.min(30));
            v.evidence.insert("one_reading_in".to_owned(), kept);
        }
        verdicts
    }

    /// The series to be judged.
    pub fn series(&self, given: &Given) -> Series {
        let mut restarts_s = given.restarts_s(&self.id);
        restarts_s.extend(&self.starts_s);
        restarts_s.sort_by(f64::total_cmp);
        let mut series = Series {
            id: self.id.clone(),
            points: self.points.clone(),
            restarts_s,
            limit: given.limit(&self.id, self.limit),
        };
        if let Some(until) = given.until {
            cut(&mut series, until);
        }
        series
    }
}

/// Drops what came after `until`.
pub fn cut(series: &mut Series, until: Until) {
    let end = end_of(series.points.iter().map(|p| p.t_s), Some(until));
    series.points.retain(|p| p.t_s <= end);
    series.restarts_s.retain(|t| *t <= end);
}

/// The instant meant by `--until`.
fn end_of(times: impl Iterator<Item = f64>, until: Option<Until>) -> f64 {
    let first = times.fold(f64::INFINITY, f64::min);
    until.map_or(f64::INFINITY, |until| until.end_s(first))
}

/// The first `part` of a series, by its own time.
fn prefix(series: &Series, part: f64) -> Series {
    let times = || {
        series
            .points
            .iter()
            .map(|p| p.t_s)
            .filter(|t| t.is_finite())
    };
    let lo = times().fold(f64::INFINITY, f64::min);
    let hi = times().fold(f64::NEG_INFINITY, f64::max);
    let end = lo + part * (hi - lo);
    let up_to = |p: &&Point| p.t_s <= end;
    Series {
        id: format!("{}@{part}", series.id),
        points: series.points.iter().filter(up_to).copied().collect(),
        restarts_s: series
            .restarts_s
            .iter()
            .copied()
            .filter(|t| *t <= end)
            .collect(),
        limit: series.limit,
    }
}

/// Judges a series, or the parts of it that were asked for.
pub fn judge_parts(series: &Series, at: &[f64], rules: &Rules) -> Vec<SeriesVerdict> {
    if at.is_empty() {
        return vec![judge(series, rules)];
    }
    at.iter()
        .map(|part| judge(&prefix(series, *part), rules))
        .collect()
}

/// Puts together what one process left in several arms. Where names are numbers that every arm counts
/// anew (readings of one name in two arms at one instant, or to and fro), they stay apart.
pub fn join_moved(held: Vec<Held>) -> Vec<Held> {
    let mut by_name: HashMap<&str, Vec<&Held>> = HashMap::new();
    for h in &held {
        by_name.entry(&h.process).or_default().push(h);
    }
    let counted_anew = by_name.values().any(|parts| are_several(parts));
    if counted_anew {
        return held;
    }
    let mut place: HashMap<String, usize> = HashMap::new();
    let mut joined: Vec<Held> = Vec::new();
    for mut h in held {
        match place.get(&h.process) {
            Some(at) => joined[*at].join(h),
            None => {
                place.insert(h.process.clone(), joined.len());
                h.id.clone_from(&h.process);
                joined.push(h);
            }
        }
    }
    joined
}

/// Whether the readings under one name in several arms are of several processes.
fn are_several(parts: &[&Held]) -> bool {
    let named: Vec<&&Held> = parts.iter().filter(|p| !p.arms.is_empty()).collect();
    if named.len() < 2 {
        return false;
    }
    let mut all: Vec<(f64, usize)> = Vec::new();
    for (arm, part) in named.iter().enumerate() {
        all.extend(part.points.iter().map(|p| (p.t_s, arm)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let moves = || all.windows(2).filter(|w| w[0].1 != w[1].1);
    moves().any(|w| w[0].0 == w[1].0) || moves().count() >= SWITCHES
}

impl Held {
    fn join(&mut self, other: Held) {
        self.arms.extend(other.arms);
        self.arms.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (own, others) in [
            (&mut self.points, other.points),
            (&mut self.hwm, other.hwm),
            (&mut self.cpu_s, other.cpu_s),
            (&mut self.requests, other.requests),
            (&mut self.lazy_free, other.lazy_free),
            (&mut self.huge_pages, other.huge_pages),
        ] {
            own.extend(others);
            own.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        }
        self.allocators.extend(other.allocators);
        self.allocators.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.starts_s.extend(other.starts_s);
        self.starts_s.sort_by(f64::total_cmp);
        self.starts_s
            .dedup_by(|a, b| (*a - *b).abs() <= START_SLACK_S);
    }
}

/// What the audit takes.
pub fn audit_input(held: &[Held], control: Option<String>, until: Option<Until>) -> AuditInput {
    let end = end_of(held.iter().flat_map(|h| &h.points).map(|p| p.t_s), until);
    let clip = |points: &[Point]| {
        let mut kept: Vec<Point> = points.iter().filter(|p| p.t_s <= end).copied().collect();
        kept.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        kept
    };
    let processes: Vec<ProcessFacts> = held
        .iter()
        .map(|h| ProcessFacts {
            id: h.id.clone(),
            arms: h.arms.iter().filter(|(t, _)| *t <= end).cloned().collect(),
            starts_s: h.starts_s.iter().copied().filter(|t| *t <= end).collect(),
            rss: positive(clip(&h.points)),
            hwm: positive(clip(&h.hwm)),
            cpu_s: counter(clip(&h.cpu_s)),
            requests: counter(clip(&h.requests)),
            lazy_free: clip(&h.lazy_free),
            huge_pages: clip(&h.huge_pages),
            allocators: h
                .allocators
                .iter()
                .filter(|(t, _)| *t <= end)
                .cloned()
                .collect(),
            ..ProcessFacts::default()
        })
        .filter(|p| !p.rss.is_empty())
        .collect();
    AuditInput {
        snapshots_s: snapshots_of(&processes),
        processes,
        control,
        ..AuditInput::default()
    }
}

fn positive(mut points: Vec<Point>) -> Vec<Point> {
    points.retain(|p| p.value > 0.0);
    points
}

/// A counter falls when its process is restarted; what falls more often than in one step of so many is a rate, or a
/// count since the last snapshot, and says nothing here.
const STEPS_A_FALL: usize = 8;

fn counter(points: Vec<Point>) -> Vec<Point> {
    let falls = points
        .windows(2)
        .filter(|w| w[1].value < w[0].value)
        .count();
    if falls * STEPS_A_FALL > points.len() {
        Vec::new()
    } else {
        points
    }
}

/// More instants than this many times the readings of one process: nobody looked at all of them at once.
const TOGETHER: f64 = 1.5;

/// Instants at which anything was read; readings closer than a twentieth of the usual interval of a
/// process are one snapshot. A Prometheus reads each target at an instant of its own: then a snapshot is a stretch of
/// the usual length in which anything was read.
fn snapshots_of(processes: &[ProcessFacts]) -> Vec<f64> {
    let readings = processes.iter().flat_map(|p| &p.rss);
    let mut all: Vec<f64> = readings.map(|p| p.t_s).collect();
    all.sort_by(f64::total_cmp);
    let intervals: Vec<f64> = processes
        .iter()
        .filter(|p| p.rss.len() > 2)
        .map(|p| (p.rss[p.rss.len() - 1].t_s - p.rss[0].t_s) / (p.rss.len() - 1) as f64)
        .collect();
    let shortest = intervals.iter().copied().fold(1e12, f64::min);
    let snapshots = apart(&all, 0.05 * shortest);
    let most = processes.iter().map(|p| p.rss.len()).max().unwrap_or(0);
    let usual = median(&intervals);
    if snapshots.len() as f64 <= TOGETHER * most as f64 || usual <= 0.0 || intervals.is_empty() {
        return snapshots;
    }
    let first = all.first().copied().unwrap_or(0.0);
    let cell = |t: f64| first + ((t - first) / usual).floor() * usual;
    apart(
        &all.iter().map(|t| cell(*t)).collect::<Vec<_>>(),
        0.5 * usual,
    )
}

/// Of instants in order, those that lie more than `gap` after the one before.
fn apart(times: &[f64], gap: f64) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for t in times {
        if kept.last().is_none_or(|last| t - last > gap) {
            kept.push(*t);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(process: &str, arm: &str, times: &[f64]) -> Held {
        let point = |t: &f64| Point {
            t_s: *t,
            value: 1.0,
        };
        Held {
            id: format!("{arm}/{process}"),
            process: process.to_owned(),
            arms: vec![(times[0], arm.to_owned())],
            points: times.iter().map(point).collect(),
            ..Held::default()
        }
    }

    #[test]
    fn a_name_that_moves_is_one_process_and_one_that_every_arm_counts_is_many() {
        let moved = join_moved(vec![
            part("p", "a", &[0.0, 1.0]),
            part("p", "b", &[2.0, 3.0]),
        ]);
        assert_eq!((moved.len(), moved[0].id.as_str()), (1, "p"));
        assert_eq!(moved[0].arms.len(), 2);
        let same_instant = join_moved(vec![part("0", "a", &[0.0, 1.0]), part("0", "b", &[1.0])]);
        assert_eq!(same_instant[1].id, "b/0");
        let to_and_fro = join_moved(vec![
            part("0", "a", &[0.0, 1.0, 2.0]),
            part("0", "b", &[0.5, 1.5, 2.5]),
        ]);
        assert_eq!(to_and_fro.len(), 2);
    }

    #[test]
    fn targets_read_each_at_its_own_instant_miss_no_snapshot() {
        let readings =
            |offset: f64| -> Vec<f64> { (0..100).map(|i| f64::from(i) + offset).collect() };
        let parts = [0.0, 0.21, 0.43, 0.77].map(|o| part("p", "a", &readings(o)));
        let input = audit_input(&parts, None, None);
        assert!(
            (99..=102).contains(&input.snapshots_s.len()),
            "{}",
            input.snapshots_s.len()
        );
        assert_eq!(verdict::audit::audit(&input), []);
        let same = [0, 1].map(|_| part("p", "a", &readings(0.0)));
        assert_eq!(audit_input(&same, None, None).snapshots_s, readings(0.0));
    }

    #[test]
    fn thinning_keeps_every_other_reading_of_what_is_and_what_comes() {
        let times: Vec<f64> = (0..4096).map(f64::from).collect();
        let mut held = part("p", "a", &times);
        held.seen = 4096;
        assert_eq!(held.thin(), 2048);
        for t in 4096..4100 {
            let row = Row {
                t_s: f64::from(t),
                rss_bytes: 1.0,
                ..Row::default()
            };
            held.take(&row, "");
        }
        let kept: Vec<f64> = held.points[2046..].iter().map(|p| p.t_s).collect();
        assert_eq!(kept, [4092.0, 4094.0, 4096.0, 4098.0]);
    }
}

//! The snapshots of one managed heap, and what they show together.

use std::collections::HashMap;
use std::hash::Hash;

use runtimes::{Frame, Language, RootCount, SiteCount, Snapshot, TaskGroup, TypeCount};
use series::order::median;

use super::{ManagedGrowth, ROWS_MAX, Rise, RootGrowth, SiteGrowth, TaskGrowth, type_growth};

/// Snapshots that are kept; when there are more, every other one goes.
const SNAPSHOTS_MAX: usize = 48;
/// Types, sites and groups of one snapshot that are kept, the largest first.
const KEPT_MAX: usize = 5_000;
/// From the middle third to the last a quantity must rise by this share of an even rise, as everywhere
/// ([`crate::growth`]).
const STILL_SHARE: f64 = 0.25;
/// Snapshots that are enough to leave earlier ones out.
const ENOUGH: usize = 3;
/// Sentences on what is missing.
const MISSING_MAX: usize = 8;

/// The snapshots of one managed heap.
#[derive(Debug, Clone, Default)]
pub struct HeapHistory {
    runtime: String,
    language: Language,
    /// With the seconds since the observation began.
    snapshots: Vec<(f64, Snapshot)>,
    /// Every how many snapshots one is kept.
    stride: usize,
    seen: usize,
    reading_s: f64,
    paused_s: f64,
}

type Values = Vec<(f64, f64)>;

impl HeapHistory {
    pub fn new(runtime: &str, language: Language) -> HeapHistory {
        HeapHistory {
            runtime: runtime.to_owned(),
            language,
            stride: 1,
            ..HeapHistory::default()
        }
    }

    pub fn add(&mut self, at_s: f64, mut snapshot: Snapshot) {
        self.reading_s += snapshot.cost.reading.as_secs_f64();
        self.paused_s += snapshot.cost.paused.as_secs_f64();
        snapshot.types.truncate(KEPT_MAX);
        snapshot.sites.truncate(KEPT_MAX);
        snapshot.roots.truncate(KEPT_MAX);
        snapshot.tasks.truncate(KEPT_MAX);
        self.seen += 1;
        // The latest one always stands at the end; whether it stays is decided by the next.
        if self.stride > 1 && self.seen % self.stride != 1 {
            self.snapshots.pop();
        }
        self.snapshots.push((at_s, snapshot));
        if self.snapshots.len() > SNAPSHOTS_MAX {
            let mut index = 0;
            self.snapshots.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub fn len(&self) -> usize {
        self.snapshots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// What grew; `None` with fewer than two snapshots. Partial snapshots count only where there are no others: a sum
    /// that ends at a limit now and then looks like growth. Those before `from_s` are left out where enough come after.
    pub fn growth(&self, from_s: f64) -> Option<ManagedGrowth> {
        let later = self.snapshots.partition_point(|(at_s, _)| *at_s < from_s);
        if later > 0 && self.snapshots.len() - later >= ENOUGH {
            let rest = HeapHistory {
                snapshots: self.snapshots[later..].to_vec(),
                ..self.clone()
            };
            return rest.growth(0.0);
        }
        let (first, last) = (self.snapshots.first()?, self.snapshots.last()?);
        if self.whole().count() < 2 {
            return None;
        }
        let total = |snapshot: &Snapshot| snapshot.types.iter().map(|of| of.bytes as f64).sum();
        let objects = self.values(|snapshot| (!snapshot.types.is_empty()).then(|| total(snapshot)));
        let used = self.values(|snapshot| Some(snapshot.heap.as_ref()?.used_bytes as f64));
        Some(ManagedGrowth {
            runtime: self.runtime.clone(),
            language: self.language,
            snapshots: self.whole().count(),
            over_s: last.0 - first.0,
            objects: rise(&objects),
            used: rise(&used),
            types: self.types(),
            sites: self.sites(),
            roots: self.roots(),
            tasks: self.tasks(),
            heap: last.1.heap.clone(),
            holders: Vec::new(),
            is_partial: last.1.is_partial,
            missing: self.missing(),
            reading_s: self.reading_s,
            paused_s: self.paused_s,
        })
    }

    fn whole(&self) -> impl Iterator<Item = &(f64, Snapshot)> {
        let is_whole = |(_, snapshot): &&(f64, Snapshot)| !snapshot.is_partial;
        let none = self.snapshots.iter().filter(is_whole).count() < 2;
        self.snapshots
            .iter()
            .filter(move |snapshot| none || is_whole(snapshot))
    }

    fn values(&self, of: impl Fn(&Snapshot) -> Option<f64>) -> Values {
        let value = |(at_s, snapshot): &(f64, Snapshot)| Some((*at_s, of(snapshot)?));
        self.whole().filter_map(value).collect()
    }

    fn types(&self) -> Vec<super::TypeGrowth> {
        let rows = self.rows(|snapshot| &snapshot.types, |of: &TypeCount| of.name.clone());
        let grown = rows.into_iter().filter_map(|(of, values)| {
            let bytes = rise(&values(&|of: &TypeCount| of.bytes as f64))?;
            let objects = rise(&values(&|of: &TypeCount| of.objects as f64))?;
            bytes.is_clear.then(|| type_growth(of, objects, bytes))
        });
        largest(grown.collect(), |of| of.bytes.grown)
    }

    fn sites(&self) -> Vec<SiteGrowth> {
        let rows = self.rows(
            |snapshot| &snapshot.sites,
            |of: &SiteCount| of.frames.clone(),
        );
        let grown = rows.into_iter().filter_map(|(of, values)| {
            let bytes = rise(&values(&|of: &SiteCount| of.bytes))?;
            bytes.is_clear.then(|| SiteGrowth {
                frames: of.frames.clone(),
                bytes,
                objects: of.objects,
            })
        });
        largest(grown.collect(), |of| of.bytes.grown)
    }

    fn roots(&self) -> Vec<RootGrowth> {
        let key = |of: &RootCount| (of.name.clone(), of.type_name.clone());
        let rows = self.rows(|snapshot| &snapshot.roots, key);
        let grown = rows.into_iter().filter_map(|(of, values)| {
            let bytes = rise(&values(&|of: &RootCount| of.bytes as f64))?;
            let objects = rise(&values(&|of: &RootCount| of.objects as f64))?;
            bytes.is_clear.then(|| RootGrowth {
                root: of.clone(),
                objects,
                bytes,
            })
        });
        largest(grown.collect(), |of| of.bytes.grown)
    }

    fn tasks(&self) -> Vec<TaskGrowth> {
        let with_tasks = self
            .whole()
            .filter(|(_, snapshot)| !snapshot.tasks.is_empty());
        let sums: Vec<(f64, ByCreator)> = with_tasks
            .map(|(at_s, snapshot)| (*at_s, by_creator(&snapshot.tasks)))
            .collect();
        let rows = self.rows(|snapshot| &snapshot.tasks, key_of);
        let grown = rows.into_iter().filter_map(|(of, values)| {
            let tasks = rise(&values(&|of: &TaskGroup| of.tasks as f64))?;
            let of_creator = rise(&of_creator(&sums, of))?;
            tasks.is_clear.then(|| TaskGrowth {
                group: of.clone(),
                tasks,
                of_creator,
            })
        });
        largest(grown.collect(), |of| of.tasks.grown)
    }

    /// The rows of the last snapshot, each with a function that gives a quantity of it at all times: zero where a
    /// snapshot that has rows of this kind has no such row.
    #[expect(
        clippy::type_complexity,
        reason = "a row and how to follow it, used four times above"
    )]
    fn rows<'a, R, K: Hash + Eq>(
        &'a self,
        of: impl Fn(&'a Snapshot) -> &'a Vec<R>,
        key: impl Fn(&R) -> K,
    ) -> Vec<(&'a R, impl Fn(&dyn Fn(&R) -> f64) -> Values + 'a)> {
        let with_rows = self
            .whole()
            .filter(|(_, snapshot)| !of(snapshot).is_empty());
        let tables: Vec<(f64, HashMap<K, &R>)> = with_rows
            .map(|(at_s, snapshot)| {
                (
                    *at_s,
                    of(snapshot).iter().map(|row| (key(row), row)).collect(),
                )
            })
            .collect();
        let Some((_, last)) = tables.last() else {
            return Vec::new();
        };
        let follow = |(key, row): (&K, &&'a R)| {
            let at = |(at_s, table): &(f64, HashMap<K, &'a R>)| (*at_s, table.get(key).copied());
            let course: Vec<(f64, Option<&'a R>)> = tables.iter().map(at).collect();
            let values = move |quantity: &dyn Fn(&R) -> f64| -> Values {
                course
                    .iter()
                    .map(|(at_s, row)| (*at_s, row.map_or(0.0, quantity)))
                    .collect()
            };
            (*row, values)
        };
        last.iter().map(follow).collect()
    }

    /// Of the last snapshot first; each sentence once.
    fn missing(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (_, snapshot) in self.snapshots.iter().rev() {
            for sentence in &snapshot.missing {
                if all.len() < MISSING_MAX && !all.contains(sentence) {
                    all.push(sentence.clone());
                }
            }
        }
        all
    }
}

/// Tasks by the place at which they were started.
type ByCreator<'a> = HashMap<Option<&'a Frame>, u64>;

fn by_creator(tasks: &[TaskGroup]) -> ByCreator<'_> {
    let mut sums = ByCreator::new();
    for group in tasks {
        *sums.entry(group.created_by.as_ref()).or_default() += group.tasks;
    }
    sums
}

fn of_creator(sums: &[(f64, ByCreator)], of: &TaskGroup) -> Values {
    let sum = |sums: &ByCreator| sums.get(&of.created_by.as_ref()).copied().unwrap_or(0) as f64;
    sums.iter().map(|(at_s, sums)| (*at_s, sum(sums))).collect()
}

/// Tasks are the same group when they were started at the same place and stand at the same place. Line numbers count:
/// two loops of one function are two groups.
fn key_of(group: &TaskGroup) -> (Option<Frame>, Option<String>, Vec<Frame>) {
    (
        group.created_by.clone(),
        group.waits_for.clone(),
        group.frames.clone(),
    )
}

fn largest<R>(mut rows: Vec<R>, of: impl Fn(&R) -> f64) -> Vec<R> {
    rows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    rows.truncate(ROWS_MAX);
    rows
}

/// `None` with fewer than two values.
fn rise(values: &[(f64, f64)]) -> Option<Rise> {
    if values.len() < 2 {
        return None;
    }
    let third = (values.len() / 3).max(1);
    let (first, last) = (&values[..third], &values[values.len() - third..]);
    let of = |part: &[(f64, f64)]| part.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let at =
        |part: &[(f64, f64)]| part.iter().map(|(at_s, _)| *at_s).sum::<f64>() / part.len() as f64;
    let (before, after) = (of(first), of(last));
    let grown = median(&after) - median(&before);
    let highest = before.iter().copied().fold(f64::MIN, f64::max);
    let lowest = after.iter().copied().fold(f64::MAX, f64::min);
    let middle = of(&values[third..values.len() - third]);
    let goes_on = middle.is_empty() || median(&after) - median(&middle) > STILL_SHARE * grown / 2.0;
    let over_s = at(last) - at(first);
    Some(Rise {
        level: median(&after),
        grown,
        per_hour: if over_s > 0.0 {
            grown / over_s * 3600.0
        } else {
            0.0
        },
        is_clear: lowest > highest && goes_on,
        values: values.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, objects: u64) -> TypeCount {
        TypeCount {
            name: name.to_owned(),
            objects,
            bytes: 48 * objects,
        }
    }

    /// Fifteen snapshots, four seconds apart.
    fn history(types: impl Fn(u64) -> Vec<TypeCount>) -> HeapHistory {
        let mut history = HeapHistory::new("CPython 3.11.7", Language::Python);
        for index in 0..15 {
            let snapshot = Snapshot {
                types: types(index),
                ..Snapshot::default()
            };
            history.add(4.0 * index as f64, snapshot);
        }
        history
    }

    #[test]
    fn what_grows_is_told_from_what_swings() {
        let growth = history(|index| {
            vec![
                counted("orders.Order", 1_000 + 100 * index),
                counted("dict", 500 + 70 * (index % 5)),
                counted("str", 9_000),
                counted("late.Session", if index < 3 { 0 } else { 10 * index }),
            ]
        });
        let growth = growth.growth(0.0).unwrap();
        let names: Vec<&str> = growth.types.iter().map(|of| &of.name[..]).collect();
        assert_eq!(names, ["orders.Order", "late.Session"]);
        let orders = &growth.types[0];
        assert_eq!(
            (orders.objects.grown, orders.objects.level),
            (1_000.0, 2_200.0)
        );
        assert_eq!(orders.bytes.per_hour, 48.0 * 90_000.0, "100 every 4 s");
        assert_eq!(growth.grown_bytes(), 48.0 * (1_000.0 + 120.0));
    }

    #[test]
    fn two_snapshots_are_compared_and_one_is_not() {
        let mut history = HeapHistory::new("OpenJDK 17", Language::Java);
        let of = |objects| Snapshot {
            types: vec![counted("Session", objects)],
            ..Snapshot::default()
        };
        history.add(0.0, of(10));
        assert_eq!(history.growth(0.0), None);
        history.add(60.0, of(20));
        assert_eq!(
            history.growth(0.0).unwrap().types[0].objects.per_hour,
            600.0
        );
    }

    #[test]
    fn a_long_observation_keeps_few_snapshots_and_its_ends() {
        let mut history = HeapHistory::new("Go 1.26", Language::Go);
        for index in 0..500u64 {
            history.add(
                index as f64,
                Snapshot {
                    types: vec![counted("x", index)],
                    ..Snapshot::default()
                },
            );
        }
        assert!(history.len() <= SNAPSHOTS_MAX, "{}", history.len());
        let growth = history.growth(0.0).unwrap();
        assert_eq!(growth.over_s, 499.0);
        assert_eq!(growth.types.len(), 1);
    }

    #[test]
    fn a_snapshot_without_types_does_not_make_them_fall_to_nothing() {
        let growth = history(|index| match index {
            14 => Vec::new(),
            _ => vec![counted("orders.Order", 1_000 + 100 * index)],
        });
        assert_eq!(growth.growth(0.0).unwrap().types.len(), 1);
    }

    #[test]
    fn what_rose_at_first_and_stays_does_not_grow() {
        let full = history(|index| vec![counted("cache.Entry", 1_000 * (index + 1).min(5))]);
        assert_eq!(full.growth(0.0).unwrap().types, []);
    }

    #[test]
    fn tasks_that_only_wait_elsewhere_are_not_more() {
        let group = |wait: &str, tasks| TaskGroup {
            tasks,
            waits_for: Some(wait.to_owned()),
            ..TaskGroup::default()
        };
        let growth = |total: fn(u64) -> u64| {
            let mut history = HeapHistory::new("Go 1.26", Language::Go);
            for index in 0..15 {
                let reading = 10 + 3 * index;
                let tasks = vec![
                    group("IO wait", reading),
                    group("chan receive", total(index) - reading),
                ];
                history.add(
                    index as f64,
                    Snapshot {
                        tasks,
                        ..Snapshot::default()
                    },
                );
            }
            history.growth(0.0).unwrap().tasks
        };
        let pool = growth(|_| 200);
        assert!(
            pool[0].tasks.is_clear && !pool[0].of_creator.is_clear,
            "{pool:?}"
        );
        let leak = growth(|index| 200 + 5 * index);
        assert!(leak[0].of_creator.is_clear, "{leak:?}");
    }

    #[test]
    fn a_reading_that_a_limit_ended_is_no_level() {
        let mut history = HeapHistory::new("CPython 3.11.7", Language::Python);
        for index in 0..12 {
            history.add(
                index as f64,
                Snapshot {
                    types: vec![counted("orders.Order", if index < 4 { 500 } else { 9_000 })],
                    is_partial: index < 4,
                    ..Snapshot::default()
                },
            );
        }
        assert_eq!(history.growth(0.0).unwrap().types, []);
    }
}

//! The snapshots of one managed heap, and what they show together.

use std::collections::HashMap;
use std::hash::Hash;

use runtimes::{Frame, Language, Snapshot, TaskGroup};
use series::order::median;

use super::{
    ManagedGrowth, PartGrowth, ROWS_MAX, Rise, RootGrowth, SiteGrowth, TaskGrowth, TypeGrowth,
};

/// Snapshots that are kept; when there are more, every other one goes.
const SNAPSHOTS_MAX: usize = 48;
/// Types, sites and groups of one snapshot that are kept, the largest first.
const KEPT_MAX: usize = 5_000;
/// From the middle third to the last a quantity must rise by this share of an even rise, as everywhere
/// ([`crate::growth`]).
const STILL_SHARE: f64 = 0.25;
/// And at least by that of a rise over this part of the observation.
const STILL_OVER: f64 = 0.1;
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
    memory_bytes: u64,
    cpu_s: f64,
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
        self.memory_bytes += snapshot.cost.memory_bytes;
        self.cpu_s += snapshot.cost.cpu.as_secs_f64();
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
        let is_whole = |(_, snapshot): &&(f64, Snapshot)| !snapshot.is_partial;
        let none = self.snapshots.iter().filter(is_whole).count() < 2;
        let whole = self.snapshots.iter().filter(|at| none || is_whole(at));
        let all: Vec<&(f64, Snapshot)> = whole.collect();
        let later = all.partition_point(|(at_s, _)| *at_s < from_s);
        let judged = match all.len() - later >= ENOUGH {
            true => &all[later..],
            false => &all[..],
        };
        let [(first_s, _), .., (last_s, last)] = judged else {
            return None;
        };
        Some(ManagedGrowth {
            runtime: self.runtime.clone(),
            language: self.language,
            snapshots: judged.len(),
            over_s: last_s - first_s,
            objects: rise(&of_all(judged, |snapshot| {
                let total = || snapshot.types.iter().map(|of| of.bytes as f64).sum();
                (!snapshot.types.is_empty()).then(total)
            })),
            used: rise(&of_all(judged, |snapshot| {
                Some(snapshot.heap.as_ref()?.used_bytes as f64)
            })),
            live: rise(&of_all(judged, |snapshot| {
                let heap = snapshot.heap.as_ref().filter(|heap| heap.is_collected)?;
                Some(heap.used_bytes as f64)
            })),
            collections: collections(judged),
            committed: rise(&of_all(judged, |snapshot| {
                Some(snapshot.heap.as_ref()?.committed_bytes? as f64)
            })),
            parts: parts(judged),
            types: types(judged),
            sites: sites(judged),
            roots: roots(judged),
            tasks: tasks(judged),
            heap: last.heap.clone(),
            holders: Vec::new(),
            is_partial: last.is_partial,
            missing: self.missing(),
            reading_s: self.reading_s,
            paused_s: self.paused_s,
            memory_bytes: self.memory_bytes,
            cpu_s: self.cpu_s,
        })
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

type Snapshots<'a> = [&'a (f64, Snapshot)];

fn of_all(snapshots: &Snapshots, of: impl Fn(&Snapshot) -> Option<f64>) -> Values {
    let value = |at: &&(f64, Snapshot)| Some((at.0, of(&at.1)?));
    snapshots.iter().filter_map(value).collect()
}

/// A row of the last snapshot, and that row in all snapshots with rows of its kind: `None` where one has no such row.
struct Course<'a, R> {
    row: &'a R,
    at: Vec<(f64, Option<&'a R>)>,
}

impl<'a, R> Course<'a, R> {
    fn of_all<K: Hash + Eq>(
        snapshots: &Snapshots<'a>,
        rows: impl Fn(&'a Snapshot) -> &'a Vec<R>,
        key: impl Fn(&'a R) -> K,
    ) -> Vec<Course<'a, R>> {
        let with_rows = snapshots.iter().filter(|at| !rows(&at.1).is_empty());
        let table = |at: &&'a (f64, Snapshot)| {
            let by_key = rows(&at.1).iter().map(|row| (key(row), row)).collect();
            (at.0, by_key)
        };
        let tables: Vec<(f64, HashMap<K, &R>)> = with_rows.map(table).collect();
        let last = tables.last().into_iter().flat_map(|(_, last)| last);
        let course = |(key, row): (&K, &&'a R)| Course {
            row: *row,
            at: tables
                .iter()
                .map(|(at_s, table)| (*at_s, table.get(key).copied()))
                .collect(),
        };
        last.map(course).collect()
    }

    fn rise(&self, quantity: impl Fn(&R) -> f64) -> Option<Rise> {
        let value = |(at_s, row): &(f64, Option<&R>)| (*at_s, row.map_or(0.0, &quantity));
        rise(&self.at.iter().map(value).collect::<Values>())
    }
}

fn collections(snapshots: &Snapshots) -> Option<u64> {
    let count = |at: &&(f64, Snapshot)| at.1.heap.as_ref()?.collections;
    let first = snapshots.first().and_then(count)?;
    snapshots.last().and_then(count)?.checked_sub(first)
}

/// A part that a snapshot could not read is no part of that snapshot: it is not zero.
fn parts(snapshots: &Snapshots) -> Vec<PartGrowth> {
    let of = |snapshot: &Snapshot, name: &str| {
        let mut parts = snapshot.heap.as_ref()?.others.iter();
        parts.find(|part| part.0 == name).map(|part| part.1 as f64)
    };
    let last = snapshots.last().and_then(|(_, last)| last.heap.as_ref());
    let names = last
        .into_iter()
        .flat_map(|heap| &heap.others)
        .map(|part| &part.0);
    let grown = names.filter_map(|name| {
        Some(PartGrowth {
            name: name.clone(),
            bytes: rise(&of_all(snapshots, |snapshot| of(snapshot, name)))?,
        })
    });
    clear(grown, |of| of.bytes)
}

fn types(snapshots: &Snapshots) -> Vec<TypeGrowth> {
    let courses = Course::of_all(snapshots, |snapshot| &snapshot.types, |of| &of.name);
    let grown = courses.iter().filter_map(|of| {
        let bytes = of.rise(|of| of.bytes as f64)?;
        Some(TypeGrowth {
            name: of.row.name.clone(),
            objects: of.rise(|of| of.objects as f64)?,
            bytes,
        })
    });
    clear(grown, |of| of.bytes)
}

fn sites(snapshots: &Snapshots) -> Vec<SiteGrowth> {
    let mut courses = Course::of_all(snapshots, |snapshot| &snapshot.sites, |of| &of.frames);
    // Where sampling started with a snapshot, there was nothing of any site at that time.
    if let Some((at_s, _)) = snapshots.iter().find(|at| at.1.starts_sampling) {
        for course in &mut courses {
            course.at.insert(0, (*at_s, None));
        }
    }
    let grown = courses.iter().filter_map(|of| {
        Some(SiteGrowth {
            frames: of.row.frames.clone(),
            bytes: of.rise(|of| of.bytes)?,
            objects: of.row.objects,
        })
    });
    clear(grown, |of| of.bytes)
}

fn roots(snapshots: &Snapshots) -> Vec<RootGrowth> {
    let courses = Course::of_all(
        snapshots,
        |snapshot| &snapshot.roots,
        |of| (&of.name, &of.type_name),
    );
    let grown = courses.iter().filter_map(|of| {
        Some(RootGrowth {
            root: of.row.clone(),
            objects: of.rise(|of| of.objects as f64)?,
            bytes: of.rise(|of| of.bytes as f64)?,
        })
    });
    clear(grown, |of| of.bytes)
}

/// Tasks are the same group when they were started at the same place and stand at the same place. Line numbers count:
/// two loops of one function are two groups.
fn tasks(snapshots: &Snapshots) -> Vec<TaskGrowth> {
    let with_tasks = snapshots.iter().filter(|at| !at.1.tasks.is_empty());
    let sums: Vec<(f64, ByCreator)> = with_tasks
        .map(|at| (at.0, by_creator(&at.1.tasks)))
        .collect();
    let courses = Course::of_all(
        snapshots,
        |snapshot| &snapshot.tasks,
        |of| (&of.created_by, &of.waits_for, &of.frames),
    );
    let grown = courses.iter().filter_map(|of| {
        Some(TaskGrowth {
            group: of.row.clone(),
            tasks: of.rise(|of| of.tasks as f64)?,
            of_creator: rise(&of_creator(&sums, of.row))?,
        })
    });
    clear(grown, |of| of.tasks)
}

/// What clearly grew, the largest growth first.
fn clear<G>(grown: impl Iterator<Item = G>, of: impl Fn(&G) -> Rise) -> Vec<G> {
    let mut rows: Vec<G> = grown.filter(|row| of(row).is_clear).collect();
    rows.sort_by(|a, b| of(b).grown.total_cmp(&of(a).grown));
    rows.truncate(ROWS_MAX);
    rows
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
    let middle = &values[third..values.len() - third];
    let over_s = at(last) - at(first);
    // Readings of a busy machine are not evenly apart: what an even rise would have added since then. In next to no
    // time it adds nothing that could be told from noise.
    let even = || grown * ((at(last) - at(middle)) / over_s).max(STILL_OVER);
    let goes_on = middle.is_empty() || median(&after) - median(&of(middle)) > STILL_SHARE * even();
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
mod tests;

//! What is watched of a process that does without the probe: its allocator's functions, and who maps memory.

use std::time::{Duration, Instant};

use crate::glibc::Walk;
use crate::linked::Linked;
use crate::linked::mapped::Mapped;
use crate::linked::place::{On, Place, Process};
use crate::linked::traps::Traps;
use crate::probe::ProbeSnapshot;
use crate::smaps::Area;

/// Probes on an allocator that the preloaded probe does not count.
#[derive(Default)]
pub enum Uprobes {
    #[default]
    NotAsked,
    /// From the next snapshot on, where they can be. `at_start`: the program was started for it.
    Wanted {
        at_start: bool,
        /// The budget, of the process's CPU time or of a core.
        share: f64,
    },
    On(Box<Watch>),
    /// There is nothing to probe.
    NoFunctions,
    /// In the kernel's words.
    Refused(String),
}

/// What is watched.
pub struct Watch {
    pub(super) linked: Linked,
    /// Who maps memory; `None`: its C library cannot be probed, or the preloaded probe tells.
    mapped: Option<Mapped>,
    /// Code of a library that is nothing but an allocator.
    library: Vec<(u64, u64)>,
    /// The C library's heap beside the program's own, which is watched at first.
    beside: Option<Beside>,
    /// What the probes on another heap took, before these.
    before: Option<Traps>,
}

impl Watch {
    /// On the first of the process's allocators that has functions to probe. `None`: its dynamic linker has not got
    /// that far. `by_probe`: the preloaded probe tells who maps memory.
    pub(super) fn open(
        pid: u32,
        process: &Process<'_>,
        (at_start, share): (bool, f64),
        by_probe: bool,
    ) -> Option<Uprobes> {
        let places = process.places()?;
        let open = |place: &Place| Linked::open(pid, place, at_start, share).transpose();
        // What the first does not have the second may; an error ends it.
        let mut opened = places.iter().enumerate();
        let opened = opened.find_map(|(at, place)| Some((open(place)?, at)));
        Some(match opened {
            Some((Ok(linked), at)) => {
                let cost = linked.traps().cost;
                let mapped = || Mapped::open(pid, &process.mapper(), share, cost).ok()?;
                let mut beside = places[at + 1..].iter();
                Uprobes::On(Box::new(Watch {
                    linked,
                    mapped: (!by_probe).then(mapped).flatten(),
                    library: library(&places[at], process.areas),
                    beside: beside
                        .find(|place| place.on == On::Glibc)
                        .map(|place| Beside::new(pid, place, share)),
                    before: None,
                }))
            }
            Some((Err(error), _)) => Uprobes::Refused(error.to_string()),
            None => Uprobes::NoFunctions,
        })
    }

    /// The account so far, as a probe would give it. `areas` were read at `since_ns` or later.
    pub(super) fn snapshot(&self, areas: &[Area], since_ns: u64) -> ProbeSnapshot {
        let mut snapshot = self.linked.snapshot();
        let in_library = |address: u64| {
            let mut library = self.library.iter();
            library.any(|&(start, end)| (start..end).contains(&address))
        };
        let is_allocators = |address| self.linked.is_allocators(address) || in_library(address);
        if let (Some(traps), Some(before)) = (&mut snapshot.traps, &self.before) {
            traps.hits += before.hits;
            traps.stepped += before.stepped;
            traps.samples += before.samples;
            traps.without_result += before.without_result;
        }
        if let Some(mapped) = &self.mapped {
            if let Some(traps) = &mut snapshot.traps {
                traps.places += mapped.places;
                traps.kernel_bytes = traps.kernel_bytes.max(mapped.kernel_bytes);
            }
            mapped.add_to(&mut snapshot, (areas, since_ns), is_allocators);
        }
        snapshot
    }

    /// Whether the heap that is not watched is the one that grows, by the walk of a snapshot.
    pub(super) fn grows_beside(&mut self, walk: &Walk, areas: &[Area]) -> bool {
        let now = Sizes::of(walk, areas);
        let mut beside = self.beside.as_mut().filter(|_| walk.complete);
        beside.as_mut().is_some_and(|beside| beside.grows(&now))
    }

    /// Watches that heap instead. The first probes go before the others come: both together may take more of the
    /// kernel's memory than the limit.
    pub(super) fn changed_over(mut self) -> Uprobes {
        let Some(beside) = self.beside.take() else {
            return Uprobes::On(Box::new(self));
        };
        let before = self.linked.traps();
        drop(self.linked);
        match Linked::open(beside.pid, &beside.place, false, beside.share) {
            Ok(Some(linked)) => Uprobes::On(Box::new(Watch {
                linked,
                mapped: self.mapped,
                library: Vec::new(),
                beside: None,
                before: Some(before),
            })),
            Ok(None) => Uprobes::NoFunctions,
            Err(error) => Uprobes::Refused(error.to_string()),
        }
    }
}

/// Code of the library at a place, where that is nothing but an allocator.
fn library(place: &Place, areas: &[Area]) -> Vec<(u64, u64)> {
    let at_base = areas.iter().find(|area| area.start == place.base);
    let first = at_base.filter(|_| place.on == On::Library);
    let of_library = |area: &&Area| first.is_some_and(|first| first.name == area.name);
    let areas = areas.iter().filter(of_library);
    areas.map(|area| (area.start, area.end)).collect()
}

/// Not sooner: one burst of requests is no growth.
const CHANGES_AFTER: Duration = Duration::from_secs(2);
/// Not later: what is left of 20 s, or of 30, is enough to classify growth.
const CHANGES_BEFORE: Duration = Duration::from_secs(10);
/// Growth of fewer bytes is what a heap does at any time: glibc takes memory 132 KiB at once, and a thread's cache
/// holds some more.
const GROWN_BYTES_MIN: f64 = 524_288.0;

/// Of the growth, since it could first be seen.
const GOES_ON: f64 = 0.25;

/// A heap that is not watched, and what it held when watching began.
struct Beside {
    pid: u32,
    place: Place,
    /// The budget.
    share: f64,
    begin: Instant,
    first: Option<Sizes>,
    /// And when that could first be said to grow.
    since: Option<Sizes>,
}

impl Beside {
    fn new(pid: u32, place: &Place, share: f64) -> Beside {
        Beside {
            pid,
            place: place.clone(),
            share,
            begin: Instant::now(),
            first: None,
            since: None,
        }
    }

    /// Whether most of what the process grew by is here.
    fn grows(&mut self, now: &Sizes) -> bool {
        let first = *self.first.get_or_insert(*now);
        let elapsed = self.begin.elapsed();
        if !(CHANGES_AFTER..CHANGES_BEFORE).contains(&elapsed) {
            return false;
        }
        let since = *self.since.get_or_insert(*now);
        let (grown, lately) = (now.in_use - first.in_use, now.in_use - since.in_use);
        let is_most = 2.0 * grown > now.anonymous - first.anonymous;
        // What was filled once and for all has come to an end by now.
        let goes_on = lately > GOES_ON * grown;
        grown > GROWN_BYTES_MIN && is_most && goes_on
    }
}

/// Bytes of blocks in use in the C library's heap, and of anonymous memory in RAM.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    in_use: f64,
    anonymous: f64,
}

impl Sizes {
    fn of(walk: &Walk, areas: &[Area]) -> Sizes {
        let in_use = walk.spans.iter().map(|span| span.in_use_bytes as f64);
        let anonymous = areas.iter().map(|area| area.anonymous_bytes as f64);
        Sizes {
            in_use: in_use.sum(),
            anonymous: anonymous.sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glibc::Walked;

    const MIB: f64 = 1_048_576.0;

    fn beside(begin: Instant) -> Beside {
        let place = Place {
            file: "/usr/lib/libc.so.6".into(),
            base: 0x7000,
            on: On::Glibc,
        };
        Beside {
            begin,
            ..Beside::new(0, &place, 0.02)
        }
    }

    /// Of MiB.
    fn sizes(in_use: f64, anonymous: f64) -> Sizes {
        Sizes {
            in_use: in_use * MIB,
            anonymous: anonymous * MIB,
        }
    }

    #[test]
    fn the_heap_beside_is_watched_where_most_of_the_growth_is() {
        let early = Instant::now();
        let later = early.checked_sub(CHANGES_AFTER).unwrap();
        for (begin, half, grown, expected) in [
            (later, 2.0, (4.0, 5.0), true),
            // Its pages were there before: what it filled is all the same.
            (later, 2.0, (4.0, 0.0), true),
            (later, 1.0, (2.0, 5.0), false),
            (later, 0.2, (0.4, 0.4), false),
            (later, 3.9, (4.0, 5.0), false),
            (early, 2.0, (4.0, 5.0), false),
        ] {
            let mut beside = beside(begin);
            beside.first = Some(sizes(90.0, 100.0));
            assert!(
                !beside.grows(&sizes(90.0 + half, 100.0)),
                "once says little"
            );
            let now = sizes(90.0 + grown.0, 100.0 + grown.1);
            assert_eq!(beside.grows(&now), expected, "{half} {grown:?}");
        }
    }

    #[test]
    fn sizes_are_summed() {
        let spans = [3, 4].map(|in_use_bytes| Walked {
            in_use_bytes,
            ..Walked::default()
        });
        let walk = Walk {
            spans: spans.into(),
            ..Walk::default()
        };
        let areas = [10, 20].map(|anonymous_bytes| Area {
            anonymous_bytes,
            ..Area::default()
        });
        let sizes = Sizes::of(&walk, &areas);
        assert_eq!((sizes.in_use, sizes.anonymous), (7.0, 30.0));
    }
}

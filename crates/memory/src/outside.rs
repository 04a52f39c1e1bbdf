//! How memory grows that the kernel holds for a process outside of its mappings, and what it has open.

use std::collections::BTreeMap;

use super::growth::{Growth, growth};
use heap::outside::{Holder, Opened, Outside};

/// Growth of one kind: data in sockets, files in memory, the kernel's own, or its caches.
#[derive(Debug, Clone, PartialEq)]
pub struct OutsideGrowth {
    pub growth: Growth,
    /// What grew over the window, most first, bytes.
    pub grown: Vec<(Holder, f64)>,
}

/// What a process has open, and how that grows.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedGrowth {
    /// Of the number of descriptors: its `bytes` are descriptors.
    pub growth: Growth,
    /// What grew over the window, most first.
    pub grown: Vec<(Opened, f64)>,
    /// RLIMIT_NOFILE.
    pub most: Option<u64>,
}

/// Of readings with their seconds, over the window that begins at `start_s`.
pub fn opened_growth(read: &[(f64, &Outside)], start_s: f64) -> Option<OpenedGrowth> {
    let (first, last) = window(read, start_s)?;
    let points = read.iter().map(|(at_s, outside)| {
        let count: u64 = outside.opened.values().sum();
        (*at_s, count as f64)
    });
    let points: Vec<(f64, f64)> = points.collect();
    Some(OpenedGrowth {
        growth: growth(&points)?,
        grown: grown(&first.opened, &last.opened, &|_| true),
        most: last.open_max,
    })
}

fn window<'a>(read: &[(f64, &'a Outside)], start_s: f64) -> Option<(&'a Outside, &'a Outside)> {
    let first = read.iter().find(|(at_s, _)| *at_s >= start_s);
    Some((first?.1, read.last()?.1))
}

/// All kinds, where they could be judged: of readings with their seconds, over the window that begins at `start_s`.
pub fn growths(read: &[(f64, &Outside)], start_s: f64) -> Vec<OutsideGrowth> {
    let Some((first, last)) = window(read, start_s) else {
        return Vec::new();
    };
    let has_written = wrote(first, last);
    let is_file = |holder: &Holder| match holder {
        Holder::Files(_) => has_written,
        Holder::Unnamed(_) => true,
        _ => false,
    };
    let alone: Vec<(f64, &Outside)> = read.iter().copied().filter(|of| of.1.is_alone).collect();
    let one = |is_one: &dyn Fn(&Holder) -> bool, read: &[(f64, &Outside)]| {
        let (first, last) = window(read, start_s)?;
        let points = read
            .iter()
            .map(|(at_s, outside)| (*at_s, sum(outside, is_one)));
        let points: Vec<(f64, f64)> = points.collect();
        Some(OutsideGrowth {
            growth: growth(&points)?,
            grown: grown(&first.held, &last.held, is_one),
        })
    };
    let is_kernel = |holder: &Holder| matches!(holder, Holder::Kernel(_)) && !holder.is_cache();
    let all = [
        one(&Holder::is_of_sockets, read),
        one(&is_file, read),
        one(&is_kernel, &alone),
        one(&Holder::is_cache, &alone),
    ];
    all.into_iter().flatten().collect()
}

fn sum(outside: &Outside, is_one: &dyn Fn(&Holder) -> bool) -> f64 {
    let held = outside.held.iter().filter(|(holder, _)| is_one(holder));
    held.map(|(_, bytes)| *bytes as f64).sum()
}

/// Whether the process can have written what the files with a name grew by: others write to its file systems too.
fn wrote(first: &Outside, last: &Outside) -> bool {
    let is_named = |holder: &Holder| matches!(holder, Holder::Files(_));
    let grown = sum(last, &is_named) - sum(first, &is_named);
    let written = last.written_bytes.zip(first.written_bytes);
    written.is_some_and(|(last, first)| last.saturating_sub(first) as f64 >= grown)
}

fn grown<Of: Clone + Ord>(
    first: &BTreeMap<Of, u64>,
    last: &BTreeMap<Of, u64>,
    is_one: &dyn Fn(&Of) -> bool,
) -> Vec<(Of, f64)> {
    let mut grown: Vec<(Of, f64)> = last
        .iter()
        .filter(|(of, _)| is_one(of))
        .map(|(of, count)| {
            let before = first.get(of).copied().unwrap_or(0);
            (of.clone(), *count as f64 - before as f64)
        })
        .filter(|(_, more)| *more > 0.0)
        .collect();
    grown.sort_by(|a, b| b.1.total_cmp(&a.1));
    grown
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::outside::Charge;

    /// Thirty readings, a second apart, in which a holder grows by a megabyte each and the process writes so much.
    fn readings(holder: &Holder, written_bytes: Option<u64>) -> Vec<Outside> {
        let reading = |at: u64| Outside {
            held: BTreeMap::from([(holder.clone(), at << 20)]),
            is_alone: true,
            opened: BTreeMap::from([(Opened::Pipes, 3), (Opened::OtherSockets, 2 * at)]),
            open_max: Some(1_024),
            written_bytes: written_bytes.map(|each| at * each),
        };
        (0..30).map(reading).collect()
    }

    fn of(holder: &Holder, written_bytes: Option<u64>) -> Vec<OutsideGrowth> {
        let readings = readings(holder, written_bytes);
        let read: Vec<(f64, &Outside)> = (0..30).map(f64::from).zip(&readings).collect();
        growths(&read, 3.0)
    }

    #[test]
    fn files_that_others_write_are_no_growth() {
        let grown = |all: Vec<OutsideGrowth>| all[1].growth.bytes;
        let files = Holder::Files("/dev/shm/spool".to_owned());
        assert!(grown(of(&files, Some(1 << 20))) > 1e7);
        assert_eq!(grown(of(&files, Some(1 << 10))), 0.0);
        assert_eq!(grown(of(&files, None)), 0.0);
        // They are open here, whatever wrote them.
        let unnamed = Holder::Unnamed("memfd:ring".to_owned());
        assert!(grown(of(&unnamed, None)) > 1e7);
    }

    #[test]
    fn what_grows_is_named() {
        let port = port();
        let all = of(&port, None);
        assert_eq!(all[0].grown, [(port, f64::from(26 << 20))]);
        assert!(all[1].grown.is_empty());
    }

    #[test]
    fn descriptors_that_become_more_are_counted() {
        let readings = readings(&port(), None);
        let read: Vec<(f64, &Outside)> = (0..30).map(f64::from).zip(&readings).collect();
        let opened = opened_growth(&read, 3.0).unwrap();
        assert!(opened.growth.still);
        assert_eq!(opened.most, Some(1_024));
        assert_eq!(opened.grown, [(Opened::OtherSockets, 52.0)]);
    }

    /// A helper that runs in the cgroup for a while hides what the kernel keeps; it is not zero then.
    #[test]
    fn what_was_not_seen_is_not_zero() {
        let mut readings = readings(&Holder::Kernel(Charge::Objects), None);
        for (at, reading) in readings.iter_mut().enumerate() {
            reading.held.values_mut().for_each(|bytes| *bytes = 9 << 20);
            if at < 15 {
                (reading.is_alone, reading.held) = (false, BTreeMap::new());
            }
        }
        let read: Vec<(f64, &Outside)> = (0..30).map(f64::from).zip(&readings).collect();
        let all = growths(&read, 3.0);
        assert!(all.iter().all(|one| one.growth.bytes == 0.0), "{all:?}");
    }

    #[test]
    fn caches_are_apart_from_what_the_kernel_keeps() {
        let grown = |charge: Charge| {
            let all = of(&Holder::Kernel(charge), None);
            let is_more = |one: &OutsideGrowth| one.growth.bytes > 1e7;
            all.iter().position(is_more)
        };
        assert_eq!(grown(Charge::Objects), Some(2));
        assert_eq!(grown(Charge::PageCache), Some(3));
    }

    fn port() -> Holder {
        Holder::Unread(heap::outside::Connections::AcceptedOn(8080))
    }
}

//! How memory grows that the kernel holds for a process outside of its mappings.

use std::collections::BTreeMap;

use super::growth::{Growth, growth};
use heap::outside::{Holder, Outside};

/// Growth of one kind: data in sockets, or files in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct OutsideGrowth {
    pub growth: Growth,
    /// What grew over the window, most first, bytes.
    pub grown: Vec<(Holder, f64)>,
}

/// Both kinds, where they could be judged: of readings with their seconds, over the window that begins at `start_s`.
pub fn growths(read: &[(f64, &Outside)], start_s: f64) -> Vec<OutsideGrowth> {
    let first = read.iter().find(|(at_s, _)| *at_s >= start_s);
    let (Some((_, first)), Some((_, last))) = (first, read.last()) else {
        return Vec::new();
    };
    let has_written = wrote(first, last);
    let is_file = |holder: &Holder| match holder {
        Holder::Files(_) => has_written,
        Holder::Unnamed(_) => true,
        _ => false,
    };
    let one = |is_one: &dyn Fn(&Holder) -> bool| {
        let points = read
            .iter()
            .map(|(at_s, outside)| (*at_s, sum(outside, is_one)));
        let points: Vec<(f64, f64)> = points.collect();
        Some(OutsideGrowth {
            growth: growth(&points)?,
            grown: grown(&first.held, &last.held, is_one),
        })
    };
    let kinds: [&dyn Fn(&Holder) -> bool; 2] = [&Holder::is_of_sockets, &is_file];
    kinds.into_iter().filter_map(one).collect()
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

fn grown(
    first: &BTreeMap<Holder, u64>,
    last: &BTreeMap<Holder, u64>,
    is_one: &dyn Fn(&Holder) -> bool,
) -> Vec<(Holder, f64)> {
    let mut grown: Vec<(Holder, f64)> = last
        .iter()
        .filter(|(holder, _)| is_one(holder))
        .map(|(holder, bytes)| {
            let before = first.get(holder).copied().unwrap_or(0);
            (holder.clone(), *bytes as f64 - before as f64)
        })
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect();
    grown.sort_by(|a, b| b.1.total_cmp(&a.1));
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty readings, a second apart, in which a holder grows by a megabyte each and the process writes so much.
    fn of(holder: &Holder, written_bytes: Option<u64>) -> Vec<OutsideGrowth> {
        let reading = |at: u64| Outside {
            held: BTreeMap::from([(holder.clone(), at << 20)]),
            written_bytes: written_bytes.map(|each| at * each),
        };
        let readings: Vec<Outside> = (0..30).map(reading).collect();
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

    fn port() -> Holder {
        Holder::Unread(heap::outside::Connections::AcceptedOn(8080))
    }
}

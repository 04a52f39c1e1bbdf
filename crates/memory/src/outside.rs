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
    /// Of files: it is known that the process wrote them, or its container.
    pub is_own: bool,
}

/// Both kinds, where they could be judged: of readings with their seconds, over the window that begins at `start_s`.
pub fn growths(read: &[(f64, &Outside)], start_s: f64) -> Vec<OutsideGrowth> {
    let first = read.iter().find(|(at_s, _)| *at_s >= start_s);
    let (Some((_, first)), Some((_, last))) = (first, read.last()) else {
        return Vec::new();
    };
    let one = |of_sockets: bool| {
        let is_one = |holder: &Holder| holder.is_of_sockets() == of_sockets;
        let sum = |outside: &Outside| -> f64 {
            let held = outside.held.iter().filter(|(holder, _)| is_one(holder));
            held.map(|(_, bytes)| *bytes as f64).sum()
        };
        let points: Vec<(f64, f64)> = read
            .iter()
            .map(|(at_s, outside)| (*at_s, sum(outside)))
            .collect();
        let growth = growth(&points)?;
        Some(OutsideGrowth {
            growth,
            grown: grown(&first.held, &last.held, is_one),
            is_own: of_sockets || wrote(first, last, sum(last) - sum(first)),
        })
    };
    [true, false].into_iter().filter_map(one).collect()
}

/// Whether the process can have written so much, or it has mounts that others do not write to.
fn wrote(first: &Outside, last: &Outside, bytes: f64) -> bool {
    let written = last.written_bytes.zip(first.written_bytes);
    let is_enough = |(last, first): (u64, u64)| last.saturating_sub(first) as f64 >= bytes;
    last.has_own_mounts || written.is_some_and(is_enough)
}

fn grown(
    first: &BTreeMap<Holder, u64>,
    last: &BTreeMap<Holder, u64>,
    is_one: impl Fn(&Holder) -> bool,
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

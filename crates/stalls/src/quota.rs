//! When a control group's quota was used up.

/// Stretches in which a control group's quota was used up, sorted by time.
#[derive(Debug, Default)]
pub struct Quota {
    stretches: Vec<(u64, u64)>,
}

/// About an hour of a group that is throttled ten times a second.
const STRETCHES_MAX: usize = 40_000;

impl Quota {
    /// The group was throttled for some part of `[start_ns, end_ns]`.
    pub fn throttled(&mut self, start_ns: u64, end_ns: u64) {
        let full = self.stretches.len() >= STRETCHES_MAX;
        match self.stretches.last_mut() {
            Some((_, end)) if *end >= start_ns => *end = (*end).max(end_ns),
            _ if full => {}
            _ => self.stretches.push((start_ns, end_ns)),
        }
    }

    /// Nanoseconds of `[start_ns, end_ns]` within such stretches.
    pub fn overlap_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        let from = self.stretches.partition_point(|(_, end)| *end <= start_ns);
        self.stretches[from..]
            .iter()
            .take_while(|(start, _)| *start < end_ns)
            .map(|(start, end)| end.min(&end_ns) - start.max(&start_ns))
            .sum()
    }
}

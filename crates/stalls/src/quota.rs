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

    /// Whether they are half of `[start_ns, end_ns]` or more.
    pub fn fills(&self, start_ns: u64, end_ns: u64) -> bool {
        start_ns < end_ns && self.overlap_ns(start_ns, end_ns) * 2 >= end_ns - start_ns
    }

    /// Nanoseconds of `[start_ns, end_ns]` within such stretches.
    fn overlap_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        let from = self.stretches.partition_point(|(_, end)| *end <= start_ns);
        self.stretches[from..]
            .iter()
            .take_while(|(start, _)| *start < end_ns)
            .map(|(start, end)| end.min(&end_ns) - start.max(&start_ns))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_span_fills_it() {
        let mut quota = Quota::default();
        quota.throttled(100, 150);
        quota.throttled(150, 160);
        assert_eq!(quota.stretches, [(100, 160)]);
        let fills = [(100, 160), (40, 160), (30, 160), (160, 200), (120, 120)];
        let fills = fills.map(|(start, end)| quota.fills(start, end));
        assert_eq!(fills, [true, true, false, false, false]);
    }
}

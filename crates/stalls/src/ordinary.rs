//! What the time of ordinary requests goes to, those that are not slow: where all are alike, none is.

use std::collections::BTreeMap;

use super::answered::{Answered, Reply, Slow};
use super::pieces::Pieces;
use super::request::Went;
use super::untaken::Untaken;

/// Of those that were answered since the last time, so many are examined.
const AT_A_TIME: usize = 16;
/// Times kept.
const TIMES_MAX: usize = 10_000;

/// A sample of them. Their time is attributed whole, as that of slow ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ordinary {
    /// Requests in the sample.
    pub count: usize,
    /// Nanoseconds of all of them, by what they went to.
    pub ns: BTreeMap<Went, u64>,
    /// Of each, nanoseconds without those in which it lay in its socket and nobody took it.
    taken_up_ns: Vec<u64>,
}

impl Ordinary {
    /// Some of these, as far apart as they can be. `replies`: in the order in which they came.
    pub fn take(&mut self, pieces: &Pieces, replies: &[Reply], requests: &[Answered]) {
        let apart = requests.len().div_ceil(AT_A_TIME).max(1);
        for request in requests.iter().step_by(apart) {
            self.count += 1;
            let examined = Slow::of(pieces, replies, *request);
            for ((_, went), ns) in &examined.ns {
                *self.ns.entry(*went).or_default() += ns;
            }
            let lay = examined.untaken.iter().filter(|of| !of.is_taken);
            let lay: u64 = lay.map(Untaken::ns).sum();
            let taken_up_ns = request.ns().saturating_sub(lay);
            // Past the most, the newest take the places of the oldest.
            match self.taken_up_ns.get_mut((self.count - 1) % TIMES_MAX) {
                Some(old) => *old = taken_up_ns,
                None => self.taken_up_ns.push(taken_up_ns),
            }
        }
    }

    /// What an ordinary request takes once it is taken up, nanoseconds: the median of `least` or more.
    pub fn taken_up_ns(&self, least: usize) -> Option<u64> {
        let mut all = self.taken_up_ns.clone();
        let middle = all.len() / 2;
        (all.len() >= least).then(|| *all.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_are_examined_and_their_time_is_whole() {
        let request = |at: u64| Answered {
            start_ns: 100 * at,
            received_ns: 100 * at,
            end_ns: 100 * at + 40,
            receiver: 1,
            sender: 1,
        };
        let many: Vec<Answered> = (0..1_000).map(request).collect();
        let mut ordinary = Ordinary::default();
        ordinary.take(&Pieces::default(), &[], &many);
        ordinary.take(&Pieces::default(), &[], &many[..3]);
        ordinary.take(&Pieces::default(), &[], &[]);
        assert_eq!(ordinary.count, 16 + 3);
        assert_eq!(ordinary.taken_up_ns(19), Some(40));
        assert_eq!(ordinary.taken_up_ns(20), None);
        assert_eq!(ordinary.ns, [(Went::Unseen, 19 * 40)].into());
    }
}

//! The order in which replicas start: arms interleaved, so that age, cache warmth and whatever the machine did in
//! the first seconds fall on all arms alike.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// (index of the arm, replica), in the order of starting.
///
/// Rounds: the first round starts replica 0 of every arm, the second replica 1, and so on; within a round the arms
/// are shuffled anew, so that no arm is always the first. The same seed gives the same order on every machine.
pub fn interleaved(arms: usize, replicas: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order = Vec::with_capacity(arms * replicas as usize);
    for replica in 0..replicas {
        let mut round: Vec<usize> = (0..arms).collect();
        round.shuffle(&mut random);
        order.extend(round.into_iter().map(|arm| (arm, replica)));
    }
    order
}

/// The seed that replica `replica` gets for `{seed}`: the same in every arm, so that arms can be compared pairwise,
/// and another one for each replica.
pub fn replica_seed(seed: u64, replica: u32) -> u64 {
    mix(seed ^ mix(u64::from(replica) + 1)) >> 1
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): one number to another, all 64 bits well stirred.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a over several texts, with a separator that no text contains by accident; for names, not for secrets.
pub(crate) fn hash_texts(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let separated = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    for byte in separated {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replica_of_every_arm_starts_once() {
        let mut order = interleaved(5, 4, 7);
        order.sort_unstable();
        let expected: Vec<_> = (0..5)
            .flat_map(|arm| (0..4).map(move |r| (arm, r)))
            .collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn arms_are_interleaved_by_rounds() {
        let order = interleaved(6, 3, 99);
        for (round, chunk) in order.chunks(6).enumerate() {
            assert!(chunk.iter().all(|(_, replica)| *replica as usize == round));
        }
    }

    #[test]
    fn the_seed_decides_the_order_and_nothing_else_does() {
        assert_eq!(interleaved(8, 5, 1), interleaved(8, 5, 1));
        assert_ne!(interleaved(8, 5, 1), interleaved(8, 5, 2));
        // Pinned: a newer generator must not silently change the order of old experiments.
        let first: Vec<usize> = interleaved(5, 1, 1)
            .into_iter()
            .map(|(arm, _)| arm)
            .collect();
        assert_eq!(first, PINNED_SEED_1);
    }

    const PINNED_SEED_1: [usize; 5] = [3, 4, 1, 2, 0];

    #[test]
    fn no_arm_is_always_first() {
        let order = interleaved(4, 40, 3);
        let firsts: std::collections::BTreeSet<_> =
            order.chunks(4).map(|round| round[0].0).collect();
        assert_eq!(firsts.len(), 4);
    }

    #[test]
    fn replica_seeds_differ_by_replica_and_fit_a_signed_number() {
        let seeds: std::collections::BTreeSet<_> = (0..1000).map(|r| replica_seed(42, r)).collect();
        assert_eq!(seeds.len(), 1000);
        assert!(seeds.iter().all(|seed| i64::try_from(*seed).is_ok()));
    }
}

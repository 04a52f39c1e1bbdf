//! Whether so many of a site's older blocks are out of reach that the program cannot hold them.
//!
//! Of a collection that is held a few blocks look lost as well: on their way from one owner to another, or held in a
//! way that is not read. Of what is lost some look held: a stack that nobody wrote over, an allocator's list of what
//! it handed out last still points there. So one rule for few and for many: *lost* is what chance does not make of a
//! collection that is held.

/// Of the blocks of collections that are held, those that look lost at most; how many did is in bench/explain.
const MISSED: f64 = 0.1;

/// So many of the sites that grow most are asked after. What is lost is often one small block that leads to larger ones
/// (a box with its vectors): only to that one nothing points any more. A function that is called from several places
/// makes as many sites of each. A search reads all memory once, however many blocks are asked after.
pub const SITES_ASKED: usize = 32;

/// The chance that of `asked` blocks of a collection that is held so many or more look lost (binomial).
pub fn chance_if_held(lost: usize, asked: usize) -> f64 {
    let odds = MISSED / (1.0 - MISSED);
    let mut exactly = (1.0 - MISSED).powi(asked.min(i32::MAX as usize) as i32);
    let mut fewer = 0.0;
    for count in 0..lost {
        fewer += exactly;
        exactly *= odds * (asked - count.min(asked)) as f64 / (count + 1) as f64;
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_binomial_tail() {
        assert_eq!(chance_if_held(0, 10), 1.0);
        assert!((chance_if_held(4, 4) - 1e-4).abs() < 1e-9);
        assert!((chance_if_held(1, 10) - (1.0 - 0.9f64.powi(10))).abs() < 1e-9);
        assert!((chance_if_held(2, 3) - 0.028).abs() < 1e-9);
        assert!(chance_if_held(15, 48) < 1e-3 && chance_if_held(10, 48) > 1e-2);
    }
}

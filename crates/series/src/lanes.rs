//! Columns side by side, eight in a block, so that one pass over the rows serves all of them: as many as two of a
//! processor's wide registers hold. Written so that the compiler makes one instruction of four lanes; products and
//! sums are not fused, so that every processor says the same.

/// How many columns stand side by side.
pub const LANES: usize = 8;

/// One row of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lanes(pub [f64; LANES]);

impl Lanes {
    #[inline(always)]
    pub fn times(self, by: f64) -> Lanes {
        Lanes(std::array::from_fn(|k| self.0[k] * by))
    }

    #[inline(always)]
    pub fn plus(self, other: Lanes) -> Lanes {
        Lanes(std::array::from_fn(|k| self.0[k] + other.0[k]))
    }

    #[inline(always)]
    pub fn minus(self, other: Lanes) -> Lanes {
        Lanes(std::array::from_fn(|k| self.0[k] - other.0[k]))
    }

    /// Each lane by that of the other.
    #[inline(always)]
    pub fn by(self, other: Lanes) -> Lanes {
        Lanes(std::array::from_fn(|k| self.0[k] * other.0[k]))
    }

    /// The sum of all. Not inlined: the compiler would pair lanes of two sums, and give up the four of each.
    #[inline(never)]
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_its_own() {
        let a = Lanes(std::array::from_fn(|k| k as f64));
        assert_eq!(a.times(2.0), a.plus(a));
        assert_eq!(a.times(3.0).minus(a).0[5], 10.0);
        assert_eq!((a.by(a).0[7], a.sum()), (49.0, 28.0));
    }
}

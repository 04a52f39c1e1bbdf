//! One estimate over another, when all that is known of either is its interval.

use crate::estimate::Estimate;

/// `a` over `b`, two independent positive estimates.
///
/// The interval recovers each side's spread on the logarithmic scale from its own interval (MOVER:
/// Zou and Donner, Statistics in Medicine 27, 2008), so lopsided intervals stay lopsided. Without a
/// width on both sides (one process) the result has none: `lo` and `hi` are the ratio itself.
/// `None` when either is not positive or not finite.
pub fn ratio(a: Estimate, b: Estimate) -> Option<Estimate> {
    let is_usable = |e: Estimate| e.value > 0.0 && e.value.is_finite();
    if !is_usable(a) || !is_usable(b) {
        return None;
    }
    let value = a.value / b.value;
    let has_width = |e: Estimate| e.lo < e.hi;
    if !has_width(a) || !has_width(b) {
        return Some(Estimate {
            value,
            lo: value,
            hi: value,
        });
    }
    // An end at or below zero is as far away as a logarithm can be.
    let below = |e: Estimate| (e.value / e.lo.max(0.0)).ln();
    let above = |e: Estimate| (e.hi / e.value).ln();
    let (down, up) = (below(a).hypot(above(b)), above(a).hypot(below(b)));
    Some(Estimate {
        value,
        lo: value * (-down).exp(),
        hi: value * up.exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, lo: f64, hi: f64) -> Estimate {
        Estimate { value, lo, hi }
    }

    #[test]
    fn the_interval_holds_the_ratio_and_both_spreads() {
        let ratio =
            ratio(estimate(200.0, 180.0, 220.0), estimate(100.0, 90.0, 110.0)).expect("positive");
        assert_eq!(ratio.value, 2.0);
        // On the log scale: ln(200/180) and ln(110/100) down, ln(220/200) and ln(100/90) up.
        let down = (200.0_f64 / 180.0).ln().hypot(1.1_f64.ln());
        assert!((ratio.lo - 2.0 * (-down).exp()).abs() < 1e-12);
        assert!(ratio.lo < 2.0 * 0.9 && ratio.hi > 2.0 * 1.1);
    }

    #[test]
    fn one_process_gives_no_interval() {
        let ratio = ratio(estimate(2.0, 2.0, 2.0), estimate(1.0, 0.9, 1.1)).expect("positive");
        assert_eq!((ratio.lo, ratio.hi), (2.0, 2.0));
    }

    #[test]
    fn an_interval_that_reaches_zero_bounds_nothing() {
        let ratio = ratio(estimate(1.0, -0.5, 2.5), estimate(1.0, 0.9, 1.1)).expect("positive");
        assert_eq!(ratio.lo, 0.0);
        assert!(ratio.hi.is_finite());
    }

    #[test]
    fn nothing_is_said_of_values_that_are_not_positive() {
        assert_eq!(
            ratio(estimate(0.0, 0.0, 1.0), estimate(1.0, 0.5, 1.5)),
            None
        );
        assert_eq!(
            ratio(estimate(f64::NAN, 0.0, 1.0), estimate(1.0, 0.5, 1.5)),
            None
        );
    }
}

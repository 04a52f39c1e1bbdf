//! Random distances between samples, and the weights that undo the sampling. No libm: the probe
//! links none.

/// Steps the generator (SplitMix64: one multiply-xorshift chain, any seed is good).
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mix = *state;
    mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mix ^ (mix >> 31)
}

/// Uniform in (0, 1].
pub fn uniform(state: &mut u64) -> f64 {
    ((random(state) >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A distance in bytes to the next sample, exponential with mean `mean_bytes`; at least 1.
pub fn distance(state: &mut u64, mean_bytes: u64) -> u64 {
    let drawn = -ln(uniform(state)) * mean_bytes as f64;
    (drawn as u64).max(1)
}

/// Probability that an allocation of `bytes` is sampled at mean `mean_bytes`: `1 -
/// exp(-bytes/mean)`.
pub fn probability(bytes: u64, mean_bytes: u64) -> f64 {
    let ratio = bytes as f64 / mean_bytes.max(1) as f64;
    if ratio < 1e-3 {
        // The series keeps the digits that 1 - exp() would cancel.
        return ratio * (1.0 - ratio / 2.0 * (1.0 - ratio / 3.0));
    }
    1.0 - exp(-ratio)
}

/// (blocks, bytes) that one sample of `bytes` stands for.
pub fn weight(bytes: u64, mean_bytes: u64) -> (f64, f64) {
    let chance = probability(bytes.max(1), mean_bytes);
    (1.0 / chance, bytes as f64 / chance)
}

/// Natural logarithm of a number in (0, 1]; relative error below 1e-11.
fn ln(value: f64) -> f64 {
    let bits = value.to_bits();
    let mut exponent = ((bits >> 52) as i64) - 1023;
    let mut mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52));
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln(m) = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.1716: nine odd terms reach 1e-15.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for odd in (0..9).rev() {
        sum = sum * square + 1.0 / (2 * odd + 1) as f64;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * sum
}

/// `exp` of a number that is not above 0.
fn exp(value: f64) -> f64 {
    if value < -700.0 {
        return 0.0;
    }
    let twos = (value * core::f64::consts::LOG2_E - 0.5) as i64;
    let rest = value - twos as f64 * core::f64::consts::LN_2;
    let mut sum = 1.0;
    for term in (1..14).rev() {
        sum = 1.0 + sum * rest / term as f64;
    }
    sum * f64::from_bits(((1023 + twos) as u64) << 52)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn ln_and_exp_agree_with_the_library() {
        let mut state = 1;
        for _ in 0..100_000 {
            let value = uniform(&mut state);
            assert!(
                (ln(value) - value.ln()).abs() <= 1e-12 * value.ln().abs().max(1.0),
                "{value}"
            );
            let power = -value * 50.0;
            assert!((exp(power) / power.exp() - 1.0).abs() < 1e-12, "{power}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn distances_have_the_mean_and_the_variance_of_an_exponential() {
        let (mut state, count, mean) = (7, 200_000, 65_536.0);
        let drawn: Vec<f64> = (0..count)
            .map(|_| distance(&mut state, 65_536) as f64)
            .collect();
        let average = drawn.iter().sum::<f64>() / count as f64;
        let variance = drawn.iter().map(|d| (d - average).powi(2)).sum::<f64>() / count as f64;
        // Standard error of the mean is 0.22 %, of the variance 0.6 %: four of each.
        assert!((average / mean - 1.0).abs() < 0.01, "{average}");
        assert!((variance / (mean * mean) - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn weights_of_small_and_large() {
        let (blocks, bytes) = weight(16, 1 << 20);
        assert!(
            (bytes / (1 << 20) as f64 - 1.0).abs() < 1e-4 && (blocks * 16.0 - bytes).abs() < 1e-6
        );
        let (blocks, bytes) = weight(1 << 30, 1 << 20);
        assert_eq!((blocks, bytes), (1.0, (1 << 30) as f64));
        assert!(weight(0, 512).1 == 0.0);
    }
}

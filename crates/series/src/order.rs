//! Order statistics: medians and quantiles that ignore nothing and never panic.

/// The value that stands at `index` when `values` are in order; reorders the slice, for less than sorting it.
pub fn nth(values: &mut [f64], index: usize) -> f64 {
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

/// The `q` quantile (0..=1) of `values`, with linear interpolation; reorders the slice. NaN when empty.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let place = q.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let (_, below, higher) = values.select_nth_unstable_by(place as usize, f64::total_cmp);
    let above = higher.iter().copied().min_by(f64::total_cmp);
    *below + (above.unwrap_or(*below) - *below) * place.fract()
}

/// The median of a copy of `values`. NaN when empty.
pub fn median(values: &[f64]) -> f64 {
    quantile(&mut values.to_vec(), 0.5)
}

/// Mean of the middle half of `values`; sorts the slice, since the last digit of a sum depends on its order. As safe as
/// the median from one stray reading in four, and of normal noise a tenth to a sixth quieter. Of three and fewer, the
/// median. NaN when empty.
pub fn midmean(values: &mut [f64]) -> f64 {
    if values.len() < 4 {
        return quantile(values, 0.5);
    }
    values.sort_unstable_by(f64::total_cmp);
    let cut = 0.25 * values.len() as f64;
    let whole = cut as usize;
    let inner = &values[whole..values.len() - whole];
    let ends = inner[0] + inner[inner.len() - 1];
    let sum = inner.iter().sum::<f64>() - cut.fract() * ends;
    sum / (values.len() as f64 - 2.0 * cut)
}

/// Median absolute deviation, scaled to the standard deviation of a normal (1.4826). NaN when empty.
pub fn mad(values: &[f64]) -> f64 {
    let centre = median(values);
    let mut away: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    1.4826 * quantile(&mut away, 0.5)
}

/// Mean, and the sample standard deviation (0 for fewer than two values).
pub fn mean_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (f64::NAN, 0.0);
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let mut v = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&mut v, 0.5), 2.5);
        assert_eq!(quantile(&mut v, 1.0), 4.0);
        assert_eq!(midmean(&mut [9.0, 1.0, 3.0, 2.0]), 2.5);
        let of_five = (3.0 + 0.75 * (2.0 + 4.0)) / 2.5;
        assert!((midmean(&mut [2.0, 90.0, 4.0, 1.0, 3.0]) - of_five).abs() < 1e-12);
        assert!(quantile(&mut [], 0.5).is_nan());
        assert_eq!(nth(&mut [3.0, 1.0, 2.0], 0), 1.0);
        assert!((mad(&[1.0, 2.0, 3.0, 4.0, 100.0]) - 1.4826).abs() < 1e-12);
    }
}

//! The rules that people use, for comparison.

use series::series::Series;
use verdict::Label;

type Rule = fn(&[(f64, f64)]) -> Label;

pub const RULES: [(&str, Rule); 6] = [
    ("last over first > 1.1", last_over_first),
    ("last fifth over first fifth > 1.03", fifths),
    ("OLS slope, p < 0.05", ols),
    ("Mann-Kendall, p < 0.05", mann_kendall),
    ("Mann-Kendall, Hamed-Rao", hamed_rao),
    ("watch a day, then last over first", watch_a_day),
];

fn label(grows: bool) -> Label {
    if grows { Label::Growing } else { Label::Flat }
}

pub fn points(series: &Series) -> Vec<(f64, f64)> {
    let read = series.points.iter().filter(|p| p.value > 0.0);
    let mut p: Vec<(f64, f64)> = read.map(|p| (p.t_s, p.value)).collect();
    p.sort_by(|a, b| a.0.total_cmp(&b.0));
    p
}

fn last_over_first(p: &[(f64, f64)]) -> Label {
    match (p.first(), p.last()) {
        (Some(a), Some(b)) => label(b.1 > 1.1 * a.1),
        _ => Label::Insufficient,
    }
}

fn fifths(p: &[(f64, f64)]) -> Label {
    let k = (p.len() / 5).max(1);
    let mean = |s: &[(f64, f64)]| s.iter().map(|v| v.1).sum::<f64>() / s.len().max(1) as f64;
    label(mean(&p[p.len() - k.min(p.len())..]) > 1.03 * mean(&p[..k.min(p.len())]))
}

fn ols(p: &[(f64, f64)]) -> Label {
    let n = p.len() as f64;
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| p.iter().map(f).sum::<f64>();
    let (mt, my) = (sum(&|v| v.0) / n, sum(&|v| v.1) / n);
    let tt = sum(&|v| (v.0 - mt).powi(2));
    let ty = sum(&|v| (v.0 - mt) * (v.1 - my));
    let yy = sum(&|v| (v.1 - my).powi(2));
    let slope = ty / tt;
    let se = ((yy - slope * ty).max(0.0) / (n - 2.0) / tt).sqrt();
    label(slope > 1.96 * se)
}

/// Thinned to at most 200 samples: the sum is over pairs.
fn kendall(p: &[(f64, f64)]) -> (Vec<f64>, f64, f64) {
    let thin: Vec<f64> = p.iter().step_by(p.len() / 200 + 1).map(|v| v.1).collect();
    let mut s = 0.0;
    for i in 0..thin.len() {
        for j in i + 1..thin.len() {
            s += (thin[j] - thin[i])
                .partial_cmp(&0.0)
                .map_or(0.0, |o| f64::from(o as i8));
        }
    }
    let n = thin.len() as f64;
    (thin, s, n * (n - 1.0) * (2.0 * n + 5.0) / 18.0)
}

fn mann_kendall(p: &[(f64, f64)]) -> Label {
    let (_, s, variance) = kendall(p);
    label(s > 1.96 * variance.sqrt())
}

/// Variance corrected by the autocorrelation of the ranks of the detrended series.
fn hamed_rao(p: &[(f64, f64)]) -> Label {
    let (y, s, variance) = kendall(p);
    let n = y.len();
    if n < 10 {
        return Label::Insufficient;
    }
    let mut slopes: Vec<f64> = Vec::new();
    for i in 0..n {
        slopes.extend((i + 1..n).map(|j| (y[j] - y[i]) / (j - i) as f64));
    }
    slopes.sort_by(f64::total_cmp);
    let slope = slopes[slopes.len() / 2];
    let rest: Vec<f64> = (0..n).map(|i| y[i] - slope * i as f64).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| rest[*a].total_cmp(&rest[*b]));
    let mut rank = vec![0.0; n];
    for (r, i) in order.iter().enumerate() {
        rank[*i] = r as f64 - (n - 1) as f64 / 2.0;
    }
    let power: f64 = rank.iter().map(|r| r * r).sum();
    let m = n as f64;
    let mut sum = 0.0;
    for lag in 1..n - 2 {
        let r = (0..n - lag).map(|i| rank[i] * rank[i + lag]).sum::<f64>() / power;
        let l = lag as f64;
        if r.abs() > 1.96 / m.sqrt() {
            sum += (m - l) * (m - l - 1.0) * (m - l - 2.0) * r;
        }
    }
    let factor = (1.0 + 2.0 / (m * (m - 1.0) * (m - 2.0)) * sum).max(0.05);
    label(s > 1.96 * (variance * factor).sqrt())
}

fn watch_a_day(p: &[(f64, f64)]) -> Label {
    let Some(first) = p.first() else {
        return Label::Insufficient;
    };
    let end = p.partition_point(|v| v.0 <= first.0 + 86_400.0);
    last_over_first(&p[..end])
}

//! Pages that are counted as resident and need not be: MADV_FREE pages that wait to be reclaimed
//! (LazyFree), and huge pages around small objects (THP).

use super::{AuditInput, Check, Finding, ProcessFacts, Severity};
use crate::analyse::order::median;
use crate::analyse::series::Point;

/// A ratio of arms that changes by this share when the pages are left out is explained by them in part.
const MOVED: f64 = 0.08;

/// Mean over the last fifth.
fn tail(series: &[Point]) -> Option<f64> {
    let n = series.len();
    let last = &series[n - n.div_ceil(5)..];
    (n > 0).then(|| last.iter().map(|p| p.value).sum::<f64>() / last.len() as f64)
}

/// Median over processes of RSS and of the pages in question.
fn levels(ps: &[&ProcessFacts], of: fn(&ProcessFacts) -> &Vec<Point>) -> Option<(f64, f64)> {
    let each: Vec<(f64, f64)> = ps
        .iter()
        .filter_map(|p| Some((tail(&p.rss)?, tail(of(p))?)))
        .collect();
    let pick = |f: fn(&(f64, f64)) -> f64| median(&each.iter().map(f).collect::<Vec<_>>());
    (!each.is_empty()).then(|| (pick(|e| e.0), pick(|e| e.1)))
}

/// Pairs of arms whose difference shrinks when LazyFree, or THP, is left out.
pub fn explained(input: &AuditInput) -> Vec<Finding> {
    let arms = input.by_arm();
    let mut found = Vec::new();
    for (i, (a, ps)) in arms.iter().enumerate() {
        for (b, qs) in &arms[i + 1..] {
            for (check, of) in [
                (
                    Check::LazyFree,
                    (|p| &p.lazy_free) as fn(&ProcessFacts) -> &Vec<Point>,
                ),
                (Check::HugePages, |p| &p.huge_pages),
            ] {
                if let (Some(x), Some(y)) = (levels(ps, of), levels(qs, of)) {
                    found.extend(pair((*a, x), (*b, y), check));
                }
            }
        }
    }
    found
}

fn pair(a: (&str, (f64, f64)), b: (&str, (f64, f64)), check: Check) -> Option<Finding> {
    let with = a.1.0 / b.1.0;
    let without = (a.1.0 - a.1.1) / (b.1.0 - b.1.1);
    let shrinks = with.ln().abs() > without.ln().abs() + MOVED;
    if !shrinks || !without.is_finite() || without <= 0.0 {
        return None;
    }
    let (name, why) = match check {
        Check::LazyFree => (
            "LazyFree",
            "free pages that the kernel has not yet taken back",
        ),
        _ => ("huge pages", "huge pages around small objects"),
    };
    Some(Finding {
        check,
        severity: Severity::Weakens,
        arms: vec![a.0.to_owned(), b.0.to_owned()],
        processes: Vec::new(),
        since_s: None,
        what: format!(
            "{} is {with:.2} times {}; without {name} it is {without:.2} times",
            a.0, b.0
        ),
        effect: format!("part of the difference is {why}"),
        still: format!("both ratios are shown: with and without {name}"),
    })
}

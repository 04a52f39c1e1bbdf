//! Pages that are counted as resident and need not be: MADV_FREE pages that wait to be reclaimed
//! (LazyFree), and huge pages around small objects (THP).

use super::{AuditInput, Check, Finding, ProcessFacts, Severity};
use series::order::median;
use series::series::Point;

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

/// An arm whose ratio to the holder of the pages is another one without them.
struct Moved<'a> {
    other: &'a str,
    /// The other's level over the holder's, with all pages and without those in question.
    with: f64,
    without: f64,
}

/// Arms whose differences to others shrink when LazyFree, or THP, is left out: one finding for each arm that has
/// the pages, with all that it is compared with.
pub fn explained(input: &AuditInput) -> Vec<Finding> {
    let arms = input.by_arm();
    let mut found = Vec::new();
    for (check, of) in [
        (
            Check::LazyFree,
            (|p| &p.lazy_free) as fn(&ProcessFacts) -> &Vec<Point>,
        ),
        (Check::HugePages, |p| &p.huge_pages),
    ] {
        let levels: Vec<_> = arms
            .iter()
            .filter_map(|(arm, ps)| Some((*arm, levels(ps, of)?)))
            .collect();
        for holder in &levels {
            let others = levels.iter().filter(|other| other.0 != holder.0);
            let moved: Vec<Moved> = others.filter_map(|other| moved(holder, other)).collect();
            found.extend((!moved.is_empty()).then(|| finding(holder.0, &moved, check)));
        }
    }
    found
}

/// The holder is the one of the two with the larger share of such pages.
fn moved<'a>(holder: &(&str, (f64, f64)), other: &(&'a str, (f64, f64))) -> Option<Moved<'a>> {
    let ((all, pages), (other_all, other_pages)) = (holder.1, other.1);
    let (with, without) = (other_all / all, (other_all - other_pages) / (all - pages));
    let shrinks = with.ln().abs() > without.ln().abs() + MOVED;
    let holds = pages / all > other_pages / other_all;
    (holds && shrinks && without.is_finite() && without > 0.0).then_some(Moved {
        other: other.0,
        with,
        without,
    })
}

fn finding(holder: &str, moved: &[Moved], check: Check) -> Finding {
    let (name, why) = match check {
        Check::LazyFree => (
            "LazyFree",
            "free pages that the kernel has not yet reclaimed",
        ),
        _ => ("huge pages", "huge pages around small objects"),
    };
    let what = match moved {
        [one] => format!(
            "{} is {:.2} times {holder}; without {name} it is {:.2} times",
            one.other, one.with, one.without
        ),
        _ => {
            let each = |m: &Moved| format!("{} {:.2} and {:.2}", m.other, m.with, m.without);
            let each: Vec<String> = moved.iter().map(each).collect();
            format!(
                "times what {holder} has, with and without {name}: {}",
                each.join(", ")
            )
        }
    };
    let others = moved.iter().map(|m| m.other.to_owned());
    Finding {
        check,
        severity: Severity::Weakens,
        arms: std::iter::once(holder.to_owned()).chain(others).collect(),
        processes: Vec::new(),
        since_s: None,
        what,
        effect: format!("part of the difference is {why}"),
        still: format!("both ratios are shown: with and without {name}"),
    }
}

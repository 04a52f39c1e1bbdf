//! Whether the arms did the same work.

use super::{AuditInput, Check, Finding, ProcessFacts, Severity};
use series::order::{mad, median};
use series::series::Point;

/// Work of an arm that differs by this share from the median arm is unequal.
const REQUESTS_SHARE: f64 = 0.15;
/// CPU differs between allocators at equal work, up to twice (measured on relays): only more is a finding.
const CPU_TIMES: f64 = 2.2;
/// Below this share of a core CPU time says nothing of the load: it is the snapshot's own noise.
const CPU_FLOOR: f64 = 0.01;
/// A difference must also be this many standard errors of the arm's median.
const ERRORS: f64 = 4.0;

/// Rate of a counter that may be reset by restarts: increases only.
fn rate(counter: &[Point]) -> Option<f64> {
    let (first, last) = (counter.first()?, counter.last()?);
    let up: f64 = counter
        .windows(2)
        .map(|w| (w[1].value - w[0].value).max(0.0))
        .sum();
    (last.t_s > first.t_s).then(|| up / (last.t_s - first.t_s))
}

/// Arms whose requests, or (where requests are unknown) CPU, differ from the others.
pub fn unequal(input: &AuditInput) -> Vec<Finding> {
    let requests = by(input, |p| &p.requests);
    if requests.len() >= 2 {
        return differing(
            &requests,
            1.0 + REQUESTS_SHARE,
            "requests",
            Severity::Refuses,
        );
    }
    let mut cpu = by(input, |p| &p.cpu_s);
    cpu.retain(|(_, rates)| median(rates) > CPU_FLOOR);
    differing(&cpu, CPU_TIMES, "CPU time", Severity::Weakens)
}

type Rates<'a> = Vec<(&'a str, Vec<f64>)>;

fn by(input: &AuditInput, of: fn(&ProcessFacts) -> &Vec<Point>) -> Rates<'_> {
    input
        .by_arm()
        .into_iter()
        .map(|(arm, ps)| {
            (
                arm,
                ps.iter().filter_map(|p| rate(of(p))).collect::<Vec<f64>>(),
            )
        })
        .filter(|(_, rates)| !rates.is_empty())
        .collect()
}

fn differing(rates: &Rates, times: f64, what: &str, severity: Severity) -> Vec<Finding> {
    if rates.len() < 2 {
        return Vec::new();
    }
    let centre = median(&rates.iter().map(|(_, r)| median(r)).collect::<Vec<_>>());
    rates
        .iter()
        .filter_map(|(arm, each)| {
            let own = median(each);
            let error = mad(each) / (each.len() as f64).sqrt();
            let far = own > times * centre || own * times < centre;
            let sure = (own - centre).abs() > ERRORS * error;
            (far && sure && centre > 0.0).then(|| finding(arm, own / centre, what, severity))
        })
        .collect()
}

fn finding(arm: &str, times: f64, what: &str, severity: Severity) -> Finding {
    Finding {
        check: Check::Load,
        severity,
        arms: vec![arm.to_owned()],
        processes: Vec::new(),
        since_s: None,
        what: format!("{arm} had {times:.2} times the {what} of the median arm"),
        effect: "memory follows load: a difference between arms may be the load's".to_owned(),
        still: "each arm's own growth can be classified; ratios to other arms cannot".to_owned(),
    }
}

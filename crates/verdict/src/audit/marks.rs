//! Units, held against the high-water marks: a resident set touches its mark at every new peak and never passes it.
//! One whose highest share of the mark is the ratio of two units is told in another unit than its name says.

use super::readings::finding;
use super::{AuditInput, Check, Finding, ProcessFacts, Severity};

/// What is said, what is meant, and the readings as a share of what they would be.
const UNITS: [(&str, &str, f64); 3] = [
    ("kB", "KiB", 1e3 / 1024.0),
    ("MB", "MiB", 1e6 / 1_048_576.0),
    ("GB", "GiB", 1e9 / 1_073_741_824.0),
];
/// How near the ratio must come, as a share: a sixth of what lies between kB and KiB.
const NEAR: f64 = 0.004;
/// So many processes of an arm must agree, as a share; and so many of the experiment.
const AGREE: f64 = 0.8;
const PROCESSES_MIN: usize = 3;

/// Of each arm the highest share of its mark that every process reached.
type Shares<'a> = Vec<(&'a str, Vec<f64>)>;

/// Arms whose readings are in another unit than their marks by the ratio of 1000 to 1024, or a power of it.
pub fn misread(input: &AuditInput) -> Vec<Finding> {
    let arms = input.by_arm().into_iter();
    let shares = |ps: Vec<&ProcessFacts>| ps.into_iter().filter_map(highest).collect();
    let arms: Shares = arms.map(|(arm, ps)| (arm, shares(ps))).collect();
    let found = UNITS.iter().flat_map(|(decimal, binary, ratio)| {
        let small = of_unit(&arms, (decimal, binary), *ratio);
        let large = of_unit(&arms, (binary, decimal), 1.0 / ratio);
        small.into_iter().chain(large)
    });
    found.collect()
}

fn of_unit(arms: &Shares, (said, meant): (&str, &str), ratio: f64) -> Option<Finding> {
    let fits = |share: &&f64| (**share / ratio).ln().abs() < NEAR;
    let (mut odd, mut count) = (Vec::new(), 0);
    for (arm, shares) in arms {
        let of = shares.iter().filter(fits).count();
        if of > 0 && of as f64 >= AGREE * shares.len() as f64 {
            odd.push((*arm).to_owned());
            count += of;
        }
    }
    if count < PROCESSES_MIN {
        return None;
    }
    let whole = odd.len() == arms.len();
    let mut f = finding(
        Check::Units,
        if whole {
            Severity::Note
        } else {
            Severity::Weakens
        },
        format!(
            "the resident set of {count} processes of {} is {ratio:.3} times its high-water mark at its highest: \
             one of the two is labelled {said}, {meant} is meant",
            odd.join(", ")
        ),
        None,
        "sizes are wrong by the ratio of the units",
        if whole {
            "ratios between arms are not touched"
        } else {
            "their growth as a share; a ratio to the other arms is off by that much"
        },
    );
    f.arms = odd;
    Some(f)
}

/// The highest share of its mark that the resident set reaches; `None` where they were never read together.
fn highest(p: &ProcessFacts) -> Option<f64> {
    let mut marks = p.hwm.iter().peekable();
    let mut high: Option<f64> = None;
    for reading in &p.rss {
        while marks.next_if(|mark| mark.t_s < reading.t_s).is_some() {}
        let mark = marks
            .peek()
            .filter(|mark| mark.t_s == reading.t_s && mark.value > 0.0);
        if let Some(mark) = mark {
            let share = reading.value / mark.value;
            high = Some(high.map_or(share, |h| h.max(share)));
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::series::Point;

    /// A climb with a rest: readings, and marks of `times` the readings' unit.
    fn process(arm: &str, at: usize, times: f64) -> ProcessFacts {
        let value = |i: u32| (1e8 + 1e6 * f64::from(i.min(30))) * (1.0 + 0.1 * at as f64);
        let series = |times: f64| -> Vec<Point> {
            let point = |i| Point {
                t_s: f64::from(i),
                value: times * value(i),
            };
            (0..50).map(point).collect()
        };
        ProcessFacts {
            id: format!("{arm}-{at}"),
            arms: vec![(0.0, arm.to_owned())],
            rss: series(1.0),
            hwm: series(times),
            ..ProcessFacts::default()
        }
    }

    fn found(times: [f64; 2]) -> Vec<Finding> {
        let arms = ["a", "b"].into_iter().zip(times);
        let processes = arms.flat_map(|(arm, times)| (0..3).map(move |at| process(arm, at, times)));
        misread(&AuditInput {
            processes: processes.collect(),
            ..AuditInput::default()
        })
    }

    #[test]
    fn marks_that_are_never_reached_or_passed_by_the_ratio_of_two_units() {
        let all = found([1.048_576, 1.048_576]);
        assert_eq!((all.len(), all[0].severity), (1, Severity::Note));
        assert!(all[0].what.contains("labelled MB") && all[0].what.contains("MiB is meant"));
        let one = found([1.0, 1.0 / 1.073_741_824]);
        assert_eq!((one.len(), one[0].severity), (1, Severity::Weakens));
        assert_eq!(one[0].arms, ["b"]);
        assert!(one[0].what.contains("labelled GiB"), "{}", one[0].what);
        for clean in [[1.0, 1.0], [1.01, 1.0], [1.06, 1.09], [0.99, 1.0]] {
            assert_eq!(found(clean), [], "{clean:?}");
        }
    }
}

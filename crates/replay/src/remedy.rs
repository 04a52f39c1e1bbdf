//! Each arm as a remedy: its memory with an interval, its cost, and whether it differs from staying as it is.

use serde::Serialize;

use crate::forecast::{Forecast, Range, alike};

/// What an interval has beyond the range of the repeats, as a share. It was chosen on 21 arms, of which 19 had their
/// mean inside, and 19 their end (bench/results/2026-11-27-replay.md); then it held the means of 31 of 32 arms of
/// eight other programs (bench/results/2026-11-28-predictions.md).
pub const INTERVAL_SHARE: f64 = 0.10;
/// And at least so much: below it, the replayer and its samples count.
const INTERVAL_BYTES_MIN: f64 = 1_048_576.0;

/// A predicted value, and where a measurement of the real program is expected to be. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub lo: f64,
    pub hi: f64,
}

impl Interval {
    /// The range of the repeats, widened by what predictions were off by.
    pub fn of(range: Range) -> Interval {
        let more = |bytes: f64| (bytes * INTERVAL_SHARE).max(INTERVAL_BYTES_MIN);
        Interval {
            value: range.median,
            lo: (range.min - more(range.min)).max(0.0),
            hi: range.max + more(range.max),
        }
    }
}

/// How an arm stands to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// It is what was recorded.
    Today,
    Less,
    More,
    /// Not distinguishable.
    Same,
    /// The recorded arm has no forecast.
    Unknown,
}

impl Against {
    /// As in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Against::Today => "today",
            Against::Less => "less",
            Against::More => "more",
            Against::Same => "same",
            Against::Unknown => "-",
        }
    }
}

/// An arm to be ranked: its place in the caller's list, and what is predicted of it.
#[derive(Clone, Copy, Debug)]
pub struct Tried<'a> {
    pub index: usize,
    pub is_recorded: bool,
    pub forecast: &'a Forecast,
}

/// What an arm would do. The ratios are to the recorded arm; `None` without one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// Place of the arm in the caller's list.
    pub index: usize,
    pub mean_bytes: Interval,
    pub end_bytes: Interval,
    pub against: Against,
    pub mean_ratio: Option<f64>,
    pub faults_ratio: Option<f64>,
    /// Of the CPU time that the allocator takes, kernel and faults with it.
    pub cpu_ratio: Option<f64>,
    /// It cannot be told apart from the best by its memory.
    pub is_like_best: bool,
}

/// All arms, the least mean memory first.
pub fn ranked(tried: &[Tried<'_>]) -> Vec<Remedy> {
    let recorded = tried.iter().find(|one| one.is_recorded);
    let mean = |one: &&Tried<'_>| one.forecast.mean_bytes.median;
    let best = tried.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let mut all: Vec<Remedy> = tried
        .iter()
        .map(|one| Remedy {
            is_like_best: best.is_some_and(|best| alike(best.forecast, one.forecast)),
            ..remedy(one, recorded)
        })
        .collect();
    all.sort_by(|a, b| a.mean_bytes.value.total_cmp(&b.mean_bytes.value));
    all
}

fn remedy(one: &Tried<'_>, recorded: Option<&Tried<'_>>) -> Remedy {
    let own = one.forecast;
    let ratio = |of: fn(&Forecast) -> f64| {
        let base = of(recorded?.forecast);
        (base > 0.0).then(|| of(own) / base)
    };
    Remedy {
        index: one.index,
        mean_bytes: Interval::of(own.mean_bytes),
        end_bytes: Interval::of(own.end_bytes),
        against: against(one, recorded),
        mean_ratio: ratio(|f| f.mean_bytes.median),
        faults_ratio: ratio(|f| f.minor_faults.median),
        cpu_ratio: ratio(|f| f.user_ns.median + f.system_ns.median),
        is_like_best: false,
    }
}

fn against(one: &Tried<'_>, recorded: Option<&Tried<'_>>) -> Against {
    let Some(recorded) = recorded else {
        return Against::Unknown;
    };
    let (own, base) = (one.forecast, recorded.forecast);
    if one.is_recorded {
        Against::Today
    } else if alike(own, base) {
        Against::Same
    } else if own.mean_bytes.median < base.mean_bytes.median {
        Against::Less
    } else {
        Against::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn forecast(mean_mib: f64, spread_mib: f64, faults: f64) -> Forecast {
        let range = |value: f64, spread: f64| Range {
            median: value,
            min: value - spread,
            max: value + spread,
        };
        Forecast {
            mean_bytes: range(mean_mib * MIB, spread_mib * MIB),
            end_bytes: range(mean_mib * MIB, spread_mib * MIB),
            peak_bytes: range(mean_mib * MIB, spread_mib * MIB),
            minor_faults: range(faults, 0.0),
            user_ns: range(2e9, 0.0),
            system_ns: range(1e9, 0.0),
            wall_ns: range(3e9, 0.0),
            base_bytes: 0,
            reads_clock: true,
            failed: 0,
        }
    }

    fn ranked_of(all: &[(bool, Forecast)]) -> Vec<Remedy> {
        let tried = all
            .iter()
            .enumerate()
            .map(|(index, (is_recorded, forecast))| Tried {
                index,
                is_recorded: *is_recorded,
                forecast,
            });
        ranked(&tried.collect::<Vec<_>>())
    }

    #[test]
    fn the_least_memory_comes_first_and_chance_is_no_difference() {
        let remedies = ranked_of(&[
            (true, forecast(100.0, 1.0, 1000.0)),
            (false, forecast(97.0, 0.0, 1000.0)),
            (false, forecast(60.0, 0.0, 4000.0)),
            (false, forecast(62.0, 0.0, 1000.0)),
            (false, forecast(150.0, 60.0, 1000.0)),
            (false, forecast(180.0, 1.0, 500.0)),
        ]);
        let told: Vec<_> = remedies.iter().map(|r| (r.index, r.against)).collect();
        let expected = [
            (2, Against::Less),
            (3, Against::Less),
            (1, Against::Same),
            (0, Against::Today),
            (4, Against::Same),
            (5, Against::More),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            (remedies[0].mean_ratio, remedies[0].faults_ratio),
            (Some(0.6), Some(4.0))
        );
        let like: Vec<bool> = remedies.iter().map(|r| r.is_like_best).collect();
        assert_eq!(like, [true, true, false, false, false, false]);
    }

    #[test]
    fn an_interval_is_wider_than_the_repeats() {
        let range = |median, min, max| Range { median, min, max };
        let wide = Interval::of(range(100.0 * MIB, 90.0 * MIB, 110.0 * MIB));
        assert_eq!((wide.lo, wide.hi), (81.0 * MIB, 121.0 * MIB));
        let small = Interval::of(range(0.5 * MIB, 0.5 * MIB, 0.5 * MIB));
        assert_eq!((small.lo, small.hi), (0.0, 1.5 * MIB));
    }

    #[test]
    fn without_the_recorded_arm_nothing_is_compared() {
        let remedies = ranked_of(&[(false, forecast(10.0, 0.0, 1.0))]);
        assert_eq!(
            (remedies[0].against, remedies[0].cpu_ratio),
            (Against::Unknown, None)
        );
    }
}

//! Which of several things that were varied together moves the memory, and the CPU.
//!
//! In: the verdicts and costs of arms that carry levels of factors. Out: [`FactorEffects`], with names. Called by:
//! [`super::judge`], and by `replay --factors` for what replays measured.

use std::collections::BTreeMap;

use experiment::file::Arm;
use observe::metric;
use observe::metric::Metric;
use record::run::{Process, Run};
use serde::{Deserialize, Serialize};
use series::arms::subjects;
use series::estimate::Estimate;
use series::factorial::{Effects, Observation, Unclear, effects};
use series::replicas::replica_rate;

use super::ArmRow;
use crate::arm::ArmVerdict;

const CONFIDENCE: f64 = 0.95;

/// The effects on one quantity. Shares are of what differs between the processes, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct FactorEffects {
    /// "memory", "CPU".
    pub of: String,
    pub factors: Vec<Factor>,
    /// Levels that together do something else than each alone; looked for where every combination was run twice.
    pub interactions: Vec<Interaction>,
    pub pairs: Vec<Pair>,
    /// What no factor and no pair explains, of what differs between combinations.
    pub together_share: f64,
    /// What processes of one combination differ by; `None` without repeats.
    pub within_share: Option<f64>,
    /// Combinations of levels that were run, and that there are.
    pub combinations: usize,
    pub combinations_all: usize,
    /// Arms that ended early: their values are not compared.
    pub left_out: Vec<String>,
    /// Why there are no effects; empty where there are.
    pub why: String,
}

/// One factor, the effects of its levels against its reference, averaged over the other factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    pub name: String,
    pub reference: String,
    /// Of what differs between the processes, the share that this factor explains alone.
    pub share: f64,
    /// (level, times the reference).
    pub levels: Vec<(String, Estimate)>,
}

/// Two factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub first: String,
    pub second: String,
    /// The share that only both together explain.
    pub share: f64,
}

/// Two levels, each with its factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    pub first: (String, String),
    pub second: (String, String),
    /// Both together, in times of what the two alone would give.
    pub ratio: Estimate,
}

/// Names of factors and levels, in the order in which the arms bring them: the first arm has each reference.
struct Names<'a> {
    factors: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> Names<'a> {
    fn of(arms: &'a [Arm]) -> Names<'a> {
        let mut names = Names {
            factors: Vec::new(),
        };
        for (factor, level) in arms.iter().flat_map(|arm| &arm.levels) {
            let at = names.factors.iter().position(|known| known.0 == factor);
            let at = at.unwrap_or_else(|| {
                names.factors.push((factor, Vec::new()));
                names.factors.len() - 1
            });
            let levels = &mut names.factors[at].1;
            if !levels.contains(&level.as_str()) {
                levels.push(level);
            }
        }
        names
    }

    fn counts(&self) -> Vec<usize> {
        self.factors
            .iter()
            .map(|(_, levels)| levels.len())
            .collect()
    }

    /// Numbers of an arm's levels; `None`: it lacks a factor.
    fn numbers(&self, arm: &Arm) -> Option<Vec<usize>> {
        let number = |(factor, levels): &(&str, Vec<&str>)| {
            let own = arm.levels.iter().find(|(name, _)| name == factor)?;
            levels.iter().position(|level| *level == own.1)
        };
        self.factors.iter().map(number).collect()
    }

    fn words(&self, unclear: Unclear) -> String {
        match unclear {
            Unclear::Level(factor, level) => {
                let (factor, level) = self.level((factor, level));
                format!("nothing was measured of level {level} of factor {factor}")
            }
            Unclear::TooFew => {
                "too few measurements for so many levels: more replicas, or more arms".to_owned()
            }
            Unclear::Value => "a measured value is 0".to_owned(),
        }
    }

    fn level(&self, (factor, level): (usize, usize)) -> (String, String) {
        let (name, levels) = &self.factors[factor];
        ((*name).to_owned(), levels[level].to_owned())
    }
}

/// Effects on a quantity; `values` gives those of an arm, one for each repeat. `None`: the arms have no factors.
pub fn of_values(
    of: &str,
    arms: &[Arm],
    values: impl Fn(&str) -> Vec<f64>,
) -> Option<FactorEffects> {
    let names = Names::of(arms);
    let counts = names.counts();
    if counts.is_empty() || counts.iter().any(|count| *count < 2) {
        return None;
    }
    let observations: Vec<Observation> = arms
        .iter()
        .filter_map(|arm| Some((arm, names.numbers(arm)?)))
        .flat_map(|(arm, levels)| {
            let one = move |value| Observation {
                levels: levels.clone(),
                value,
            };
            values(&arm.name).into_iter().map(one)
        })
        .collect();
    Some(match effects(&counts, &observations, CONFIDENCE) {
        Ok(found) => named(of, &names, &found),
        Err(unclear) => FactorEffects {
            of: of.to_owned(),
            combinations_all: counts.iter().product(),
            why: names.words(unclear),
            ..FactorEffects::default()
        },
    })
}

fn named(of: &str, names: &Names, found: &Effects) -> FactorEffects {
    let factor = |(at, (name, levels)): (usize, &(&str, Vec<&str>))| {
        let own = found.effects.iter().filter(|effect| effect.factor == at);
        Factor {
            name: (*name).to_owned(),
            reference: levels[0].to_owned(),
            share: found.shares.get(at).copied().unwrap_or(0.0),
            levels: own
                .map(|effect| (levels[effect.level].to_owned(), effect.ratio))
                .collect(),
        }
    };
    let name = |at: usize| names.factors[at].0.to_owned();
    let pairs = found.pair_shares.iter().map(|((a, b), share)| Pair {
        first: name(*a),
        second: name(*b),
        share: *share,
    });
    let interactions = found.interactions.iter().map(|one| Interaction {
        first: names.level(one.first),
        second: names.level(one.second),
        ratio: one.ratio,
    });
    FactorEffects {
        of: of.to_owned(),
        factors: names.factors.iter().enumerate().map(factor).collect(),
        interactions: interactions.collect(),
        pairs: pairs.collect(),
        together_share: found.together_share,
        within_share: found.within_share,
        combinations: found.combinations,
        combinations_all: names.counts().iter().product(),
        ..FactorEffects::default()
    }
}

/// Effects on the level of RSS and on CPU time, by replica. What ended early, and processes that differ from the others
/// of their arm, are left out, as in the table of the arms.
pub fn of_run(run: &Run, verdicts: &[ArmVerdict], rows: &[ArmRow]) -> Vec<FactorEffects> {
    let arms = &run.experiment.arms;
    let ended = |name: &str| {
        rows.iter()
            .any(|row| row.arm == name && row.aborted.is_some())
    };
    let levels = |name: &str| -> Vec<f64> {
        let own = verdicts
            .iter()
            .filter(|one| one.arm == name && !ended(name));
        own.flat_map(|arm| {
            let is_odd = |id: &str| arm.outliers.iter().any(|odd| odd.id == id);
            arm.processes
                .iter()
                .filter(move |process| !is_odd(&process.id))
        })
        .filter_map(|process| Some(process.level?.value))
        .collect()
    };
    let warmup = run.experiment.warmup;
    let cpu = |name: &str| -> Vec<f64> {
        let replicas = if ended(name) {
            BTreeMap::new()
        } else {
            subjects(run, name)
        };
        let rate = |processes: &Vec<&Process>| {
            let of = |metric: Metric| replica_rate(processes, metric.name, warmup);
            Some(of(metric::CPU_USER)? + of(metric::CPU_SYSTEM)?)
        };
        replicas.values().filter_map(rate).collect()
    };
    let left_out: Vec<String> = arms
        .iter()
        .map(|arm| arm.name.clone())
        .filter(|name| ended(name))
        .collect();
    [
        of_values("memory", arms, levels),
        of_values("CPU", arms, cpu),
    ]
    .into_iter()
    .flatten()
    .map(|found| FactorEffects {
        left_out: left_out.clone(),
        ..found
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms() -> Vec<Arm> {
        let level = |factor: &str, level: &str| (factor.to_owned(), level.to_owned());
        let arm = |version: &str, purge: &str| Arm {
            name: format!("{version}+{purge}"),
            levels: vec![level("version", version), level("purge", purge)],
            ..Arm::default()
        };
        ["2.0.9", "2.1.7", "3.0.1"]
            .iter()
            .flat_map(|version| ["default", "0"].map(|purge| arm(version, purge)))
            .collect()
    }

    #[test]
    fn who_is_to_blame_has_a_name() {
        let value = |name: &str| {
            let base = match name.split('+').next() {
                Some("2.1.7") => 130.0,
                Some("3.0.1") => 400.0,
                _ => 100.0,
            };
            // The setting only helps the last version.
            let value = if name == "3.0.1+0" { 0.5 * base } else { base };
            vec![value, 1.01 * value, 0.99 * value]
        };
        let found = of_values("memory", &arms(), value).expect("effects");
        let [version, purge] = &found.factors[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (version.name.as_str(), version.reference.as_str()),
            ("version", "2.0.9")
        );
        assert!(version.share > 0.8 && purge.share < 0.1, "{found:?}");
        assert_eq!((found.combinations, found.combinations_all), (6, 6));
        let [together] = &found.interactions[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (together.first.1.as_str(), together.second.1.as_str()),
            ("3.0.1", "0")
        );
        assert!((together.ratio.value - 0.5).abs() < 0.02, "{together:?}");
    }

    #[test]
    fn arms_without_factors_have_no_effects() {
        let plain = [Arm::default(), Arm::default()];
        assert_eq!(of_values("memory", &plain, |_| vec![1.0, 2.0]), None);
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let found = of_values("memory", &arms(), |_| Vec::new()).expect("a reason");
        assert_eq!(
            found.why,
            "nothing was measured of level 2.0.9 of factor version"
        );
        let some = |name: &str| {
            if name.starts_with("3.0.1") {
                Vec::new()
            } else {
                vec![1.0, 2.0]
            }
        };
        let found = of_values("memory", &arms(), some).expect("a reason");
        assert_eq!(
            found.why,
            "nothing was measured of level 3.0.1 of factor version"
        );
    }
}

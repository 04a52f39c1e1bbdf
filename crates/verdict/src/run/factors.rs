//! Which of several things that were varied together moves the memory, and the CPU.
//!
//! In: the verdicts and costs of arms that carry levels of factors. Out: [`FactorEffects`], with names. Called by:
//! [`super::judge`], and by `replay --factors` for what replays measured.

use experiment::file::Arm;
use serde::{Deserialize, Serialize};
use series::estimate::Estimate;
use series::factorial::{Effects, Observation, effects};

use crate::arm::ArmVerdict;
use crate::cost::ArmCost;

const CONFIDENCE: f64 = 0.95;

/// The effects on one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorEffects {
    /// "memory", "CPU".
    pub of: String,
    pub factors: Vec<Factor>,
    /// Levels that together do something else than each alone.
    pub interactions: Vec<Interaction>,
    pub pairs: Vec<Pair>,
    /// Of what differs, the share that no factor explains.
    pub rest_share: f64,
    /// Combinations of levels that were run, and that there are.
    pub combinations: usize,
    pub combinations_all: usize,
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
    /// The share that only both together explain; `None`: these combinations cannot tell.
    pub share: Option<f64>,
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

    fn level(&self, (factor, level): (usize, usize)) -> (String, String) {
        let (name, levels) = &self.factors[factor];
        ((*name).to_owned(), levels[level].to_owned())
    }
}

/// Effects on a quantity; `values` gives those of an arm, one for each repeat. `None`: the arms have no factors, or too
/// few values to tell.
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
    let found = effects(&counts, &observations, CONFIDENCE)?;
    Some(named(of, &names, &found))
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
        rest_share: found.rest_share,
        combinations: found.combinations,
        combinations_all: names.counts().iter().product(),
    }
}

/// Effects on the level of RSS, by process, and on CPU time, by arm.
pub fn of_run(arms: &[Arm], verdicts: &[ArmVerdict], costs: &[ArmCost]) -> Vec<FactorEffects> {
    let levels = |name: &str| -> Vec<f64> {
        let own = verdicts.iter().filter(|verdict| verdict.arm == name);
        own.flat_map(|verdict| &verdict.processes)
            .filter_map(|process| Some(process.level?.value))
            .collect()
    };
    let cpu = |name: &str| -> Vec<f64> {
        let own = costs.iter().filter(|cost| cost.arm == name);
        own.filter_map(|cost| Some(cost.cpu_user?.value + cost.cpu_system?.value))
            .collect()
    };
    [
        of_values("memory", arms, levels),
        of_values("CPU", arms, cpu),
    ]
    .into_iter()
    .flatten()
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
        assert_eq!(of_values("memory", &arms(), |_| Vec::new()), None);
        assert!(of_run(&arms(), &[], &[]).is_empty());
    }
}

//! The whole way from a run's record to its verdict, in one pure function: `run`, `report` and a resumed run
//! all say the same of the same record.

use super::steady::steady;
use super::{RunVerdict, audited, conclude, factors, heap, predicted};
use crate::Rules;
use crate::arm;
use crate::arm::ArmVerdict;
use crate::check::judge_checks;
use crate::cost::arm_costs;
use crate::pair;
use crate::pair::PairVerdict;
use observe::metric;
use record::run::Run;
use series::arms::arm_series;

/// Judges every arm on RSS, each against the control, the experiment's own conditions, and concludes.
/// The experiment's warm-up is left out, from every incarnation.
pub fn judge_run(run: &Run, rules: &Rules) -> RunVerdict {
    let warmup = run.experiment.warmup;
    let rules = &rules.for_experiment(&run.experiment);
    let arms: Vec<ArmVerdict> = arm_series(run, metric::RSS.name, warmup)
        .iter()
        .filter(|arm| !arm.replicas.is_empty())
        .map(|series| arm::judge(&series.arm, &steady(run, series), rules))
        .collect();
    let pairs = against_control(&arms, &run.experiment.control, rules);
    let costs = arm_costs(run, warmup);
    let checks = judge_checks(run, &arms, &costs);
    let heaps = heap::arm_heaps(run, rules);
    let findings = audited::findings(run);
    let verdict = conclude(run, &arms, pairs, &costs, &heaps, checks, findings);
    RunVerdict {
        factors: factors::of_run(run, &arms, &verdict.arms),
        predictions: predicted::outcomes(run, rules),
        ..verdict
    }
}

fn against_control(arms: &[ArmVerdict], control: &str, rules: &Rules) -> Vec<PairVerdict> {
    let Some(reference) = arms.iter().find(|arm| arm.arm == control) else {
        return Vec::new();
    };
    let others: Vec<&ArmVerdict> = arms.iter().filter(|arm| arm.arm != control).collect();
    others
        .iter()
        .map(|arm| pair::compare_judged(arm, reference, others.len(), rules))
        .collect()
}

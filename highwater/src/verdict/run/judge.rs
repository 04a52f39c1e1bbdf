//! The whole way from a run's record to its verdict, in one pure function: `run`, `report` and a resumed run
//! all say the same of the same record.

use super::{RunVerdict, audited, conclude, heap};
use crate::analyse::arms::{ArmSeries, arm_series};
use crate::analyse::cost::arm_costs;
use crate::analyse::series::Series;
use crate::observe::metric;
use crate::record::run::Run;
use crate::subject::experiment::SubjectKind;
use crate::verdict::Rules;
use crate::verdict::arm::{self, ArmVerdict, PairVerdict};
use crate::verdict::check::judge_checks;

/// A process counts for the verdict on an arm that it was in for this share of the longest stay.
const STEADY: f64 = 0.75;

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
    conclude(
        run,
        &arms,
        pairs,
        &costs,
        &heaps,
        checks,
        audited::findings(run),
    )
}

/// Of processes that come and go, those that were in the arm for most of the time: what is seen of the others is too
/// short for the same words. Of arms whose processes highwater started, all.
pub fn steady(run: &Run, arm: &ArmSeries) -> Vec<Series> {
    let all = arm.joined();
    if run.experiment.subject.kind != SubjectKind::Attach {
        return all;
    }
    let length = |series: &Series| match (series.points.first(), series.points.last()) {
        (Some(first), Some(last)) => last.t_s - first.t_s,
        _ => 0.0,
    };
    let longest = all.iter().map(length).fold(0.0, f64::max);
    all.into_iter()
        .filter(|one| length(one) >= STEADY * longest)
        .collect()
}

fn against_control(arms: &[ArmVerdict], control: &str, rules: &Rules) -> Vec<PairVerdict> {
    let Some(reference) = arms.iter().find(|arm| arm.arm == control) else {
        return Vec::new();
    };
    let others: Vec<&ArmVerdict> = arms.iter().filter(|arm| arm.arm != control).collect();
    others
        .iter()
        .map(|arm| arm::compare_judged(arm, reference, others.len(), rules))
        .collect()
}

//! The processes of an arm that were there for most of its time.

use experiment::file::SubjectKind;
use record::run::Run;
use series::arms::ArmSeries;
use series::series::Series;
/// A process counts for the verdict on an arm that it was in for this share of the longest stay.
const STEADY: f64 = 0.75;

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

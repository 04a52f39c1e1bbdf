//! What several judgements say alike: a rate, the next step, the verdict itself.

use super::{Case, Cause, CauseVerdict};
use memory::growth::Growth;
use units::written::{bytes, bytes_per_hour};

pub fn verdict(cause: Cause, confidence: f64, sentence: String, next_step: &str) -> CauseVerdict {
    CauseVerdict {
        cause,
        confidence,
        sentence,
        next_step: next_step.to_owned(),
        limitations: Vec::new(),
        undecided: false,
        by_objects: false,
    }
}

/// "12 MiB in 51 s (830 MiB/h)", the time being that between the two levels.
pub fn rate(growth: &Growth) -> String {
    let slope = bytes_per_hour(growth.slope_per_hour);
    format!(
        "{} in {:.0} s ({slope})",
        bytes(growth.bytes),
        growth.over_s
    )
}

pub fn retention_next(is_torn: bool) -> &'static str {
    if is_torn {
        "run an experiment with other allocators as arms (`highwater init --pid PID`); if they all \
         keep it, allocate what lives long apart from what lives short"
    } else {
        "run an experiment with other allocators and their purge settings as arms (`highwater init \
         --pid PID`): glibc with MALLOC_ARENA_MAX=2 or a trim threshold, jemalloc with a shorter decay"
    }
}

pub fn survivors(case: &Case) -> String {
    case.survivors
        .as_ref()
        .map_or_else(String::new, |words| format!("; {words}"))
}

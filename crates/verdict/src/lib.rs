//! From numbers to a statement that can be argued with: label, rule, evidence, confidence.
//!
//! In: the series of a run, the account of a process, or the findings of a watch. Out: a verdict, a value. Called by:
//! `run` (which may end an arm by it), `verdict`, `explain`, `stalls` and `rollout`; every report renders it.
//!
//! All functions are pure.

pub mod arm;
pub mod audit;
pub mod backtest;
pub mod cause;
pub mod check;
mod coarse;
pub mod cost;
mod curve;
mod cycles;
mod label;
mod last_readings;
#[cfg(test)]
mod long_runs;
mod one_life;
pub mod oom;
pub mod pair;
mod regimes;
pub mod remedies;
#[cfg(test)]
mod restarted_runs;
mod rules;
pub mod run;
mod segmentation;
pub mod series;
#[cfg(test)]
mod short_runs;
pub mod stall;
pub mod stop;
mod time_to_limit;
pub mod trace;

pub use label::Label;
pub use rules::Rules;

//! From numbers to a statement that can be argued with: label, rule, evidence, confidence.
//!
//! A verdict is a value. The same types serve `run`, `verdict` and every report. All functions are pure.

pub mod arm;
pub mod check;
<<<<<<< HEAD
mod label;
pub mod run;
pub mod series;
=======
mod curve;
mod label;
mod rules;
pub mod series;
#[cfg(test)]
mod short_runs;
>>>>>>> judge

pub use label::{Estimate, Label};
pub use rules::Rules;

//! From a recorded run to what people read: series and costs, checks, the verdict on a run, every
//! report.
//!
//! Golden files are in `golden/`; `SNAPSHOTS=overwrite cargo test --test report` rewrites them.

#[path = "../synthetic/mod.rs"]
mod synthetic;

mod against;
mod analyse;
mod checks;
mod conclude;
mod findings;
mod formats;
mod groups;
mod guards;
mod heap;
mod hostile;
mod latency;
mod scene;
mod text;

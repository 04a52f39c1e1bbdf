//! From a recorded run to what people read: analysis, checks, the verdict on a run, every report.

#[path = "../synthetic/mod.rs"]
mod synthetic;

mod text;

//! What is kept: the run folder with its `run.db`, one transaction per look.

pub mod run;

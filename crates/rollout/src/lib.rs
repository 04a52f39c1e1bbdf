//! Puts the winning arm into service, and takes it back as a unit.
//!
//! In: a run's verdict, and the machine as it is. Out: a plan, then a changed service, with every step in a journal.
//! Called by: `highwater adopt` and `highwater revert`.
//!
//! `survey` reads the machine, `propose` makes a plan of it (pure), `shelf` keeps the plan before anything is touched,
//! `adopt` takes its steps (`act`, `back`), each of them in the `journal` before and after. Every step can be taken
//! twice, so that a rollout that was killed anywhere can be taken up again, forwards or backwards.

pub mod act;
pub mod adopt;
pub mod back;
mod crash;
pub mod dropin;
pub mod error;
pub mod files;
pub mod health;
pub mod journal;
pub mod pattern;
pub mod plan;
pub mod predict;
pub mod proof;
pub mod propose;
pub mod samples;
pub mod script;
pub mod shelf;
pub mod standing;
pub mod survey;
pub mod systemd;
pub mod unit;

//! Processes from start to end: small C programs, each awkward in its own way, run by the real service.

mod attached;
mod backing;
mod ending;
mod killed;
mod lifecycle;
mod limits;
mod loads;
mod stage;
#[path = "../subjects/mod.rs"]
mod subjects;

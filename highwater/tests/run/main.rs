//! `highwater run` as its user calls it: the real binary, real processes, real kills.

mod bad_input;
mod fake;
mod killed;
mod scene;
mod service;
#[path = "../skipped/mod.rs"]
mod skipped;

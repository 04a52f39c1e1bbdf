//! `highwater run` as its user calls it: the real binary, real processes, real kills.

mod bad_input;
mod fake;
mod groups;
mod killed;
mod rails;
mod scene;
mod service;
#[path = "../skipped/mod.rs"]
mod skipped;

//! `highwater run` as its user calls it: the real binary, real processes, real kills.

mod bad_input;
mod factors;
mod fake;
mod groups;
mod hostile;
mod killed;
mod predicted;
mod published;
mod rails;
mod scene;
mod service;

//! `record`, `trace` and `replay` from end to end, on real programs.

mod harm;
mod mistakes;
mod replayed;
mod stage;

//! A process's memory for readers of its heap: what is in RAM, each part read once, within a limit.

pub mod areas;
pub mod hash;
pub mod pages;
pub mod source;

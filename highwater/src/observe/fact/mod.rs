//! An arm is a fact: what a process really runs, read from the process itself.

pub mod maps;

//! The experiment file as text: its tree with the place of every value, overrides from the command line,
//! and problems that quote the line they are about.

pub mod fields;
pub mod problem;
pub mod set;
pub mod tree;

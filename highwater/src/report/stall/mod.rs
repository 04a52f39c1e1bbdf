//! What `stalls` and `doctor` print.

pub mod doctor;

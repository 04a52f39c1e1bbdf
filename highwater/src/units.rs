//! Bytes, durations and rates: read once at the parser, written the same way everywhere.

pub mod written;

//! Recordings of JDK Flight Recorder, as far as they say where live objects were allocated and what keeps them alive.
//!
//! The format is parsed here, and not by a crate: the file is of the watched program, and each count in it is bounded.

mod chunk;
mod cursor;
mod metadata;
mod samples;

pub(super) use samples::parse_samples;

#[cfg(test)]
mod tests;

//! highwater: from a climbing resident set, or a stalling request, to the remedy that holds.
//!
//! The command line. The stages of the pipeline are crates of their own (`crates/`), in the order in which data passes
//! them: `subject -> observe -> record -> analyse -> verdict -> report -> rollout`. [`cli`] joins them into verbs.

pub mod cli;

//! highwater: from a climbing resident set, or a stalling request, to the remedy that holds.
//!
//! The folders are the stages of one pipeline, in the order in which data passes them:
//! `subject -> observe -> record -> analyse -> verdict -> report -> rollout`, with the `ledger` behind it.
//! A stage imports only from stages to its left; `analyse`, `verdict` and `report` are pure:
//! they touch no file, no process and no clock. `cli` joins the stages into verbs.

pub mod analyse;
pub mod cli;
pub mod ledger;
pub mod observe;
pub mod record;
pub mod report;
pub mod rollout;
pub mod subject;
pub mod units;
pub mod verdict;
pub mod wording;

/// Unit tests print their skips as the tests of `highwater/tests` do.
#[cfg(test)]
#[path = "../tests/skipped/mod.rs"]
mod skipped;

//! The ledger: dated entries of what was believed, changed, verified, and learnt.
//!
//! One TOML file per entry in `ledger/` beside `runs/`. TOML, because the experiment file is TOML already: one
//! format to read and to parse, texts over several lines without escapes, and a change of one field is a
//! change of one line in git. Markdown is what `highwater log --format md` writes, not what it must read back.
//! One file per entry, because two people who each add one must not meet in a merge.

pub mod entry;
pub mod render;
pub mod score;
pub mod store;

pub use entry::{Attempt, Entry, Outcome, Predicted, Status, Step};
pub use score::Score;
pub use store::{Ledger, LedgerError, Listing};

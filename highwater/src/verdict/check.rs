//! The experiment's own conditions (`verify`, `guard`), judged.

use serde::{Deserialize, Serialize};

/// How one condition came out for one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckOutcome {
    /// The condition as written, in words: "rss_max 512 MiB after 1 m".
    pub check: String,
    pub arm: String,
    /// `None`: could not be judged; `observed` says why.
    pub passed: Option<bool>,
    /// What was seen: "peak 498 MiB (process glibc/2)".
    pub observed: String,
}

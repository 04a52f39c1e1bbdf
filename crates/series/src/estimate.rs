//! A number that is not known for certain.

use serde::{Deserialize, Serialize};

/// A number with its interval (95 % unless a field says otherwise). `lo <= value <= hi`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    pub lo: f64,
    pub hi: f64,
}

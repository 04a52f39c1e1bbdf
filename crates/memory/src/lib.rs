//! The account of one process's resident memory, its growth, and the sites behind it: pure numbers.

pub mod account;
pub mod areas;
pub mod blame;
pub mod brief;
pub mod growth;
pub mod history;
pub mod lasting;
pub mod libraries;
pub mod limit;
pub mod lost;
pub mod occupancy;
pub mod owned;
pub mod rank;
#[cfg(test)]
mod shares;
pub mod sites;
pub mod wrappers;

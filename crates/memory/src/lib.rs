//! The account of one process's resident memory, its growth, and the sites behind it: pure numbers.
//!
//! In: `heap`'s snapshots, one after another ([`history::History::add`]). Out: what each part holds ([`account`]), how
//! it grew ([`growth`]), and the allocation sites by growth ([`sites`], [`rank`]). Called by: `highwater explain`;
//! `verdict::cause` judges it.
//!
//! ```text
//! HeapSnapshot -- account --> Moment, kept in a History -- growth, heap_sites --> Growth, SiteGrowth -- rank --> Site
//! ```

pub mod account;
pub mod areas;
pub mod blame;
pub mod brief;
pub mod growth;
pub mod history;
pub mod in_use;
pub mod lasting;
pub mod libraries;
pub mod limit;
pub mod lost;
pub mod managed;
pub mod occupancy;
pub mod outside;
pub mod owned;
pub mod rank;
#[cfg(test)]
mod shares;
pub mod sites;
pub mod survivors;
pub mod types;
pub mod wrappers;

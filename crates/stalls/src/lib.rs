//! Why threads made no progress: from a timeline of switches and wakes to stalls with a culprit.
//!
//! In: `sched`'s events, sorted by time. Out: findings: stalls of one cause with who was hit, who did it, how long and
//! how often. Called by: `highwater stalls`; `report` renders them.
//!
//! Pure: [`analyser::Analyser`] keeps the newest events as a [`timeline`], cuts each thread's into [`busy`] periods,
//! walks every wait back to what really filled it ([`walk`]), and [`finding`] adds up what has one cause.
//! [`recurrence`] says whether that comes back in a fixed rhythm.

pub use sched::event;

pub mod accounted;
pub mod activity;
pub mod analyser;
pub mod answered;
pub mod arm;
pub mod busy;
pub mod carried;
pub mod cause;
pub mod connections;
pub mod culprit;
pub mod felt;
pub mod finding;
pub mod gain;
pub mod group;
pub mod home;
mod hot;
mod joined;
pub mod naming;
pub mod ordinary;
pub mod own;
pub mod pieces;
pub mod poll;
pub mod quota;
pub mod recurrence;
pub mod request;
pub mod segment;
pub mod share;
pub mod stalled;
pub mod suspect;
pub mod thread;
pub mod timeline;
pub mod tokens;
pub mod turns;
pub mod unpolled;
pub mod untaken;
pub mod walk;

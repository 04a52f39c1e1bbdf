//! What is read: from /proc, cgroups, pressure files, metrics endpoints and load programs, in each snapshot.
//!
//! In: the processes of a run, and where their metrics are. Out: one [`snapshot::Snapshot`] of all of them; and, of one
//! process, what it really runs ([`fact`]). Called by: the collector of a run, `highwater observe`, and every crate
//! that reads a process.
//!
//! Reading is not parsing: `read_*` touches the system, `parse_*` is pure. [`collector::Observer`] is the door: one
//! call, one snapshot.

pub mod body;
pub mod cgroup;
pub mod clock;
pub mod collector;
pub mod container;
pub mod exits;
pub mod fact;
pub mod foreign;
pub mod host;
pub mod load_lines;
pub mod member;
pub mod metric;
pub mod openmetrics;
pub mod overhead;
pub mod pressure;
pub mod proc;
pub mod snapshot;
pub mod snapshot_writer;
pub mod table;
pub mod watched;

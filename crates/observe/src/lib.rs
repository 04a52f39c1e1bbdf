//! What is read: from /proc, cgroups, pressure files, metrics endpoints and load programs, at each look.
//!
//! Reading is not parsing: `read_*` touches the system, `parse_*` is pure. [`collector::Observer`]
//! is the door: one call, one [`look::Look`].

pub mod body;
pub mod cgroup;
pub mod clock;
pub mod collector;
pub mod exits;
pub mod fact;
pub mod foreign;
pub mod host;
pub mod load_lines;
pub mod look;
pub mod member;
pub mod metric;
pub mod openmetrics;
pub mod overhead;
pub mod page;
pub mod pressure;
pub mod proc;
pub mod table;
pub mod watched;

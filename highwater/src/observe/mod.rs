//! What is read: from /proc, cgroups, pressure files, metrics endpoints and load programs, at each look.
//!
//! Reading is not parsing: `read_*` touches the system, `parse_*` is pure.

pub mod look;
pub mod metric;

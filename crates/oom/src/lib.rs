//! Why the OOM killer came: the kernel's log, cut into kills.
//!
//! In: `/dev/kmsg`, or a log as dmesg, journalctl or syslog write it; the cgroups of this machine. Out: a
//! [`kill::Kill`] for each time the kernel or systemd-oomd ran out of memory, with what the log says of the limit, of
//! who asked, of the tasks and of the memory, and with what is missing. Called by: `verdict` (the conclusion),
//! `report`, and `highwater explain --oom`.
//!
//! [`log`] reads; [`line`] finds the stamp and the text of a line in whichever format; [`blocks`] puts the texts of one
//! kill together, as mm/oom_kill.c and mm/memcontrol.c of Linux 3.10 to 7.2 print them; [`now`] reads the
//! cgroup as it is now. Whose cgroup it is, [`observe::container::Owner`] tells from its path.

pub mod blocks;
mod cgroup_memory;
pub mod kill;
pub mod line;
pub mod log;
mod machine_memory;
mod message;
pub mod now;
mod oomd;
mod stamp;
mod task_table;
#[cfg(test)]
mod tests;

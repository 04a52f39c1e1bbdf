//! adopt and revert: on units that a played systemctl starts as real processes, and on a real systemd in a container.

mod bad_input;
mod container;
mod good;
mod kills;
mod real;
#[path = "../said/mod.rs"]
mod said;
mod script;
mod stage;

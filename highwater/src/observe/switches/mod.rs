//! Who got a CPU, who left it and why, who woke whom: the raw material of `highwater stalls`.
//!
//! [`allowed`] tries what this machine and user permit.

pub mod allowed;
pub mod kernel;

//! Why a managed heap could not be read.

use std::time::Duration;

/// Why a managed heap could not be read. Each message names what to do next where something can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the process has ended")]
    Gone,
    #[error(
        "its memory may not be read: run highwater as the user of the process with ptrace_scope 0, or as root"
    )]
    Denied,
    /// The sentence names the version or build.
    #[error("{0}")]
    Unsupported(String),
    /// A pause that was not allowed.
    #[error(
        "reading it stops the program for about {about:?}, and {allowed:?} is allowed: --allow-pause allows more"
    )]
    Pause { about: Duration, allowed: Duration },
    /// The heap is not as the runtime's sources say, or changed under every attempt.
    #[error("its heap could not be followed: {0}")]
    Inconsistent(String),
    /// The runtime's own interface refused or broke off, in words.
    #[error("{0}")]
    Refused(String),
}

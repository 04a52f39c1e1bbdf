//! Why a step of a rollout failed. The messages hold their causes, so none has a source of its own.

use std::io;
use std::path::PathBuf;

use super::dropin::SettingError;
use super::systemd::SystemdError;

/// Why a step was not taken, or did not do what the plan says. `highwater revert` undoes what was done before it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a folder of the plan cannot be read, written or removed.
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// The disk is full or gone: the step that follows must not be taken.
    #[error("writing {}: {error}", path.display())]
    Journal { path: PathBuf, error: io::Error },
    /// Other rollouts of this machine cannot be read.
    #[error("{0:#}")]
    Shelf(anyhow::Error),
    /// The source of a copy is not what was planned.
    #[error("{} changed since the plan was made", .0.display())]
    Changed(PathBuf),
    /// A drop-in of ours has somebody else's words.
    #[error(
        "{} was edited since highwater wrote it; save the edit elsewhere, then `highwater revert --force`",
        .0.display()
    )]
    Edited(PathBuf),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// systemd would start the unit with another value than the drop-in's.
    #[error(
        "systemd has read {has} for {name} of {unit}: another file wins over the drop-in (`systemctl cat {unit}` \
         shows all of them)"
    )]
    Overruled {
        has: String,
        name: String,
        unit: String,
    },
    /// One instance did not come up with the arm.
    #[error("{unit}: {error}")]
    Instance { unit: String, error: Box<Error> },
    #[error(
        "it was well and then ended within {settle_s} s: its main process was {before} and is {after}"
    )]
    EndedAgain {
        settle_s: f64,
        before: i32,
        after: i32,
    },
    /// systemd gave the unit up: it will not become well by waiting.
    #[error("it failed; `systemctl status {0}` and its log say why")]
    UnitFailed(String),
    /// Its process runs something else than the arm: what, as a sentence.
    #[error("{0}")]
    OtherProgram(String),
    /// The time for it is over; `last` is what was missing, as a sentence.
    #[error("not well within {limit_s} s: {last}")]
    NotWell { limit_s: f64, last: String },
}

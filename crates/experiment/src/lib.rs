//! What runs: the experiment's plan, the arms of a service, its processes from start to end.
//!
//! In: an experiment file, or a pid, a unit or a pattern to attach to. Out: processes that run, and what happened to
//! them as values. Called by: the loop of `highwater run`; `rollout` and `report` read its plan.
//!
//! One trait, [`Subject`], for everything that can be put under study: a service that highwater starts and stops
//! ([`service::Service`]), processes that run already ([`attach::Attached`]) and a scripted curve without any
//! process ([`fake::Fake`]). None of them reads a clock: `now` is the time since the run began, on the run's own
//! clock, and only ever rises. What happened comes back from [`Subject::poll`] as values; this stage knows nothing
//! of how it is recorded.

pub mod attach;
pub mod built_in;
pub mod chosen;
pub mod fake;
pub mod file;
pub mod happening;
pub mod order;
pub mod placeholder;
pub mod ports;
pub mod preflight;
pub mod probe_library;
pub mod remote;
pub mod restart;
pub mod service;
pub mod writable;

use std::time::Duration;

pub use happening::{Ending, Happening, Role, Started, What, Who};
pub use placeholder::Values;

/// Something with arms and replicas that can be started, watched and stopped.
///
/// Nothing blocks: a call takes milliseconds, and what takes longer (getting ready, a grace, a backoff) is carried
/// on by the next `poll`. A run polls a few times a second until [`Subject::is_over`].
pub trait Subject {
    /// Carries everything on to `now` and says what happened since the last call, in order. The first call starts
    /// the replicas in the plan's order.
    fn poll(&mut self, now: Duration) -> Vec<Happening>;

    /// Begins to stop one arm: its load first, then its replicas; the others go on. Nothing of it is started again.
    fn stop_arm(&mut self, arm: &str, why: &str);

    /// Leaves one replica out of its arm, for it is not what the arm says; the others go on. `false` when this
    /// subject cannot, or when nothing would be left of the arm.
    fn leave_out(&mut self, _arm: &str, _replica: u32, _why: &str) -> bool {
        false
    }

    /// Begins to stop everything.
    fn stop_all(&mut self, why: &str);

    /// Nothing runs, nothing is left to clean up, nothing will be started.
    fn is_over(&self) -> bool;

    /// What the placeholders stand for in this replica now: for checks, URLs and load. `None` when there is no
    /// such replica. `pid` is absent while it does not run.
    fn values(&self, arm: &str, replica: u32) -> Option<Values>;
}

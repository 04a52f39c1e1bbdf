//! Replays of an allocation trace: what the recorded program's memory would be on another allocator.
//!
//! In: a trace, and libraries of allocators with their settings. Out: for each of them the predicted resident memory,
//! faults and CPU, and whether the replay can be trusted. Called by: `highwater replay`.
//!
//! ```text
//! Planned   a trace as a plan: slots and turns, epochs, threads, which pages are written to
//! Arm       an allocator with its settings
//! Runner    one arm, once: the replayer on that allocator, within limits of memory and time
//! settings  what an engineer would set in an allocator, to be tried as further arms
//! Search    settings of one allocator that are worth their CPU
//! Forecast  all runs of an arm together;  SelfCheck  the recorded allocator against the recorded memory
//! Remedy    an arm against the recorded one: memory with its interval, faults, CPU; ranked
//! ```

mod arm;
mod error;
mod forecast;
mod lanes;
mod outcome;
mod plan;
mod remedy;
mod run;
mod self_check;
mod settings;
mod touch;
mod tune;

pub use arm::{Arm, Setting, SettingError};
pub use error::ReplayError;
pub use forecast::{Curve, Forecast, Range, alike, other_bytes};
pub use outcome::{End, Ran};
pub use plan::{Planned, Unseen};
pub use remedy::{Against, INTERVAL_SHARE, Interval, Remedy, Tried, ranked};
pub use run::{Limits, Runner};
pub use self_check::{SelfCheck, TRUSTED_CURVE_SHARE, TRUSTED_SHARE};
pub use settings::{Usual, usual};
pub use tune::{Knob, Search, Values, front, knobs, spread};

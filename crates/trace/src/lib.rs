//! Allocation traces, `.hwt`: written while a program runs, read, checked, cut and exported.
//!
//! In: the file that the recorder inside a program writes (layout: [`trace_abi`]), or a window of another trace. Out:
//! its events in the order of time, each with the slot of its block ([`Steps`]); the program's memory beside them; what
//! is missing or damaged. Called by: `highwater record`, `trace` and `replay`.
//!
//! ```text
//! Recording  creates the file, allocates disk blocks ahead, adds samples, seals it
//! Trace      finds the chunks of a file, whole or not, and reads none of the events yet
//! Events     one thread's events, chunk after chunk;  Merged: those of all, by time
//! Steps      each event with its block's slot: allocations and frees paired
//! ```

mod chunks;
mod cut;
mod damage;
mod error;
mod events;
mod export;
mod header;
mod merge;
mod recording;
mod samples;
mod steps;
mod summary;
mod ticks;
mod write;

pub use chunks::{ENDED, ThreadChunks, Trace};
pub use cut::{Window, cut};
pub use damage::Damage;
pub use error::TraceError;
pub use export::{Format, export};
pub use header::Facts;
pub use merge::{Merged, TimedEvent};
pub use recording::{Finished, Ledge, Recording};
pub use steps::{Allocated, Pairing, Step, StepKind, Steps, Touch};
pub use summary::{Summary, summarise};
pub use ticks::{Clock, Scale, now};
pub use trace_abi::chunk::{Sample, UNKNOWN};
pub use write::TraceWriter;

//! The logic of highwater's heap probe, apart from the exported symbols.
//!
//! The tables and the draw are the `sampler` crate.
//!
//! Everything works on one mapping of fixed size (layout: the `abi` crate) that is reserved at the
//! start. After the start nothing here allocates from the subject, takes a lock that the subject
//! could hold, or waits without a bound: what does not fit, or meets a busy table, is dropped and
//! counted. The slow paths run with all signals blocked, so that no handler can leave them by
//! longjmp with a table half-written.
//!
//! Hot paths (every call): [`count::alloc`], [`count::free`], [`Filter::may_hold`]. Slow paths (200
//! to 1,000 a second): [`Probe::allocated`], [`Probe::freeing`].

#[cfg(test)]
mod adapting;
mod arena;
mod budget;
mod calls;
pub mod clock;
mod counter;
#[cfg(test)]
mod coverage;
mod distance;
mod guard;
mod interpreter;
mod layout;
mod limits;
mod memory;
mod modules;
mod objects;
mod origin;
mod other_stack;
mod probe;
mod readable;
mod regions;
mod resize;
mod seccomp;
mod settings;
mod start;
mod tally;
mod threads;
mod unwind;

pub use arena::Arena;
pub use calls::Calls;
pub use guard::{Errno, INSIDE_STACK_BYTES, Signals, touch_stack};
pub use interpreter::{Interpreter, VERSION as PYTHON_VERSION};
pub use layout::Plan;
pub use memory::{Reserved, name_of_mapping};
pub use probe::{Block, Freed, Probe, Removed};
pub use readable::is_range_readable;
pub use regions::{Call, Mapped};
pub use sampler::{Filter, count};
pub use seccomp::{INSTRUCTIONS_MAX, Instruction, allows_the_probe, filters, is_confined};
pub use settings::{Bytes, Settings};
pub use start::{Home, start};
pub use unwind::{Closing, Registers};

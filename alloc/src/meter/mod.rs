//! The meter: exact counts, and a close look at one allocation in many, in memory that `highwater` reads.
//!
//! Every call adds to its thread's own row: blocks handed out and taken back, requested bytes both ways. An
//! allocation is sampled after so many requested bytes (512 KiB on average; fewer when there would be more than a
//! thousand samples a second), and every one of 1 MiB or more up to 200 a second: its stack, size, thread and lifetime
//! are kept. One call in 1,024 of a thread is timed. The memory, 5 MiB of addresses of which a process touches a part,
//! is mapped at the first allocation; nothing is added later, and what does not fit is counted as dropped. All of this
//! but the calls themselves is the crate `highwater-sampler`, which the preloaded probe has too.
//!
//! From outside, `highwater explain --pid N` finds it by its name, `highwater-probe-meter`, in `/proc/N/maps`. From
//! inside there is [`figures`] and, as text, [`crate::openmetrics`].
//!
//! Environment: `HIGHWATER_METER=off`, or a list of `mean=BYTES` (64 to 1024g) and `seed=NUMBER`.
//!
//! What it does not see: allocations of C libraries, which go to the C library's malloc. What fails is not counted. A
//! forked child goes on from its parent's counts, in its own copy. A set-uid program is not metered. In a signal
//! handler no allocator may be called.

mod figures;
pub(crate) mod map;
mod modules;
pub(crate) mod row;
mod sampling;
mod settings;
pub(crate) mod slow;
mod text;
mod unwind;

pub use figures::{Bucket, Class, Figures, Lost, Role, figures};
pub(crate) use text::openmetrics;

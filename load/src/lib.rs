//! Open-loop load: requests are due at times fixed in advance, whatever the server does, and a
//! request's latency runs from the time it was *due*. A server that stops for two seconds
//! therefore shows two seconds in the histogram, for every request that was due meanwhile, even
//! if only a handful were in flight (a closed loop would record that handful and wait: the
//! "coordinated omission" that hides stalls).
//!
//! - [`arrivals`]: when requests are due, evenly or as a Poisson process, from a seed
//! - [`recorder`]: counts and latencies of the interval that is under way
//! - [`interval`]: one line of output, `highwater.load/1`, for writers and for readers
//! - [`output`]: lines, one per interval, until the end
//! - [`stop`]: SIGTERM and Ctrl-C
//! - [`drive`]: the loop for request-and-response protocols: pacer, bounded backlog, connections
//!
//! Load programs with another shape (a subject that is sent a stream, say) use all but the last
//! and bring their own loop.

pub mod arrivals;
pub mod clock;
pub mod drive;
pub mod interval;
pub mod output;
pub mod recorder;
pub mod stop;

pub use arrivals::{Arrivals, Spacing};
pub use drive::{Connection, Outcome, Plan};
pub use interval::{Interval, IntervalError, SCHEMA};
pub use output::{Output, Totals};
pub use recorder::Recorder;
pub use stop::until_told;

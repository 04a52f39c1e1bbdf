//! A recorded watch, `.hws`: every turn of a [`Watch`](crate::watch::Watch) with the names that its events use, so that
//! the analysis can be done again, elsewhere and by another version.
//!
//! ```text
//! Recorder   writes the turns of a watch as they come; a full disk ends the recording and not the watch
//! Recording  reads them back in order, with bounded memory; what is cut off or damaged is said
//! ```
//!
//! The file is `HWSTALLS`, the version as four bytes, and chunks until its end. A chunk is its length, the length of
//! what it unpacks to and a CRC-32 of that length and the packed bytes, four bytes each, all little-endian, then an LZ4
//! block of a [`Chunk`] in postcard's encoding. A recorder that is killed leaves whole chunks and at most one that is
//! cut.

mod error;
mod names;
mod read;
#[cfg(test)]
mod tests;
mod write;

use serde::{Deserialize, Serialize};

use crate::event::{StackId, TextId, Tid, What};
use crate::quota::Stretch;
use crate::requests::{Answered, Reply, Request, Unseen};
use crate::stack::Frame;
use crate::time::now_ns;
use crate::watch::{Losses, Watch};

pub use self::error::RecordingError;
pub use self::names::RecordedNames;
pub use self::read::{Next, Recording};
pub use self::write::{End, Recorder, Written};

const MAGIC: &[u8; 8] = b"HWSTALLS";
/// Of the encoding: a later one cannot be read.
pub const VERSION: u32 = 4;
/// The oldest that can be read: without requests on connections.
const VERSION_MIN: u32 = 1;
/// Most bytes that one chunk unpacks to: several times what the recorder gathers before it writes.
const CHUNK_BYTES_MAX: usize = 32 << 20;

/// What the analysis must know before the first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub highwater: String,
    pub pid: u32,
    /// The mode's word: "ebpf", "tracepoints", "rootless".
    pub mode: String,
    /// CLOCK_MONOTONIC when the watch began, nanoseconds.
    pub started_ns: u64,
    /// The lead of the time of day over CLOCK_MONOTONIC: spans from elsewhere have the time of day.
    pub day_ns: u64,
    /// Threads that lived already.
    pub living: Vec<Tid>,
    pub wakers_are_unseen: bool,
    pub samples_the_kernel: bool,
    pub goroutines_are_unseen: bool,
}

impl Facts {
    /// Of a watch that began at `started_ns` on threads that lived already, as this version has it.
    pub fn of(watch: &Watch, started_ns: u64, living: Vec<Tid>, highwater: &str) -> Facts {
        Facts {
            highwater: highwater.to_owned(),
            pid: watch.pid,
            mode: watch.mode.word().to_owned(),
            started_ns,
            day_ns: day_ns(),
            living,
            wakers_are_unseen: watch.wakers_are_unseen(),
            samples_the_kernel: watch.samples_the_kernel(),
            goroutines_are_unseen: watch.goroutines_are_unseen(),
        }
    }
}

/// The lead of the time of day over CLOCK_MONOTONIC now, nanoseconds.
fn day_ns() -> u64 {
    let day = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let day_ns = day.tv_sec as u64 * 1_000_000_000 + day.tv_nsec as u64;
    day_ns.saturating_sub(now_ns())
}

/// What is known at the end alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub ended_ns: u64,
    /// Threads, or goroutines where there are any, that may serve a request.
    pub requesters: Vec<Tid>,
    /// Threads that were watched.
    pub threads: u64,
    pub losses: Losses,
    /// Control groups with a CPU quota.
    pub quota_groups: Vec<String>,
    /// What the mode could not see, in words.
    pub missing: Vec<String>,
    /// Other processes with the CPU time that they used, nanoseconds; most first.
    pub others: Vec<(String, u64)>,
    /// Time that the threads were runnable without a CPU, by the kernel's own count, nanoseconds.
    pub run_delay_ns: u64,
    /// Of the CPU time that the machine wanted, what its host gave to other guests.
    pub stolen_share: Option<f64>,
    /// Calls of the function of `--span`.
    pub calls: Option<Vec<Request>>,
    /// Requests on its connections that were not told; `None`: none were, for the mode or the kernel does not tell of
    /// them. A chunk of its own in the file.
    #[serde(skip)]
    pub unseen_requests: Option<Unseen>,
    /// CPU time of highwater, nanoseconds.
    pub own_cpu_ns: u64,
    /// What the watch cost, as it is printed and as JSON.
    pub cost_text: String,
    pub cost_json: String,
}

/// An event, its time as the distance from the one before it in the same turn.
#[derive(Debug, Serialize, Deserialize)]
struct Delta(i64, Tid, What);

#[derive(Debug, Serialize, Deserialize)]
struct RecordedTurn {
    /// When the turn was taken.
    at_ns: u64,
    told_ns: u64,
    events: Vec<Delta>,
    throttled: Vec<Stretch>,
    groups: Vec<(Tid, Option<u64>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordedStack {
    id: StackId,
    frames: Vec<Frame>,
    allocator: bool,
    locks: bool,
}

/// The function that took a lock: for a waiter's stack and a holder's.
type Holder = (StackId, StackId, Option<String>);

/// Names that are new since the last chunk of them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct NewNames {
    texts: Vec<(TextId, String)>,
    stacks: Vec<RecordedStack>,
    threads: Vec<(Tid, String)>,
    holders: Vec<Holder>,
}

impl NewNames {
    fn is_empty(&self) -> bool {
        self.texts.is_empty()
            && self.stacks.is_empty()
            && self.threads.is_empty()
            && self.holders.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Chunk {
    Facts(Facts),
    Names(NewNames),
    Turns(Vec<RecordedTurn>),
    Closing(Box<Closing>),
    /// Requests of the turns that follow, since version 2.
    Answered(Vec<Answered>),
    /// Requests were told, but for these; since version 2.
    Unseen(Unseen),
    /// Replies of the turns that follow, since version 3.
    Replies(Vec<Reply>),
}

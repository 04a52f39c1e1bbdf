//! What one replay came to: read from the file that the replayer writes, and from how it ended.

use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

use bytemuck::Zeroable;
use replayer::{HEADER_BYTES, OUTCOME_MAGIC, Outcome, VERSION, refused, stage};

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All operations are done.
    Finished,
    /// A signal ended it, by its number.
    Crashed(i32),
    /// It came over its limit of memory and was ended.
    TooLarge,
    /// It came over its limit of time and was ended.
    TooLong,
    /// The replayer gave up; in words.
    Refused(&'static str),
    /// Another library answers malloc than the arm says: its path.
    NotTheArm(String),
}

/// One replay of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub end: End,
    /// Share of the epochs that are done.
    pub done_share: f64,
    /// Resident anonymous bytes at each sample.
    pub anon_bytes: Vec<u64>,
    /// The same before the first operation.
    pub base_bytes: u64,
    /// Calls of the virtual clock.
    pub clock_reads: u64,
    /// Allocations that returned null.
    pub failed: u64,
    pub minor_faults: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub wall_ns: u64,
    /// The object that answered malloc.
    pub malloc_path: String,
}

/// Makes an empty outcome for so many samples.
pub(crate) fn create(path: &Path, samples: usize) -> Result<(), Error> {
    let mut outcome = Outcome::zeroed();
    (outcome.magic, outcome.version) = (OUTCOME_MAGIC, VERSION);
    let mut bytes = bytemuck::bytes_of(&outcome).to_vec();
    bytes.resize(HEADER_BYTES + samples * 8, 0);
    std::fs::write(path, bytes)
}

/// Reads it. `epochs`: of the plan; `end`: how the process ended.
pub(crate) fn read(path: &Path, epochs: u64, end: End) -> Result<Ran, Error> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let outcome: Outcome = bytemuck::pod_read_unaligned(&bytes[..size_of::<Outcome>()]);
    let words = bytes[HEADER_BYTES..].chunks_exact(8);
    let anon = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let length = outcome
        .malloc_path
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(0);
    Ok(Ran {
        end: ended(&outcome, end),
        done_share: outcome.epochs as f64 / epochs.max(1) as f64,
        anon_bytes: anon.take(outcome.samples as usize).collect(),
        base_bytes: outcome.base_bytes,
        clock_reads: outcome.clock_reads,
        failed: outcome.failed,
        minor_faults: outcome.minor_faults,
        user_ns: outcome.user_ns,
        system_ns: outcome.system_ns,
        wall_ns: outcome.wall_ns,
        malloc_path: String::from_utf8_lossy(&outcome.malloc_path[..length]).into_owned(),
    })
}

fn ended(outcome: &Outcome, end: End) -> End {
    if end != End::Finished || outcome.stage == stage::FINISHED {
        return end;
    }
    End::Refused(match outcome.error {
        refused::MEMORY => "the plan does not fit, or there was no memory for it",
        refused::THREAD => "the kernel started no more threads",
        refused::BASE => "the allocator took more than 64 MiB before the first operation",
        _ => "the replayer did not understand its plan: is it of another version than highwater?",
    })
}

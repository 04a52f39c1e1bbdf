//! A trace as a plan: every event becomes an operation on a slot, in its turn; epochs bound how far threads may run
//! apart, and are the steps of the clock.

use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use replayer::{
    Epoch, HEADER_BYTES, PLAN_MAGIC, Plan, Record, Section, Segment, TOUCH_ALL, VERSION, op,
};
use trace::{Allocated, Damage, Merged, Pairing, Step, StepKind, Steps, Trace};

use crate::error::ReplayError;
use crate::lanes::{Life, lanes};
use crate::touch::Touches;

/// An epoch ends after so many operations, or so much time of the trace.
const EPOCH_OPERATIONS: usize = 1024;
const EPOCH_NS: u64 = 5_000_000;
/// Blocks of this size and more have their touched share estimated.
const LARGE_BYTES: u64 = 32 << 10;
/// Where the trace has no samples of memory, the replay has so many.
const SAMPLES_DEFAULT: u64 = 200;
/// Threads at once; each has a stack of shared memory.
const LANES_MAX: u32 = 20_000;
/// Operations between two checks for an interruption.
const CHECK_EVERY: u64 = 1 << 16;

/// What a replay cannot show, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    /// Bytes of large blocks, and of those whose touched share is a guess.
    pub large_bytes: u64,
    pub guessed_bytes: u64,
    pub pairing: Pairing,
    pub damage: Damage,
}

/// A plan on the disk.
#[derive(Debug)]
pub struct Planned {
    pub path: PathBuf,
    /// Operations.
    pub operations: u64,
    pub threads: usize,
    pub epochs: u64,
    /// When memory is sampled, ns since the start.
    pub sample_times: Vec<u64>,
    pub unseen: Unseen,
}

impl Planned {
    /// Writes the plan of a trace into `path`. `is_over`: whether to give up.
    ///
    /// # Errors
    /// The file cannot be written, the trace holds nothing, or more threads at once than can be replayed.
    pub fn write(
        trace: &Trace,
        path: &Path,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Planned, ReplayError> {
        let failed = |source| ReplayError::Plan {
            path: path.to_path_buf(),
            source,
        };
        let unfit = |why: String| ReplayError::Unfit {
            path: trace.path.clone(),
            why,
        };
        let mut writer = Writer::create(trace, path).map_err(failed)?;
        let mut steps = Steps::new(Merged::new(trace));
        let mut count = 0u64;
        for step in steps.by_ref() {
            writer.take(&step).map_err(failed)?;
            count += 1;
            if count.is_multiple_of(CHECK_EVERY) && is_over() {
                return Err(ReplayError::Interrupted);
            }
        }
        if count == 0 {
            return Err(unfit("it holds no allocation".to_owned()));
        }
        writer.end_threads(u64::MAX).map_err(failed)?;
        writer.end_epoch().map_err(failed)?;
        let slots = steps.slots();
        let mut damage = trace.damage;
        damage.add(&steps.source().damage());
        let (large_bytes, guessed_bytes) = writer.touches.guessed_bytes();
        let pairing = steps.pairing();
        let unseen = Unseen {
            large_bytes,
            guessed_bytes,
            pairing,
            damage,
        };
        let (threads, lane_count) = lanes(&writer.lives);
        if lane_count > LANES_MAX {
            return Err(unfit(format!(
                "{lane_count} threads ran at once, and {LANES_MAX} can be replayed"
            )));
        }
        let sample_times = sample_times(trace);
        let lasts = (
            threads.as_slice(),
            lane_count,
            slots,
            sample_times.as_slice(),
        );
        let (operations, epochs) = writer
            .finish(lasts, trace.facts.length_ns)
            .map_err(failed)?;
        Ok(Planned {
            path: path.to_path_buf(),
            operations,
            threads: trace.threads.len(),
            epochs,
            sample_times,
            unseen,
        })
    }
}

/// When which threads end, the first one last. The main thread stays.
fn ends(trace: &Trace) -> Vec<(u64, u32)> {
    let threads = trace.threads.iter().enumerate().skip(1);
    let ended = threads.filter_map(|(index, thread)| Some((thread.ended_ns?, index as u32)));
    let mut ends: Vec<_> = ended.collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends
}

/// The times of the recorded samples.
fn sample_times(trace: &Trace) -> Vec<u64> {
    if !trace.samples.is_empty() {
        return trace.samples.iter().map(|sample| sample.time_ns).collect();
    }
    let length = trace.facts.length_ns;
    (1..=SAMPLES_DEFAULT)
        .map(|index| length / SAMPLES_DEFAULT * index)
        .collect()
}

/// An operation that waits for the end of its epoch.
struct Waiting {
    thread: u32,
    record: Record,
    large: Option<usize>,
}

struct Writer {
    file: BufWriter<File>,
    written: u64,
    waiting: Vec<Waiting>,
    epoch_ns: u64,
    segments: Vec<Segment>,
    epochs: Vec<Epoch>,
    turns: Vec<u32>,
    lives: Vec<Life>,
    touches: Touches,
    /// Threads whose end is still to come, with its time, the next one last.
    ends: Vec<(u64, u32)>,
}

impl Writer {
    fn create(trace: &Trace, path: &Path) -> Result<Writer, Error> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(&[0; HEADER_BYTES])?;
        let life = |thread: &trace::ThreadChunks| Life {
            first_epoch: u32::MAX,
            last_epoch: 0,
            has_ended: !thread.is_alive,
        };
        Ok(Writer {
            file,
            written: 0,
            waiting: Vec::with_capacity(EPOCH_OPERATIONS),
            epoch_ns: 0,
            segments: Vec::new(),
            epochs: Vec::new(),
            turns: Vec::new(),
            lives: trace.threads.iter().map(life).collect(),
            touches: Touches::new(),
            ends: ends(trace),
        })
    }

    fn take(&mut self, step: &Step) -> Result<(), Error> {
        if let StepKind::Fresh { touch } = step.kind {
            self.touches.fresh(step.slot, touch);
            return Ok(());
        }
        self.end_threads(step.time_ns)?;
        self.open(step.time_ns)?;
        let slot = step.slot as usize;
        if slot >= self.turns.len() {
            self.turns.resize(slot + 1, 0);
        }
        let (record, large) = self.record(step);
        self.turns[slot] = self.turns[slot].wrapping_add(1);
        self.waiting.push(Waiting {
            thread: step.thread,
            record,
            large,
        });
        Ok(())
    }

    /// The epoch of an operation at that time.
    fn open(&mut self, time_ns: u64) -> Result<(), Error> {
        let is_late = time_ns.saturating_sub(self.epoch_ns) >= EPOCH_NS;
        if self.waiting.len() >= EPOCH_OPERATIONS || (is_late && !self.waiting.is_empty()) {
            self.end_epoch()?;
        }
        if self.waiting.is_empty() {
            self.epoch_ns = time_ns;
        }
        Ok(())
    }

    /// Threads that end until then do so: an allocator gives back what it kept for them.
    fn end_threads(&mut self, until_ns: u64) -> Result<(), Error> {
        while let Some((time_ns, thread)) = self.ends.pop_if(|(time_ns, _)| *time_ns <= until_ns) {
            // One that never allocated has nothing to give back.
            let has_run = self.lives[thread as usize].first_epoch != u32::MAX
                || self.waiting.iter().any(|waiting| waiting.thread == thread);
            if has_run {
                self.open(time_ns)?;
                let record = Record {
                    op: op::END,
                    ..Record::zeroed()
                };
                self.waiting.push(Waiting {
                    thread,
                    record,
                    large: None,
                });
            }
        }
        Ok(())
    }

    fn record(&mut self, step: &Step) -> (Record, Option<usize>) {
        let turn = self.turns[step.slot as usize];
        let record = Record {
            slot: step.slot,
            turn,
            touch: TOUCH_ALL,
            ..Record::zeroed()
        };
        match step.kind {
            StepKind::Allocate { how, bytes } => {
                let (op, align_log2) = match how {
                    Allocated::Malloc => (op::MALLOC, 0),
                    Allocated::Calloc => (op::CALLOC, 0),
                    Allocated::Aligned(log2) => (op::ALIGNED, log2),
                };
                let large = self.large(step.slot, bytes, false);
                (
                    Record {
                        op,
                        align_log2,
                        ..record
                    }
                    .with_bytes(bytes),
                    large,
                )
            }
            StepKind::Resize { bytes, touch } => {
                self.touches.end(step.slot, touch);
                let large = self.large(step.slot, bytes, true);
                (
                    Record {
                        op: op::RESIZE,
                        ..record
                    }
                    .with_bytes(bytes),
                    large,
                )
            }
            _ => {
                if let StepKind::Free { touch } = step.kind {
                    self.touches.end(step.slot, touch);
                }
                (
                    Record {
                        op: op::FREE,
                        ..record
                    },
                    None,
                )
            }
        }
    }

    fn large(&mut self, slot: u32, bytes: u64, was_resized: bool) -> Option<usize> {
        (bytes >= LARGE_BYTES).then(|| self.touches.begin(slot, bytes, was_resized))
    }

    /// Writes the epoch, thread by thread; within one in their order.
    fn end_epoch(&mut self) -> Result<(), Error> {
        let epoch = self.epochs.len() as u32;
        let first_segment = self.segments.len() as u32;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|waiting| waiting.thread);
        for of_thread in waiting.chunk_by(|a, b| a.thread == b.thread) {
            let thread = of_thread[0].thread;
            let life = &mut self.lives[thread as usize];
            life.first_epoch = life.first_epoch.min(epoch);
            life.last_epoch = epoch;
            let count = of_thread.len() as u32;
            self.segments.push(Segment {
                thread,
                count,
                first: self.written,
            });
            for waiting in of_thread {
                if let Some(id) = waiting.large {
                    self.touches.at(id, self.written);
                }
                self.file.write_all(bytemuck::bytes_of(&waiting.record))?;
                self.written += 1;
            }
        }
        let segments = self.segments.len() as u32 - first_segment;
        self.epochs.push(Epoch {
            time_ns: self.epoch_ns,
            first_segment,
            segments,
        });
        waiting.clear();
        self.waiting = waiting;
        Ok(())
    }

    fn section<T: Pod>(&mut self, at: &mut u64, entries: &[T]) -> Result<Section, Error> {
        let bytes: &[u8] = bytemuck::cast_slice(entries);
        self.file.write_all(bytes)?;
        let padded = (bytes.len() as u64).next_multiple_of(16);
        self.file
            .write_all(&[0; 16][..(padded - bytes.len() as u64) as usize])?;
        let section = Section {
            at: *at,
            count: entries.len() as u64,
        };
        *at += padded;
        Ok(section)
    }

    /// After the last epoch: writes the sections behind the records, and the header. Operations and epochs.
    fn finish(
        mut self,
        (threads, lanes, slots, samples): (&[replayer::Thread], u32, u32, &[u64]),
        length_ns: u64,
    ) -> Result<(u64, u64), Error> {
        let record_bytes = size_of::<Record>() as u64;
        let records = Section {
            at: HEADER_BYTES as u64,
            count: self.written,
        };
        let mut at = records.at + self.written * record_bytes;
        let (segments, epochs) = (
            std::mem::take(&mut self.segments),
            std::mem::take(&mut self.epochs),
        );
        let plan = Plan {
            magic: PLAN_MAGIC,
            version: VERSION,
            slots,
            lanes,
            reserved: 0,
            records,
            segments: self.section(&mut at, &segments)?,
            epochs: self.section(&mut at, &epochs)?,
            threads: self.section(&mut at, threads)?,
            samples: self.section(&mut at, samples)?,
            length_ns,
        };
        let file = self
            .file
            .into_inner()
            .map_err(|failed| failed.into_error())?;
        file.write_all_at(bytemuck::bytes_of(&plan), 0)?;
        let touch_at = std::mem::offset_of!(Record, touch) as u64;
        for (record, share) in self.touches.shares() {
            file.write_all_at(&[share], records.at + record * record_bytes + touch_at)?;
        }
        Ok((self.written, epochs.len() as u64))
    }
}

//! highwater's side of a recording: makes the file, allocates disk blocks ahead of the recorder, adds samples of the
//! program's memory, and seals the file.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use trace_abi::chunk::{CHUNK_HEADER_BYTES, Chunk, Ended, Sample};
use trace_abi::{CLOSED, HEADER_BYTES, Header, kind, off_reason, state};

use crate::chunks::{read_payload, scan};
use crate::damage::Damage;
use crate::error::{TraceError, create_new};
use crate::header::{New, page};
use crate::samples::{ended_bytes, sample_bytes};
use crate::ticks::{Clock, calibrate, now, realtime_ns};
use crate::write::chunk_head;

/// Room ahead of the recorder: a second of 10 million events.
const AHEAD_BYTES: u64 = 64 << 20;
/// The least that is added; below it the disk counts as full.
const STEP_BYTES_MIN: u64 = 256 << 10;
/// Where a file system allocates no blocks by itself, zeros are written in pieces of this.
const ZEROS_BYTES: usize = 1 << 20;
/// highwater's own chunks.
const SAMPLES_CHUNK_BYTES: u32 = 64 << 10;
const ALIVE_CHUNK_BYTES: u32 = 64 << 10;
const FACTS_CHUNK_BYTES: u32 = 16 << 10;
const ENDED_CHUNK_BYTES: u32 = 16 << 10;
/// Free space that is left to the service: this, or one part in twenty of the file system if that is less.
const RESERVE_BYTES: u64 = 1 << 30;
const RESERVE_PART: u64 = 20;

/// A chunk of highwater's own.
#[derive(Clone, Copy, Debug)]
struct Own {
    at: u64,
    bytes: u32,
    used: u32,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    map: MmapMut,
    clock: Clock,
    start_ns: u64,
    allocated_bytes: u64,
    max_bytes: u64,
    facts: Option<Own>,
    samples: Option<Own>,
    alive: Option<Own>,
    ended: Option<Own>,
    is_full: bool,
    kept: Ledge,
}

/// What is left of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledge {
    /// Bytes that the file system has free, without those reserved for root.
    pub free_bytes: u64,
    /// Bytes of it that a trace leaves alone.
    pub reserve_bytes: u64,
}

/// A trace that is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    pub bytes: u64,
}

impl Recording {
    /// Makes the file, which must not exist, readable by its user alone.
    ///
    /// # Errors
    /// It exists, cannot be made, or the disk is full.
    pub fn create(path: &Path, max_bytes: u64) -> Result<Recording, TraceError> {
        let failed = |source| TraceError::making(path, source);
        let file = create_new(path)?;
        let mut recording = Recording::begin(file, path, max_bytes).map_err(failed)?;
        if !recording.grow() {
            drop(std::fs::remove_file(path));
            return Err(failed(Error::from(ErrorKind::StorageFull)));
        }
        // First of all, so that there is room for them whatever the program does.
        recording.facts = recording.take(kind::FACTS, FACTS_CHUNK_BYTES);
        recording.samples = recording.take(kind::SAMPLES, SAMPLES_CHUNK_BYTES);
        recording.alive = recording.take(kind::ALIVE, ALIVE_CHUNK_BYTES);
        Ok(recording)
    }

    fn begin(file: File, path: &Path, max_bytes: u64) -> Result<Recording, Error> {
        let clock = Clock::best();
        let [start, end] = calibrate(clock);
        let max_bytes = max_bytes.max(HEADER_BYTES + STEP_BYTES_MIN) & !(HEADER_BYTES - 1);
        let new = New {
            clock,
            page_bytes: rustix::param::page_size() as u32,
            max_bytes,
            start,
            end,
            start_realtime_ns: realtime_ns(),
        };
        file.write_all_at(&page(&new), 0)?;
        // SAFETY: the file is ours alone but for the recorder, which shares these fields by atomics.
        let map = unsafe {
            memmap2::MmapOptions::new()
                .len(HEADER_BYTES as usize)
                .map_mut(&file)?
        };
        Ok(Recording {
            path: path.to_path_buf(),
            file,
            map,
            clock,
            start_ns: start.1,
            allocated_bytes: HEADER_BYTES,
            max_bytes,
            facts: None,
            samples: None,
            alive: None,
            ended: None,
            is_full: false,
            kept: Ledge::default(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn header(&self) -> &Header {
        // SAFETY: a page that starts with a header and stays mapped; what changes in it is atomic.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Bytes of the file that have been taken.
    pub fn used_bytes(&self) -> u64 {
        match self.header().next.load(Acquire) {
            CLOSED => self.allocated_bytes,
            next => next,
        }
    }

    /// Whether a program has taken the trace.
    pub fn is_taken(&self) -> bool {
        self.header().state.load(Acquire) != state::WAITING
    }

    /// How many programs the process has been so far: one more with each exec.
    pub fn images(&self) -> u32 {
        self.header().images.load(Acquire)
    }

    /// Whether nothing more is recorded.
    pub fn is_off(&self) -> bool {
        self.header().state.load(Acquire) == state::OFF
    }

    /// The process that records, as it sees itself.
    pub fn pid(&self) -> u32 {
        self.header().pid.load(Acquire)
    }

    /// What the disk had left when it was called full.
    pub fn ledge(&self) -> Ledge {
        self.kept
    }

    /// Allocates disk blocks ahead of the recorder. False: the disk has none to spare; the recorder uses what it has
    /// and then stops.
    pub fn grow(&mut self) -> bool {
        let wanted = self
            .used_bytes()
            .saturating_add(AHEAD_BYTES)
            .min(self.max_bytes);
        if self.is_full || wanted < self.allocated_bytes.saturating_add(AHEAD_BYTES / 2) {
            let is_last = wanted == self.max_bytes && self.allocated_bytes < self.max_bytes;
            if self.is_full || !is_last {
                return !self.is_full;
            }
        }
        let mut step = wanted.saturating_sub(self.allocated_bytes);
        while step > 0 {
            if self.has_room(step) && self.allocate(step) {
                self.allocated_bytes += step;
                self.header().limit.store(self.allocated_bytes, Release);
                return true;
            }
            if step <= STEP_BYTES_MIN {
                break;
            }
            step = (step / 2).next_multiple_of(HEADER_BYTES);
        }
        self.is_full = step > 0;
        step == 0
    }

    fn has_room(&mut self, bytes: u64) -> bool {
        let Ok(disk) = fstatvfs(&self.file) else {
            return true;
        };
        let total = disk.f_blocks.saturating_mul(disk.f_frsize);
        let reserve_bytes = RESERVE_BYTES.min(total / RESERVE_PART);
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        self.kept = Ledge {
            free_bytes,
            reserve_bytes,
        };
        // Of a file system that does not know its size nothing can be asked.
        total == 0 || free_bytes >= bytes.saturating_add(reserve_bytes)
    }

    fn allocate(&self, bytes: u64) -> bool {
        match fallocate(
            &self.file,
            FallocateFlags::empty(),
            self.allocated_bytes,
            bytes,
        ) {
            Ok(()) => true,
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeros(bytes),
            Err(_) => false,
        }
    }

    fn write_zeros(&self, bytes: u64) -> bool {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = self.allocated_bytes;
        let end = at + bytes;
        while at < end {
            let piece = ZEROS_BYTES.min((end - at) as usize);
            if self.file.write_all_at(&zeros[..piece], at).is_err() {
                return false;
            }
            at += piece as u64;
        }
        true
    }

    /// Nothing is recorded from now on.
    pub fn stop(&self) {
        let header = self.header();
        let (none, requested) = (off_reason::NONE, off_reason::REQUESTED);
        if header
            .off_reason
            .compare_exchange(none, requested, AcqRel, Relaxed)
            .is_ok()
        {
            header.off_ticks.store(now(self.clock).0, Relaxed);
        }
        header.stop.store(1, Release);
    }

    /// Takes a chunk for highwater's own use. `None`: there is no room.
    fn take(&self, kind: u16, bytes: u32) -> Option<Own> {
        let room = |next: u64| {
            let end = next.checked_add(u64::from(bytes))?;
            (next != CLOSED && end <= self.allocated_bytes).then_some(end)
        };
        let at = self
            .header()
            .next
            .fetch_update(AcqRel, Acquire, room)
            .ok()?;
        let head = chunk_head(kind, bytes, CHUNK_HEADER_BYTES);
        self.file.write_all_at(&head, at).ok()?;
        Some(Own {
            at,
            bytes,
            used: CHUNK_HEADER_BYTES,
        })
    }

    /// Appends to a chunk of highwater's own. False: it is full.
    fn append(&self, own: &mut Own, bytes: &[u8]) -> bool {
        let end = own.used + bytes.len() as u32;
        if end > own.bytes {
            return false;
        }
        let used_at = own.at + offset_of!(Chunk, used) as u64;
        let is_written = self
            .file
            .write_all_at(bytes, own.at + u64::from(own.used))
            .is_ok()
            && self.file.write_all_at(&end.to_le_bytes(), used_at).is_ok();
        own.used = end;
        is_written
    }

    /// Adds facts: lines `name=value`. Line breaks in a value become blanks.
    pub fn add_facts(&mut self, facts: &[(&str, String)]) {
        let lines = facts
            .iter()
            .map(|(name, value)| format!("{name}={}\n", value.replace('\n', " ")));
        let text: String = lines.collect();
        self.facts = self.with_room(self.facts, kind::FACTS, FACTS_CHUNK_BYTES, text.as_bytes());
    }

    /// Appends to a chunk of highwater's own, or to a new one where it is full; the one that goes on.
    fn with_room(&self, own: Option<Own>, kind: u16, bytes: u32, what: &[u8]) -> Option<Own> {
        let mut own = own;
        if own.as_mut().is_some_and(|own| self.append(own, what)) {
            return own;
        }
        let mut next = self.take(kind, bytes)?;
        self.append(&mut next, what);
        Some(next)
    }

    /// Adds a sample, and notes the clocks of this instant.
    pub fn add_sample(&mut self, sample: &Sample) {
        let header = self.header();
        let (ticks, monotonic_ns) = now(self.clock);
        header.end_monotonic_ns.store(monotonic_ns, Relaxed);
        header.end_ticks.store(ticks, Relaxed);
        let bytes = sample_bytes(sample);
        self.samples = self.with_room(self.samples, kind::SAMPLES, SAMPLES_CHUNK_BYTES, &bytes);
    }

    /// Time since the start of the trace, ns.
    pub fn elapsed_ns(&self) -> u64 {
        now(Clock::Monotonic).1.saturating_sub(self.start_ns)
    }

    /// Notes threads that have ended since the last time.
    pub fn add_ended(&mut self, tids: &[u32]) {
        let time_ns = self.elapsed_ns();
        let rows = tids.iter().map(|tid| Ended {
            time_ns,
            tid: u64::from(*tid),
        });
        for row in rows.map(|row| ended_bytes(&row)) {
            self.ended = self.with_room(self.ended, kind::ENDED, ENDED_CHUNK_BYTES, &row);
        }
    }

    /// Notes which threads are alive, in place of those noted before.
    pub fn set_alive(&mut self, tids: &[u32]) {
        let mut own = self.alive;
        if let Some(own) = own.as_mut() {
            let most = (own.bytes - CHUNK_HEADER_BYTES) as usize / 4;
            let bytes: Vec<u8> = tids
                .iter()
                .take(most)
                .flat_map(|tid| tid.to_le_bytes())
                .collect();
            own.used = CHUNK_HEADER_BYTES;
            self.append(own, &bytes);
        }
        self.alive = own;
    }

    /// Takes no chunk any more, gives back what is left of the file, and adds checksums. After [`Recording::stop`] a
    /// thread may be in the middle of an event: the caller waits a moment before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<Finished, TraceError> {
        let failed = |source| TraceError::Write {
            path: self.path.clone(),
            source,
        };
        if self.is_full {
            let (no_room, full) = (off_reason::NO_ROOM, off_reason::DISK_FULL);
            let _ = self
                .header()
                .off_reason
                .compare_exchange(no_room, full, AcqRel, Relaxed);
        }
        let bytes = match self.header().next.swap(CLOSED, AcqRel) {
            CLOSED => self.allocated_bytes,
            next => next,
        };
        self.file.set_len(bytes).map_err(failed)?;
        self.header().limit.store(bytes, Release);
        self.seal(bytes).map_err(failed)?;
        Ok(Finished { bytes })
    }

    fn seal(&self, bytes: u64) -> Result<(), Error> {
        for chunk in scan(&self.file, bytes, &mut Damage::default())? {
            let Some(payload) = read_payload(&self.file, &chunk, false) else {
                continue;
            };
            let crc = crc32fast::hash(&payload).to_le_bytes();
            self.file
                .write_all_at(&crc, chunk.at + offset_of!(Chunk, crc) as u64)?;
        }
        self.file
            .write_all_at(&1u32.to_le_bytes(), offset_of!(Header, sealed) as u64)
    }
}

//! A trace written from events that are in memory: a window of another trace, or one that a test makes up.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trace_abi::chunk::{CHUNK_HEADER_BYTES, Chunk, Ended, Sample, next_bytes};
use trace_abi::event::{self, Before};
use trace_abi::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_MAGIC, EVENT_BYTES_MAX, Event, HEADER_BYTES, Header,
    kind, state,
};

use crate::error::{TraceError, create_new};
use crate::header::{New, page};
use crate::samples::{ended_bytes, sample_bytes};
use crate::ticks::Clock;

/// The header of a chunk of highwater's own.
pub(crate) fn chunk_head(kind: u16, bytes: u32, used: u32) -> [u8; CHUNK_HEADER_BYTES as usize] {
    let mut head = [0; CHUNK_HEADER_BYTES as usize];
    put(
        &mut head,
        offset_of!(Chunk, magic),
        &CHUNK_MAGIC.to_le_bytes(),
    );
    put(&mut head, offset_of!(Chunk, kind), &kind.to_le_bytes());
    put(&mut head, offset_of!(Chunk, image), &1u16.to_le_bytes());
    put(&mut head, offset_of!(Chunk, bytes), &bytes.to_le_bytes());
    put(&mut head, offset_of!(Chunk, used), &used.to_le_bytes());
    head
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The chunk of a thread that is being filled.
struct Filling {
    bytes: u32,
    sequence: u32,
    first: Before,
    before: Before,
    payload: Vec<u8>,
    events: u32,
}

struct OfThread {
    tid: u32,
    name: String,
    filling: Filling,
}

/// Writes a trace whose clock counts ns.
pub struct TraceWriter {
    path: PathBuf,
    file: File,
    at: u64,
    threads: Vec<OfThread>,
    samples: Vec<u8>,
    facts: String,
    alive: Vec<u8>,
    ended: Vec<u8>,
    end_ns: u64,
}

impl TraceWriter {
    /// Makes the file, which must not exist.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(path: &Path) -> Result<TraceWriter, TraceError> {
        Ok(TraceWriter {
            path: path.to_path_buf(),
            file: create_new(path)?,
            at: HEADER_BYTES,
            threads: Vec::new(),
            samples: Vec::new(),
            facts: String::new(),
            alive: Vec::new(),
            ended: Vec::new(),
            end_ns: 1,
        })
    }

    /// Adds a thread; its number.
    pub fn thread(&mut self, tid: u32, name: &str, is_alive: bool) -> u32 {
        let filling = Filling::new(CHUNK_BYTES_MIN, 0, Before::default());
        self.threads.push(OfThread {
            tid,
            name: name.to_owned(),
            filling,
        });
        if is_alive {
            self.alive.extend(tid.to_le_bytes());
        }
        self.threads.len() as u32 - 1
    }

    /// A thread has ended, ns after the start: later than its last event.
    pub fn ended(&mut self, thread: u32, time_ns: u64) {
        self.end_ns = self.end_ns.max(time_ns);
        let tid = u64::from(self.threads[thread as usize].tid);
        self.ended.extend(ended_bytes(&Ended { time_ns, tid }));
    }

    /// Adds an event of a thread, ns after the start; not before the thread's last.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn event(&mut self, thread: u32, time_ns: u64, event: Event) -> Result<(), TraceError> {
        self.end_ns = self.end_ns.max(time_ns);
        let filling = &mut self.threads[thread as usize].filling;
        let used = filling.payload.len() as u32 + CHUNK_HEADER_BYTES;
        if used + EVENT_BYTES_MAX as u32 > filling.bytes {
            let next = Filling::new(
                next_bytes(filling.bytes),
                filling.sequence + 1,
                filling.before,
            );
            let full = std::mem::replace(filling, next);
            self.write_chunk(thread, &full)?;
        }
        let filling = &mut self.threads[thread as usize].filling;
        let mut room = [0; EVENT_BYTES_MAX];
        // SAFETY: the room is as long as the longest event.
        let end = unsafe { event::write(room.as_mut_ptr(), &mut filling.before, time_ns, event) };
        let length = end as usize - room.as_ptr() as usize;
        filling.payload.extend(&room[..length]);
        filling.events += 1;
        Ok(())
    }

    /// Adds a sample of the program's memory.
    pub fn sample(&mut self, sample: &Sample) {
        self.end_ns = self.end_ns.max(sample.time_ns);
        self.samples.extend(sample_bytes(sample));
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: &str) {
        self.facts
            .push_str(&format!("{name}={}\n", value.replace('\n', " ")));
    }

    /// Writes what is left, and the header.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), TraceError> {
        for thread in 0..self.threads.len() as u32 {
            let empty = Filling::new(CHUNK_BYTES_MIN, 0, Before::default());
            let last = std::mem::replace(&mut self.threads[thread as usize].filling, empty);
            if last.events > 0 {
                self.write_chunk(thread, &last)?;
            }
        }
        let others = [
            (kind::SAMPLES, std::mem::take(&mut self.samples)),
            (kind::FACTS, std::mem::take(&mut self.facts).into_bytes()),
            (kind::ALIVE, std::mem::take(&mut self.alive)),
            (kind::ENDED, std::mem::take(&mut self.ended)),
        ];
        for (kind, bytes) in others {
            // Whole rows: the length of each kind divides it.
            let most = (CHUNK_BYTES_MAX - CHUNK_HEADER_BYTES) as usize / 80 * 80;
            for part in bytes.chunks(most) {
                let length = (part.len() as u32 + CHUNK_HEADER_BYTES).next_power_of_two();
                let length = length.max(CHUNK_BYTES_MIN);
                let mut head =
                    chunk_head(kind, length, part.len() as u32 + CHUNK_HEADER_BYTES).to_vec();
                put(
                    &mut head,
                    offset_of!(Chunk, crc),
                    &crc32fast::hash(part).to_le_bytes(),
                );
                self.write(&head, part, length)?;
            }
        }
        self.write_header()
    }

    fn write_header(&mut self) -> Result<(), TraceError> {
        let end = self.end_ns + 1;
        let mut page = page(&New {
            clock: Clock::Monotonic,
            page_bytes: rustix::param::page_size() as u32,
            max_bytes: self.at,
            start: (0, 0),
            end: (end, end),
            start_realtime_ns: 0,
        });
        let next = self.at.to_le_bytes();
        put(&mut page, offset_of!(Header, next), &next);
        put(&mut page, offset_of!(Header, limit), &next);
        put(
            &mut page,
            offset_of!(Header, state),
            &state::TAKEN.to_le_bytes(),
        );
        put(&mut page, offset_of!(Header, images), &1u32.to_le_bytes());
        put(
            &mut page,
            offset_of!(Header, threads),
            &(self.threads.len() as u32).to_le_bytes(),
        );
        put(&mut page, offset_of!(Header, sealed), &1u32.to_le_bytes());
        let written = self
            .file
            .write_all_at(&page, 0)
            .and_then(|()| self.file.set_len(self.at));
        written.map_err(|source| TraceError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn write_chunk(&mut self, number: u32, filling: &Filling) -> Result<(), TraceError> {
        let used = filling.payload.len() as u32 + CHUNK_HEADER_BYTES;
        let mut head = chunk_head(kind::EVENTS, filling.bytes, used).to_vec();
        let thread = &self.threads[number as usize];
        put(&mut head, offset_of!(Chunk, thread), &number.to_le_bytes());
        put(&mut head, offset_of!(Chunk, tid), &thread.tid.to_le_bytes());
        put(
            &mut head,
            offset_of!(Chunk, sequence),
            &filling.sequence.to_le_bytes(),
        );
        put(
            &mut head,
            offset_of!(Chunk, events),
            &filling.events.to_le_bytes(),
        );
        put(
            &mut head,
            offset_of!(Chunk, crc),
            &crc32fast::hash(&filling.payload).to_le_bytes(),
        );
        for (at, place) in [
            (offset_of!(Chunk, first), filling.first),
            (offset_of!(Chunk, last), filling.before),
        ] {
            put(&mut head, at, &place.ticks.to_le_bytes());
            put(&mut head, at + 8, &place.address.to_le_bytes());
        }
        let name = &thread.name.as_bytes()[..thread.name.len().min(15)];
        put(&mut head, offset_of!(Chunk, name), name);
        let payload = filling.payload.clone();
        self.write(&head, &payload, filling.bytes)
    }

    fn write(&mut self, head: &[u8], payload: &[u8], length: u32) -> Result<(), TraceError> {
        let behind = self.at + head.len() as u64;
        let written = self
            .file
            .write_all_at(head, self.at)
            .and_then(|()| self.file.write_all_at(payload, behind));
        written.map_err(|source| TraceError::Write {
            path: self.path.clone(),
            source,
        })?;
        self.at += u64::from(length);
        Ok(())
    }
}

impl Filling {
    fn new(bytes: u32, sequence: u32, before: Before) -> Filling {
        let first = Before {
            ticks: before.ticks,
            address: 0,
        };
        Filling {
            bytes,
            sequence,
            first,
            before: first,
            payload: Vec::new(),
            events: 0,
        }
    }
}

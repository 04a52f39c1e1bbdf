//! The chunks of a trace: found by their headers alone, in a file that may be cut, damaged or hostile.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_abi::chunk::{CHUNK_HEADER_BYTES, Chunk, Ended, Sample};
use trace_abi::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_MAGIC, HEADER_BYTES, kind};

use crate::damage::Damage;
use crate::error::TraceError;
use crate::header::{self, Facts, u16_at, u32_at, u64_at};
use crate::samples::{parse_alive, parse_ended, parse_facts, parse_samples};
use crate::ticks::Scale;

/// Fact of a trace whose program came to its end by itself, with exit code 0.
pub const ENDED: &str = "ended";

/// Threads of a trace that are read; real programs have tens of thousands at most.
const THREADS_MAX: usize = 1 << 20;
/// Chunks of a trace that are read: 4 GiB in the smallest.
const CHUNKS_MAX: usize = 1 << 20;

/// Where a chunk lies, and what its header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub at: u64,
    pub kind: u16,
    pub image: u16,
    /// Bytes behind the header that are in use and in the file.
    pub payload_bytes: u32,
    pub thread: u32,
    pub tid: u32,
    pub sequence: u32,
    pub crc: u32,
    pub first_ticks: u64,
    pub first_address: u64,
    pub events: u32,
    pub name: [u8; 16],
    pub is_cut: bool,
}

/// One thread of the trace.
#[derive(Clone, Debug)]
pub struct ThreadChunks {
    /// Its number in the trace; the first that allocated has 0.
    pub number: u32,
    /// Its id in the kernel.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Events that the chunks' headers count.
    pub events: u64,
    /// Whether it was alive at the last sample. Others end with their last event.
    pub is_alive: bool,
    /// When it was first missing among the threads, ns since the start; `None`: not seen, or alive.
    pub ended_ns: Option<u64>,
    pub(crate) chunks: Vec<Found>,
}

/// A trace whose chunks are found; no event is read yet.
#[derive(Debug)]
pub struct Trace {
    pub path: PathBuf,
    pub facts: Facts,
    pub bytes: u64,
    /// Of the program that the process was last, in the order of their numbers.
    pub threads: Vec<ThreadChunks>,
    /// The program's memory, in the order of time.
    pub samples: Vec<Sample>,
    /// What is known of the program and the machine: `name=value`.
    pub about: BTreeMap<String, String>,
    /// Events of the programs that the process was before (exec): left out.
    pub events_before_exec: u64,
    pub damage: Damage,
    pub(crate) file: Arc<File>,
}

impl Trace {
    /// Finds the chunks.
    ///
    /// # Errors
    /// The file cannot be read, or is no trace of this version. Cut and damaged ones are read as far as they go.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let failed = |source| TraceError::Read {
            path: path.to_path_buf(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut page = vec![0; (HEADER_BYTES.min(bytes)) as usize];
        file.read_exact_at(&mut page, 0).map_err(failed)?;
        let facts = header::parse(path, &page)?;
        let mut damage = Damage {
            missing_bytes: facts.file_bytes.saturating_sub(bytes),
            ..Damage::default()
        };
        let found = scan(&file, bytes, &mut damage).map_err(failed)?;
        let mut trace = Trace {
            path: path.to_path_buf(),
            facts,
            bytes,
            threads: Vec::new(),
            samples: Vec::new(),
            about: BTreeMap::new(),
            events_before_exec: 0,
            damage,
            file: Arc::new(file),
        };
        trace.take(&found);
        Ok(trace)
    }

    /// Events that the chunks' headers count.
    pub fn events(&self) -> u64 {
        self.threads.iter().map(|thread| thread.events).sum()
    }

    /// What is known under a name.
    pub fn about(&self, name: &str) -> Option<&str> {
        self.about.get(name).map(String::as_str)
    }

    /// Whether it is of the whole life of a process that came to its end by itself.
    pub fn is_whole_life(&self) -> bool {
        self.facts.stopped().is_none() && self.about(ENDED).is_some() && self.is_from_the_start()
    }

    /// Whether it begins with its process. What a shell did before exec is no part of it.
    pub fn is_from_the_start(&self) -> bool {
        let first = self.samples.first().map_or(0, |sample| sample.time_ns);
        self.events_before_exec == 0 || first <= self.facts.length_ns / 20
    }

    fn take(&mut self, found: &[Found]) {
        let events = || found.iter().filter(|chunk| chunk.kind == kind::EVENTS);
        let last_image = events().map(|chunk| chunk.image).max().unwrap_or(0);
        let (mut alive, mut ended) = (Vec::new(), Vec::new());
        for chunk in found.iter().filter(|chunk| chunk.kind != kind::EVENTS) {
            if chunk.kind == kind::LARGE {
                continue;
            }
            let Some(bytes) = self.read_other(chunk) else {
                continue;
            };
            match chunk.kind {
                kind::SAMPLES => self.samples.extend(parse_samples(&bytes)),
                kind::FACTS => self.about.extend(parse_facts(&bytes)),
                kind::ALIVE => alive = parse_alive(&bytes),
                kind::ENDED => ended.extend(parse_ended(&bytes)),
                _ => {}
            }
        }
        self.samples.sort_by_key(|sample| sample.time_ns);
        let before = events().filter(|chunk| chunk.image != last_image);
        self.events_before_exec = before.map(|chunk| u64::from(chunk.events)).sum();
        let mut threads: BTreeMap<u32, ThreadChunks> = BTreeMap::new();
        for chunk in events().filter(|chunk| chunk.image == last_image) {
            if threads.len() >= THREADS_MAX && !threads.contains_key(&chunk.thread) {
                self.damage.lost_events += u64::from(chunk.events);
                continue;
            }
            let thread = threads.entry(chunk.thread).or_insert_with(|| ThreadChunks {
                number: chunk.thread,
                tid: chunk.tid,
                name: String::new(),
                events: 0,
                is_alive: false,
                ended_ns: None,
                chunks: Vec::new(),
            });
            thread.events += u64::from(chunk.events);
            thread.chunks.push(*chunk);
        }
        self.threads = threads.into_values().collect();
        for thread in &mut self.threads {
            self.damage.missing_chunks += order(thread);
        }
        self.drop_samples_before_exec();
        mark_ended(&mut self.threads, &ended, self.facts.scale);
        mark_alive(&mut self.threads, &alive);
    }

    /// Memory of the programs that the process was before.
    fn drop_samples_before_exec(&mut self) {
        let chunks = self
            .threads
            .iter()
            .filter_map(|thread| thread.chunks.first());
        let first = chunks
            .map(|chunk| self.facts.scale.ns(chunk.first_ticks))
            .min();
        if let Some(first) = first.filter(|_| self.events_before_exec > 0) {
            self.samples.retain(|sample| sample.time_ns >= first);
        }
    }

    fn read_other(&mut self, chunk: &Found) -> Option<Vec<u8>> {
        match read_payload(&self.file, chunk, self.facts.is_sealed) {
            Some(bytes) => Some(bytes),
            None => {
                self.damage.checksums += 1;
                None
            }
        }
    }
}

/// The last thread of each id that had started when it was missing.
fn mark_ended(threads: &mut [ThreadChunks], ended: &[Ended], scale: Scale) {
    let mut of_tid: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, thread) in threads.iter().enumerate() {
        of_tid.entry(u64::from(thread.tid)).or_default().push(index);
    }
    for row in ended {
        let has_started = |index: &&usize| {
            let first = threads[**index].chunks.first();
            first.is_some_and(|chunk| scale.ns(chunk.first_ticks) <= row.time_ns)
        };
        let last = of_tid
            .get(&row.tid)
            .and_then(|all| all.iter().rfind(has_started));
        if let Some(index) = last.copied() {
            threads[index].ended_ns = Some(row.time_ns);
        }
    }
}

/// The last thread of each id that was alive: ids are used again.
fn mark_alive(threads: &mut [ThreadChunks], alive: &[u32]) {
    let mut left: std::collections::BTreeSet<u32> = alive.iter().copied().collect();
    for thread in threads.iter_mut().rev() {
        thread.is_alive = left.remove(&thread.tid);
        if thread.is_alive {
            thread.ended_ns = None;
        }
    }
}

/// Puts a thread's chunks in order; how many are missing.
fn order(thread: &mut ThreadChunks) -> u64 {
    thread.chunks.sort_by_key(|chunk| chunk.sequence);
    thread.chunks.dedup_by_key(|chunk| chunk.sequence);
    let name = thread
        .chunks
        .last()
        .map(|chunk| chunk.name)
        .unwrap_or_default();
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    thread.name = String::from_utf8_lossy(&name[..end]).into_owned();
    let mut expected = 0;
    let mut missing = 0;
    for chunk in &thread.chunks {
        missing += u64::from(chunk.sequence.saturating_sub(expected));
        expected = chunk.sequence.saturating_add(1);
    }
    missing
}

/// What is in use of a chunk; `None`: it cannot be read, or its checksum is another one.
pub(crate) fn read_payload(file: &File, chunk: &Found, is_sealed: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0; chunk.payload_bytes as usize];
    file.read_exact_at(&mut bytes, chunk.at + u64::from(CHUNK_HEADER_BYTES))
        .ok()?;
    let is_right = !is_sealed || chunk.is_cut || crc32fast::hash(&bytes) == chunk.crc;
    is_right.then_some(bytes)
}

/// All chunks, in the order of the file.
pub(crate) fn scan(
    file: &File,
    bytes: u64,
    damage: &mut Damage,
) -> Result<Vec<Found>, std::io::Error> {
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    let mut head = [0; CHUNK_HEADER_BYTES as usize];
    while at + u64::from(CHUNK_HEADER_BYTES) <= bytes && found.len() < CHUNKS_MAX {
        match file.read_exact_at(&mut head, at) {
            Ok(()) => {}
            // The file has become shorter meanwhile.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        match parse(&head, at, bytes) {
            Some((chunk, length)) => {
                damage.cut_chunks += u64::from(chunk.is_cut);
                found.push(chunk);
                at += u64::from(length);
            }
            None => {
                // Room that was never used is zero.
                if head.iter().any(|byte| *byte != 0) {
                    damage.foreign_bytes += u64::from(CHUNK_BYTES_MIN).min(bytes - at);
                }
                at += u64::from(CHUNK_BYTES_MIN);
            }
        }
    }
    Ok(found)
}

/// A chunk's header, and its length; `None`: it is none.
fn parse(head: &[u8], at: u64, file_bytes: u64) -> Option<(Found, u32)> {
    let length = u32_at(head, offset_of!(Chunk, bytes));
    let used = u32_at(head, offset_of!(Chunk, used));
    let kind = u16_at(head, offset_of!(Chunk, kind));
    let is_chunk = u32_at(head, offset_of!(Chunk, magic)) == CHUNK_MAGIC
        && length.is_power_of_two()
        && (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&length)
        && (CHUNK_HEADER_BYTES..=length).contains(&used)
        && (kind::EVENTS..=kind::ENDED).contains(&kind);
    if !is_chunk {
        return None;
    }
    let in_file = (file_bytes - at).min(u64::from(used)) as u32;
    let name_at = offset_of!(Chunk, name);
    let chunk = Found {
        at,
        kind,
        image: u16_at(head, offset_of!(Chunk, image)),
        payload_bytes: in_file - CHUNK_HEADER_BYTES,
        thread: u32_at(head, offset_of!(Chunk, thread)),
        tid: u32_at(head, offset_of!(Chunk, tid)),
        sequence: u32_at(head, offset_of!(Chunk, sequence)),
        crc: u32_at(head, offset_of!(Chunk, crc)),
        first_ticks: u64_at(head, offset_of!(Chunk, first)),
        first_address: u64_at(head, offset_of!(Chunk, first) + 8),
        events: u32_at(head, offset_of!(Chunk, events)),
        name: head[name_at..name_at + 16]
            .try_into()
            .expect("sixteen bytes"),
        is_cut: in_file < used,
    };
    Some((chunk, length))
}

//! The turns of a watch into a file, as they come.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::{
    CHUNK_BYTES_MAX, Chunk, Closing, Delta, Facts, MAGIC, NewNames, RecordedStack, RecordedTurn,
    RecordingError, VERSION,
};
use crate::event::{Event, StackId, Tid};
use crate::requests::{Answered, Reply};
use crate::watch::{Turn, Watch};

/// Events gathered before a chunk is written; some 3 MiB of it at most.
const EVENTS_MAX: usize = 100_000;
/// Stacks in a chunk of names, some kilobytes each.
const STACKS_MAX: usize = 500;
/// Of a quiet process a chunk is written after this time all the same: a recorder that is killed loses no more.
const EVERY_NS: u64 = 1_000_000_000;
/// A recording ends at this size, and the watch goes on.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Chunks that wait to be written, a second's worth each: a disk that is further behind ends the recording.
const WAITING_MAX: usize = 16;

/// Writes what a watch tells. Nothing that happens to the file ends the watch.
pub struct Recorder {
    path: PathBuf,
    /// To the thread that writes: the watch must not wait for a disk, for its rings would run over meanwhile.
    chunks: SyncSender<Vec<u8>>,
    writer: JoinHandle<io::Result<()>>,
    turns: Vec<RecordedTurn>,
    answered: Vec<Answered>,
    replies: Vec<Reply>,
    events: usize,
    chunk_begun_ns: u64,
    bytes: u64,
    bytes_max: u64,
    all_events: u64,
    texts: usize,
    threads: HashMap<Tid, String>,
    holders: HashSet<(StackId, StackId)>,
    /// Why nothing is written any more.
    ended: Option<End>,
}

/// What a recording came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    pub path: PathBuf,
    pub bytes: u64,
    pub events: u64,
    /// Why it ends before the watch did.
    pub ended: Option<End>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is as long as it may get, so many MiB.
    Full(u64),
    Failed(String),
}

impl std::fmt::Display for End {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Full(mib) => write!(to, "it is {mib} MiB long"),
            End::Failed(why) => to.write_str(why),
        }
    }
}

impl Recorder {
    /// A new file with the facts in it.
    ///
    /// # Errors
    /// The file exists already, cannot be made, or not be written to.
    pub fn create(path: &Path, facts: &Facts) -> Result<Recorder, RecordingError> {
        let refused = |source| RecordingError::Write {
            path: path.to_path_buf(),
            source,
        };
        let mut file = File::create_new(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordingError::Exists {
                path: path.to_path_buf(),
            },
            _ => refused(source),
        })?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend(packed(&Chunk::Facts(facts.clone())).map_err(refused)?);
        file.write_all(&head).map_err(refused)?;
        let (chunks, waiting) = sync_channel(WAITING_MAX);
        let writer = std::thread::Builder::new()
            .name("recording".into())
            .spawn(move || write_all(file, &waiting))
            .map_err(refused)?;
        Ok(Recorder {
            path: path.to_path_buf(),
            chunks,
            writer,
            turns: Vec::new(),
            answered: Vec::new(),
            replies: Vec::new(),
            events: 0,
            chunk_begun_ns: facts.started_ns,
            bytes: head.len() as u64,
            bytes_max: FILE_BYTES_MAX,
            all_events: 0,
            texts: 0,
            threads: HashMap::new(),
            holders: HashSet::new(),
            ended: None,
        })
    }

    /// Takes what a turn brought, at `at_ns`.
    pub fn turn(&mut self, turn: &Turn, at_ns: u64, watch: &mut Watch) {
        if self.ended.is_some() {
            return;
        }
        self.keep(turn, at_ns);
        if self.is_due(at_ns) {
            self.chunk_begun_ns = at_ns;
            let names = self.new_names(watch);
            self.flush(names);
        }
    }

    fn keep(&mut self, turn: &Turn, at_ns: u64) {
        self.events += turn.events.len();
        self.all_events += turn.events.len() as u64;
        self.answered.extend(&turn.answered);
        self.replies.extend(&turn.replies);
        self.turns.push(RecordedTurn {
            at_ns,
            told_ns: turn.told_ns,
            events: deltas(&turn.events, at_ns),
            throttled: turn.throttled.clone(),
            groups: turn.groups.clone(),
        });
    }

    fn is_due(&self, at_ns: u64) -> bool {
        self.events >= EVENTS_MAX || at_ns.saturating_sub(self.chunk_begun_ns) >= EVERY_NS
    }

    /// The rest of the watch, and what is known at its end alone.
    pub fn finish(mut self, rest: &Turn, closing: &Closing, watch: &mut Watch) -> Written {
        self.turn(rest, closing.ended_ns, watch);
        let names = self.new_names(watch);
        self.flush(names);
        if let Some(unseen) = closing.unseen_requests {
            self.write(&Chunk::Unseen(unseen));
        }
        self.write(&Chunk::Closing(Box::new(closing.clone())));
        drop(self.chunks);
        let written = match self.writer.join() {
            Ok(Ok(())) => self.ended,
            Ok(Err(error)) => Some(End::Failed(error.to_string())),
            Err(_) => Some(End::Failed("its writer ended".to_owned())),
        };
        Written {
            path: self.path,
            bytes: self.bytes,
            events: self.all_events,
            ended: written,
        }
    }

    /// Names stand before the events that use them.
    fn flush(&mut self, mut names: NewNames) {
        while !names.is_empty() {
            let later = names.stacks.split_off(names.stacks.len().min(STACKS_MAX));
            let now = std::mem::take(&mut names);
            names.stacks = later;
            self.write(&Chunk::Names(now));
        }
        let answered = std::mem::take(&mut self.answered);
        if !answered.is_empty() {
            self.write(&Chunk::Answered(answered));
        }
        let replies = std::mem::take(&mut self.replies);
        if !replies.is_empty() {
            self.write(&Chunk::Replies(replies));
        }
        let turns = std::mem::take(&mut self.turns);
        self.events = 0;
        if !turns.is_empty() {
            self.write(&Chunk::Turns(turns));
        }
    }

    fn write(&mut self, chunk: &Chunk) {
        if self.ended.is_some() {
            return;
        }
        match packed(chunk) {
            Err(error) => self.ended = Some(End::Failed(error.to_string())),
            Ok(bytes) if self.bytes + bytes.len() as u64 > self.bytes_max => {
                self.ended = Some(End::Full(self.bytes_max >> 20));
            }
            Ok(bytes) => self.send(bytes),
        }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        match self.chunks.try_send(bytes) {
            Ok(()) => self.bytes += length,
            Err(TrySendError::Full(_)) => self.fails("the disk is too slow for it"),
            // What the writer met is said at the end.
            Err(TrySendError::Disconnected(_)) => self.fails("it cannot be written"),
        }
    }

    fn fails(&mut self, why: &str) {
        self.ended = Some(End::Failed(why.to_owned()));
    }

    fn new_names(&mut self, watch: &mut Watch) -> NewNames {
        let texts = watch.places.texts_from(self.texts);
        self.texts += texts.len();
        let stacks = watch.places.take_named();
        let stacks = stacks.into_iter().map(|id| {
            let stack = watch.places.stack_of(id);
            RecordedStack {
                id,
                frames: stack.frames.clone(),
                allocator: stack.allocator,
                locks: stack.locks,
            }
        });
        NewNames {
            texts,
            stacks: stacks.collect(),
            threads: self.new_threads(watch),
            holders: self.new_holders(watch),
        }
    }

    fn new_threads(&mut self, watch: &Watch) -> Vec<(Tid, String)> {
        let named = watch
            .known()
            .map(|(tid, known)| (Tid::from(*tid), &known.name));
        let fresh = named.filter(|(tid, name)| self.threads.get(tid) != Some(*name));
        let mut fresh: Vec<(Tid, String)> = fresh.map(|(tid, name)| (tid, name.clone())).collect();
        fresh.sort_unstable();
        self.threads.extend(fresh.iter().cloned());
        fresh
    }

    fn new_holders(&mut self, watch: &Watch) -> Vec<super::Holder> {
        let all = watch.holders();
        let mut fresh: Vec<super::Holder> = all
            .filter(|(pair, _)| !self.holders.contains(pair))
            .map(|((waiter, during), name)| (*waiter, *during, name.clone()))
            .collect();
        fresh.sort_unstable();
        let pairs = fresh.iter().map(|(waiter, during, _)| (*waiter, *during));
        self.holders.extend(pairs);
        fresh
    }
}

fn write_all(mut file: File, chunks: &Receiver<Vec<u8>>) -> io::Result<()> {
    for chunk in chunks {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Times as distances, the first from the turn's own.
pub(super) fn deltas(events: &[Event], at_ns: u64) -> Vec<Delta> {
    let mut before_ns = at_ns;
    let delta = |event: &Event| {
        let distance = event.at_ns.wrapping_sub(before_ns) as i64;
        before_ns = event.at_ns;
        Delta(distance, event.tid, event.what)
    };
    events.iter().map(delta).collect()
}

/// A chunk as it stands in the file.
pub(super) fn packed(chunk: &Chunk) -> io::Result<Vec<u8>> {
    let plain = postcard::to_allocvec(chunk).map_err(io::Error::other)?;
    if plain.len() > CHUNK_BYTES_MAX {
        return Err(io::Error::other(
            "one second of the watch is too long for a chunk",
        ));
    }
    let packed = lz4_flex::block::compress(&plain);
    let mut bytes = Vec::with_capacity(packed.len() + 12);
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend((plain.len() as u32).to_le_bytes());
    bytes.extend(checksum(&packed, plain.len()).to_le_bytes());
    bytes.extend(packed);
    Ok(bytes)
}

/// Of a chunk's packed bytes and of the length that they unpack to.
pub(super) fn checksum(packed: &[u8], plain: usize) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&(plain as u32).to_le_bytes());
    sum.update(packed);
    sum.finalize()
}

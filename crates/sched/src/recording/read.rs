//! A recorded watch, chunk by chunk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::write::checksum;
use super::{
    CHUNK_BYTES_MAX, Chunk, Closing, Delta, Facts, MAGIC, RecordedNames, RecordedTurn,
    RecordingError, VERSION, VERSION_MIN,
};
use crate::event::Event;
use crate::quota::Stretch;
use crate::requests::{Answered, Reply, Unseen};
use crate::watch::Turn;

/// Of a clock that begins with the machine.
const STARTED_NS_MAX: u64 = u64::MAX / 2;
/// Times further from the watch's start than this are damage.
const SPAN_NS_MAX: u64 = 400 * 24 * 3600 * 1_000_000_000;

/// Reads a recording once, from its beginning. At most one chunk is in memory, and the names.
pub struct Recording {
    pub facts: Facts,
    /// Those that were read so far.
    pub names: RecordedNames,
    file: BufReader<File>,
    at: u64,
    turns: VecDeque<RecordedTurn>,
    /// Of the turns that come next.
    answered: Vec<Answered>,
    replies: Vec<Reply>,
    unseen: Option<Unseen>,
    closing: Option<Closing>,
    damage: Option<String>,
    over: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// A turn, and when it was taken.
    Turn(Turn, u64),
    /// The end, with what is known at the end alone; without, the recorder was killed, or the file is cut or damaged:
    /// in words.
    End(Result<Box<Closing>, String>),
}

impl Recording {
    /// # Errors
    /// The file cannot be read, is none, is of another version, or its first chunk is damaged.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let path = path.to_path_buf();
        let file = File::open(&path).map_err(|source| read(&path, source))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut head = [0; 12];
        match file.read_exact(&mut head) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(read(&path, error));
            }
            Ok(()) if head.starts_with(MAGIC) => {}
            _ => return Err(RecordingError::NoRecording { path }),
        }
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if !(VERSION_MIN..=VERSION).contains(&found) {
            return Err(RecordingError::Version { path, found });
        }
        let (what, at) = match next_chunk(&mut file) {
            Ok(Some((Chunk::Facts(facts), _))) if facts.started_ns > STARTED_NS_MAX => {
                ("it began at an impossible time", 12)
            }
            Ok(Some((Chunk::Facts(facts), bytes))) => {
                return Ok(Recording {
                    facts,
                    names: RecordedNames::default(),
                    file,
                    at: 12 + bytes,
                    turns: VecDeque::new(),
                    answered: Vec::new(),
                    replies: Vec::new(),
                    unseen: None,
                    closing: None,
                    damage: None,
                    over: false,
                });
            }
            Ok(Some(_)) => ("another chunk stands in the place of the first", 12),
            Ok(None) => ("it ends there", 12),
            Err(what) => (what, 12),
        };
        Err(RecordingError::Beginning { path, at, what })
    }

    /// The next turn, or the end; after the end, the end again.
    pub fn read_next(&mut self) -> Next {
        loop {
            if let Some(turn) = self.turns.pop_front() {
                match self.turn(turn) {
                    Some((turn, at_ns)) => return Next::Turn(turn, at_ns),
                    None => self.ends(format!("a time before byte {} is impossible", self.at)),
                }
            }
            if self.over {
                return Next::End(self.end());
            }
            self.read_chunk();
        }
    }

    fn end(&self) -> Result<Box<Closing>, String> {
        match (&self.closing, &self.damage) {
            (_, Some(words)) => Err(words.clone()),
            (Some(closing), None) => Ok(Box::new(closing.clone())),
            (None, None) => Err(format!("it ends at byte {} without its closing", self.at)),
        }
    }

    fn ends(&mut self, words: String) {
        self.damage = Some(words);
        self.turns.clear();
        self.over = true;
    }

    fn read_chunk(&mut self) {
        match next_chunk(&mut self.file) {
            Err(what) => self.ends(format!("it is cut or damaged at byte {}: {what}", self.at)),
            Ok(None) => self.over = true,
            Ok(Some((chunk, bytes))) => {
                self.at += bytes;
                match chunk {
                    Chunk::Names(new) => self.names.add(new),
                    Chunk::Turns(turns) => self.turns = turns.into(),
                    Chunk::Answered(answered) => self.answered.extend(answered),
                    Chunk::Replies(replies) => self.replies.extend(replies),
                    Chunk::Unseen(unseen) => {
                        let share = match unseen.share.is_finite() {
                            true => unseen.share.clamp(0.0, 1.0),
                            false => 0.0,
                        };
                        self.unseen = Some(Unseen { share, ..unseen });
                    }
                    Chunk::Closing(mut closing) => {
                        let started_ns = self.facts.started_ns;
                        let latest_ns = started_ns.saturating_add(SPAN_NS_MAX);
                        closing.ended_ns = closing.ended_ns.clamp(started_ns, latest_ns);
                        if let Some(calls) = &mut closing.calls {
                            calls.retain(|call| call.start_ns <= call.end_ns);
                        }
                        closing.unseen_requests = self.unseen;
                        self.names.quota_groups = closing.quota_groups.clone();
                        self.closing = Some(*closing);
                        self.over = true;
                    }
                    Chunk::Facts(_) => {
                        self.ends(format!("a second beginning before byte {}", self.at))
                    }
                }
                if self.names.are_too_many() {
                    self.ends(format!(
                        "more names before byte {} than a watch has",
                        self.at
                    ));
                }
            }
        }
    }

    /// With times again; none where one is impossible.
    fn turn(&mut self, turn: RecordedTurn) -> Option<(Turn, u64)> {
        let possible = |ns: u64| {
            let from_ns = self.facts.started_ns.saturating_sub(SPAN_NS_MAX);
            let to_ns = self.facts.started_ns.saturating_add(SPAN_NS_MAX);
            (from_ns..=to_ns).contains(&ns)
        };
        let mut at_ns = turn.at_ns;
        let events = turn.events.into_iter().map(|Delta(distance, tid, what)| {
            at_ns = at_ns.wrapping_add(distance as u64);
            possible(at_ns).then_some(Event { at_ns, tid, what })
        });
        let events: Option<Vec<Event>> = events.collect();
        let stretches = || turn.throttled.iter();
        let in_order = |of: &Stretch| of.start_ns <= of.end_ns;
        let ordered =
            stretches().all(|of| in_order(of) && possible(of.start_ns) && possible(of.end_ns));
        let known = ordered && possible(turn.at_ns) && possible(turn.told_ns);
        let events = events.filter(|_| known)?;
        // Those of the turn, as in the watch; the last turn of a chunk has what is left.
        let is_last = self.turns.is_empty();
        let due = |of: &mut Answered| is_last || of.end_ns <= turn.at_ns;
        let answered = self.answered.extract_if(.., due).filter(|of| {
            let ordered = of.start_ns <= of.received_ns && of.received_ns <= of.end_ns;
            ordered && possible(of.start_ns) && possible(of.end_ns)
        });
        let answered = answered.collect();
        let due = |of: &mut Reply| is_last || of.end_ns <= turn.at_ns;
        let replies = self
            .replies
            .extract_if(.., due)
            .filter(|of| of.start_ns <= of.end_ns && possible(of.start_ns) && possible(of.end_ns));
        let replies = replies.collect();
        let given = Turn {
            answered,
            replies,
            events,
            told_ns: turn.told_ns,
            throttled: turn.throttled,
            groups: turn.groups,
            ended: false,
        };
        Some((given, turn.at_ns))
    }
}

fn read(path: &Path, source: io::Error) -> RecordingError {
    RecordingError::Read {
        path: PathBuf::from(path),
        source,
    }
}

/// The next chunk and its bytes in the file; none at the end.
fn next_chunk(file: &mut impl Read) -> Result<Option<(Chunk, u64)>, &'static str> {
    const CUT: &str = "its last chunk is not whole";
    let mut head = [0; 12];
    let mut filled = 0;
    while filled < head.len() {
        match file.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(CUT),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err("the file cannot be read there"),
        }
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (length, plain, crc) = (word(0) as usize, word(4) as usize, word(8));
    if plain > CHUNK_BYTES_MAX || length > lz4_flex::block::get_maximum_output_size(CHUNK_BYTES_MAX)
    {
        return Err("a chunk is longer than any that is written");
    }
    let mut packed = Vec::new();
    let read = file.take(length as u64).read_to_end(&mut packed);
    if read.is_err() || packed.len() < length {
        return Err(CUT);
    }
    if checksum(&packed, plain) != crc {
        return Err("a checksum is wrong");
    }
    let plain = lz4_flex::block::decompress(&packed, plain);
    let plain = plain.map_err(|_| "a chunk cannot be unpacked")?;
    let chunk = postcard::from_bytes(&plain);
    let chunk = chunk.map_err(|_| "a chunk holds something else than it should")?;
    Ok(Some((chunk, length as u64 + 12)))
}

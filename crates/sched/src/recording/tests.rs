//! Recordings that are whole, cut, damaged and hostile.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::write::{checksum, deltas, packed};
use super::*;
use crate::event::{Event, Wait, WaitKind, Waker};
use crate::watch::Turn;

const STARTED_NS: u64 = 7_000_000_000;

fn facts() -> Facts {
    Facts {
        highwater: "0.0.0".into(),
        pid: 42,
        mode: "ebpf".into(),
        started_ns: STARTED_NS,
        day_ns: 1,
        living: vec![42, 43],
        wakers_are_unseen: false,
        samples_the_kernel: true,
        goroutines_are_unseen: false,
    }
}

fn events(from_ns: u64) -> Vec<Event> {
    let wait = Wait {
        holder: Some(43),
        activity: 1,
        stack: 1,
        ..Wait::of(WaitKind::Lock, 0x7f00_0000_1000)
    };
    let by = Waker::Thread(43);
    let whats = [
        What::In { after: 1 },
        What::Blocked(wait),
        What::Woken { by, release: 1 },
    ];
    // The second is told late: times go back between two threads.
    let times = [from_ns + 900, from_ns + 100, from_ns + 2_000];
    let of = |(at_ns, what)| Event {
        at_ns,
        tid: 42,
        what,
    };
    times.into_iter().zip(whats).map(of).collect()
}

fn turn(at_ns: u64) -> RecordedTurn {
    RecordedTurn {
        at_ns,
        told_ns: at_ns - 3,
        events: deltas(&events(at_ns - 1_000_000), at_ns),
        throttled: vec![Stretch {
            start_ns: at_ns - 9,
            end_ns: at_ns,
        }],
        groups: vec![(42, Some(9)), (43, None)],
    }
}

fn names() -> NewNames {
    let frame = Frame {
        name: "export".into(),
        module: "app".into(),
        start: 0x1000,
        bytes: 64,
        package: String::new(),
        borrowed: false,
        interpreter: false,
    };
    let stack = RecordedStack {
        id: 1,
        frames: vec![frame],
        allocator: false,
        locks: true,
    };
    NewNames {
        texts: vec![(1, "fsync of /var/log/app".into())],
        stacks: vec![stack],
        threads: vec![(42, "app".into()), (43, "writer".into())],
        holders: vec![(1, 2, Some("flush".into()))],
    }
}

fn closing() -> Closing {
    Closing {
        ended_ns: STARTED_NS + 9_000_000_000,
        requesters: vec![42],
        quota_groups: vec!["/a".into()],
        unseen_requests: Some(unseen()),
        ..Closing::default()
    }
}

fn bytes(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    for chunk in chunks {
        bytes.extend(packed(chunk).unwrap());
    }
    bytes
}

fn whole() -> Vec<u8> {
    let turns = (1..4).map(|at| turn(STARTED_NS + at * 40_000_000));
    bytes(&[
        Chunk::Facts(facts()),
        Chunk::Names(names()),
        Chunk::Answered(vec![answered(), backwards()]),
        Chunk::Replies(vec![reply(0), reply(20_000)]),
        Chunk::Turns(turns.collect()),
        Chunk::Turns(vec![turn(STARTED_NS + 200_000_000)]),
        Chunk::Unseen(unseen()),
        Chunk::Closing(Box::new(closing())),
    ])
}

/// A request on a connection.
fn answered() -> Answered {
    Answered {
        start_ns: STARTED_NS + 1_000,
        received_ns: STARTED_NS + 2_000,
        end_ns: STARTED_NS + 9_000,
        receiver: 42,
        sender: 43,
    }
}

fn unseen() -> Unseen {
    Unseen {
        uncounted: 7,
        share: 0.25,
    }
}

/// One that no watch tells.
fn backwards() -> Answered {
    Answered {
        end_ns: STARTED_NS,
        ..answered()
    }
}

/// Asked so many nanoseconds after the start.
fn reply(after_ns: u64) -> Reply {
    Reply {
        start_ns: STARTED_NS + after_ns,
        end_ns: STARTED_NS + 9_000,
        tid: 42,
        activity: 0,
    }
}

struct Read {
    turns: Vec<(Turn, u64)>,
    end: Result<Box<Closing>, String>,
    names: RecordedNames,
}

fn read(bytes: &[u8]) -> Result<Read, RecordingError> {
    let (_folder, path) = file(bytes);
    let mut recording = Recording::open(&path)?;
    let mut turns = Vec::new();
    loop {
        match recording.read_next() {
            Next::Turn(turn, at_ns) => turns.push((turn, at_ns)),
            Next::End(end) => {
                assert!(
                    matches!(recording.read_next(), Next::End(_)),
                    "the end again"
                );
                let names = recording.names;
                return Ok(Read { turns, end, names });
            }
        }
    }
}

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.hws");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn what_was_written_is_read() {
    let found = read(&whole()).unwrap();
    assert_eq!(found.turns.len(), 4);
    let (first, at_ns) = &found.turns[0];
    assert_eq!(*at_ns, STARTED_NS + 40_000_000);
    assert_eq!(first.events, events(at_ns - 1_000_000));
    assert_eq!(first.groups, [(42, Some(9)), (43, None)]);
    assert_eq!(first.throttled[0].end_ns, *at_ns);
    assert_eq!(
        first.answered,
        [answered()],
        "and not the one that goes back"
    );
    assert_eq!(first.replies, [reply(0)], "neither is that one");
    assert!(
        found.turns[1..]
            .iter()
            .all(|(turn, _)| turn.answered.is_empty() && turn.replies.is_empty())
    );
    assert_eq!(*found.end.unwrap(), closing());
    let names = found.names;
    assert_eq!(names.thread(43), "writer");
    assert_eq!(names.words(1), "fsync of /var/log/app");
    assert_eq!(names.stack(1).frames[0].name, "export");
    assert!(names.stack(1).locks && names.stack(77).frames.is_empty());
    assert_eq!(names.holder(1, 2), Some("flush"));
    assert_eq!(names.quota_groups, ["/a"]);
    assert_eq!((names.thread(77), names.words(77)), (String::new(), ""));
}

/// Postcard writes a kind of wait as its number, and files of earlier versions have these.
#[test]
fn the_numbers_of_what_is_waited_for_stay() {
    use WaitKind::{
        Disk, Fault, Inbound, Lock, Memory, Network, Other, Outbound, Process, Queue, Sleep,
        Unknown,
    };
    let kinds = [
        Lock, Queue, Inbound, Outbound, Network, Disk, Fault, Memory, Sleep, Other, Unknown,
        Process,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        assert_eq!(
            postcard::to_allocvec(&kind).unwrap(),
            [number as u8],
            "{kind:?}"
        );
    }
}

/// Of the version before requests were in it.
#[test]
fn an_older_recording_is_read() {
    let mut old = bytes(&[
        Chunk::Facts(facts()),
        Chunk::Turns(vec![turn(STARTED_NS + 40_000_000)]),
        Chunk::Closing(Box::new(closing())),
    ]);
    old[8..12].copy_from_slice(&1u32.to_le_bytes());
    let found = read(&old).unwrap();
    assert_eq!(found.turns.len(), 1);
    assert_eq!(found.end.unwrap().unseen_requests, None);
}

/// As a recorder that was killed leaves it.
#[test]
fn of_a_file_that_is_cut_anywhere_all_whole_chunks_are_read() {
    let whole = whole();
    let (mut refused, mut kept) = (0, Vec::new());
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            Err(_) => refused += 1,
            Ok(found) => {
                let words = found.end.expect_err("it has no closing");
                assert!(words.contains("byte"), "{words}");
                kept.push(found.turns.len());
            }
        }
    }
    let beginning = bytes(&[Chunk::Facts(facts())]).len();
    assert_eq!(refused, beginning, "with its first chunk it can be read");
    assert!(kept.is_sorted() && kept.contains(&0) && kept.contains(&3) && kept.contains(&4));
}

#[test]
fn a_byte_that_changed_is_found_wherever_it_is() {
    let whole = whole();
    for at in 0..whole.len() {
        for flip in [0x10, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            if let Ok(found) = read(&damaged) {
                assert!(found.end.is_err(), "byte {at} is not as it was written");
                assert!(found.turns.len() <= 4);
            }
        }
    }
}

#[test]
fn what_is_no_recording_is_refused_with_what_to_do() {
    let error = |bytes: &[u8]| match read(bytes) {
        Ok(_) => panic!("it is none"),
        Err(error) => error.to_string(),
    };
    assert!(error(b"").contains("--record"));
    assert!(error(b"SQLite format 3\0 and so on").contains("--record"));
    let mut newer = whole();
    newer[8] = 200;
    assert!(error(&newer).contains("version 200"), "{}", error(&newer));
    let headless = bytes(&[Chunk::Turns(Vec::new())]);
    assert!(error(&headless).contains("another chunk"));
    let absent = Recording::open(Path::new("/nonexistent/w.hws"));
    assert!(matches!(absent, Err(RecordingError::Read { .. })));
}

/// Chunks with right checksums that no recorder writes.
#[test]
fn a_hostile_file_takes_bounded_memory_and_ends_with_what_is_wrong() {
    let after_facts = |rest: &[u8]| [bytes(&[Chunk::Facts(facts())]), rest.to_vec()].concat();
    let words = |bytes: &[u8]| read(bytes).unwrap().end.unwrap_err();
    // It says that four gigabytes follow, and that they unpack to as many.
    let huge = [0xff; 64];
    assert!(words(&after_facts(&huge)).contains("longer than any"));
    let mut bomb = Vec::new();
    bomb.extend(4_u32.to_le_bytes());
    bomb.extend((CHUNK_BYTES_MAX as u32).to_le_bytes());
    bomb.extend(checksum(b"abcd", CHUNK_BYTES_MAX).to_le_bytes());
    bomb.extend(b"abcd");
    assert!(words(&after_facts(&bomb)).contains("unpacked"));
    let late = RecordedTurn {
        told_ns: u64::MAX,
        ..turn(STARTED_NS + 40_000_000)
    };
    let late = bytes(&[Chunk::Facts(facts()), Chunk::Turns(vec![late])]);
    assert!(words(&late).contains("impossible"));
    let texts = (0..30_000).map(|id| (id, String::new())).collect();
    let many = NewNames {
        texts,
        ..NewNames::default()
    };
    let many = bytes(&[Chunk::Facts(facts()), Chunk::Names(many)]);
    assert!(words(&many).contains("more names"));
    // A kilobyte in the file, 20 MiB in memory, and so on.
    let long = |id| NewNames {
        texts: vec![(id, "a".repeat(20 << 20))],
        ..NewNames::default()
    };
    let long = (0..30).map(|id| Chunk::Names(long(id)));
    let long: Vec<Chunk> = std::iter::once(Chunk::Facts(facts())).chain(long).collect();
    assert!(words(&bytes(&long)).contains("more names"));
    let twice = bytes(&[Chunk::Facts(facts()), Chunk::Facts(facts())]);
    assert!(words(&twice).contains("second beginning"));
}

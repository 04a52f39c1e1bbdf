//! All sessions in one file, and how memory comes back from the newest one and the log after it.
//!
//! The file is a header (magic, generation, seconds) and a record per session, each with its checksum; the last
//! record carries their number, so that a cut file is known for what it is.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::log::{self, Log};
use crate::record::{self, RECORD, Record};
use crate::session::{KINDS, Payload, RECENT, Session, Sessions};

const MAGIC: &[u8; 8] = b"treasur1";
/// token, taps, seen_s, x, y, inventory, recent, crc32.
const ENTRY: usize = 8 + 4 + 4 + 2 + 2 + 4 * KINDS + 8 * RECENT + 4;
/// Longest wait for lanes to take up a new generation; an idle one looks every 100 ms.
const LANES_WAIT: Duration = Duration::from_secs(5);

/// Writes a snapshot and deletes what it replaces. The sessions written.
///
/// # Errors
/// When it cannot be written whole (a full disk, say): the log goes on, nothing older is deleted.
pub fn write<P: Payload>(sessions: &Sessions<P>, log: &Log) -> Result<u64> {
    let generation = log.next_generation();
    let begun = Instant::now();
    while !log.all_write(generation) {
        if begun.elapsed() > LANES_WAIT {
            bail!(
                "a writer of the log did not take up generation {generation}: it may be unable to create its file"
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let path = snapshot_path(log.folder(), generation);
    let fresh = path.with_extension("part");
    let written = write_file(sessions, generation, &fresh);
    if written.is_err() {
        // A part that fills the disk would keep the log from going on.
        let _ = fs::remove_file(&fresh);
    }
    let count = written.with_context(|| format!("writing the snapshot {}", fresh.display()))?;
    fs::rename(&fresh, &path).context("putting the snapshot into its place")?;
    File::open(log.folder())?
        .sync_all()
        .context("syncing the folder of the snapshot")?;
    for old in replaced_by(log.folder(), generation)? {
        fs::remove_file(&old).with_context(|| format!("deleting {}", old.display()))?;
    }
    Ok(count)
}

/// Files that a snapshot of this generation replaces, in the order in which they are to be deleted: a snapshot is
/// worth nothing without the log after it, so snapshots go first, and a kill in between leaves none without its log.
///
/// # Errors
/// When the folder cannot be read.
pub fn replaced_by(folder: &Path, generation: u64) -> io::Result<Vec<PathBuf>> {
    let snapshots = snapshots(folder)?.into_iter();
    let parts = parts(folder)?.into_iter();
    let logs = log::files(folder)?.into_iter();
    Ok(snapshots
        .chain(parts)
        .chain(logs.map(|(path, of, _)| (path, of)))
        .filter(|(_, of)| *of < generation)
        .map(|(path, _)| path)
        .collect())
}

fn write_file<P: Payload>(sessions: &Sessions<P>, generation: u64, path: &Path) -> io::Result<u64> {
    // Small: a shard comes in one piece anyway, and every allocator would keep a large buffer once it was used.
    let mut out = BufWriter::with_capacity(16 << 10, File::create(path)?);
    out.write_all(MAGIC)?;
    out.write_all(&generation.to_le_bytes())?;
    let mut count = 0u64;
    let mut shard_bytes = Vec::new();
    for shard in 0..sessions.shards() {
        // Copied under the shard's lock, written without it: players of that shard wait for a copy, not for a disk.
        shard_bytes.clear();
        sessions.each(shard, |session| {
            count += 1;
            write_entry(session, &mut shard_bytes);
        });
        out.write_all(&shard_bytes)?;
    }
    let end = Session::<u64>::restored(0, count as u32, (count >> 32) as u32);
    let mut bytes = Vec::new();
    write_entry(&end, &mut bytes);
    out.write_all(&bytes)?;
    out.into_inner()?.sync_all()?;
    Ok(count)
}

fn write_entry<P: Payload>(session: &Session<P>, out: &mut Vec<u8>) {
    let first = out.len();
    out.extend_from_slice(&session.token.to_le_bytes());
    out.extend_from_slice(&session.taps.to_le_bytes());
    out.extend_from_slice(&session.seen_s.to_le_bytes());
    out.extend_from_slice(&session.x.to_le_bytes());
    out.extend_from_slice(&session.y.to_le_bytes());
    session
        .inventory
        .iter()
        .for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    for age in (0..RECENT as u32).rev() {
        let coin = session
            .taps
            .checked_sub(age)
            .and_then(|number| session.recent(number));
        out.extend_from_slice(&coin.unwrap_or(0).to_le_bytes());
    }
    let sum = crc32fast::hash(&out[first..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

fn parse_entry<P: Payload>(bytes: &[u8; ENTRY]) -> Option<Session<P>> {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if crc32fast::hash(&bytes[..ENTRY - 4]) != word(ENTRY - 4) {
        return None;
    }
    let mut session = Session::restored(long(0), word(8), word(12));
    (session.x, session.y) = (word(16) as u16, (word(16) >> 16) as u16);
    for kind in 0..KINDS {
        session.inventory[kind] = word(20 + 4 * kind);
    }
    for (at, age) in (0..RECENT as u32).rev().enumerate() {
        let coin = long(20 + 4 * KINDS + 8 * at);
        if coin != 0 && session.taps > age {
            session.restore_recent(session.taps - age, coin);
        }
    }
    Some(session)
}

fn snapshot_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("snapshot-{generation:08}"))
}

/// Whole snapshots, newest first.
fn snapshots(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    named(folder, "")
}

/// What snapshots that were killed left behind.
fn parts(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    named(folder, ".part")
}

fn named(folder: &Path, end: &str) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let number = name
            .strip_prefix("snapshot-")
            .and_then(|rest| rest.strip_suffix(end));
        if let Some(Ok(generation)) = number.map(str::parse) {
            found.push((path, generation));
        }
    }
    found.sort_by_key(|(_, generation)| std::cmp::Reverse(*generation));
    Ok(found)
}

/// What came back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    pub from_snapshot: u64,
    pub records: u64,
    /// Records that were torn or damaged: of a write that was under way when the process ended.
    pub damaged: u64,
    /// Sessions that do not fit in the maximum given now.
    pub left_out: u64,
    /// The generation to go on with: none of its files exists yet.
    pub generation: u64,
}

/// Fills `sessions` from the newest whole snapshot and every log file that is not older.
///
/// # Errors
/// When files cannot be read. A damaged snapshot is passed over for the one before, if that is still there; if
/// not, it is an error: starting empty would lose what players were told is theirs.
pub fn recover<P: Payload>(folder: &Path, sessions: &Sessions<P>) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let logs = log::files(folder)?;
    let newest = newest_whole(folder)?;
    let since = newest.as_ref().map_or(0, |(_, generation)| *generation);
    let highest = logs
        .iter()
        .map(|file| file.1)
        .chain([since])
        .max()
        .unwrap_or(0);
    recovered.generation = highest + 1;

    let mut records = Vec::new();
    for (path, generation, _) in &logs {
        if *generation >= since {
            recovered.damaged += read_records(path, &mut records)
                .with_context(|| format!("reading the log {}", path.display()))?;
        }
    }
    recovered.records = records.len() as u64;
    let closed: HashSet<u64> = records.iter().filter_map(closed_token).collect();
    if let Some((path, _)) = newest {
        read_snapshot::<P>(&path, |session| {
            if !closed.contains(&session.token) {
                recovered.from_snapshot += 1;
                recovered.left_out += u64::from(!sessions.restore(session));
            }
        })?;
    }
    records.retain(|record| !closed.contains(&token_of(record)));
    recovered.left_out += apply(records, sessions);
    sessions.restored();
    Ok(recovered)
}

fn newest_whole(folder: &Path) -> Result<Option<(PathBuf, u64)>> {
    let found = snapshots(folder)?;
    for (path, generation) in &found {
        if read_snapshot::<u64>(path, |_| ()).is_ok() {
            return Ok(Some((path.clone(), *generation)));
        }
        eprintln!(
            "treasure: the snapshot {} is damaged and passed over",
            path.display()
        );
    }
    if let Some((path, _)) = found.first() {
        bail!(
            "no snapshot in {} is whole, and the log before {} is gone: restore the folder from a copy, or move the \
             snapshots away to start with what the log holds",
            folder.display(),
            path.display()
        );
    }
    Ok(None)
}

fn read_snapshot<P: Payload>(path: &Path, mut each: impl FnMut(Session<P>)) -> Result<()> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut header = [0; 16];
    file.read_exact(&mut header)?;
    if header[..8] != *MAGIC {
        bail!("{} is no snapshot of this version", path.display());
    }
    let mut count = 0;
    loop {
        let mut bytes = [0; ENTRY];
        file.read_exact(&mut bytes)
            .context("the snapshot is cut short")?;
        let session = parse_entry::<P>(&bytes).context("an entry's checksum is wrong")?;
        if session.token == 0 {
            let expected = u64::from(session.taps) | u64::from(session.seen_s) << 32;
            if expected != count {
                bail!("{count} entries where {expected} were written");
            }
            return Ok(());
        }
        count += 1;
        each(session);
    }
}

/// Appends a file's whole records; how many were not.
fn read_records(path: &Path, records: &mut Vec<Record>) -> io::Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut damaged = 0;
    let mut bytes = [0; RECORD];
    loop {
        let mut filled = 0;
        while filled < RECORD {
            match file.read(&mut bytes[filled..])? {
                0 if filled == 0 => return Ok(damaged),
                0 => return Ok(damaged + 1),
                more => filled += more,
            }
        }
        match record::parse(&bytes) {
            Some(record) => records.push(record),
            None => damaged += 1,
        }
    }
}

fn closed_token(record: &Record) -> Option<u64> {
    match record {
        Record::Closed { token } => Some(*token),
        _ => None,
    }
}

fn token_of(record: &Record) -> u64 {
    match record {
        Record::Opened { token, .. } | Record::Coin { token, .. } | Record::Closed { token } => {
            *token
        }
    }
}

/// Applies records in the order of each session's taps: a session may have moved between lanes. Those left out.
fn apply<P: Payload>(mut records: Vec<Record>, sessions: &Sessions<P>) -> u64 {
    let number_of = |record: &Record| match record {
        Record::Coin { number, .. } => *number,
        _ => 0,
    };
    records.sort_by_key(|record| (token_of(record), number_of(record)));
    let mut left_out = 0;
    for record in records {
        match record {
            Record::Opened { token, at_s } => {
                if sessions.with(token, |_| ()).is_none() {
                    left_out += u64::from(!sessions.restore(Session::restored(token, 0, at_s)));
                }
            }
            Record::Coin {
                token,
                number,
                coin,
                x,
                y,
                at_s,
            } => {
                sessions.with(token, |session| {
                    if number > session.taps {
                        session.give(number, P::new(coin));
                        (session.x, session.y, session.seen_s) = (x, y, at_s);
                    }
                });
            }
            Record::Closed { .. } => {}
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::Sync;

    fn coin(token: u64, number: u32) -> Record {
        Record::Coin {
            token,
            number,
            coin: u64::from(number) * 10,
            x: 1,
            y: 2,
            at_s: 3,
        }
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records
            .iter()
            .for_each(|record| record::write(record, &mut bytes));
        bytes
    }

    const A: u64 = 5 << 40 | 64;
    const B: u64 = 6 << 40 | 64; // the same slot
    const C: u64 = 7 << 40 | 65;

    #[test]
    fn taps_over_several_lanes_come_back_in_order_and_closed_sessions_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
        let (mut one, mut two) = (log.lane().unwrap(), log.lane().unwrap());
        let opened = |token| Record::Opened { token, at_s: 1 };
        one.write(&bytes(&[
            coin(C, 2),
            opened(A),
            coin(A, 1),
            Record::Closed { token: A },
        ]))
        .unwrap();
        two.write(&bytes(&[opened(C), coin(C, 1), opened(B), coin(C, 3)]))
            .unwrap();
        let sessions = Sessions::<u64>::new(1000);
        let recovered = recover(folder.path(), &sessions).unwrap();
        assert_eq!(
            (recovered.records, recovered.damaged, recovered.generation),
            (8, 0, 2)
        );
        assert_eq!(sessions.live(), 2);
        assert!(sessions.with(A, |_| ()).is_none() && sessions.with(B, |_| ()).is_some());
        let seen = sessions.with(C, |session| {
            (session.taps, session.recent(2), session.recent(3))
        });
        assert_eq!(seen, Some((3, Some(20), Some(30))));
    }

    #[test]
    fn a_snapshot_and_the_log_after_it_are_all_there_is_and_records_may_repeat_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
        let sessions = Sessions::<Option<Box<u64>>>::new(1000);
        sessions.restore(Session::restored(C, 0, 1));
        sessions.with(C, |session| {
            (1..=6).for_each(|number| session.give(number, Payload::new(u64::from(number) * 10)))
        });
        assert_eq!(write(&sessions, &log).unwrap(), 1);
        let mut lane = log.lane().unwrap();
        lane.write(&bytes(&[coin(C, 6), coin(C, 7)])).unwrap();
        lane.write(&[9; 17]).unwrap(); // torn
        let back = Sessions::<u64>::new(1000);
        let recovered = recover(folder.path(), &back).unwrap();
        assert_eq!((recovered.from_snapshot, recovered.damaged), (1, 1));
        let seen = back.with(C, |s| {
            (
                s.taps,
                s.inventory.iter().sum::<u32>(),
                s.recent(4),
                s.recent(7),
            )
        });
        assert_eq!(seen, Some((7, 7, Some(40), Some(70))));
    }

    #[test]
    fn a_damaged_snapshot_is_an_error_and_not_an_empty_world() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
        let sessions = Sessions::<u64>::new(1000);
        sessions.restore(Session::restored(C, 3, 1));
        write(&sessions, &log).unwrap();
        let path = snapshot_path(folder.path(), 2);
        let whole = fs::read(&path).unwrap();
        for cut in [0, 7, 20, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = recover(folder.path(), &Sessions::<u64>::new(10)).unwrap_err();
            assert!(error.to_string().contains("no snapshot"), "{error:#}");
        }
    }
}

//! Files that a crash or a disk left torn: whatever the byte, what was whole before it comes back, and nothing else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use treasure::log::{self, Log, Sync};
use treasure::record::{self, RECORD, Record};
use treasure::session::{Payload, Session, Sessions};
use treasure::snapshot::{self, recover};

const TOKENS: [u64; 3] = [9 << 40 | 64, 8 << 40 | 65, 7 << 40 | 2 << 6];

fn opened(token: u64) -> Record {
    Record::Opened { token, at_s: 1 }
}

/// Its coin tells session and number.
fn coin(token: u64, number: u32) -> Record {
    let coin = token ^ u64::from(number) << 8;
    Record::Coin {
        token,
        number,
        coin,
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

/// Taps and coins per session.
type State = BTreeMap<u64, (u32, Vec<Option<u64>>)>;

fn state(sessions: &Sessions<u64>) -> State {
    let mut state = State::new();
    for shard in 0..sessions.shards() {
        sessions.each(shard, |session| {
            let recent = (1..=session.taps).map(|number| session.recent(number));
            state.insert(session.token, (session.taps, recent.collect()));
        });
    }
    state
}

fn recovered(folder: &Path) -> anyhow::Result<(State, snapshot::Recovered)> {
    let sessions = Sessions::<u64>::new(1000);
    let recovered = recover(folder, &sessions)?;
    Ok((state(&sessions), recovered))
}

/// What the first records say, one after the other.
fn truth(records: &[Record]) -> State {
    let sessions = Sessions::<u64>::new(1000);
    for record in records {
        match *record {
            Record::Opened { token, at_s } => {
                assert!(sessions.restore(Session::restored(token, 0, at_s)));
            }
            Record::Coin {
                token,
                number,
                coin,
                ..
            } => {
                sessions.with(token, |session| session.give(number, Payload::new(coin)));
            }
            Record::Closed { token } => assert!(sessions.close(token)),
        }
    }
    state(&sessions)
}

fn story() -> Vec<Record> {
    let [a, b, c] = TOKENS;
    vec![
        opened(a),
        coin(a, 1),
        opened(b),
        coin(a, 2),
        coin(b, 1),
        coin(a, 3),
        Record::Closed { token: a },
        opened(c),
        coin(c, 1),
        coin(c, 2),
        coin(b, 2),
    ]
}

fn only_log(folder: &Path) -> std::path::PathBuf {
    let mut files = log::files(folder).unwrap();
    assert_eq!(files.len(), 1);
    files.remove(0).0
}

#[test]
fn a_log_cut_at_any_byte_gives_back_what_was_whole() {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
    let records = story();
    let whole = bytes(&records);
    log.lane().unwrap().write(&whole).unwrap();
    let path = only_log(folder.path());
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (state, recovered) = recovered(folder.path()).unwrap();
        assert_eq!(state, truth(&records[..cut / RECORD]), "cut at {cut}");
        let damaged = u64::from(!cut.is_multiple_of(RECORD));
        assert_eq!(recovered.damaged, damaged, "cut at {cut}");
    }
}

#[test]
fn a_log_with_any_byte_wrong_loses_that_record_alone_and_makes_up_none() {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
    // Without the closing one: a session that comes back is then what a lost record means.
    let records: Vec<Record> = story()
        .into_iter()
        .filter(|record| !matches!(record, Record::Closed { .. }))
        .collect();
    let whole = bytes(&records);
    log.lane().unwrap().write(&whole).unwrap();
    let path = only_log(folder.path());
    for at in 0..whole.len() {
        let mut torn = whole.clone();
        torn[at] ^= 0x55;
        std::fs::write(&path, &torn).unwrap();
        let (state, recovered) = recovered(folder.path()).unwrap();
        assert_eq!(recovered.damaged, 1, "byte {at}");
        let full = truth(&records);
        for (token, (taps, coins)) in &state {
            let (full_taps, full_coins) = &full[token];
            assert!(taps <= full_taps, "byte {at}");
            for (coin, real) in coins.iter().zip(full_coins) {
                assert!(
                    coin == real || *coin == Some(0) || coin.is_none(),
                    "byte {at}: {coin:x?}"
                );
            }
        }
        // All other sessions are whole.
        let hit = match records[at / RECORD] {
            Record::Opened { token, .. }
            | Record::Coin { token, .. }
            | Record::Closed { token } => token,
        };
        for token in TOKENS.into_iter().filter(|token| *token != hit) {
            assert_eq!(state.get(&token), full.get(&token), "byte {at}");
        }
    }
}

/// A disk that was full for a moment: half a batch, then others over it. What is left of the half may only be what
/// was in memory all the while.
#[test]
fn a_batch_that_failed_halfway_is_written_over() {
    for half in 0..=3 * RECORD {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path(), 1, Sync::Never));
        let mut lane = log.lane().unwrap();
        let [a, b, _] = TOKENS;
        lane.write(&bytes(&[opened(a), opened(b)])).unwrap();
        let failed = bytes(&[coin(a, 1), coin(b, 1), coin(a, 2)]);
        // As a write that the disk took in part: past the lane's end, which stays.
        let path = only_log(folder.path());
        let mut file = std::fs::read(&path).unwrap();
        file.extend_from_slice(&failed[..half]);
        std::fs::write(&path, &file).unwrap();
        lane.write(&bytes(&[coin(b, 1)])).unwrap();
        let (state, _) = recovered(folder.path()).unwrap();
        assert_eq!(state[&b].0, 1, "half {half}");
        // Nobody was told of these; they may be there.
        assert!(state[&a].0 <= 2, "half {half}");
        lane.write(&bytes(&[coin(a, 1), coin(a, 2)])).unwrap();
        let (state, _) = recovered(folder.path()).unwrap();
        let both = vec![coin_of(a, 1), coin_of(a, 2)];
        assert_eq!(state[&a], (2, both), "half {half}");
    }
}

fn coin_of(token: u64, number: u32) -> Option<u64> {
    match coin(token, number) {
        Record::Coin { coin, .. } => Some(coin),
        _ => None,
    }
}

/// A folder with a snapshot of generation 2 and, beside the log after it, the snapshot and the log before it, as a
/// kill between the two leaves it.
fn with_two_snapshots(folder: &Path) -> (State, std::path::PathBuf) {
    let log = Arc::new(Log::new(folder, 1, Sync::Never));
    let mut lane = log.lane().unwrap();
    let sessions = Sessions::<u64>::new(1000);
    let [a, b, _] = TOKENS;
    let play = |lane: &mut log::Lane, token, number| {
        let record = coin(token, number);
        if number == 1 {
            assert!(sessions.restore(Session::restored(token, 0, 1)));
            lane.write(&bytes(&[opened(token)])).unwrap();
        }
        sessions.with(token, |session| {
            session.give(number, coin_of(token, number).unwrap());
        });
        lane.write(&bytes(&[record])).unwrap();
    };
    let snapshot = |lane: &mut log::Lane| {
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| snapshot::write(&sessions, &log).unwrap());
            while !writing.is_finished() {
                lane.tick().unwrap();
                std::thread::yield_now();
            }
        });
    };
    play(&mut lane, a, 1);
    snapshot(&mut lane);
    play(&mut lane, a, 2);
    play(&mut lane, b, 1);
    let before = tempfile::tempdir().unwrap();
    copy(folder, before.path());
    snapshot(&mut lane);
    play(&mut lane, b, 2);
    copy(before.path(), folder);
    (state(&sessions), folder.join("snapshot-00000003"))
}

/// Copies files that are not there yet.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if !place.exists() {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[test]
fn a_snapshot_torn_at_any_byte_gives_way_to_the_one_before_and_the_whole_log() {
    let folder = tempfile::tempdir().unwrap();
    let (truth, newest) = with_two_snapshots(folder.path());
    let whole = std::fs::read(&newest).unwrap();
    assert_eq!(recovered(folder.path()).unwrap().0, truth);
    for cut in 0..whole.len() {
        std::fs::write(&newest, &whole[..cut]).unwrap();
        assert_eq!(recovered(folder.path()).unwrap().0, truth, "cut at {cut}");
        let mut torn = whole.clone();
        torn[cut] ^= 0x55;
        std::fs::write(&newest, &torn).unwrap();
        assert_eq!(recovered(folder.path()).unwrap().0, truth, "byte {cut}");
    }
}

#[test]
fn what_killed_snapshots_left_behind_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("snapshot-00000001.part");
    std::fs::write(&left, [1; 1000]).unwrap();
    let log = Arc::new(Log::new(folder.path(), 2, Sync::Never));
    snapshot::write(&Sessions::<u64>::new(10), &log).unwrap();
    assert!(!left.exists());
}

/// Killed while it cleared away: an older snapshot that is still there has all the log since, or is not used.
#[test]
fn what_is_left_at_any_point_of_clearing_away_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (truth, newest) = with_two_snapshots(folder.path());
    let steps = snapshot::replaced_by(folder.path(), 3).unwrap();
    assert!(steps.len() >= 2, "{steps:?}");
    let whole = std::fs::read(&newest).unwrap();
    for step in steps {
        std::fs::remove_file(&step).unwrap();
        assert_eq!(
            recovered(folder.path()).unwrap().0,
            truth,
            "{step:?} is gone"
        );
        // The newest one damaged as well: all of it, or an error.
        std::fs::write(&newest, &whole[..whole.len() - 1]).unwrap();
        if let Ok((state, _)) = recovered(folder.path()) {
            assert_eq!(state, truth, "{step:?} is gone and the snapshot is cut");
        }
        std::fs::write(&newest, &whole).unwrap();
    }
}

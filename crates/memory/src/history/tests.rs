//! A process over time.

use super::*;
use heap::smaps::Area;

#[test]
fn a_heap_that_could_be_divided_stays_divided() {
    let mut history = History::default();
    let divided = Account {
        live: 60.0,
        held: 30.0,
        fragmentation: 10.0,
        live_by: LiveBy::Headers,
        ..Account::default()
    };
    history.add(0.0, &HeapSnapshot::default());
    history.moments[0].account = divided;
    let mut torn = Account {
        anonymous: 250.0,
        undivided: 200.0,
        ..Account::default()
    };
    history.keep_division(&mut torn);
    assert_eq!(
        (torn.live, torn.held, torn.fragmentation),
        (120.0, 60.0, 20.0)
    );
    assert_eq!((torn.anonymous, torn.live_by), (50.0, LiveBy::Headers));
}

/// Uprobes that were put on a running process tell of a part of its heap: with walks between them that reached its end,
/// no level of it.
#[test]
fn what_uprobes_saw_since_they_were_put_on_is_no_level_of_the_heap() {
    let part = || Account {
        live: 3.0,
        held: 97.0,
        live_by: LiveBy::SinceAttached,
        ..Account::default()
    };
    let mut history = History::default();
    history.add(0.0, &HeapSnapshot::default());
    history.moments[0].account = part();
    let mut whole = Account {
        live: 90.0,
        held: 10.0,
        live_by: LiveBy::HeadersBesideProbe,
        ..Account::default()
    };
    history.keep_division(&mut whole);
    assert!(
        history.moments.is_empty(),
        "nothing before the first walk is judged"
    );
    history.add(1.0, &HeapSnapshot::default());
    history.moments[0].account = whole;
    let mut torn = part();
    history.keep_division(&mut torn);
    assert_eq!(
        (torn.live, torn.held, torn.live_by),
        (90.0, 10.0, LiveBy::HeadersBesideProbe)
    );
}

#[test]
fn what_can_have_been_live_between_two_snapshots_is_what_was_and_what_came() {
    let moment = |live: f64, allocated_bytes: Option<u64>| Moment {
        at_s: 0.0,
        time_ns: 0,
        account: Account {
            live,
            ..Account::default()
        },
        allocated_bytes,
        outstanding: ByStack::default(),
        mapped: BTreeMap::new(),
        files: BTreeMap::new(),
        threads: 1,
        outside: None,
        objects: None,
    };
    let most = |last: Option<u64>| {
        let early = [moment(5.0, Some(0)), moment(5.0, Some(90))];
        let late = [moment(5.0, Some(90)), moment(7.0, Some(92))];
        let moments = [early, late].concat();
        let history = History {
            moments: [moments, vec![moment(5.0, last)]].concat(),
            ..History::default()
        };
        history.live_at_most(Window { from: 0, to: 4 })
    };
    assert_eq!(most(Some(102)), Some(17.0));
    assert_eq!(most(None), None, "not counted to the end");
    assert_eq!(most(Some(80)), None, "counted anew");
}

#[test]
fn a_beginning_is_forgotten_once_there_is_enough_behind_it() {
    let mut history = History::default();
    for second in 0..20u32 {
        history.add(f64::from(second), &HeapSnapshot::default());
    }
    history.forget_before(10.0, 11);
    assert_eq!((history.moments.len(), history.moments[0].at_s), (20, 0.0));
    history.forget_before(10.0, 10);
    assert_eq!((history.moments.len(), history.moments[0].at_s), (10, 10.0));
}

#[test]
fn a_long_observation_keeps_its_ends_and_stays_bounded() {
    let mut history = History::default();
    for second in 0..5000u32 {
        let heap = Area {
            start: 0x1000,
            end: 0x1000_0000,
            writable: true,
            name: "[heap]".into(),
            rss_bytes: u64::from(second) * 4096,
            ..Area::default()
        };
        let snapshot = HeapSnapshot {
            areas: vec![heap],
            ..HeapSnapshot::default()
        };
        history.add(f64::from(second), &snapshot);
    }
    assert!(history.moments.len() <= MOMENTS_MAX + 1);
    assert_eq!(history.moments[0].at_s, 0.0);
    assert_eq!(history.last().unwrap().at_s, 4999.0);
    let growth = history.growth(|account| account.rss_bytes).unwrap();
    assert!(
        (growth.slope_per_hour - 4096.0 * 3600.0).abs() < 1.0,
        "{growth:?}"
    );
}

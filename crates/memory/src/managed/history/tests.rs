//! What grows, of made snapshots.

use super::*;
use runtimes::{HeapSize, TypeCount};

fn counted(name: &str, objects: u64) -> TypeCount {
    TypeCount {
        name: name.to_owned(),
        objects,
        bytes: 48 * objects,
    }
}

/// Fifteen snapshots, four seconds apart.
fn history(types: impl Fn(u64) -> Vec<TypeCount>) -> HeapHistory {
    let mut history = HeapHistory::new("CPython 3.11.7", Language::Python);
    for index in 0..15 {
        let snapshot = Snapshot {
            types: types(index),
            ..Snapshot::default()
        };
        history.add(4.0 * index as f64, snapshot);
    }
    history
}

#[test]
fn what_grows_is_told_from_what_swings() {
    let growth = history(|index| {
        vec![
            counted("orders.Order", 1_000 + 100 * index),
            counted("dict", 500 + 70 * (index % 5)),
            counted("str", 9_000),
            counted("late.Session", if index < 3 { 0 } else { 10 * index }),
        ]
    });
    let growth = growth.growth(0.0).unwrap();
    let names: Vec<&str> = growth.types.iter().map(|of| &of.name[..]).collect();
    assert_eq!(names, ["orders.Order", "late.Session"]);
    let orders = &growth.types[0];
    assert_eq!(
        (orders.objects.grown, orders.objects.level),
        (1_000.0, 2_200.0)
    );
    assert_eq!(orders.bytes.per_hour, 48.0 * 90_000.0, "100 every 4 s");
    assert_eq!(growth.grown_bytes(), 48.0 * (1_000.0 + 120.0));
}

#[test]
fn two_snapshots_are_compared_and_one_is_not() {
    let mut history = HeapHistory::new("OpenJDK 17", Language::Java);
    let of = |objects| Snapshot {
        types: vec![counted("Session", objects)],
        ..Snapshot::default()
    };
    history.add(0.0, of(10));
    assert_eq!(history.growth(0.0), None);
    history.add(60.0, of(20));
    assert_eq!(
        history.growth(0.0).unwrap().types[0].objects.per_hour,
        600.0
    );
}

#[test]
fn a_long_observation_keeps_few_snapshots_and_its_ends() {
    let mut history = HeapHistory::new("Go 1.26", Language::Go);
    for index in 0..500u64 {
        history.add(
            index as f64,
            Snapshot {
                types: vec![counted("x", index)],
                ..Snapshot::default()
            },
        );
    }
    assert!(history.len() <= SNAPSHOTS_MAX, "{}", history.len());
    let growth = history.growth(0.0).unwrap();
    assert_eq!(growth.over_s, 499.0);
    assert_eq!(growth.types.len(), 1);
}

#[test]
fn a_snapshot_without_types_does_not_make_them_fall_to_nothing() {
    let growth = history(|index| match index {
        14 => Vec::new(),
        _ => vec![counted("orders.Order", 1_000 + 100 * index)],
    });
    assert_eq!(growth.growth(0.0).unwrap().types.len(), 1);
}

#[test]
fn what_rose_at_first_and_stays_does_not_grow() {
    let full = history(|index| vec![counted("cache.Entry", 1_000 * (index + 1).min(5))]);
    assert_eq!(full.growth(0.0).unwrap().types, []);
}

#[test]
fn readings_that_are_not_evenly_apart_show_a_rise_too() {
    let growth = |last_s: f64, orders: [u64; 3]| {
        let mut history = HeapHistory::new("Node.js", Language::JavaScript);
        for (at_s, orders) in [0.0, 9.0, last_s].into_iter().zip(orders) {
            let types = vec![counted("Order", orders)];
            history.add(
                at_s,
                Snapshot {
                    types,
                    ..Snapshot::default()
                },
            );
        }
        history.growth(0.0).unwrap().types.len()
    };
    assert_eq!(growth(10.3, [1_000, 1_900, 2_030]), 1);
    assert_eq!(growth(10.3, [1_000, 2_030, 2_030]), 0, "it stays");
    assert_eq!(growth(9.05, [1_000, 2_000, 2_003]), 0, "noise");
}

#[test]
fn tasks_that_only_wait_elsewhere_are_not_more() {
    let group = |wait: &str, tasks| TaskGroup {
        tasks,
        waits_for: Some(wait.to_owned()),
        ..TaskGroup::default()
    };
    let growth = |total: fn(u64) -> u64| {
        let mut history = HeapHistory::new("Go 1.26", Language::Go);
        for index in 0..15 {
            let reading = 10 + 3 * index;
            let tasks = vec![
                group("IO wait", reading),
                group("chan receive", total(index) - reading),
            ];
            history.add(
                index as f64,
                Snapshot {
                    tasks,
                    ..Snapshot::default()
                },
            );
        }
        history.growth(0.0).unwrap().tasks
    };
    let pool = growth(|_| 200);
    assert!(
        pool[0].tasks.is_clear && !pool[0].of_creator.is_clear,
        "{pool:?}"
    );
    let leak = growth(|index| 200 + 5 * index);
    assert!(leak[0].of_creator.is_clear, "{leak:?}");
}

#[test]
fn a_reading_that_a_limit_ended_is_no_level() {
    let mut history = HeapHistory::new("CPython 3.11.7", Language::Python);
    for index in 0..12 {
        history.add(
            index as f64,
            Snapshot {
                types: vec![counted("orders.Order", if index < 4 { 500 } else { 9_000 })],
                is_partial: index < 4,
                ..Snapshot::default()
            },
        );
    }
    assert_eq!(history.growth(0.0).unwrap().types, []);
}

#[test]
fn a_part_of_the_runtimes_own_memory_grows_only_where_it_was_read() {
    let mut history = HeapHistory::new("OpenJDK 17", Language::Java);
    for index in 0..12 {
        let mut others = vec![("metaspace used".to_owned(), 100 + 10 * index)];
        // The loaders could not be asked every time: what is missing is not zero.
        if index % 3 != 1 {
            others.push(("metaspace of Loader".to_owned(), 50 + 8 * index));
            others.push(("metaspace of boot class loader".to_owned(), 40));
        }
        let heap = HeapSize {
            used_bytes: 500,
            committed_bytes: Some(1_000),
            others,
            ..HeapSize::default()
        };
        let snapshot = Snapshot {
            heap: Some(heap),
            ..Snapshot::default()
        };
        history.add(5.0 * index as f64, snapshot);
    }
    let growth = history.growth(0.0).unwrap();
    let parts: Vec<(&str, f64)> = growth
        .parts
        .iter()
        .map(|of| (&of.name[..], of.bytes.grown))
        .collect();
    assert_eq!(
        parts,
        [("metaspace used", 80.0), ("metaspace of Loader", 72.0)]
    );
    assert_eq!(growth.committed.map(|of| of.grown), Some(0.0));
}

//! Tests on who serves clients, who is background, and what is ordinary.

use super::Begun::{ByClients, ByClock, ByOthers};
use super::*;

fn groups(members: &[(Tid, GroupId, bool)]) -> (Groups, Sizes) {
    let mut groups = Groups::default();
    for (tid, group, timed) in members {
        groups.set(*tid, *group);
        groups.began(*tid, if *timed { ByClock } else { ByOthers }, None);
    }
    let tids: Vec<Tid> = members.iter().map(|(tid, ..)| *tid).collect();
    let sizes = groups.sizes(&tids);
    (groups, sizes)
}

#[test]
fn a_few_that_a_clock_wakes_are_background_beside_a_pool_of_the_same_entry() {
    let pool: Vec<_> = (1..=8).map(|tid| (tid, 5, false)).collect();
    let timers = [(20, 5, true), (21, 5, true)];
    let (groups, sizes) = groups(&[pool, timers.to_vec()].concat());
    assert!(groups.is_background(20, &sizes) && groups.is_background(21, &sizes));
    assert!(!groups.is_background(1, &sizes));
}

#[test]
fn several_timers_of_one_entry_are_background_beside_a_busy_pool() {
    let (mut groups, _) = groups(&[(1, 5, true), (2, 5, true), (7, 6, false), (8, 6, false)]);
    for _ in 0..SELDOM {
        groups.began(7, ByClients, None);
    }
    let sizes = groups.sizes(&[1, 2, 7, 8]);
    assert!(groups.is_background(1, &sizes) && groups.is_background(2, &sizes));
    assert!(!groups.is_background(7, &sizes) && !groups.is_background(8, &sizes));
}

#[test]
fn a_pool_that_looks_for_work_by_the_clock_is_none() {
    let (groups, sizes) = groups(&[(1, 5, true), (2, 5, true), (3, 5, true), (4, 5, false)]);
    assert!((1..=4).all(|tid| !groups.is_background(tid, &sizes)));
}

#[test]
fn a_lone_thread_that_a_clock_wakes_is_background() {
    let (groups, sizes) = groups(&[(1, 5, true), (2, 6, false)]);
    assert!(groups.is_background(1, &sizes) && !groups.is_background(2, &sizes));
}

#[test]
fn what_a_clocks_thread_hears_from_its_helpers_begins_nothing() {
    let (mut groups, _) = groups(&[(1, 5, true), (2, 6, false), (3, 7, false), (4, 8, false)]);
    for _ in 0..2 {
        groups.began(2, ByOthers, Some(1));
        groups.began(1, ByOthers, Some(2));
    }
    let sizes = groups.sizes(&[1, 2, 3, 4]);
    assert!(groups.is_background(1, &sizes));
    assert!(!groups.is_background(2, &sizes), "no clock begins it");
    (0..4).for_each(|_| groups.began(2, ByOthers, Some(3)));
    assert!(
        !groups.is_background(1, &sizes),
        "what another hands on is work"
    );
}

#[test]
fn answers_of_its_own_helpers_make_no_busy_thread() {
    let (mut groups, _) = groups(&[(1, 5, false), (2, 6, false), (3, 7, false), (4, 7, false)]);
    for _ in 0..3 {
        groups.began(2, ByOthers, Some(1));
        groups.began(1, ByOthers, Some(2));
    }
    (0..4 * SELDOM).for_each(|_| groups.began(3, ByClients, None));
    let sizes = groups.sizes(&[1, 2, 3, 4]);
    assert!(
        groups.is_background(1, &sizes),
        "7 times, 3 of them answers"
    );
    (0..4).for_each(|_| groups.began(1, ByOthers, Some(3)));
    assert!(!groups.is_background(1, &groups.sizes(&[1, 2, 3, 4])));
}

#[test]
fn a_lone_thread_that_a_pool_hands_things_to_is_background() {
    let (mut groups, _) = groups(&[(1, 5, false), (2, 5, false), (3, 6, false), (4, 7, false)]);
    for by in [1, 2] {
        groups.began(3, ByOthers, Some(by));
        groups.began(4, ByOthers, Some(1));
    }
    let sizes = groups.sizes(&[1, 2, 3, 4]);
    assert!(groups.is_background(3, &sizes));
    assert!(!groups.is_background(4, &sizes), "one of them hands it all");
    for by in [1, 2, 1, 2, 1, 2] {
        groups.began(by, ByClients, None);
    }
    assert!(groups.is_background(3, &sizes), "nobody hears of it");
    groups.began(2, ByClients, Some(3));
    let sizes = groups.sizes(&[1, 2, 3, 4]);
    assert!(
        !groups.is_background(3, &sizes),
        "they serve clients, and it answers in their stead"
    );
}

#[test]
fn who_waits_for_a_thread_that_its_pool_hands_things_to_asks_it() {
    // 1 and 2 are a pool, 3 answers it; 4 feeds it.
    let of = [(1, 5, false), (2, 5, false), (3, 6, false), (4, 7, false)];
    let asks = |begins: &[(Tid, Begun, Option<Tid>)]| {
        let (mut groups, _) = groups(&of);
        for (tid, begun, by) in begins {
            groups.began(*tid, *begun, *by);
        }
        groups.asks(1, 3)
    };
    let handed = (3, ByOthers, Some(2));
    let answered = (1, ByOthers, Some(3));
    assert!(asks(&[handed, answered, (1, ByClients, None)]));
    assert!(asks(&[handed, answered, (1, ByOthers, Some(4))]));
    assert!(!asks(&[handed, answered]), "it only gives it work");
    assert!(!asks(&[answered, (1, ByClients, None)]));
    let both = [
        handed,
        answered,
        (4, ByOthers, Some(1)),
        (1, ByOthers, Some(4)),
    ];
    assert!(
        !asks(&both),
        "two that give it work, and hear when it is done"
    );
}

#[test]
fn a_pool_serves_clients_though_one_of_it_waits_for_them() {
    let of = [(1, 5, false), (2, 5, false), (3, 6, false)];
    let asks = |waited_for: Begun| {
        let (mut groups, _) = groups(&of);
        groups.began(3, ByOthers, Some(2));
        for _ in 0..10 {
            groups.began(1, waited_for, None);
            (0..9).for_each(|_| groups.began(2, ByOthers, Some(1)));
        }
        groups.asks(2, 3)
    };
    assert!(asks(ByClients));
    assert!(!asks(ByClock));
}

#[test]
fn a_thread_for_each_request_is_none_and_one_that_is_started_now_and_then_is() {
    let (mut groups, _) = groups(&[(1, 5, false)]);
    (0..40).for_each(|_| groups.began(1, ByClients, None));
    let is_background = |groups: &Groups, tid| groups.is_background(tid, &groups.sizes(&[1]));
    groups.was_a_job(1_000);
    assert!(is_background(&groups, 1_000));
    (1_001..1_040).for_each(|tid| groups.was_a_job(tid));
    assert!(!is_background(&groups, 1_000));
    groups.is_a_librarys(1_000);
    assert!(is_background(&groups, 1_000));
    groups.forget(1_000);
    assert_eq!(groups.jobs.len(), 39);
}

#[test]
fn a_lone_thread_that_gets_something_now_and_then_is_background() {
    let (mut groups, _) = groups(&[(1, 5, false), (2, 5, false), (3, 6, false), (4, 7, false)]);
    (0..40).for_each(|_| groups.began(1, ByClients, None));
    groups.began(4, ByClients, None);
    let sizes = groups.sizes(&[1, 2, 3, 4]);
    let background: Vec<Tid> = (1..=4)
        .filter(|t| groups.is_background(*t, &sizes))
        .collect();
    assert_eq!(
        background,
        [3],
        "2 is one of a pool, 4 serves somebody outside"
    );
}

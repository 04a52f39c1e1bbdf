//! Where the time of requests went that were seen on connections.

use super::*;
use crate::event::GOROUTINES;

const MS: u64 = 1_000_000;

fn piece(start_ms: u64, end_ms: u64, label: Label, by: Option<Tid>) -> Piece {
    Piece {
        start_ns: start_ms * MS,
        end_ns: end_ms * MS,
        label,
        waited_for: WaitKind::Other,
        activity: 0,
        stack: 0,
        by,
        culprit: 0,
        is_rare: false,
        is_in_request: true,
        is_for_one: false,
    }
}

fn busy(start_ms: u64, end_ms: u64) -> Piece {
    piece(start_ms, end_ms, Label::OnCpu, None)
}

fn idle(start_ms: u64, end_ms: u64, by: Option<Tid>) -> Piece {
    piece(start_ms, end_ms, Label::Idle, by)
}

fn request(start_ms: u64, received_ms: u64, end_ms: u64) -> Answered {
    Answered {
        start_ns: start_ms * MS,
        received_ns: received_ms * MS,
        end_ns: end_ms * MS,
        receiver: 1,
        sender: 1,
    }
}

/// Milliseconds by thread and what they went to.
fn went(pieces: &Pieces, request: &Answered) -> BTreeMap<(Option<Tid>, Went), u64> {
    let steps = way(pieces, &[], request).steps;
    let sum: u64 = steps.iter().map(Step::ns).sum();
    assert_eq!(sum, request.ns(), "{steps:#?}");
    let mut found = BTreeMap::new();
    for step in steps {
        *found.entry((step.tid, step.went)).or_default() += step.ns() / MS;
    }
    found
}

const ON_CPU: Went = Went::Thread(Label::OnCpu);

#[test]
fn one_thread_does_all_and_others_wait_behind_it() {
    let lock = Label::Held(Cause::Lock);
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 20),
        piece(20, 70, lock, Some(2)),
        busy(70, 80),
        idle(80, 100, None),
    ];
    pieces.of.insert(1, of);
    let own = went(&pieces, &request(10, 10, 75));
    assert_eq!(
        own,
        [((Some(1), ON_CPU), 15), ((Some(1), Went::Thread(lock)), 50)].into()
    );
    // It came while the thread was at the first one, and before that at nothing.
    let behind = went(&pieces, &request(5, 72, 78));
    let expected = [
        ((None, Went::Outside), 5),
        ((Some(1), ON_CPU), 18),
        ((Some(1), Went::Thread(lock)), 50),
    ];
    assert_eq!(behind, expected.into());
}

#[test]
fn what_helpers_did_is_walked_back_by_who_woke_whom() {
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 12),
        idle(12, 90, Some(3)),
        busy(90, 92),
    ];
    pieces.of.insert(1, of);
    let second = vec![idle(0, 12, Some(1)), busy(12, 60), idle(60, 200, None)];
    pieces.of.insert(2, second);
    let third = vec![idle(0, 60, Some(2)), busy(60, 90), idle(90, 200, None)];
    pieces.of.insert(3, third);
    let found = went(&pieces, &request(10, 10, 91));
    let expected = [
        ((Some(1), ON_CPU), 3),
        ((Some(2), ON_CPU), 48),
        ((Some(3), ON_CPU), 30),
    ];
    assert_eq!(found, expected.into());
}

/// The event loop is woken by other clients, and finds the answer there.
#[test]
fn a_helper_that_woke_nobody_is_the_one_that_was_busy() {
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 12),
        idle(12, 30, None),
        busy(30, 31),
        idle(31, 81, None),
        busy(81, 84),
    ];
    pieces.of.insert(1, of);
    let helper = vec![idle(0, 12, Some(1)), busy(12, 82), idle(82, 200, None)];
    pieces.of.insert(2, helper);
    pieces.of.insert(3, vec![idle(0, 300, None)]);
    // One that is busier, and by itself.
    pieces.of.insert(4, vec![idle(0, 5, None), busy(5, 300)]);
    // And one that is at an earlier request of the same loop.
    pieces.of.insert(5, vec![idle(0, 5, Some(1)), busy(5, 300)]);
    let found = went(&pieces, &request(10, 10, 83));
    assert_eq!(found[&(Some(2), ON_CPU)], 69);
    assert_eq!(found[&(Some(1), ON_CPU)], 4);
    // Without one it was outside, and of a thread that is not known nothing is.
    pieces.of.remove(&2);
    let found = went(&pieces, &request(10, 10, 83));
    assert_eq!(found[&(None, Went::Outside)], 69);
    pieces.of.clear();
    assert_eq!(
        went(&pieces, &request(10, 10, 83)),
        [((None, Went::Unseen), 73)].into()
    );
}

/// A loop that waits for clients and for its peers at once.
#[test]
fn what_no_thread_was_at_waited_for_replies() {
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 12),
        idle(12, 52, None),
        busy(52, 53),
        idle(53, 93, None),
        busy(93, 95),
    ];
    pieces.of.insert(1, of);
    let reply = |start_ms: u64, end_ms: u64, activity: u32| Reply {
        start_ns: start_ms * MS + 200_000,
        end_ns: end_ms * MS + 100_000,
        tid: 1,
        activity,
    };
    // Another request's came in the midst, and one of a poll that is always open.
    let replies = [
        reply(20, 40, 7),
        reply(11, 52, 5),
        reply(52, 93, 6),
        reply(0, 300, 8),
    ];
    let slow = Slow::of(&pieces, &replies, request(10, 10, 94));
    let network = Went::Thread(Label::Held(Cause::Network));
    assert_eq!(slow.ns[&(Some(1), network)] / MS, 80);
    assert_eq!(slow.ns.values().sum::<u64>(), 84 * MS);
    let waited_for: Vec<u32> = slow.replies.iter().map(|(_, of)| of.activity).collect();
    assert_eq!(waited_for, [6, 5]);
    let other = Slow::of(&pieces, &replies[..1], request(10, 10, 94));
    assert_eq!(
        (other.ns[&(None, Went::Outside)] / MS, other.replies.len()),
        (81, 0)
    );
}

#[test]
fn a_reader_that_waited_for_a_peer_is_the_network() {
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 12),
        idle(12, 82, Some(2)),
        busy(82, 84),
    ];
    pieces.of.insert(1, of);
    let peer = Piece {
        waited_for: WaitKind::Outbound,
        ..idle(0, 81, None)
    };
    pieces.of.insert(2, vec![peer, busy(81, 84)]);
    let found = went(&pieces, &request(10, 10, 83));
    let network = Went::Thread(Label::Held(Cause::Network));
    assert_eq!(found[&(Some(2), network)], 69);
    assert_eq!(found[&(Some(2), ON_CPU)], 1);
}

/// A loop within the loop, and a goroutine that the runtime did not run.
#[test]
fn what_lies_there_while_its_thread_waits_is_not_outside() {
    let mut pieces = Pieces::default();
    pieces.of.insert(1, left_unread().to_vec());
    // Where it always waits it does not read on purpose.
    let found = went(&pieces, &request(20, 82, 83));
    assert_eq!(found[&(None, Went::Outside)], 62);
    pieces.of.insert(1, rarely_left_unread());
    let found = went(&pieces, &request(20, 82, 83));
    let waits = Went::Thread(Label::Held(Cause::Network));
    assert_eq!(found[&(Some(1), waits)], 62);
    // It came just before the thread was woken for it.
    let found = went(
        &pieces,
        &Answered {
            start_ns: 82 * MS - 100_000,
            ..request(82, 82, 83)
        },
    );
    assert!(!found.contains_key(&(Some(1), waits)));
}

/// Of one that waits while a request of 20 to 83 ms lies there, which it takes up at 82.
fn left_unread() -> [Piece; 4] {
    [
        idle(0, 10, None),
        busy(10, 12),
        idle(12, 82, None),
        busy(82, 84),
    ]
}

fn rarely_left_unread() -> Vec<Piece> {
    let inbound = left_unread().map(|of| Piece {
        is_rare: true,
        waited_for: WaitKind::Inbound,
        ..of
    });
    inbound.to_vec()
}

/// Its own goroutine idles: what the others do says why nobody polled for it.
#[test]
fn what_lies_there_for_a_goroutine_is_with_what_kept_the_others() {
    let mut pieces = Pieces::default();
    let (own, other, third) = (GOROUTINES + 1, GOROUTINES + 2, GOROUTINES + 3);
    pieces.of.insert(own, rarely_left_unread());
    pieces.of.insert(
        other,
        vec![idle(0, 15, None), busy(15, 81), idle(81, 200, None)],
    );
    let goroutines = Answered {
        receiver: own,
        sender: own,
        ..request(20, 82, 83)
    };
    let slow = Slow::of(&pieces, &[], goroutines);
    let runtime = Label::Held(Cause::Runtime);
    assert_eq!(slow.ns[&(Some(own), Went::Thread(runtime))] / MS, 62);
    assert_eq!(slow.untaken[0].runner, Some(other));
    // Nothing else ran for most of it: a goroutine that had run, and threads that carry none, had no CPU for 34 ms.
    pieces.of.insert(other, vec![busy(15, 30)]);
    let starved = Label::Held(Cause::CpuStarvation);
    let preempted = |until_ms| vec![busy(31, 32), piece(32, until_ms, starved, None)];
    pieces.unpolled.waited(18 * MS, 40 * MS);
    pieces.of.insert(third, preempted(54));
    let slow = Slow::of(&pieces, &[], goroutines);
    assert_eq!(slow.ns[&(Some(own), Went::Thread(starved))] / MS, 62);
    assert!(slow.untaken.is_empty());
    pieces.of.insert(third, preempted(42));
    let slow = Slow::of(&pieces, &[], goroutines);
    assert_eq!(slow.untaken.len(), 1, "22 ms are less than half");
    let queued = vec![idle(0, 32, None), piece(32, 70, starved, None)];
    pieces.of.insert(third, queued);
    let slow = Slow::of(&pieces, &[], goroutines);
    assert_eq!(slow.untaken.len(), 1, "it waits for its runtime");
    let page = Label::Held(Cause::PageFault);
    let waits = vec![piece(18, 60, page, None)];
    pieces.of.insert(third, waits);
    let slow = Slow::of(&pieces, &[], goroutines);
    assert_eq!(slow.ns[&(Some(third), Went::Thread(page))] / MS, 62);
}

/// A thread that sleeps while it has a request is at that request; nobody else is.
#[test]
fn a_thread_that_sleeps_is_at_its_request() {
    let mut pieces = Pieces::default();
    let sleeps = |start_ms, end_ms| Piece {
        waited_for: WaitKind::Sleep,
        ..idle(start_ms, end_ms, None)
    };
    let of = vec![
        idle(0, 10, None),
        busy(10, 12),
        sleeps(12, 30),
        busy(30, 31),
        sleeps(31, 50),
        busy(50, 52),
    ];
    pieces.of.insert(1, of);
    let found = went(&pieces, &request(10, 10, 51));
    let sleep = Went::Thread(Label::Held(Cause::Sleep));
    assert_eq!(
        found,
        [((Some(1), ON_CPU), 4), ((Some(1), sleep), 37)].into()
    );
}

/// All threads of a pool wait for the next request of one client each, a moment at a time; another client's lies there.
#[test]
fn what_lies_there_while_its_thread_waits_for_another_client_is_not_outside() {
    let mut pieces = Pieces::default();
    let kept = (0..8_u64).map(|step| Piece {
        waited_for: WaitKind::Inbound,
        is_for_one: true,
        stack: u32::from(step == 3),
        ..idle(10 * step, 10 * step + 9, None)
    });
    let of: Vec<Piece> = kept.chain([busy(79, 84)]).collect();
    pieces.of.insert(1, of);
    let slow = Slow::of(&pieces, &[], request(5, 80, 83));
    let waits = Went::Thread(Label::Held(Cause::Network));
    assert_eq!(slow.ns[&(Some(1), waits)] / MS, 75);
    assert_eq!(slow.untaken[0].wait.stack, 1, "one that was sampled");
    // Where the wait was for any client it did not know of the request.
    let any: Vec<Piece> = pieces.of[&1]
        .iter()
        .map(|of| Piece {
            is_for_one: false,
            ..*of
        })
        .collect();
    pieces.of.insert(1, any);
    assert!(
        Slow::of(&pieces, &[], request(5, 80, 83))
            .untaken
            .is_empty()
    );
}

/// An event loop hands things to its only worker again and again for one request.
#[test]
fn what_a_loop_hands_over_twice_is_followed_twice() {
    let mut pieces = Pieces::default();
    let of = vec![
        idle(0, 10, None),
        busy(10, 11),
        idle(11, 60, Some(2)),
        busy(60, 61),
        idle(61, 90, Some(2)),
        busy(90, 92),
    ];
    pieces.of.insert(1, of);
    let worker = vec![
        idle(0, 5, None),
        busy(5, 60),
        idle(60, 61, Some(1)),
        busy(61, 90),
        idle(90, 200, None),
    ];
    pieces.of.insert(2, worker);
    let found = went(&pieces, &request(10, 10, 91));
    assert_eq!(found[&(Some(2), ON_CPU)], 49 + 29);
    assert!(!found.contains_key(&(None, Went::Outside)), "{found:?}");
}

/// A row lock, held by a thread that waits for its own client during a transaction.
#[test]
fn what_a_thread_with_one_client_waits_for_in_a_request_is_a_lock() {
    let for_client = |start_ms, end_ms| Piece {
        waited_for: WaitKind::Inbound,
        is_for_one: true,
        ..idle(start_ms, end_ms, None)
    };
    let on_row = Piece {
        waited_for: WaitKind::Queue,
        stack: 7,
        ..idle(12, 92, Some(2))
    };
    let mut pieces = Pieces::default();
    let waiter = vec![for_client(0, 10), busy(10, 12), on_row, busy(92, 100)];
    pieces.of.insert(1, waiter.clone());
    pieces.of.insert(
        2,
        vec![
            busy(0, 11),
            for_client(11, 91),
            busy(91, 92),
            for_client(92, 200),
        ],
    );
    let lock = Went::Thread(Label::Held(Cause::Lock));
    let expected = [
        ((Some(1), ON_CPU), 10),
        ((Some(1), lock), 79),
        ((Some(2), ON_CPU), 1),
    ];
    assert_eq!(went(&pieces, &request(10, 10, 100)), expected.into());
    let slow = Slow::of(&pieces, &[], request(10, 10, 100));
    assert_eq!(
        (slow.untaken[0].wait.stack, slow.untaken[0].is_taken),
        (7, true)
    );
    // One of a pool waits for its next work.
    let mut pool = waiter.clone();
    pool[2].is_in_request = false;
    pieces.of.insert(1, pool);
    let outside = went(&pieces, &request(10, 10, 100));
    assert_eq!(outside[&(None, Went::Outside)], 79);
    // One that has many clients waits for whatever comes.
    let mut many = waiter;
    many[0].is_for_one = false;
    pieces.of.insert(1, many);
    let outside = went(&pieces, &request(10, 10, 100));
    assert_eq!(outside[&(None, Went::Outside)], 79);
}

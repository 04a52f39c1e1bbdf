//! Lost switches, and where in a history a time lies.

use super::super::event::Wait;
use super::super::thread::last_before;
use super::*;

fn event(at_ns: u64, what: What) -> Event {
    Event {
        at_ns,
        tid: 1,
        what,
    }
}

fn idle() -> What {
    What::Blocked(Wait::of(WaitKind::Queue, 0))
}

fn woken() -> What {
    let (by, release) = (Waker::Outside, 0);
    What::Woken { by, release }
}

fn states(events: &[Event]) -> Vec<(u64, u64, State)> {
    let mut lines = Timelines::default();
    events.iter().for_each(|event| lines.push(event));
    let thread = lines.thread(1).unwrap();
    thread
        .since(0)
        .map(|(_, s)| (s.start_ns, s.end_ns, s.state))
        .collect()
}

#[test]
fn a_lost_coming_is_no_wait_for_a_cpu() {
    let seen = states(&[event(10, idle()), event(20, woken()), event(4_000, idle())]);
    assert!(
        matches!(seen[..], [(10, 20, State::Blocked { .. })]),
        "{seen:?}"
    );
}

#[test]
fn a_lost_leaving_is_no_time_on_a_cpu() {
    let come = What::In { after: 0 };
    let seen = states(&[event(10, come), event(4_000, come), event(4_010, idle())]);
    assert_eq!(seen, [(4_000, 4_010, State::Running)]);
}

#[test]
fn a_state_that_was_found_wrong_is_forgotten() {
    let seen = states(&[
        event(10, idle()),
        event(20, woken()),
        event(300, What::Unsure),
        event(400, idle()),
    ]);
    assert!(
        matches!(seen[..], [(10, 20, State::Blocked { .. })]),
        "{seen:?}"
    );
}

#[test]
fn the_segment_before_a_time_is_found_wherever_it_lies() {
    let segment = |at: u64| Segment {
        start_ns: 10 * at,
        end_ns: 10 * at + 10,
        state: State::Running,
    };
    for count in [0, 1, 2, 7, 8, 9, 100, 1_000] {
        let segments: VecDeque<Segment> = (0..count).map(segment).collect();
        for t_ns in 0..10 * count + 12 {
            let plain = segments.partition_point(|s| s.start_ns < t_ns);
            assert_eq!(last_before(&segments, t_ns), plain, "{t_ns} of {count}");
        }
    }
}

#[test]
fn a_number_that_is_used_anew_is_not_over() {
    let come = What::In { after: 0 };
    let mut lines = Timelines::default();
    [event(10, come), event(20, What::Exited), event(900, come)]
        .iter()
        .for_each(|event| lines.push(event));
    lines.forget_before(500);
    assert!(lines.thread(1).is_some());
    lines.push(&event(950, What::Exited));
    lines.forget_before(960);
    assert!(lines.thread(1).is_none());
}

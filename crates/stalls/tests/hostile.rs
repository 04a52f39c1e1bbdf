//! Events in any order and at any time, as a recording from elsewhere may hold them, end no analysis.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stalls::analyser::Analyser;
use stalls::answered::{Answered, Reply};
use stalls::event::{Event, Tid, Wait, WaitKind, Waker, What};
use stalls::finding::summarise;
use stalls::pieces::Keep;

const KINDS: [WaitKind; 11] = [
    WaitKind::Lock,
    WaitKind::Queue,
    WaitKind::Inbound,
    WaitKind::Outbound,
    WaitKind::Network,
    WaitKind::Disk,
    WaitKind::Fault,
    WaitKind::Memory,
    WaitKind::Sleep,
    WaitKind::Other,
    WaitKind::Unknown,
];

fn wait(random: &mut ChaCha8Rng) -> Wait {
    let holder = random.random_bool(0.3).then(|| random.random_range(0..6));
    Wait {
        holder,
        activity: random.random_range(0..4),
        stack: random.random_range(0..4),
        place: random.random_range(0..4),
        timed: random.random_bool(0.1),
        one_client: random.random_bool(0.3),
        shared: random.random_bool(0.1),
        ..Wait::of(
            KINDS[random.random_range(0..KINDS.len())],
            random.random_range(0..3),
        )
    }
}

fn what(random: &mut ChaCha8Rng) -> What {
    match random.random_range(0..10) {
        0..=2 => What::Blocked(wait(random)),
        3 | 4 => What::In { after: 1 },
        5 => What::Woken {
            by: match random.random_bool(0.8) {
                true => Waker::Thread(random.random_range(0..6)),
                false => Waker::Outside,
            },
            release: random.random_range(0..4),
        },
        6 => What::Sample(wait(random)),
        7 => What::Preempted,
        8 => What::RunDelay {
            ns: random.random_range(0..u64::MAX),
        },
        _ => match random.random_range(0..5) {
            0 => What::Exited,
            1 => What::Unsure,
            2 => What::Ran {
                ns: random.random_range(0..u64::MAX),
                host: 1,
            },
            3 => What::Faulted {
                activity: 1,
                stack: 1,
            },
            _ => What::OnCpu {
                stack: 1,
                activity: 0,
                allocator: random.random_bool(0.5),
            },
        },
    }
}

#[test]
fn any_events_are_analysed() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut analyser = Analyser::new(1 << 40, [1, 2]);
        analyser.lines.wakers_unseen = seed % 3 == 0;
        analyser.lines.sampled = seed % 2 == 0;
        analyser.pieces.keep = [Keep::First, Keep::Newest][seed as usize % 2];
        for tid in 0..6 {
            analyser.set_group(tid, tid / 3);
        }
        let mut at_ns = 1_u64 << 40;
        for step in 0..2_000 {
            // Mostly onwards, at times back, or by days.
            let by = [1_000, 1_000_000, 400_000_000, 1 << 50]
                [usize::min(random.random_range(0..12) / 3, 3)];
            at_ns = match random.random_bool(0.9) {
                true => at_ns
                    .saturating_add(random.random_range(0..by))
                    .min(1 << 60),
                false => at_ns.saturating_sub(random.random_range(0..by)),
            };
            let tid: Tid = random.random_range(0..6);
            let what = what(&mut random);
            if step % 3 == 0 {
                let mut times =
                    [0; 3].map(|_: u64| at_ns.saturating_sub(random.random_range(0..by)));
                times.sort_unstable();
                let request = Answered {
                    start_ns: times[0],
                    received_ns: times[1],
                    end_ns: times[2],
                    receiver: random.random_range(0..8),
                    sender: random.random_range(0..8),
                };
                let reply = Reply {
                    start_ns: times[0],
                    end_ns: times[usize::from(random.random_bool(0.5)) + 1],
                    tid: random.random_range(0..8),
                    activity: 0,
                };
                analyser.connections.take(&[request], &[reply]);
            }
            analyser.push(&Event { at_ns, tid, what });
            if step % 50 == 0 {
                analyser.advance(at_ns.saturating_sub(200_000_000));
            }
        }
        analyser.finish();
        let watched: Vec<Tid> = (0..6).collect();
        let findings = summarise(
            &analyser.stalls,
            &analyser.groups,
            &analyser.connections.felt(),
            &watched,
        );
        assert!(findings.iter().all(|finding| finding.count > 0));
    }
}

//! Candidates of each cause, with numbers that can be checked by hand.

use super::*;
use memory::account::Account;
use memory::growth::Growth;
use memory::sites::SiteGrowth;
use symbols::frame::Frame;

const MIB: f64 = 1_048_576.0;

fn case(sight: Sight) -> Case {
    Case {
        observed_s: 60.0,
        account: Account {
            rss_bytes: 120.0 * MIB,
            live: 40.0 * MIB,
            held: 30.0 * MIB,
            fragmentation: 10.0 * MIB,
            stacks: 16.0 * MIB,
            huge_untouched: 12.0 * MIB,
            ..Account::default()
        },
        rss: Some(Growth {
            slope_per_hour: 60.0 * MIB,
            still: true,
            ..Growth::default()
        }),
        threads_last: 8,
        sight,
        ..Case::default()
    }
}

fn of(cause: Cause, case: &Case) -> Vec<Candidate> {
    let verdict = CauseVerdict {
        cause,
        confidence: 0.9,
        sentence: String::new(),
        next_step: String::new(),
        limitations: Vec::new(),
        undecided: false,
        by_objects: false,
    };
    let subject = Named {
        pid: 42,
        command: "./server --fast",
    };
    candidates(case, &verdict, subject)
}

fn hi(candidate: &Candidate) -> f64 {
    candidate.effect.unwrap().hi / MIB
}

#[test]
fn a_leak_is_fixed_at_its_site_and_a_restart_holds_the_level() {
    let mut case = case(Sight::Sees);
    case.sites = vec![Site {
        frames: vec![Frame {
            function: Some("parse".into()),
            ..Frame::default()
        }],
        growth: SiteGrowth {
            grown_bytes: MIB,
            grown_error: 0.1 * MIB,
            ..SiteGrowth::default()
        },
        share_of_growth: 0.8,
        ..Site::default()
    }];
    let all = of(Cause::Leak, &case);
    assert_eq!(all[0].action, "fix parse");
    let effect = all[0].effect.unwrap();
    assert_eq!(effect.unit, Unit::BytesPerHour);
    assert!((effect.lo / MIB - 60.0 * 0.804).abs() < 1e-6, "{effect:?}");
    assert!((effect.hi / MIB - 60.0 * 1.196).abs() < 1e-6, "{effect:?}");
    // 120 MiB that grow by 60 MiB an hour have doubled after two.
    assert_eq!(all[1].action, "restart it every 2 h, until it is fixed");
    assert!(all[1].predicted.contains("240 MiB"), "{}", all[1].predicted);
    assert_eq!(
        all[0].command.as_deref(),
        Some("highwater explain --duration 60s -- ./server --fast")
    );
}

#[test]
fn retention_gives_back_at_most_what_is_free() {
    let all = of(Cause::Retention, &case(Sight::Sees));
    assert_eq!(hi(&all[0]), 40.0);
    assert!(all[1].action.starts_with("MALLOC_TRIM_THRESHOLD_"));
    assert_eq!(hi(&all[1]), 30.0);
    assert_eq!(
        (all[2].action.as_str(), hi(&all[2])),
        ("MALLOC_ARENA_MAX=2", 40.0)
    );
    let command = all[0].command.as_deref().unwrap();
    assert!(command.starts_with("highwater record --out try.hwt -- ./server --fast"));
}

#[test]
fn of_one_thread_no_arenas_and_of_another_allocator_no_glibc_settings() {
    let mut single = case(Sight::Sees);
    single.threads_last = 1;
    assert_eq!(of(Cause::Retention, &single).len(), 2);
    let mut other = case(Sight::Sees);
    other.managers.allocators = vec![heap::memory_managers::Allocator {
        name: "jemalloc".into(),
        version: None,
        how: heap::memory_managers::How::Preloaded,
        path: String::new(),
        inside_program: false,
    }];
    assert_eq!(of(Cause::Retention, &other).len(), 1);
}

#[test]
fn a_running_process_is_tried_by_copies_of_it() {
    let all = of(Cause::Retention, &case(Sight::NotAsked));
    let command = all[0].command.as_deref().unwrap();
    assert!(command.starts_with("highwater init --pid 42"), "{command}");
}

#[test]
fn each_cause_has_what_fits_it() {
    let case = case(Sight::Sees);
    assert_eq!(hi(&of(Cause::Stacks, &case)[0]), 16.0);
    assert_eq!(hi(&of(Cause::Hugepages, &case)[0]), 12.0);
    for cause in [Cause::Files, Cause::Lazyfree, Cause::Flat] {
        let all = of(cause, &case);
        assert_eq!((all.len(), all[0].action.as_str()), (1, "do nothing"));
        assert_eq!((&all[0].command, all[0].effect), (&None, None));
    }
}

#[test]
fn what_is_undecided_has_one_command() {
    let case = case(Sight::NotAsked);
    let verdict = CauseVerdict {
        cause: Cause::Flat,
        confidence: 0.2,
        sentence: String::new(),
        next_step: String::new(),
        limitations: Vec::new(),
        undecided: true,
        by_objects: false,
    };
    let subject = Named {
        pid: 42,
        command: "./server",
    };
    let all = candidates(&case, &verdict, subject);
    assert_eq!(all.len(), 1);
    let command = all[0].command.as_deref();
    assert_eq!(
        command,
        Some("sudo highwater explain --duration 300s --pid 42")
    );
}

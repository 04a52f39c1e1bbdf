//! The runs that most tests use: the relay's history, a fleet, and one with hostile names.

use record::run::Run;

use super::{Curve, MIB, Plan, Synthetic};

/// Eight arms as in the relay's history: a leak that no allocator stops, and the fix that does.
pub fn relay() -> Plan {
    let leak = |base: f64, per_hour: f64| Curve::Leak {
        base: base * MIB,
        fill: 60.0 * MIB,
        tau_s: 25.0,
        per_hour: per_hour * MIB,
    };
    let mut arms = vec![
        Synthetic::new("glibc", "glibc", leak(212.0, 291.0)),
        Synthetic::new("glibc-arena2", "glibc", leak(184.0, 288.0)),
        Synthetic::new("jemalloc", "jemalloc@5.3.0", leak(236.0, 300.0)),
        Synthetic::new("mimalloc-2.0.9", "mimalloc@2.0.9", leak(171.0, 294.0)),
        Synthetic::new("mimalloc-2.1.7", "mimalloc@2.1.7", leak(176.0, 296.0)),
        Synthetic::new("zig-smp", "glibc", leak(160.0, 402.0)),
        Synthetic::new("zig-debug", "glibc", leak(340.0, 1130.0)),
        Synthetic::new("fixed", "glibc", leak(206.0, 0.6)),
    ];
    arms[1].environment = vec![("MALLOC_ARENA_MAX".into(), "2".into())];
    arms[2].lazy_share = 0.08;
    arms[2].cpu_system = 0.11;
    arms[3].faults_per_s = 4_600.0;
    arms[3].cpu_system = 0.21;
    arms[5].arguments = vec!["--allocator".into(), "smp".into()];
    arms[6].arguments = vec!["--allocator".into(), "debug".into()];
    arms[6].cpu_user = 1.6;
    arms[6].latency_ms = 3.4;
    arms[7].arguments = vec!["--leak".into(), "off".into()];
    Plan {
        name: "relay".into(),
        arms,
        replicas: 3,
        duration_s: 300.0,
        interval_s: 1.0,
        seed: 7,
        with_latency: true,
    }
}

/// 200 processes under five allocators, 13,000 snapshots each: as large as the largest experiment
/// known.
pub fn fleet() -> Plan {
    let fill = |base: f64, fill: f64, per_hour: f64| Curve::Leak {
        base: base * MIB,
        fill: fill * MIB,
        tau_s: 86_400.0,
        per_hour: per_hour * MIB,
    };
    let arms = vec![
        Synthetic::new("glibc", "glibc", fill(900.0, 3200.0, 1.0)),
        Synthetic::new("jemalloc-5.3.0", "jemalloc@5.3.0", fill(700.0, 1900.0, 0.0)),
        Synthetic::new("mimalloc-2.0.9", "mimalloc@2.0.9", fill(600.0, 680.0, 0.0)),
        Synthetic::new("mimalloc-2.1.7", "mimalloc@2.1.7", fill(600.0, 1100.0, 0.0)),
        Synthetic::new(
            "mimalloc-3.0.1",
            "mimalloc@3.0.1",
            fill(900.0, 4100.0, 16.0),
        ),
    ];
    Plan {
        name: "fleet".into(),
        arms,
        replicas: 40,
        duration_s: 13_000.0 * 60.0,
        interval_s: 60.0,
        seed: 11,
        with_latency: false,
    }
}

/// Names, words and lines that try to get out of every format.
pub const HOSTILE: &str =
    "</script><img src=x onerror=alert(1)>\u{1b}[31m\u{202e}=1+1|a\n\u{0}\"'`&";

/// A small run in which every text that somebody else chose is hostile.
pub fn hostile() -> Run {
    let mut plan = relay();
    plan.arms.truncate(3);
    plan.replicas = 2;
    plan.duration_s = 60.0;
    plan.arms[1].name = HOSTILE.to_string();
    plan.arms[1].environment = vec![(HOSTILE.to_string(), HOSTILE.to_string())];
    plan.arms[1].arguments = vec![HOSTILE.to_string()];
    plan.arms[1].killed_at_s = Some(30.0);
    let mut run = plan.run();
    run.experiment.hypothesis = HOSTILE.to_string();
    run.experiment.why = HOSTILE.to_string();
    run.experiment.evidence = HOSTILE.to_string();
    run.experiment.revert.words = HOSTILE.to_string();
    run.machine.cpu = HOSTILE.to_string();
    run.id = format!("2026-11-18-{HOSTILE}");
    for process in &mut run.processes {
        process.command.push(HOSTILE.to_string());
        let fact = vec![(process.started, HOSTILE.to_string())];
        for key in [
            "allocator.version",
            "heap.cause",
            "heap.sentence",
            "heap.place",
        ] {
            process.facts.insert(key.to_string(), fact.clone());
        }
        let rss = process.samples.get("rss_bytes").cloned();
        process
            .samples
            .extend(rss.map(|rss| ("live_heap_bytes".to_string(), rss)));
    }
    for event in &mut run.events {
        event.words = HOSTILE.to_string();
    }
    run
}

//! One honest sentence for many situations, the awkward ones included.

use observe::snapshot::EventKind;
use series::estimate::Estimate;
use verdict::Label;
use verdict::arm::Outlier;
use verdict::run::Finding;

use crate::scene::{Arm, Scene, about, allocator, check, flat, growing, scene, tuned, untold};
use crate::synthetic::MIB;

// Long because it is a table: a line for each situation.
fn situations() -> Vec<(&'static str, Scene)> {
    let leak = || {
        vec![
            growing("glibc", 290.0),
            growing("jemalloc", 300.0),
            growing("mimalloc", 281.0),
        ]
    };
    let with = |mut arms: Vec<Arm>, more: Vec<Arm>| {
        arms.extend(more);
        scene(arms)
    };
    let fixed = || flat("fixed", 210.0).changed("--leak off");
    let weak = Finding {
        what: "The control lost a process.".into(),
        processes: vec![],
        effect: "Its interval is wider.".into(),
    };
    vec![
        (
            "a leak that no allocator stops, and its fix",
            with(leak(), vec![fixed()]),
        ),
        (
            "the same, one allocator four times as fast",
            with(
                leak(),
                vec![
                    growing("zig-debug", 1160.0).changed("--allocator debug"),
                    fixed(),
                ],
            ),
        ),
        (
            "the same, but the fix grows too",
            with(leak(), vec![growing("fixed", 280.0).changed("--leak off")]),
        ),
        (
            "the same, but the fix leaves a little",
            with(leak(), vec![growing("fixed", 2.0).changed("--leak off")]),
        ),
        ("a leak, only allocators tried", scene(leak())),
        (
            "a leak, two of the allocators not told yet",
            with(
                leak(),
                vec![untold("snmalloc"), untold("rpmalloc"), fixed()],
            ),
        ),
        (
            "a leak, one allocator crashed at once",
            with(
                leak(),
                vec![untold("musl").all(EventKind::Crashed, "signal 11"), fixed()],
            ),
        ),
        (
            "a leak, no other allocator tried",
            scene(vec![
                growing("glibc", 290.0),
                fixed(),
                growing("nagle", 291.0).changed("--nodelay"),
            ]),
        ),
        (
            "a leak in a run so short that one allocator's flat may be the leak",
            with(
                leak(),
                vec![flat("zig-smp", 205.0).with(|arm| {
                    arm.slope_per_hour = Some(Estimate {
                        value: 120.0 * MIB,
                        lo: -34.0 * MIB,
                        hi: 310.0 * MIB,
                    });
                })],
            ),
        ),
        (
            "one allocator stops it",
            scene(vec![
                growing("glibc", 290.0),
                flat("jemalloc", 205.0).costs(0.8, 0.3, 4.0),
                growing("mimalloc", 150.0),
            ]),
        ),
        (
            "every other allocator stops it",
            scene(vec![
                growing("glibc", 290.0),
                flat("jemalloc", 205.0),
                allocator("mimalloc", Label::Plateauing, 180.0, 2.0),
                flat("snmalloc", 260.0),
            ]),
        ),
        (
            "an allocator and the fix stop it",
            scene(vec![
                growing("glibc", 290.0),
                flat("jemalloc", 205.0),
                fixed(),
            ]),
        ),
        (
            "a tunable counts as an allocator",
            scene(vec![
                growing("glibc", 290.0),
                tuned("arena2", ("MALLOC_ARENA_MAX", "2"), 295.0),
                fixed(),
            ]),
        ),
        (
            "another variable is a change of the program",
            scene(vec![
                growing("glibc", 290.0),
                tuned("fast", ("RELAY_FAST", "1"), 295.0),
                fixed(),
            ]),
        ),
        (
            "nothing grows and nothing differs",
            scene(vec![flat("glibc", 210.0), flat("jemalloc", 210.5)]),
        ),
        (
            "nothing grows, one allocator needs a third",
            scene(vec![
                flat("glibc", 4100.0),
                flat("mimalloc", 1280.0).costs(0.42, 0.6, 9.0),
                flat("jemalloc", 2640.0),
            ]),
        ),
        (
            "the control is flat, another grows",
            scene(vec![flat("glibc", 4100.0), growing("mimalloc-3", 36.0)]),
        ),
        ("one arm alone grows", scene(vec![growing("glibc", 290.0)])),
        (
            "one replica each",
            Scene {
                replicas: 1,
                ..with(leak(), vec![fixed()])
            },
        ),
        (
            "nothing is told yet",
            scene(vec![
                untold("glibc"),
                untold("jemalloc"),
                untold("mimalloc")
                    .with(|v| v.needs = Some("3.5 more hours at this rate of samples".into())),
            ]),
        ),
        (
            "the control is not told yet, others are",
            scene(vec![
                untold("glibc"),
                flat("jemalloc", 210.0),
                growing("mimalloc", 50.0),
            ]),
        ),
        (
            "the control died",
            scene(vec![
                untold("glibc").all(EventKind::OomKilled, "killed"),
                flat("jemalloc", 210.0),
            ]),
        ),
        (
            "everything died",
            scene(vec![
                untold("glibc").all(EventKind::NeverReady, "no answer"),
                untold("jemalloc").all(EventKind::NeverReady, "no answer"),
            ]),
        ),
        (
            "the processes of the control disagree",
            scene(vec![
                allocator("glibc", Label::Variable, 512.0, 9.0).with(|v| {
                    v.outliers = vec![Outlier {
                        id: "glibc/1".into(),
                        why: "it grows, the others are flat".into(),
                    }]
                }),
                flat("jemalloc", 210.0),
            ]),
        ),
        (
            "the control steps",
            scene(vec![
                allocator("glibc", Label::Stepped, 512.0, 0.0),
                flat("jemalloc", 210.0),
            ]),
        ),
        (
            "the control grows, a change steps far below it",
            scene(vec![
                growing("glibc", 290.0),
                allocator("split", Label::Stepped, 60.0, 0.0).changed("--pool split"),
                flat("limit", 150.0).changed("--limit"),
            ]),
        ),
        (
            "nothing grows, an allocator steps far below",
            scene(vec![
                flat("glibc", 4100.0),
                allocator("mimalloc", Label::Stepped, 1280.0, 0.0),
                flat("jemalloc", 2640.0),
            ]),
        ),
        (
            "a guard aborted a growing arm",
            with(
                leak(),
                vec![
                    growing("zig-debug", 1160.0)
                        .changed("--allocator debug")
                        .all(
                            EventKind::Aborted,
                            "guard rss_max 2.00 GiB: 2.01 GiB (process zig-debug/0)",
                        ),
                    fixed(),
                ],
            ),
        ),
        (
            "one process of an arm crashed and was not replaced",
            with(leak(), vec![fixed().first(EventKind::Crashed, "signal 6")]),
        ),
        (
            "the arm to adopt passes",
            Scene {
                adopt: Some("fixed"),
                checks: vec![check("fixed", Some(true), "peak 230 MiB (process fixed/0)")],
                ..with(leak(), vec![fixed()])
            },
        ),
        (
            "the arm to adopt fails a check",
            Scene {
                adopt: Some("fixed"),
                checks: vec![check(
                    "fixed",
                    Some(false),
                    "peak 530 MiB (process fixed/0)",
                )],
                ..with(leak(), vec![fixed()])
            },
        ),
        (
            "the arm to adopt cannot be checked",
            Scene {
                adopt: Some("fixed"),
                checks: vec![check("fixed", None, "was never tried")],
                ..with(leak(), vec![fixed()])
            },
        ),
        (
            "the arm to adopt died after passing",
            Scene {
                adopt: Some("fixed"),
                checks: vec![check("fixed", Some(true), "peak 230 MiB (process fixed/0)")],
                ..with(leak(), vec![fixed().all(EventKind::Crashed, "signal 11")])
            },
        ),
        (
            "the audit found something",
            Scene {
                findings: vec![weak],
                ..with(leak(), vec![fixed()])
            },
        ),
        (
            "a name with a backquote",
            scene(vec![growing("glibc", 290.0), flat("a`b", 100.0)]),
        ),
        (
            "more arms than a sentence holds",
            with(
                leak(),
                (0..7)
                    .map(|i| {
                        flat(&format!("fix{i}"), 200.0 + i as f64).changed(&format!("--fix {i}"))
                    })
                    .collect(),
            ),
        ),
        (
            "a limit in reach, and one still filling",
            scene(vec![
                growing("glibc", 290.0).with(|v| v.time_to_limit_s = about(7_200.0, 0.1)),
                allocator("jemalloc", Label::Plateauing, 300.0, 20.0)
                    .with(|v| v.asymptote = about(420.0 * MIB, 0.1)),
            ]),
        ),
    ]
}

#[test]
fn the_sentence_follows_from_the_data() {
    let mut text = String::new();
    for (name, scene) in situations() {
        let verdict = scene.verdict();
        text += &format!("# {name}\n{}\n", verdict.headline);
        text += if verdict.decided {
            "decided\n"
        } else {
            "undecided\n"
        };
        text += &verdict
            .needs
            .map(|needs| format!("needs: {needs}\n"))
            .unwrap_or_default();
        let adopt = verdict
            .adopt
            .map(|adopt| format!("adopt: {:?}\n", adopt.passed));
        text += &adopt.unwrap_or_default();
        verdict
            .learnings
            .iter()
            .for_each(|learning| text += &format!("- {learning}\n"));
        text.push('\n');
    }
    snapbox::assert_data_eq!(text, snapbox::file!["golden/conclude.txt"].raw());
}

#[test]
fn every_headline_is_one_sentence() {
    for (name, scene) in situations() {
        let headline = scene.verdict().headline;
        assert!(
            headline.ends_with('.') && !headline.trim_end_matches('.').contains(". "),
            "{name}: {headline}"
        );
        assert!(
            headline.starts_with(|c: char| c.is_uppercase() || c == '`'),
            "{name}: {headline}"
        );
        assert!(
            headline.len() < 400,
            "{name}: {} characters: {headline}",
            headline.len()
        );
    }
}

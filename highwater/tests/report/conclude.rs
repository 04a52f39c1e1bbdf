//! One honest sentence for many situations, the awkward ones included.

use highwater::analyse::cost::{ArmCost, Latency};
use highwater::observe::look::{Event, EventKind, ProcessId};
use highwater::record::run::Run;
use highwater::verdict::arm::{ArmVerdict, Outlier};
use highwater::verdict::check::CheckOutcome;
use highwater::verdict::run::{Finding, RunVerdict, conclude};
use highwater::verdict::{Estimate, Label};

use crate::synthetic::judged::{blank, pairs};
use crate::synthetic::{Curve, MIB, Plan, Synthetic, at};

/// One arm of a situation: who it is, and what the judge says of it.
struct Scene {
    arms: Vec<Arm>,
    replicas: u32,
    adopt: Option<&'static str>,
    checks: Vec<CheckOutcome>,
    findings: Vec<Finding>,
}

#[derive(Clone)]
struct Arm {
    plan: Synthetic,
    verdict: ArmVerdict,
    cost: ArmCost,
    /// What happened to all its processes, and to the first alone.
    all: Option<(EventKind, &'static str)>,
    first: Option<(EventKind, &'static str)>,
}

fn about(value: f64, share: f64) -> Option<Estimate> {
    Some(Estimate {
        value,
        lo: value - value.abs() * share,
        hi: value + value.abs() * share,
    })
}

/// An arm that differs from the control by its allocator; level in MiB, growth in MiB per hour.
fn allocator(name: &str, label: Label, level: f64, slope: f64) -> Arm {
    let flat = Curve::Saw {
        base: level * MIB,
        height: 0.0,
        period_s: 1.0,
    };
    let told = label != Label::Insufficient;
    let verdict = ArmVerdict {
        level: about(level * MIB, 0.02).filter(|_| told),
        slope_per_hour: about(slope * MIB, 0.05).filter(|_| told),
        ..blank(name, label)
    };
    Arm {
        plan: Synthetic::new(name, name, flat),
        verdict,
        cost: cost(0.42, 0.08, 5.0),
        all: None,
        first: None,
    }
}

fn cost(user: f64, system: f64, p99_ms: f64) -> ArmCost {
    let ns = (p99_ms * 1e6) as u64;
    ArmCost {
        cpu_user: about(user, 0.02),
        cpu_system: about(system, 0.02),
        latency: Some(Latency {
            p50_ns: ns / 5,
            p99_ns: ns,
            p999_ns: 2 * ns,
            max_ns: 3 * ns,
            requests: 9,
            pauses_per_minute: 0.0,
        }),
        ..ArmCost::default()
    }
}

fn growing(name: &str, slope: f64) -> Arm {
    allocator(name, Label::Growing, 512.0, slope)
}

fn flat(name: &str, level: f64) -> Arm {
    allocator(name, Label::Flat, level, 0.4)
}

fn untold(name: &str) -> Arm {
    allocator(name, Label::Insufficient, 512.0, 0.0)
}

impl Arm {
    /// The same, as a change of the program.
    fn changed(mut self, argument: &str) -> Arm {
        self.plan.arguments = argument.split(' ').map(str::to_string).collect();
        self
    }
    fn costs(mut self, user: f64, system: f64, p99_ms: f64) -> Arm {
        self.cost = cost(user, system, p99_ms);
        self
    }
    fn all(mut self, kind: EventKind, words: &'static str) -> Arm {
        self.all = Some((kind, words));
        self
    }
    fn first(mut self, kind: EventKind, words: &'static str) -> Arm {
        self.first = Some((kind, words));
        self
    }
    fn with(mut self, edit: impl Fn(&mut ArmVerdict)) -> Arm {
        edit(&mut self.verdict);
        self
    }
}

fn scene(arms: Vec<Arm>) -> Scene {
    Scene {
        arms,
        replicas: 2,
        adopt: None,
        checks: Vec::new(),
        findings: Vec::new(),
    }
}

impl Scene {
    fn run(&self) -> Run {
        let plan = Plan {
            name: "scene".into(),
            arms: self.arms.iter().map(|arm| arm.plan.clone()).collect(),
            replicas: self.replicas,
            duration_s: 360.0,
            interval_s: 60.0,
            seed: 3,
            with_latency: false,
        };
        let mut run = plan.run();
        run.experiment.adopt = self.adopt.map(str::to_string);
        run.experiment.verify.clear();
        for arm in &self.arms {
            let own = run
                .processes
                .iter()
                .filter(|p| p.arm == arm.plan.name)
                .map(|p| p.id);
            let ids: Vec<ProcessId> = own.collect();
            let dead: Vec<ProcessId> = match (arm.all, arm.first) {
                (Some(_), _) => ids,
                (None, Some(_)) => ids[..1].to_vec(),
                (None, None) => Vec::new(),
            };
            run.events
                .retain(|event| event.process.is_none_or(|id| !dead.contains(&id)));
            for id in dead {
                let (kind, words) = arm.all.or(arm.first).expect("it is dead");
                run.events.push(Event {
                    time: at(42.0),
                    process: Some(id),
                    kind,
                    words: words.to_string(),
                });
            }
        }
        run
    }

    fn verdict(&self) -> RunVerdict {
        let run = self.run();
        let verdicts: Vec<ArmVerdict> = self.arms.iter().map(|arm| arm.verdict.clone()).collect();
        let costs = self.arms.iter().map(|arm| ArmCost {
            arm: arm.plan.name.clone(),
            ..arm.cost.clone()
        });
        let costs: Vec<ArmCost> = costs.collect();
        let pairs = pairs(&verdicts, &run.experiment.control);
        conclude(
            &run,
            &verdicts,
            pairs,
            &costs,
            self.checks.clone(),
            self.findings.clone(),
        )
    }
}

fn check(arm: &str, passed: Option<bool>, observed: &str) -> CheckOutcome {
    CheckOutcome {
        check: "rss_max 400 MiB".into(),
        arm: arm.into(),
        passed,
        observed: observed.into(),
    }
}

fn tuned(name: &str, variable: (&str, &str), slope: f64) -> Arm {
    let mut arm = growing(name, slope);
    arm.plan.environment = vec![(variable.0.into(), variable.1.into())];
    arm
}

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

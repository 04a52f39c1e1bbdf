//! A situation to conclude from: arms, what the judge says of them, what happened to their
//! processes.

use observe::snapshot::{Event, EventKind, ProcessId};
use record::run::Run;
use series::estimate::Estimate;
use series::latency::Latency;
use verdict::Label;
use verdict::arm::ArmVerdict;
use verdict::check::CheckOutcome;
use verdict::cost::ArmCost;
use verdict::run::{Finding, RunVerdict, conclude};

use crate::synthetic::judged::{blank, pairs};
use crate::synthetic::{Curve, MIB, Plan, Synthetic, at};

/// One arm of a situation: who it is, and what the judge says of it.
pub struct Scene {
    pub arms: Vec<Arm>,
    pub replicas: u32,
    pub adopt: Option<&'static str>,
    pub checks: Vec<CheckOutcome>,
    pub findings: Vec<Finding>,
}

#[derive(Clone)]
pub struct Arm {
    pub plan: Synthetic,
    pub verdict: ArmVerdict,
    cost: ArmCost,
    /// What happened to all its processes, and to the first alone.
    all: Option<(EventKind, &'static str)>,
    first: Option<(EventKind, &'static str)>,
}

pub fn about(value: f64, share: f64) -> Option<Estimate> {
    Some(Estimate {
        value,
        lo: value - value.abs() * share,
        hi: value + value.abs() * share,
    })
}

/// An arm that differs from the control by its allocator; level in MiB, growth in MiB per hour.
pub fn allocator(name: &str, label: Label, level: f64, slope: f64) -> Arm {
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

pub fn cost(user: f64, system: f64, p99_ms: f64) -> ArmCost {
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
            watched_s: 0.0,
        }),
        ..ArmCost::default()
    }
}

pub fn growing(name: &str, slope: f64) -> Arm {
    allocator(name, Label::Growing, 512.0, slope)
}

pub fn flat(name: &str, level: f64) -> Arm {
    allocator(name, Label::Flat, level, 0.4)
}

pub fn untold(name: &str) -> Arm {
    allocator(name, Label::Insufficient, 512.0, 0.0)
}

impl Arm {
    /// The same, as a change of the program.
    pub fn changed(mut self, argument: &str) -> Arm {
        self.plan.arguments = argument.split(' ').map(str::to_string).collect();
        self
    }
    pub fn costs(mut self, user: f64, system: f64, p99_ms: f64) -> Arm {
        self.cost = cost(user, system, p99_ms);
        self
    }
    pub fn all(mut self, kind: EventKind, words: &'static str) -> Arm {
        self.all = Some((kind, words));
        self
    }
    pub fn first(mut self, kind: EventKind, words: &'static str) -> Arm {
        self.first = Some((kind, words));
        self
    }
    pub fn with(mut self, edit: impl Fn(&mut ArmVerdict)) -> Arm {
        edit(&mut self.verdict);
        self
    }
}

pub fn scene(arms: Vec<Arm>) -> Scene {
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
            let dead: Vec<ProcessId> = match (&arm.all, &arm.first) {
                (Some(_), _) => ids,
                (None, Some(_)) => ids[..1].to_vec(),
                (None, None) => Vec::new(),
            };
            run.events
                .retain(|event| event.process.is_none_or(|id| !dead.contains(&id)));
            for id in dead {
                let (kind, words) = arm.all.clone().or(arm.first.clone()).expect("it is dead");
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

    pub fn verdict(&self) -> RunVerdict {
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
            &[],
            self.checks.clone(),
            self.findings.clone(),
        )
    }
}

pub fn check(arm: &str, passed: Option<bool>, observed: &str) -> CheckOutcome {
    CheckOutcome {
        check: "rss_max 400 MiB".into(),
        arm: arm.into(),
        passed,
        observed: observed.into(),
    }
}

pub fn tuned(name: &str, variable: (&str, &str), slope: f64) -> Arm {
    let mut arm = growing(name, slope);
    arm.plan.environment = vec![(variable.0.into(), variable.1.into())];
    arm
}

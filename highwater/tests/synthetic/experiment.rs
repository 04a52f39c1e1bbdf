//! The experiment that a synthetic run is one of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use experiment::file::{
    Arm, Check, Condition, Experiment, LoadPer, LoadPlan, Restart, Revert, Stop, SubjectKind,
    SubjectPlan, Trend,
};

use super::Plan;

impl Plan {
    pub fn experiment(&self) -> Experiment {
        let arms = self.arms.iter().map(|arm| Arm {
            name: arm.name.clone(),
            allocator: arm.allocator.clone(),
            environment: arm.environment.iter().cloned().collect(),
            arguments: arm.arguments.clone(),
            command: None,
            curve: None,
            prediction: None,
            levels: Vec::new(),
        });
        Experiment {
            name: self.name.clone(),
            hypothesis: "The relay's memory grows by fragmentation of the heap.".into(),
            why: "RSS climbs by 290 MiB an hour and the relay is OOM-killed every two days.".into(),
            evidence: "Frames are allocated by 2,750 subscriber threads and freed by 16 workers."
                .into(),
            control: self
                .arms
                .first()
                .map(|arm| arm.name.clone())
                .unwrap_or_default(),
            adopt: self.arms.last().map(|arm| arm.name.clone()),
            subject: subject_plan(),
            backing: None,
            load: Some(LoadPlan {
                command: vec!["relay-load".into(), "--port".into(), "{port}".into()],
                per: LoadPer::Process,
                environment: BTreeMap::new(),
                directory: None,
            }),
            arms: arms.collect(),
            replicas: self.replicas,
            duration: Duration::from_secs_f64(self.duration_s),
            interval: Duration::from_secs_f64(self.interval_s),
            warmup: Duration::from_secs_f64(self.duration_s / 10.0),
            seed: self.seed,
            matters: 0.0,
            probe: false,
            stalls: false,
            verify: vec![
                check(Condition::RssMax { bytes: 512 << 20 }),
                check(Condition::P99Max {
                    limit: Duration::from_millis(20),
                }),
                check(Condition::Trend {
                    any_of: vec![Trend::Flat, Trend::Plateauing],
                }),
            ],
            guard: Vec::new(),
            revert: Revert {
                words: "Remove the drop-in and restart the unit.".into(),
                commands: vec![vec![
                    "systemctl".into(),
                    "revert".into(),
                    "relay.service".into(),
                ]],
            },
            base: PathBuf::from("experiments"),
        }
    }
}

pub fn check(condition: Condition) -> Check {
    Check {
        condition,
        after: Duration::ZERO,
        arms: Vec::new(),
    }
}

fn subject_plan() -> SubjectPlan {
    SubjectPlan {
        kind: SubjectKind::Service,
        command: vec!["./relay".into(), "--port".into(), "{port}".into()],
        directory: None,
        environment: BTreeMap::new(),
        ready: None,
        ready_timeout: Duration::from_secs(30),
        stop: Stop {
            signal: 15,
            grace: Duration::from_secs(10),
        },
        restart: Restart::OnFailure,
        keep: false,
        ends: false,
        memory_limit: None,
        metrics: None,
        attach: Vec::new(),
        managed: false,
        remote: None,
    }
}

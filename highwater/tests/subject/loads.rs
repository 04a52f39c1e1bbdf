//! Load programs: after their subject, before its end, again when they die.

use std::collections::BTreeMap;

use experiment::file::{Experiment, LoadPer, LoadPlan};
use experiment::service::Processes;
use experiment::{Role, Subject, What};

use crate::stage::*;

fn plan_with_load(per: LoadPer, command: &[&str]) -> Experiment {
    let mut plan = plan(&[&program("flat"), "{port}"]);
    plan.arms = vec![arm("a"), arm("b")];
    plan.load = Some(LoadPlan {
        command: command.iter().map(|text| (*text).to_owned()).collect(),
        per,
        environment: BTreeMap::new(),
        directory: None,
    });
    plan
}

fn position(stage: &Stage, role: Role, arm: &str, wanted: impl Fn(&What) -> bool) -> usize {
    let found = stage
        .happened
        .iter()
        .position(|h| h.who.role == role && h.who.arm == arm && wanted(&h.what));
    found.unwrap_or_else(|| panic!("not found for {role:?} {arm}:\n{}", stage.story()))
}

#[test]
fn load_starts_after_ready_and_ends_before_the_subject() {
    let command = [
        "/bin/sh",
        "-c",
        "echo {arm} {port} {pid} {seed}; exec sleep 600",
    ];
    let mut stage = Stage::new(plan_with_load(LoadPer::Process, &command));
    stage.until("both loads", |stage| stage.started(Role::Load).len() == 2);
    for arm in ["a", "b"] {
        let ready = position(&stage, Role::Subject, arm, |what| {
            matches!(what, What::Ready)
        });
        let load = position(&stage, Role::Load, arm, |what| {
            matches!(what, What::Started(_))
        });
        assert!(ready < load, "{}", stage.story());
        let values = stage.service.values(arm, 0).unwrap();
        let line = format!(
            "{arm} {} {} {}\n",
            values.ports[0],
            values.pid.unwrap(),
            values.seed
        );
        stage.until("its line", |stage| {
            stage.log(&format!("load-{arm}-0-0.out")) == line
        });
    }
    stage.stop();
    for arm in ["a", "b"] {
        let load = position(&stage, Role::Load, arm, |what| {
            matches!(what, What::Ended { .. })
        });
        let subject = position(&stage, Role::Subject, arm, |what| {
            matches!(what, What::Ended { .. })
        });
        assert!(load < subject, "{}", stage.story());
    }
}

#[test]
fn load_that_dies_early_is_started_again() {
    let command = [
        "/bin/sh",
        "-c",
        "test -e {data}/again && exec sleep 600; touch {data}/again; exit 0",
    ];
    let mut stage = Stage::new(plan_with_load(LoadPer::Process, &command));
    stage.until("two loads, each twice", |stage| {
        stage.started(Role::Load).len() == 4
    });
    assert_eq!(stage.count(|what| matches!(what, What::Restarted)), 2);
    assert_eq!(stage.started(Role::Subject).len(), 2);
    stage.stop();
}

#[test]
fn one_load_for_the_whole_run_finds_all_processes_in_the_list() {
    let command = [
        "/bin/sh",
        "-c",
        "cp {processes} {processes}.seen; exec sleep 600",
    ];
    let mut stage = Stage::new(plan_with_load(LoadPer::Run, &command));
    let seen = |stage: &Stage| stage.folder.path().join("processes.json.seen");
    stage.until("the copy", |stage| {
        seen(stage).metadata().is_ok_and(|meta| meta.len() > 0)
    });
    assert_eq!(stage.started(Role::Load).len(), 1);
    stage.until("a whole copy", |stage| {
        serde_json::from_slice::<Processes>(&std::fs::read(seen(stage)).unwrap()).is_ok()
    });
    let list: Processes = serde_json::from_slice(&std::fs::read(seen(&stage)).unwrap()).unwrap();
    for arm in ["a", "b"] {
        let values = stage.service.values(arm, 0).unwrap();
        let record = list
            .processes
            .iter()
            .find(|record| record.arm == arm)
            .unwrap();
        assert_eq!(
            (record.pid, &record.ports, record.ready),
            (values.pid, &values.ports, true)
        );
    }
    stage.service.stop_arm("a", "a guard");
    stage.until("a's end", |stage| {
        stage.count(|what| matches!(what, What::Ended { .. })) == 1
    });
    assert_eq!(
        stage
            .find(|what| matches!(what, What::Ended { .. }))
            .who
            .role,
        Role::Subject
    );
    stage.stop();
    let ended: Vec<Role> = stage
        .happened
        .iter()
        .filter(|h| matches!(h.what, What::Ended { .. }))
        .map(|h| h.who.role)
        .collect();
    assert_eq!(ended, [Role::Subject, Role::Load, Role::Subject]);
}

#[test]
fn load_ends_with_its_subject() {
    let mut plan = plan_with_load(LoadPer::Process, &["/bin/sleep", "600"]);
    plan.arms.truncate(1);
    plan.subject.command = ["/bin/sh", "-c", "echo ready; sleep 1; exit 5"]
        .map(String::from)
        .to_vec();
    let mut stage = Stage::new(plan);
    stage.until_over();
    let load = stage.started(Role::Load);
    assert_eq!(load.len(), 1, "{}", stage.story());
    assert!(!is_running(load[0].pid));
}

#[test]
fn load_that_names_the_pid_follows_its_subjects_restart() {
    let mut plan = plan_with_load(
        LoadPer::Process,
        &["/bin/sh", "-c", "echo {pid}; exec sleep 600"],
    );
    plan.arms.truncate(1);
    plan.subject.restart = experiment::file::Restart::OnFailure;
    let script =
        "echo ready; test -e {data}/again && exec sleep 600; touch {data}/again; sleep 1; exit 1";
    plan.subject.command = ["/bin/sh", "-c", script].map(String::from).to_vec();
    let mut stage = Stage::new(plan);
    stage.until("two of each", |stage| {
        stage.started(Role::Subject).len() == 2 && stage.started(Role::Load).len() == 2
    });
    let second = stage.started(Role::Subject)[1].pid;
    stage.until("its line", |stage| {
        stage.log("load-a-0-1.out") == format!("{second}\n")
    });
    assert_eq!(stage.count(|what| matches!(what, What::GaveUp)), 0);
    stage.stop();
}

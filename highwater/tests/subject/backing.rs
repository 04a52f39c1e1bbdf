//! The backing service: there before the first replica, gone after the last, and nothing goes on without it.

use std::collections::BTreeMap;
use std::time::Duration;

use experiment::file::{BackingPlan, Experiment, Ready, Stop};
use experiment::preflight::preflight;
use experiment::service::{Processes, Service, end_left_behind};
use experiment::{Ending, Role, Subject, What, Who};

use crate::stage::*;

/// Two arms that say where they found the service that backs them.
fn plan_backed_by(script: &str) -> Experiment {
    let mut plan = plan(&[
        "/bin/sh",
        "-c",
        "test -d {backing} || exit 3; echo {backing} {backing_port}; echo ready; exec sleep 600",
    ]);
    plan.arms = vec![arm("a"), arm("b")];
    plan.backing = Some(BackingPlan {
        command: ["/bin/sh", "-c", script, "backing", "{port}"]
            .map(str::to_owned)
            .into(),
        directory: Some("{data}".into()),
        environment: BTreeMap::new(),
        ready: Some(Ready::Log {
            regex: "^up$".into(),
        }),
        ready_timeout: PATIENCE,
        stop: Stop {
            signal: libc::SIGTERM,
            grace: Duration::from_secs(5),
        },
    });
    plan
}

fn position(stage: &Stage, role: Role, wanted: impl Fn(&What) -> bool) -> usize {
    let found = stage
        .happened
        .iter()
        .position(|h| h.who.role == role && wanted(&h.what));
    found.unwrap_or_else(|| panic!("not found for {role:?}:\n{}", stage.story()))
}

#[test]
fn it_is_ready_before_the_first_replica_and_ends_after_the_last() {
    let mut stage = Stage::new(plan_backed_by("echo up; exec sleep 600"));
    stage.until("two replicas", |stage| {
        stage.count(|what| matches!(what, What::Ready)) == 3
    });
    let ready = position(&stage, Role::Backing, |what| matches!(what, What::Ready));
    let first = position(&stage, Role::Subject, |what| {
        matches!(what, What::Started(_))
    });
    assert!(ready < first, "{}", stage.story());

    let list = Processes::read(stage.folder.path()).unwrap();
    let backing = &list.processes[0];
    assert_eq!(
        (backing.arm.as_str(), backing.ports.len()),
        (Who::EVERY_ARM, 1)
    );
    let folder = backing.data.as_ref().unwrap();
    let line = format!("{} {}\nready\n", folder.display(), backing.ports[0]);
    assert_eq!(
        (stage.log("a-0-0.out"), stage.log("b-0-0.out")),
        (line.clone(), line)
    );

    stage.stop();
    let ended = |role| position(&stage, role, |what| matches!(what, What::Ended { .. }));
    let last = stage
        .happened
        .iter()
        .rposition(|h| h.who.role == Role::Subject && matches!(h.what, What::Ended { .. }));
    assert!(ended(Role::Backing) > last.unwrap(), "{}", stage.story());
    for process in list.processes {
        assert!(!is_running(process.pid.unwrap()));
    }
}

#[test]
fn without_it_nothing_starts() {
    let mut plan = plan_backed_by("echo no network here >&2; exec sleep 600");
    plan.backing.as_mut().unwrap().ready_timeout = Duration::from_millis(300);
    let mut stage = Stage::new(plan);
    stage.until_over();
    assert!(stage.started(Role::Subject).is_empty(), "{}", stage.story());
    let never = stage.find(|what| matches!(what, What::NeverReady));
    assert_eq!(never.who.role, Role::Backing);
    assert!(never.words.contains("no network here"), "{}", never.words);
}

#[test]
fn when_it_dies_everything_ends() {
    let mut stage = Stage::new(plan_backed_by("echo up; sleep 1; exit 7"));
    stage.until_over();
    let ending = |role| {
        let found = stage.happened.iter().find_map(|h| match h.what {
            What::Ended { ending, .. } if h.who.role == role => Some((ending, h.words.clone())),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{role:?} did not end:\n{}", stage.story()))
    };
    assert_eq!(ending(Role::Backing).0, Ending::Crashed);
    // They may not have come to their start.
    if !stage.started(Role::Subject).is_empty() {
        let (how, words) = ending(Role::Subject);
        assert_eq!(how, Ending::Stopped, "{words}");
        assert!(words.contains("backing service"), "{words}");
    }
}

#[test]
fn a_dropped_service_leaves_no_backing_behind() {
    let mut stage = Stage::new(plan_backed_by("echo up; sleep 600 & exec sleep 600"));
    stage.until_ready();
    let list = Processes::read(stage.folder.path()).unwrap();
    let pid = list.processes[0].pid.unwrap();
    assert!(is_running(pid));
    // The living supervisor owns it.
    assert!(end_left_behind(stage.folder.path()).is_err());
    let Stage { service, .. } = stage;
    drop::<Service>(service);
    assert!(!is_running(pid));
}

#[test]
fn what_is_asked_of_a_backing_service_that_is_not_there_is_known_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path(), no_cgroups());
    let problems = |plan: &Experiment| preflight(plan, &setup, &|_, _| None).problems.join("\n");
    let mut plan = plan_backed_by("echo up");
    assert_eq!(problems(&plan), "");
    plan.backing.as_mut().unwrap().command = vec!["/bin/sh".into()];
    assert!(
        problems(&plan).contains("has no {port}"),
        "{}",
        problems(&plan)
    );
    plan.backing.as_mut().unwrap().command = vec!["/nonexistent/network".into()];
    assert!(
        problems(&plan).contains("backing: /nonexistent/network"),
        "{}",
        problems(&plan)
    );
    plan.backing = None;
    assert!(
        problems(&plan).contains("no [backing]"),
        "{}",
        problems(&plan)
    );
}

#[test]
fn the_services_own_poll_is_what_starts_it() {
    let mut stage = Stage::new(plan_backed_by("echo up; exec sleep 600"));
    stage.service.stop_all("before anything was started");
    stage.until_over();
    assert!(stage.started(Role::Backing).is_empty(), "{}", stage.story());
}

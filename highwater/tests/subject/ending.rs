//! One signal, a grace, SIGKILL; and nothing left behind.

use std::time::Duration;

use experiment::service::cgroup::Hierarchy;
use experiment::{Ending, Role, What};

use crate::stage::*;
use testkit::skipped;

#[test]
fn one_that_ignores_the_signal_is_killed_after_its_grace() {
    let mut plan = plan(&[&program("stubborn")]);
    plan.subject.stop.grace = Duration::from_millis(300);
    let mut stage = Stage::new(plan);
    stage.until_ready();
    stage.stop();
    let forced = stage.find(|what| matches!(what, What::StopForced));
    assert!(forced.words.contains("SIGTERM (15)"), "{}", forced.words);
    let (ending, exit, _) = stage.ending();
    assert_eq!(
        (ending, exit.as_deref()),
        (Ending::Stopped, Some("SIGKILL (9)"))
    );
}

/// Starts `forks`, stops it, and returns the stage with the pid of the spinning grandchild.
fn stop_forking(how: &str, hierarchy: Hierarchy) -> (Stage, i32) {
    let mut plan = plan(&[&program("forks"), how]);
    plan.subject.stop.grace = Duration::from_millis(500);
    let mut stage = Stage::with(plan, hierarchy);
    stage.until_ready();
    let child = number_after(&stage.log("a-0-0.out"), "child ").unwrap();
    assert!(is_running(child));
    stage.stop();
    (stage, child)
}

#[test]
fn a_spinning_grandchild_is_gone_afterwards() {
    let (stage, child) = stop_forking("group", no_cgroups());
    assert!(!is_running(child), "{}", stage.story());
    let note = stage.find(|what| matches!(what, What::Note));
    assert!(
        note.words.contains(&child.to_string()) && note.words.contains("SIGKILL"),
        "{}",
        note.words
    );
}

#[test]
fn a_grandchild_that_left_the_session_is_found_by_its_mark() {
    let (stage, child) = stop_forking("leaves", no_cgroups());
    assert!(!is_running(child), "{}", stage.story());
}

#[test]
fn a_grandchild_that_hides_is_found_by_the_cgroup() {
    let hierarchy = Hierarchy::find();
    if let Hierarchy::None { why } = &hierarchy {
        skipped(why);
        return;
    }
    let (stage, child) = stop_forking("hides", hierarchy);
    assert!(!is_running(child), "{}", stage.story());
    let folder = stage.started(Role::Subject)[0].cgroup.clone().unwrap();
    assert!(!folder.exists(), "{} is left", folder.display());
}

#[test]
fn without_a_cgroup_a_hiding_grandchild_is_what_is_left_and_that_was_said() {
    let (stage, child) = stop_forking("hides", no_cgroups());
    let survived = is_running(child);
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(child).unwrap(),
        rustix::process::Signal::KILL,
    );
    assert!(
        survived,
        "found after all: the message that says otherwise is wrong"
    );
    assert_eq!(
        stage.count(|what| matches!(what, What::Degraded)),
        1,
        "{}",
        stage.story()
    );
}

#[test]
fn a_daemon_is_told_to_stay_in_the_foreground() {
    let mut stage = Stage::new(plan(&[&program("forks"), "group", "exit"]));
    stage.until_over();
    let child = number_after(&stage.log("a-0-0.out"), "child ").unwrap();
    assert!(!is_running(child));
    assert_eq!(stage.ending().0, Ending::Exited);
    let note = stage.find(|what| matches!(what, What::Note));
    assert!(note.words.contains("foreground"), "{}", note.words);
}

#[test]
fn a_wrapping_shell_does_not_cost_the_service_its_signal() {
    let flat = program("flat");
    let mut stage = Stage::new(plan(&["/bin/sh", "-c", &format!("{flat}; true")]));
    stage.until_ready();
    stage.stop();
    // The shell dies of the signal and passes nothing on; the service behind it is asked once, and can answer.
    assert!(
        stage.log("a-0-0.out").contains("signals 1\n"),
        "{}",
        stage.story()
    );
    assert_eq!(
        stage.count(|what| matches!(what, What::Note)),
        0,
        "{}",
        stage.story()
    );
}

#[test]
fn a_master_that_passes_the_signal_on_is_its_workers_only_source() {
    let flat = program("flat");
    // Handles the signal, forwards it, and ends before its worker does.
    let script = format!("trap 'kill -TERM $worker; exit 0' TERM; {flat} & worker=$!; wait");
    let mut stage = Stage::new(plan(&["/bin/sh", "-c", &script]));
    stage.until_ready();
    stage.stop();
    assert!(
        stage.log("a-0-0.out").contains("signals 1\n"),
        "{}",
        stage.story()
    );
}

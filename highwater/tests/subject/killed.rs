//! The supervisor itself is killed: its processes go with it, or are found again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use experiment::file::{Experiment, LoadPer, LoadPlan, Restart};
use experiment::service::cgroup::Hierarchy;
use experiment::service::{Processes, Service, end_left_behind};
use experiment::{Ending, Happening, Role, Subject, What};

use crate::stage::*;
use testkit::skipped;

const FOLDER: &str = "HIGHWATER_TEST_FOLDER";
const PLAN: &str = "HIGHWATER_TEST_PLAN";
const CGROUPS: &str = "HIGHWATER_TEST_CGROUPS";

/// Not a test of its own: with the variables set, this test process is a supervisor that runs until it is killed.
#[test]
fn acts_as_supervisor() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let plan: Experiment = serde_json::from_str(&std::env::var(PLAN).unwrap()).unwrap();
    let hierarchy = if std::env::var(CGROUPS).is_ok() {
        Hierarchy::find()
    } else {
        no_cgroups()
    };
    let mut service = Service::new(plan, setup(Path::new(&folder), hierarchy)).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        service.poll(begun.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
}

/// A supervisor in a process of its own.
struct Supervisor {
    process: Child,
    folder: tempfile::TempDir,
}

impl Supervisor {
    fn start(plan: &Experiment, cgroups: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "killed::acts_as_supervisor", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(PLAN, serde_json::to_string(plan).unwrap())
            .stdout(Stdio::null());
        if cgroups {
            command.env(CGROUPS, "1");
        }
        let process = command.spawn().unwrap();
        Self { process, folder }
    }

    fn list(&self) -> Option<Processes> {
        Processes::read(self.folder.path()).ok()
    }

    /// Waits until all processes of the plan are up.
    fn wait_ready(&self, count: usize) -> Processes {
        let ready =
            |list: &Processes| list.processes.iter().filter(|record| record.ready).count() == count;
        wait_for("ready", || self.list().is_some_and(|list| ready(&list)));
        self.list().unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn number_in_log(&self, log: &str, word: &str) -> i32 {
        let log = std::fs::read_to_string(self.folder.path().join("logs").join(log)).unwrap();
        number_after(&log, word).unwrap()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Kept subjects are what the tests are about; no test may leave one behind.
        if let Some(list) = self.list() {
            let list = Processes {
                keep: false,
                ..list
            };
            if !list.supervisor_lives() && list.write(self.folder.path()).is_ok() {
                let _ = end_left_behind(self.folder.path());
            }
        }
    }
}

fn kept(command: &[&str]) -> Experiment {
    let mut plan = plan(command);
    plan.subject.keep = true;
    plan
}

/// Polls a resumed service until `enough`.
fn poll_until(
    service: &mut Service,
    what: &str,
    enough: impl Fn(&Service, &[Happening]) -> bool,
) -> Vec<Happening> {
    let begun = Instant::now();
    let mut happened = Vec::new();
    loop {
        happened.extend(service.poll(begun.elapsed()));
        if enough(service, &happened) {
            return happened;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{what} never happened: {happened:#?}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

fn resume(supervisor: &Supervisor, plan: &Experiment) -> Service {
    let setup = setup(supervisor.folder.path(), no_cgroups());
    Service::resume(plan.clone(), setup, Duration::ZERO).unwrap()
}

#[test]
fn a_killed_supervisor_takes_its_processes_along() {
    let mut plan = plan(&[&program("flat")]);
    plan.arms = vec![arm("a"), arm("b")];
    plan.load = Some(load());
    let mut supervisor = Supervisor::start(&plan, false);
    let list = supervisor.wait_ready(4);
    let pids: Vec<i32> = list
        .processes
        .iter()
        .filter_map(|record| record.pid)
        .collect();
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    supervisor.kill();
    wait_for("the end of all", || {
        pids.iter().all(|pid| !is_running(*pid))
    });
}

fn load() -> LoadPlan {
    LoadPlan {
        command: vec!["/bin/sleep".into(), "600".into()],
        per: LoadPer::Process,
        environment: BTreeMap::new(),
        directory: None,
    }
}

#[test]
fn what_the_death_signal_does_not_reach_the_collector_ends() {
    for (how, cgroups) in [("group", false), ("leaves", false), ("hides", true)] {
        if cgroups && let Hierarchy::None { why } = Hierarchy::find() {
            skipped(&format!("{how}: {why}"));
            continue;
        }
        let mut supervisor = Supervisor::start(&plan(&[&program("forks"), how]), cgroups);
        let pid = supervisor.wait_ready(1).processes[0].pid.unwrap();
        let child = supervisor.number_in_log("a-0-0.out", "child ");
        supervisor.kill();
        wait_for("the parent's end", || !is_running(pid));
        assert!(
            is_running(child),
            "{how}: nothing is left to end, the test shows nothing"
        );
        let words = end_left_behind(supervisor.folder.path()).unwrap();
        assert!(!is_running(child), "{how}: {words:?}");
        assert_eq!(words.len(), 1, "{how}: {words:?}");
        if let Some(cgroup) = &supervisor.list().unwrap().processes[0].cgroup {
            assert!(!cgroup.exists());
        }
    }
}

#[test]
fn a_kept_subject_lives_on_and_is_found_again() {
    let mut plan = kept(&[&program("flat")]);
    plan.load = Some(load());
    let mut supervisor = Supervisor::start(&plan, false);
    let list = supervisor.wait_ready(2);
    let pid_of = |role: Role| {
        list.processes
            .iter()
            .find(|record| record.role == role.into())
            .unwrap()
            .pid
            .unwrap()
    };
    let (subject, load) = (pid_of(Role::Subject), pid_of(Role::Load));
    supervisor.kill();
    wait_for("the load's end", || !is_running(load));
    end_left_behind(supervisor.folder.path()).unwrap();
    assert!(is_running(subject));

    let mut service = resume(&supervisor, &plan);
    let load_runs = |_: &Service, happened: &[Happening]| {
        happened
            .iter()
            .any(|h| h.who.role == Role::Load && matches!(h.what, What::Started(_)))
    };
    let happened = poll_until(&mut service, "a new load", load_runs);
    let What::Resumed(found) = &happened[0].what else {
        panic!("{happened:#?}")
    };
    assert_eq!(
        (found.pid, found.start_ticks),
        (subject, list.processes[0].start_ticks)
    );
    let load = happened.iter().find(|h| h.who.role == Role::Load).unwrap();
    assert_eq!(load.who.incarnation, 1);
    assert!(
        !happened
            .iter()
            .any(|h| h.who.role == Role::Subject && matches!(h.what, What::Started(_)))
    );
    assert_eq!(service.values("a", 0).unwrap().pid, Some(subject));

    service.stop_all("enough");
    let happened = poll_until(&mut service, "the end", |service, _| service.is_over());
    let ended = happened
        .iter()
        .rfind(|h| matches!(h.what, What::Ended { .. }))
        .unwrap();
    assert_eq!(
        ended.what,
        What::Ended {
            ending: Ending::Stopped,
            exit: None
        }
    );
    assert!(!is_running(subject));
    let log = std::fs::read_to_string(supervisor.folder.path().join("logs/a-0-0.out")).unwrap();
    assert!(log.contains("signals 1\n"), "{log}");
}

#[test]
fn what_is_gone_at_the_resume_is_said_and_not_signalled() {
    let mut plan = kept(&[&program("flat")]);
    plan.arms = vec![arm("a"), arm("b")];
    let mut supervisor = Supervisor::start(&plan, false);
    let mut list = supervisor.wait_ready(2);
    supervisor.kill();
    // As if the pid had been given to another process since: same number, other start, another mark.
    let stranger = list.processes[0].pid.unwrap();
    let honest = list.clone();
    list.processes[0].start_ticks -= 1;
    list.processes[0].mark = "0000000000000000".into();
    list.write(supervisor.folder.path()).unwrap();
    let mut service = resume(&supervisor, &plan);
    let ended = |_: &Service, happened: &[Happening]| {
        happened
            .iter()
            .any(|h| matches!(h.what, What::Ended { .. }))
    };
    let happened = poll_until(&mut service, "the end of one", ended);
    let gone = happened
        .iter()
        .find(|h| matches!(h.what, What::Ended { .. }))
        .unwrap();
    assert_eq!(gone.who.arm, list.processes[0].arm);
    assert_eq!(
        gone.what,
        What::Ended {
            ending: Ending::Vanished,
            exit: None
        }
    );
    service.stop_all("enough");
    poll_until(&mut service, "the end", |service, _| service.is_over());
    assert!(is_running(stranger), "a process that is not ours was ended");
    drop(service);
    honest.write(supervisor.folder.path()).unwrap();
}

#[test]
fn a_gone_subject_that_restarts_on_failure_starts_again_where_its_load_looks_for_it() {
    let mut plan = kept(&[&program("flat"), "{port}"]);
    plan.subject.restart = Restart::OnFailure;
    let mut supervisor = Supervisor::start(&plan, false);
    let list = supervisor.wait_ready(1);
    supervisor.kill();
    let pid = rustix::process::Pid::from_raw(list.processes[0].pid.unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("its end", || !is_running(pid.as_raw_nonzero().get()));
    let mut service = resume(&supervisor, &plan);
    let again = |_: &Service, happened: &[Happening]| {
        happened.iter().any(|h| matches!(h.what, What::Ready))
    };
    let happened = poll_until(&mut service, "a second incarnation", again);
    let ready = happened
        .iter()
        .find(|h| matches!(h.what, What::Ready))
        .unwrap();
    assert_eq!(ready.who.incarnation, 1);
    assert_eq!(
        service.values("a", 0).unwrap().ports,
        list.processes[0].ports
    );
    service.stop_all("enough");
    poll_until(&mut service, "the end", |service, _| service.is_over());
}

#[test]
fn two_supervisors_of_one_run_are_refused() {
    let supervisor = Supervisor::start(&kept(&[&program("flat")]), false);
    supervisor.wait_ready(1);
    let setup = setup(supervisor.folder.path(), no_cgroups());
    let error = Service::resume(kept(&["x"]), setup, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("living supervisor"), "{error}");
}

/// Pids whose command line has this argument.
fn running_with(argument: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    };
    pids.filter(has).filter(|pid| is_running(*pid)).collect()
}

#[test]
fn killed_at_any_moment_nothing_survives_the_collectors_cleaning() {
    for round in 0..12_u64 {
        // From before the first process to long after the last.
        let delay = Duration::from_millis(round * 25);
        let tag = format!("killed-at-any-moment-{}-{round}", std::process::id());
        let mut plan = plan(&[&program("forks"), "leaves", &tag]);
        plan.replicas = 8;
        let mut supervisor = Supervisor::start(&plan, false);
        thread::sleep(delay);
        supervisor.kill();
        if supervisor.list().is_some() {
            end_left_behind(supervisor.folder.path()).unwrap();
        }
        let left = running_with(&tag);
        assert!(left.is_empty(), "killed after {delay:?}: {left:?} are left");
    }
}

#[test]
fn killed_at_any_moment_kept_subjects_are_all_found_again() {
    for round in 0..8_u64 {
        let delay = Duration::from_millis(20 + round * 15);
        let tag = format!("kept-at-any-moment-{}-{round}", std::process::id());
        let mut plan = kept(&[&program("flat"), &tag]);
        plan.replicas = 8;
        let mut supervisor = Supervisor::start(&plan, false);
        thread::sleep(delay);
        supervisor.kill();
        if supervisor.list().is_none() {
            assert_eq!(
                running_with(&tag),
                Vec::<i32>::new(),
                "killed after {delay:?}"
            );
            continue;
        }
        // One may be between fork and exec, without a mark or arguments of its own.
        let mut service = resume(&supervisor, &plan);
        service.stop_all("enough");
        poll_until(&mut service, "the end", |service, _| service.is_over());
        assert_eq!(
            running_with(&tag),
            Vec::<i32>::new(),
            "killed after {delay:?}"
        );
    }
}

#[test]
fn a_secret_that_the_frozen_plan_leaves_out_is_asked_for() {
    let mut plan = kept(&[&program("flat")]);
    plan.subject.restart = Restart::OnFailure;
    plan.subject
        .environment
        .insert("THE_TEST_TOKEN".into(), "hunter2-hunter2".into());
    let mut supervisor = Supervisor::start(&plan, false);
    let pid = supervisor.wait_ready(1).processes[0].pid.unwrap();
    supervisor.kill();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    plan.subject
        .environment
        .insert("THE_TEST_TOKEN".into(), "[redacted]".into());
    let mut service = resume(&supervisor, &plan);
    let failed =
        |_: &Service, happened: &[Happening]| happened.iter().any(|h| h.what == What::StartFailed);
    let happened = poll_until(&mut service, "a failed start", failed);
    let words = &happened.last().unwrap().words;
    assert!(
        words.contains("set THE_TEST_TOKEN where you run"),
        "{words}"
    );
    assert!(service.is_over());
}

#[test]
fn what_had_ended_before_the_resume_is_said_and_stays_ended() {
    let mut plan = kept(&["/bin/sh", "-c", "echo ready; exec sleep 600"]);
    plan.arms = vec![arm("a"), arm("b")];
    plan.arms[1].command = Some(
        ["/bin/sh", "-c", "echo ready; sleep 1; exit 4"]
            .map(String::from)
            .to_vec(),
    );
    let mut supervisor = Supervisor::start(&plan, false);
    wait_for("b's end", || {
        let list = supervisor.list();
        let of_b = list
            .iter()
            .flat_map(|list| &list.processes)
            .find(|record| record.arm == "b");
        let of_a = list
            .iter()
            .flat_map(|list| &list.processes)
            .find(|record| record.arm == "a");
        let started = supervisor.folder.path().join("logs/b-0-0.out").exists();
        started
            && of_b.is_some_and(|record| record.pid.is_none())
            && of_a.is_some_and(|record| record.ready)
    });
    supervisor.kill();
    let mut service = resume(&supervisor, &plan);
    let happened = service.poll(Duration::ZERO);
    let of_b: Vec<_> = happened
        .iter()
        .filter(|h| h.who.arm == "b")
        .map(|h| &h.what)
        .collect();
    assert_eq!(of_b, [&What::StartFailed], "{happened:#?}");
    service.stop_all("enough");
    poll_until(&mut service, "the end", |service, _| service.is_over());
}

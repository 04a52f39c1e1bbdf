//! Processes that ran before: watched, never signalled. And what the preflight sees.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use experiment::attach::Attached;
use experiment::file::{AttachGroup, Experiment, Ready, SubjectKind};
use experiment::preflight::{Findings, preflight};
use experiment::service::Preload;
use experiment::{Ending, Happening, Subject, What};

use crate::stage::*;

/// A process that is not the service's, ended with the test.
struct Stranger(Child);

impl Stranger {
    fn start(name: &str, argument: &str) -> Self {
        let child = Command::new(program(name))
            .arg(argument)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attach_plan(groups: Vec<AttachGroup>) -> Experiment {
    let mut plan = plan(&[]);
    plan.subject.kind = SubjectKind::Attach;
    plan.subject.metrics = Some("http://127.0.0.1:9/{pid}".into());
    plan.subject.attach = groups;
    plan
}

fn by_args(arm: &str, args: &str) -> AttachGroup {
    AttachGroup {
        arm: arm.into(),
        exe: Some("/flat$".into()),
        args: Some(args.into()),
        ..AttachGroup::default()
    }
}

/// An argument that no other test's process has.
fn tag(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn pids_started(happened: &[Happening]) -> Vec<(u32, u32, i32)> {
    let started = |h: &Happening| match &h.what {
        What::Started(started) => Some((h.who.replica, h.who.incarnation, started.pid)),
        _ => None,
    };
    happened.iter().filter_map(started).collect()
}

#[test]
fn matched_processes_are_watched_and_outlive_the_run() {
    let tag = tag("matched");
    let strangers = [Stranger::start("flat", &tag), Stranger::start("flat", &tag)];
    wait_for("both have executed", || {
        let line = |one: &Stranger| std::fs::read(format!("/proc/{}/cmdline", one.pid())).unwrap();
        strangers.iter().all(|one| !line(one).is_empty())
    });
    let mut attached = Attached::new(&attach_plan(vec![by_args("a", &tag)]), "r").unwrap();
    let happened = attached.poll(Duration::ZERO);
    let mut pids: Vec<i32> = pids_started(&happened)
        .iter()
        .map(|(.., pid)| *pid)
        .collect();
    pids.sort_unstable();
    let mut expected = strangers.each_ref().map(Stranger::pid);
    expected.sort_unstable();
    assert_eq!(pids, expected);
    let What::Started(started) = &happened[0].what else {
        panic!("{happened:#?}")
    };
    assert_eq!(
        started.metrics_url,
        Some(format!("http://127.0.0.1:9/{}", started.pid))
    );
    assert_eq!(started.command[1], tag);
    attached.stop_all("enough");
    assert!(attached.is_over());
    drop(attached);
    assert!(strangers.iter().all(|one| is_running(one.pid())));
}

#[test]
fn a_vanished_process_is_said_and_its_successor_taken() {
    let tag = tag("vanished");
    let mut first = Stranger::start("flat", &tag);
    wait_for("it has executed", || {
        Attached::new(&attach_plan(vec![by_args("a", &tag)]), "r").is_ok()
    });
    let mut attached = Attached::new(&attach_plan(vec![by_args("a", &tag)]), "r").unwrap();
    attached.poll(Duration::ZERO);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let happened = attached.poll(Duration::from_secs(1));
    assert_eq!(happened.len(), 1);
    assert_eq!(
        happened[0].what,
        What::Ended {
            ending: Ending::Vanished,
            exit: None
        }
    );
    assert!(!attached.is_over());
    let second = Stranger::start("flat", &tag);
    let mut now = Duration::from_secs(5);
    let mut happened = Vec::new();
    wait_for("the successor", || {
        Attached::new(&attach_plan(vec![by_args("a", &tag)]), "r").is_ok()
    });
    while happened.is_empty() {
        now += Duration::from_secs(5);
        happened = attached.poll(now);
    }
    assert_eq!(pids_started(&happened), [(0, 1, second.pid())]);
}

#[test]
fn by_pid_a_vanished_process_is_the_end() {
    let mut stranger = Stranger::start("flat", "x");
    let pid = stranger.pid();
    let group = AttachGroup {
        arm: "a".into(),
        pids: vec![pid],
        ..AttachGroup::default()
    };
    let mut attached = Attached::new(&attach_plan(vec![group.clone()]), "r").unwrap();
    attached.poll(Duration::ZERO);
    stranger.0.kill().unwrap();
    stranger.0.wait().unwrap();
    attached.poll(Duration::from_secs(1));
    assert!(attached.is_over());
    let error = Attached::new(&attach_plan(vec![group]), "r").unwrap_err();
    assert!(error.contains(&format!("no process {pid}")), "{error}");
}

#[test]
fn one_process_in_two_arms_is_refused() {
    let stranger = Stranger::start("flat", "x");
    let group = |arm: &str| AttachGroup {
        arm: arm.into(),
        pids: vec![stranger.pid()],
        ..AttachGroup::default()
    };
    let error = Attached::new(&attach_plan(vec![group("a"), group("b")]), "r").unwrap_err();
    assert!(error.contains("in arm b and in arm a"), "{error}");
}

fn find(plan: &Experiment, preloads: BTreeMap<String, Preload>) -> Findings {
    let mut setup = setup(Path::new("/nonexistent"), no_cgroups());
    setup.preloads = preloads;
    let refuse = |program: &Path, library: &Path| {
        let (program, library) = (program.display(), library.display());
        Some(format!("{library} cannot go into {program}"))
    };
    preflight(plan, &setup, &refuse)
}

#[test]
fn a_good_plan_has_no_problems() {
    let findings = find(&plan(&["/bin/sleep", "{port}"]), BTreeMap::new());
    assert_eq!(findings.problems, Vec::<String>::new());
    assert!(
        findings
            .warnings
            .iter()
            .any(|words| words.contains("switched off"))
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut plan = plan(&["slep", "{pid}"]);
    plan.arms = vec![arm("a"), arm("b"), arm("c"), arm("d")];
    plan.arms[1].command = Some(vec!["/bin/sleep".into()]);
    let data = tempfile::NamedTempFile::new().unwrap();
    let data = data.path().display().to_string();
    plan.arms[2].command = Some(vec![data.clone()]);
    plan.arms[3].command = Some(vec!["/bin/sleep".into()]);
    plan.subject.stop.signal = 99;
    plan.subject.ready = Some(Ready::Http {
        url: "http://127.0.0.1:8080/".into(),
        status: 200,
    });
    let preload = |path: &str| Preload {
        library: Some(path.into()),
        ..Preload::default()
    };
    let preloads = BTreeMap::from([
        ("b".to_owned(), preload("/nonexistent/lib.so")),
        ("d".to_owned(), preload("/bin/sleep")),
    ]);
    let problems = find(&plan, preloads).problems;
    let expected: [&str; 6] = [
        "arm a: {pid} has no value here",
        "arm b: there is no library /nonexistent/lib.so",
        &format!("arm c: {data}: not executable"),
        "arm d: /bin/sleep cannot go into /bin/sleep",
        "all 4 processes would use port 8080",
        "stop: 99 is no signal",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn a_port_in_use_names_its_user() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut plan = plan(&["slep"]);
    plan.subject.directory = Some("/nonexistent".into());
    plan.subject.ready = Some(Ready::Tcp {
        address: format!("127.0.0.1:{port}"),
    });
    let problems = find(&plan, BTreeMap::new()).problems;
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0].contains("no folder /nonexistent"),
        "{}",
        problems[0]
    );
    let user = format!("port {port} is in use by pid {} (", std::process::id());
    assert!(problems[1].starts_with(&user), "{}", problems[1]);
}

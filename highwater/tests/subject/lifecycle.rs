//! Started, ready, stopped.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use experiment::file::{Ready, Restart};
use experiment::{Ending, Happening, Role, Subject, What};

use crate::stage::*;

#[test]
fn a_service_starts_gets_ready_and_is_stopped_by_one_signal() {
    let mut stage = Stage::new(plan(&[&program("flat"), "{arm}-{replica}-{seed}"]));
    stage.until_ready();
    let started = &stage.started(Role::Subject)[0];
    assert!(is_running(started.pid));
    assert!(started.start_ticks > 0);
    stage.stop();
    let (ending, exit, _) = stage.ending();
    assert_eq!(
        (ending, exit.as_deref()),
        (Ending::Stopped, Some("exit code 0"))
    );
    assert_eq!(
        stage.count(|what| matches!(what, What::StopForced)),
        0,
        "{}",
        stage.story()
    );
    let log = stage.log("a-0-0.out");
    assert!(
        log.contains("argument a-0-") && log.contains("signals 1\n"),
        "{log}"
    );
    assert_eq!(stage.count(|what| matches!(what, What::Started(_))), 1);
    assert_eq!(stage.count(|what| matches!(what, What::Ended { .. })), 1);
}

#[test]
fn arms_and_replicas_all_start_interleaved_with_ports_and_data_of_their_own() {
    let mut plan = plan(&[&program("flat"), "{port}-{port2}-{data}"]);
    plan.arms = vec![arm("a"), arm("b"), arm("<c>")];
    plan.replicas = 3;
    let mut stage = Stage::new(plan);
    stage.until("nine ready", |stage| {
        stage.count(|what| matches!(what, What::Ready)) == 9
    });
    let who: Vec<_> = stage
        .happened
        .iter()
        .filter(|h| matches!(h.what, What::Started(_)))
        .map(|h| &h.who)
        .collect();
    let rounds: Vec<u32> = who.iter().map(|who| who.replica).collect();
    assert_eq!(rounds, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    let ports: BTreeSet<u16> = ["a", "b", "<c>"]
        .iter()
        .flat_map(|arm| {
            (0..3).flat_map(|replica| stage.service.values(arm, replica).unwrap().ports)
        })
        .collect();
    assert_eq!(ports.len(), 18);
    let folders = std::fs::read_dir(stage.folder.path().join("data"))
        .unwrap()
        .count();
    assert_eq!(folders, 9);
    stage.stop();
    assert_eq!(
        stage.count(|what| matches!(
            what,
            What::Ended {
                ending: Ending::Stopped,
                ..
            }
        )),
        9
    );
}

#[test]
fn one_arm_stops_while_the_others_go_on() {
    let mut plan = plan(&[&program("flat")]);
    plan.arms = vec![arm("a"), arm("b")];
    let mut stage = Stage::new(plan);
    stage.until("both ready", |stage| {
        stage.count(|what| matches!(what, What::Ready)) == 2
    });
    stage.service.stop_arm("a", "a guard");
    stage.until("a's end", |stage| {
        stage.count(|what| matches!(what, What::Ended { .. })) == 1
    });
    assert_eq!(
        stage
            .find(|what| matches!(what, What::Ended { .. }))
            .who
            .arm,
        "a"
    );
    assert_eq!(stage.service.values("a", 0).unwrap().pid, None);
    assert!(is_running(
        stage.service.values("b", 0).unwrap().pid.unwrap()
    ));
    stage.stop();
}

#[test]
fn ready_by_http_waits_for_the_wanted_status() {
    let mut plan = plan(&[&program("serves"), "{port}", "slow"]);
    plan.subject.ready = Some(Ready::Http {
        url: "http://127.0.0.1:{port}/health".into(),
        status: 200,
    });
    plan.subject.metrics = Some("http://127.0.0.1:{port}/metrics".into());
    let mut stage = Stage::new(plan);
    stage.until_ready();
    let port = stage.service.values("a", 0).unwrap().ports[0];
    let started = &stage.started(Role::Subject)[0];
    assert_eq!(
        started.metrics_url,
        Some(format!("http://127.0.0.1:{port}/metrics"))
    );
    stage.stop();
}

#[test]
fn one_that_never_answers_holds_up_nobody_and_is_stopped() {
    let mut plan = plan(&[&program("serves"), "{port}"]);
    plan.subject.ready = Some(Ready::Http {
        url: "http://127.0.0.1:{port}/".into(),
        status: 503,
    });
    plan.subject.ready_timeout = Duration::from_secs(8);
    plan.arms = vec![arm("silent"), arm("answers")];
    plan.arms[0].arguments = vec!["never".into()];
    plan.arms[1].arguments = vec!["slow".into()];
    let mut stage = Stage::new(plan);
    stage.until("never ready", |stage| {
        stage.count(|what| matches!(what, What::NeverReady)) == 1
    });
    let ready = stage.find(|what| matches!(what, What::Ready));
    let never = stage.find(|what| matches!(what, What::NeverReady));
    assert_eq!(
        (ready.who.arm.as_str(), never.who.arm.as_str()),
        ("answers", "silent")
    );
    assert!(ready.at < never.at);
    assert!(
        never.words.contains("GET http://127.0.0.1:"),
        "{}",
        never.words
    );
    stage.until("its end", |stage| {
        stage.count(|what| matches!(what, What::Ended { .. })) == 1
    });
    stage.stop();
}

#[test]
fn ready_by_tcp() {
    let mut plan = plan(&[&program("serves"), "{port}", "never"]);
    plan.subject.ready = Some(Ready::Tcp {
        address: "127.0.0.1:{port}".into(),
    });
    let mut stage = Stage::new(plan);
    stage.until_ready();
    stage.stop();
}

#[test]
fn one_that_never_says_its_line_is_never_ready() {
    let mut plan = plan(&[&program("flat")]);
    plan.subject.ready = Some(Ready::Log {
        regex: "^never said$".into(),
    });
    plan.subject.ready_timeout = Duration::from_millis(500);
    let mut stage = Stage::new(plan);
    stage.until_over();
    let never = stage.find(|what| matches!(what, What::NeverReady));
    assert!(
        never.words.contains("never said") && never.words.contains("  hello"),
        "{}",
        never.words
    );
    assert_eq!(stage.ending().0, Ending::Stopped);
}

#[test]
fn what_cannot_be_started_is_said_and_is_over() {
    let mut stage = Stage::new(plan(&["/nonexistent/server"]));
    stage.until_over();
    let failed = stage.find(|what| matches!(what, What::StartFailed));
    assert!(
        failed.words.contains("/nonexistent/server: no such file"),
        "{}",
        failed.words
    );
    assert_eq!(
        stage.count(|what| matches!(what, What::Started(_) | What::Ended { .. })),
        0
    );
}

#[test]
fn a_crash_is_told_with_its_code_and_last_lines_without_secrets() {
    let mut plan = plan(&[&program("dies"), "code"]);
    plan.subject
        .environment
        .insert("DB_PASSWORD".into(), "correct-horse".into());
    let mut stage = Stage::new(plan);
    stage.until_over();
    let (ending, exit, words) = stage.ending();
    assert_eq!(
        (ending, exit.as_deref()),
        (Ending::Crashed, Some("exit code 3"))
    );
    assert!(words.contains("cannot open /etc/missing"), "{words}");
    assert!(words.contains("before it was ready"), "{words}");
    assert!(
        !words.contains("correct-horse") && !words.contains('\x1b'),
        "{words}"
    );
    assert_eq!(
        stage.started(Role::Subject)[0].environment["DB_PASSWORD"],
        "[redacted]"
    );
}

#[test]
fn each_way_to_end_by_itself_has_its_words() {
    let cases = [
        ("clean", Ending::Exited, "exit code 0"),
        (
            "segv",
            Ending::Crashed,
            "SIGSEGV (11, invalid memory access)",
        ),
        ("abort", Ending::Crashed, "SIGABRT (6"),
        ("kill", Ending::Killed, "SIGKILL (9)"),
    ];
    for (how, expected, words) in cases {
        let mut stage = Stage::new(plan(&[&program("dies"), how]));
        stage.until_over();
        let (ending, exit, _) = stage.ending();
        assert_eq!(ending, expected, "{how}");
        assert!(exit.as_ref().unwrap().starts_with(words), "{how}: {exit:?}");
    }
}

#[test]
fn a_failed_process_is_started_again_with_the_same_port_and_data() {
    let mut plan = plan(&[
        "/bin/sh",
        "-c",
        "echo {port} {data}; echo ready; test -e {data}/second && exec sleep 60; touch {data}/second; exit 7",
    ]);
    plan.subject.restart = Restart::OnFailure;
    let mut stage = Stage::new(plan);
    stage.until("a second start", |stage| {
        stage.started(Role::Subject).len() == 2
    });
    stage.until("the second gets ready", |stage| {
        let of_second = |h: &&Happening| h.who.incarnation == 1 && h.what == What::Ready;
        stage.happened.iter().any(|h| of_second(&h))
    });
    assert_eq!(stage.log("a-0-0.out"), stage.log("a-0-1.out"));
    let restarted = stage.find(|what| matches!(what, What::Restarted));
    assert!(restarted.words.contains("1s"), "{}", restarted.words);
    assert_eq!(
        stage
            .happened
            .iter()
            .filter(|h| h.who.incarnation == 1)
            .count(),
        2,
        "{}",
        stage.story()
    );
    stage.stop();
}

#[test]
fn a_name_like_a_tag_is_only_a_name() {
    let mut stage = Stage::new(plan(&[&program("renames")]));
    stage.until_ready();
    let pid = stage.started(Role::Subject)[0].pid;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!(name, "<script>) R 1 1\n");
    stage.stop();
    assert_eq!(stage.ending().0, Ending::Stopped);
    assert!(!is_running(pid));
}

#[test]
fn the_thread_that_polls_may_end_without_its_children() {
    let mut stage = Stage::new(plan(&[&program("flat")]));
    // The parent-death signal follows the thread that forked: it must not be the one that polls.
    let mut stage = thread::spawn(move || {
        stage.until_ready();
        stage
    })
    .join()
    .unwrap();
    let pid = stage.started(Role::Subject)[0].pid;
    for _ in 0..20 {
        stage.poll();
        assert!(is_running(pid), "{}", stage.story());
        thread::sleep(Duration::from_millis(10));
    }
    stage.stop();
}

#[test]
fn dropped_before_its_end_a_service_leaves_nothing() {
    let mut stage = Stage::new(plan(&[&program("forks"), "group"]));
    stage.until_ready();
    let child = number_after(&stage.log("a-0-0.out"), "child ").unwrap();
    let pid = stage.started(Role::Subject)[0].pid;
    drop(stage);
    assert!(!is_running(pid));
    wait_for("the child's end", || !is_running(child));
}

#[test]
fn a_service_that_works_in_its_data_folder_is_found_beside_the_plan() {
    let mut plan = plan(&["./flat"]);
    program("flat");
    plan.base = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects");
    plan.subject.directory = Some("{data}".into());
    let mut stage = Stage::new(plan);
    stage.until_ready();
    let pid = stage.started(Role::Subject)[0].pid;
    let works_in = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(
        works_in,
        stage.folder.path().join("data/a-0").canonicalize().unwrap()
    );
    stage.stop();
}

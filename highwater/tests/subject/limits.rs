//! Memory limits, floods, many processes.

use experiment::file::Restart;
use experiment::service::LOG_LIMIT_BYTES;
use experiment::service::cgroup::Hierarchy;
use experiment::{Ending, Role, Subject, What};

use crate::stage::*;
use testkit::skipped;

const LIMIT: u64 = 48 << 20;

#[test]
fn the_kernel_enforces_the_memory_limit_and_its_kill_is_told_apart() {
    let hierarchy = Hierarchy::find();
    if let Hierarchy::None { why } = &hierarchy {
        skipped(why);
        return;
    }
    let mut plan = plan(&[&program("hog")]);
    plan.subject.memory_limit = Some(LIMIT);
    let mut stage = Stage::with(plan, hierarchy);
    stage.until_over();
    let (ending, exit, words) = stage.ending();
    assert_eq!(
        (ending, exit.as_deref()),
        (Ending::OomKilled, Some("SIGKILL (9)")),
        "{words}"
    );
    assert!(
        words.contains("by the kernel") && words.contains(&LIMIT.to_string()),
        "{words}"
    );
    assert!(
        !stage.started(Role::Subject)[0]
            .cgroup
            .as_ref()
            .unwrap()
            .exists()
    );
}

#[test]
fn a_child_killed_for_memory_is_told_while_its_parent_lives() {
    let hierarchy = Hierarchy::find();
    if let Hierarchy::None { why } = &hierarchy {
        skipped(why);
        return;
    }
    let mut plan = plan(&[&program("hog"), "child"]);
    plan.subject.memory_limit = Some(LIMIT);
    let mut stage = Stage::with(plan, hierarchy);
    stage.until("the note", |stage| {
        stage.count(|what| matches!(what, What::Note)) == 1
    });
    assert!(
        stage
            .find(|what| matches!(what, What::Note))
            .words
            .contains("the kernel killed")
    );
    assert!(is_running(stage.started(Role::Subject)[0].pid));
    stage.stop();
    assert_eq!(stage.ending().0, Ending::Stopped);
}

#[test]
fn without_a_cgroup_highwater_enforces_the_limit_and_says_so() {
    let mut plan = plan(&[&program("hog")]);
    plan.subject.memory_limit = Some(LIMIT);
    let mut stage = Stage::new(plan);
    stage.until_over();
    let (ending, _, words) = stage.ending();
    assert_eq!(ending, Ending::OomKilled, "{words}");
    assert!(words.contains("by highwater"), "{words}");
    let degraded = stage.find(|what| matches!(what, What::Degraded));
    assert!(
        degraded.words.contains("switched off"),
        "{}",
        degraded.words
    );
}

#[test]
fn one_that_grows_within_its_limit_is_left_alone() {
    let mut plan = plan(&[&program("grows")]);
    plan.subject.memory_limit = Some(4 << 30);
    let mut stage = Stage::new(plan);
    stage.until_ready();
    for _ in 0..30 {
        stage.poll();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(
        stage.count(|what| matches!(what, What::Ended { .. })),
        0,
        "{}",
        stage.story()
    );
    stage.stop();
}

#[test]
fn a_flooding_log_is_bounded_and_the_subject_is_not_harmed() {
    let megabytes = 3 * (LOG_LIMIT_BYTES >> 20) / 2;
    let mut plan = plan(&[&program("floods"), &megabytes.to_string()]);
    plan.subject.ready = None;
    let mut stage = Stage::new(plan);
    stage.until("the flood's end", |stage| {
        let log = stage.folder.path().join("logs/a-0-0.out");
        let bytes = std::fs::read(log).unwrap_or_default();
        bytes.ends_with(b"flood over\n")
    });
    stage.poll();
    let cut = stage.find(|what| matches!(what, What::LogTruncated));
    assert!(cut.words.contains("a-0-0.out"), "{}", cut.words);
    let size = std::fs::metadata(stage.folder.path().join("logs/a-0-0.out"))
        .unwrap()
        .len();
    assert!(size <= LOG_LIMIT_BYTES, "{size}");
    assert!(is_running(stage.started(Role::Subject)[0].pid));
    stage.stop();
    assert_eq!(stage.ending().0, Ending::Stopped);
}

#[test]
fn a_crash_loop_ends() {
    let mut plan = plan(&[&program("dies")]);
    plan.subject.restart = Restart::OnFailure;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path(), no_cgroups());
    let mut service = experiment::service::Service::new(plan, setup).unwrap();
    // The backoffs would take half a minute: this run's clock leaps.
    let mut now = std::time::Duration::ZERO;
    let mut happened = Vec::new();
    wait_for_over(&mut service, &mut now, &mut happened);
    let starts = happened
        .iter()
        .filter(|h| matches!(h.what, What::Started(_)))
        .count();
    assert_eq!(starts, 6);
    let last = &happened.last().unwrap();
    assert!(
        matches!(last.what, What::GaveUp) && last.words.contains("crash loop"),
        "{}",
        last.words
    );
}

fn wait_for_over(
    service: &mut dyn Subject,
    now: &mut std::time::Duration,
    happened: &mut Vec<experiment::Happening>,
) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !service.is_over() {
        assert!(std::time::Instant::now() < deadline, "{happened:#?}");
        happened.extend(service.poll(*now));
        *now += std::time::Duration::from_millis(200);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn five_hundred_processes_start_and_stop() {
    let mut plan = plan(&["/bin/sleep", "600"]);
    plan.subject.ready = None;
    plan.arms = (0..4).map(|n| arm(&format!("arm{n}"))).collect();
    plan.replicas = 125;
    let mut stage = Stage::new(plan);
    stage.until("500 ready", |stage| {
        stage.count(|what| matches!(what, What::Ready)) == 500
    });
    let pids: Vec<i32> = stage
        .started(Role::Subject)
        .iter()
        .map(|started| started.pid)
        .collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    stage.stop();
    assert!(pids.iter().all(|pid| !is_running(*pid)));
}

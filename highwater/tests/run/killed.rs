//! SIGKILL at random moments: of the collector, of the supervisor. Nothing recorded is lost, nothing is left over.

use std::process::{Child, Stdio};
use std::time::Duration;

use observe::snapshot::{Event, EventKind, Role};
use record::run::Run;
use verdict::run::stopped::stopping;

use super::scene::{Said, Scene, lives, program, said, wait};
use testkit::skipped;

fn plan(more: &str) -> String {
    format!(
        "name = \"killed\"\nhypothesis = \"x\"\ncontrol = \"a\"\nreplicas = 2\nduration = \"8s\"\n\
         interval = \"100ms\"\nwarmup = \"0s\"\n[subject]\ncommand = [{:?}]\n{more}\n\
         [subject.ready]\nlog = \"^ready$\"\ntimeout = \"30s\"\n[subject.stop]\ngrace = \"2s\"\n\
         [[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\n",
        program("grows")
    )
}

/// The same for as long as it takes: the test ends it.
fn long(plan: &str) -> String {
    plan.replace("duration = \"8s\"", "duration = \"30m\"")
}

/// Ends the run in order, as Ctrl-C does.
fn interrupt(child: Child) -> Said {
    // SAFETY: kill takes two integers; the child was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    said(child.wait_with_output().expect("it ends"))
}

fn kill(pid: i32) {
    assert_eq!(
        // SAFETY: kill takes two integers; the pid is of a process that this test's highwater started.
        unsafe { libc::kill(pid, libc::SIGKILL) },
        0,
        "killing {pid}"
    );
}

fn collector(run: &Run) -> Option<(i32, u64)> {
    let own = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Highwater && p.ended.is_none());
    own.filter(|p| p.command.iter().any(|word| word == "collector"))
        .map(|p| (p.pid, p.start_ticks))
        .find(|(pid, start)| lives(*pid, *start))
}

fn snapshots(run: &Run) -> usize {
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    subjects
        .filter_map(|p| p.samples.get("rss_bytes"))
        .map(Vec::len)
        .max()
        .unwrap_or(0)
}

/// A number in 0..below that differs from test to test and from round to round, but not from day to day.
fn chance(round: u64, below: u64) -> u64 {
    let mut x = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x.wrapping_mul(0xBF58_476D_1CE4_E5B9) % below
}

#[test]
fn a_killed_collector_is_started_again_and_loses_at_most_a_snapshot() {
    let scene = Scene::new();
    let child = scene.start(&long(&plan("")), &[]);
    for round in 0..3 {
        wait("snapshots", || {
            (snapshots(&scene.record()) > 5 * (round + 1)).then_some(())
        });
        std::thread::sleep(Duration::from_millis(chance(round as u64, 300)));
        let (pid, _) = wait("a collector", || collector(&scene.record()));
        kill(pid);
    }
    // However slow the machine: three deaths later the snapshots go on.
    wait("snapshots", || {
        (snapshots(&scene.record()) > 30).then_some(())
    });
    let said = interrupt(child);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    let restarts = run
        .events
        .iter()
        .filter(|e| e.kind == EventKind::CollectorRestarted)
        .count();
    assert_eq!(restarts, 3);
}

/// A load program of a few lines: one interval after another, the same latencies in each.
fn load() -> String {
    use base64::Engine;
    use hdrhistogram::serialization::Serializer;
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("a histogram");
    histogram.record(1_000_000).expect("a latency");
    let mut bytes = Vec::new();
    hdrhistogram::serialization::V2Serializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("bytes");
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let script = format!(
        "import json, time\nend = time.monotonic_ns()\nwhile True:\n    time.sleep(0.1)\n    \
         start, end = end, time.monotonic_ns()\n    print(json.dumps({{'schema': \
         'highwater.load/1', 'start_ns': start, 'end_ns': end, 'requests': 1, 'errors': 0, \
         'dropped': 0, 'histogram': '{text}'}}), flush=True)\n"
    );
    format!("[load]\ncommand = [\"python3\", \"-c\", {script:?}]\nper = \"process\"\n")
}

#[test]
fn a_killed_collector_records_no_interval_twice() {
    let scene = Scene::new();
    let child = scene.start(&long(&(plan("") + &load())), &[]);
    for round in 0..2 {
        wait("snapshots", || {
            (snapshots(&scene.record()) > 10 * (round + 1)).then_some(())
        });
        let (pid, _) = wait("a collector", || collector(&scene.record()));
        kill(pid);
    }
    let intervals = |run: &Run| {
        let loads = run.processes.iter().filter(|p| p.role == Role::Load);
        loads.map(|p| p.histograms.len()).min().unwrap_or(0)
    };
    wait("intervals", || {
        (intervals(&scene.record()) > 20).then_some(())
    });
    let said = interrupt(child);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    let loads: Vec<_> = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Load)
        .collect();
    assert_eq!(loads.len(), 4);
    for load in loads {
        let rows = load.histograms.iter().filter(|row| row.metric == "latency");
        let rows: Vec<i64> = rows.map(|row| row.start.0).collect();
        let starts: std::collections::BTreeSet<i64> = rows.iter().copied().collect();
        assert!(starts.len() > 20, "{} intervals", starts.len());
        assert_eq!(starts.len(), rows.len(), "an interval was recorded twice");
    }
}

#[test]
fn a_killed_supervisor_takes_its_subjects_along() {
    for round in 0..3_u64 {
        let scene = Scene::new();
        let mut child = scene.start(&plan(""), &[]);
        wait("snapshots", || {
            (snapshots(&scene.record()) > 3).then_some(())
        });
        std::thread::sleep(Duration::from_millis(chance(round + 10, 700)));
        let before = scene.record();
        kill(child.id() as i32);
        child.wait().expect("it ends");
        let subjects: Vec<_> = before.processes.iter().filter(|p| p.pid > 0).collect();
        wait("every process to be gone", || {
            subjects
                .iter()
                .all(|p| !lives(p.pid, p.start_ticks))
                .then_some(())
        });
        let after = scene.record();
        assert!(
            snapshots(&after) >= snapshots(&before),
            "round {round}: a snapshot was lost"
        );
        let id = scene.run_folder().id();
        let report = scene.highwater(&["report", &id]);
        assert_eq!(
            report.code,
            scene.verdict_code(),
            "round {round}: {report:?}"
        );
    }
}

/// A collector that is slow to start may find its supervisor gone already: its first question for its parent
/// then names another process, and only the pid that it was told tells.
#[test]
fn a_collector_that_starts_after_its_supervisor_died_ends() {
    let scene = Scene::new();
    let mut child = scene.start(&plan(""), &[]);
    wait("snapshots", || {
        (snapshots(&scene.record()) > 3).then_some(())
    });
    kill(child.id() as i32);
    child.wait().expect("it ends");
    let folder = scene.run_folder();
    let (run, supervisor) = (folder.path().display().to_string(), child.id().to_string());
    wait("the first collector's last word", || {
        notes_of_death(&scene).eq(&1).then_some(())
    });
    let mut late = scene
        .command(&["collect", "--run", &run, "--supervisor", &supervisor])
        .spawn()
        .expect("a collector");
    let status = wait("the late collector to end", || {
        late.try_wait().expect("its status")
    });
    assert!(status.success(), "{status}");
    assert_eq!(notes_of_death(&scene), 2);
}

/// How often a collector noted that its supervisor was killed.
fn notes_of_death(scene: &Scene) -> usize {
    let events = scene.record().events;
    let is_death = |e: &&Event| e.words.starts_with("the supervisor was killed");
    events.iter().filter(is_death).count()
}

#[test]
fn kept_subjects_live_on_and_resume_finds_them() {
    let scene = Scene::new();
    let mut child = scene.start(&plan("keep = true"), &[]);
    wait("snapshots", || {
        (snapshots(&scene.record()) > 3).then_some(())
    });
    kill(child.id() as i32);
    child.wait().expect("it ends");
    let before = scene.record();
    let subjects: Vec<_> = before
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject)
        .cloned()
        .collect();
    assert_eq!(subjects.len(), 4);
    let (collector_pid, start) = before
        .processes
        .iter()
        .find(|p| p.role == Role::Highwater && p.command.contains(&"collector".to_owned()))
        .map(|p| (p.pid, p.start_ticks))
        .expect("a collector");
    wait("the collector to notice", || {
        (!lives(collector_pid, start)).then_some(())
    });
    assert!(
        subjects.iter().all(|p| lives(p.pid, p.start_ticks)),
        "a kept subject is gone"
    );
    let id = scene.run_folder().id();
    let said = scene.highwater(&["run", "--resume", &id]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let after = scene.record();
    for old in &subjects {
        let now = after
            .processes
            .iter()
            .find(|p| p.id == old.id)
            .expect("its row");
        assert_eq!(now.pid, old.pid);
        let grown = now.samples["rss_bytes"].len() > old.samples["rss_bytes"].len() + 5;
        assert!(grown, "{} {} was not looked at again", old.arm, old.replica);
        assert!(
            !lives(old.pid, old.start_ticks),
            "the resumed run ends what it took over"
        );
    }
    let rows = after
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject)
        .count();
    assert_eq!(rows, 4, "a process has one row, also over a resume");
}

/// The stop rule spends its allowance of error once, however often its supervisor dies: the stages of a run that
/// is taken up again go on where they were.
#[test]
fn a_run_until_decided_goes_on_with_its_stages() {
    let scene = Scene::new();
    // The record begins a moment before its rule is in it.
    let stages = |scene: &Scene| {
        stopping(&scene.record()).map(|state| (state.stages.count, state.stages.began_s))
    };
    // Both arms are the same program, so the run is not decided by itself.
    let flags = ["--until-decided", "--at-most", "5m"];
    let mut child = scene.start(&plan("keep = true"), &flags);
    let before = wait("the first stage", || stages(&scene).filter(|s| s.0 > 0));
    kill(child.id() as i32);
    child.wait().expect("it ends");
    let id = scene.run_folder().id();
    let mut resume = scene.command(&["run", "--resume", &id]);
    let child = resume
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("highwater starts");
    let after = wait("the next stage", || {
        stages(&scene).filter(|s| s.0 > before.0)
    });
    let said = interrupt(child);
    assert_eq!(after.0, before.0 + 1);
    assert!(after.1 >= 1.24 * before.1, "{before:?} {after:?}");
    assert!(said.out.contains("ot decided"), "{said:?}");
}

#[test]
fn ctrl_c_ends_the_run_in_order_with_what_is_known() {
    let scene = Scene::new();
    let child = scene.start(&plan("").replace("8s", "10m"), &[]);
    wait("snapshots", || {
        (snapshots(&scene.record()) > 30).then_some(())
    });
    // SAFETY: as in `kill`.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    assert!(said.out.contains("report"), "{said:?}");
    let run = scene.record();
    assert_eq!(
        run.end.as_ref().map(|end| end.words.as_str()),
        Some("interrupted")
    );
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    assert!(subjects.into_iter().all(|p| !lives(p.pid, p.start_ticks)));
}

#[test]
fn a_full_disk_costs_snapshots_and_not_the_run() {
    let scene = Scene::new();
    let runs = scene.folder.path().join("runs");
    std::fs::create_dir(&runs).expect("a folder");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1200k", "tmpfs"])
        .arg(&runs)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        skipped("a small file system cannot be mounted here (root is needed)");
        return;
    }
    let said = scene.run(&plan("").replace("100ms", "10ms"), &[]);
    let report = scene.highwater(&["report", &scene.run_folder().id()]);
    let code = scene.verdict_code();
    let unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(&runs)
        .status();
    assert!(unmounted.expect("umount runs").success());
    assert!(said.err.contains("disk is full"), "{said:?}");
    assert_eq!(said.code, code, "judged on what is known: {said:?}");
    assert!(
        report.out.contains("RSS"),
        "what was recorded can be read: {report:?}"
    );
}

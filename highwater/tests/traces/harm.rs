//! A recorded program does what it does without the recorder, and a trace survives what happens to either.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::skipped;
use trace::{Trace, summarise};

use crate::stage::{errors, highwater, is_ready, ready, run, subject, text};

fn compare(folder: &Path, program: &str, arguments: &[&str], trace: &str) -> Option<Output> {
    let plain = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let mut words = vec!["record", "--out", trace, "--", program];
    words.extend(arguments);
    let recorded = run(folder, &words);
    assert_eq!(text(&plain), text(&recorded), "{}", errors(&recorded));
    assert_eq!(
        plain.status.code(),
        recorded.status.code(),
        "{}",
        errors(&recorded)
    );
    Some(recorded)
}

#[test]
fn threads_forks_signals_and_every_form_of_allocation_are_as_without() {
    let Some((folder, program)) = ready("manners.c") else {
        return;
    };
    let recorded = compare(folder.path(), &program, &["300"], "manners.hwt");
    assert_eq!(recorded.unwrap().status.code(), Some(23));
    let trace = Trace::open(&folder.path().join("manners.hwt")).unwrap();
    let summary = summarise(&trace);
    assert!(!summary.damage.is_any(), "{:?}", summary.damage);
    assert_eq!(trace.threads.len(), 1 + 3 * 8);
    assert!(summary.allocations > 3 * 8 * 15_000, "{summary:?}");
    // The exec'd child has a library of its own that finds the trace taken.
    assert_eq!(trace.facts.others, 1);
    assert_eq!(summary.pairing.unseen_frees, 0, "{summary:?}");
    assert!(summary.pairing.unknown_frees <= 5, "{summary:?}");
}

#[test]
fn python_prints_the_same() {
    if !is_ready() {
        return;
    }
    let Ok(true) = Command::new("/usr/bin/python3")
        .arg("--version")
        .status()
        .map(|s| s.success())
    else {
        return skipped("no /usr/bin/python3");
    };
    let folder = tempfile::tempdir().unwrap();
    let code = "import json, threading\n\
                def work(): return [json.loads(json.dumps({'a': [i] * 20})) for i in range(3000)]\n\
                all = [threading.Thread(target=work) for _ in range(4)]\n\
                [t.start() for t in all]; [t.join() for t in all]\n\
                print(sum(len(str(d)) for d in work())); raise SystemExit(5)";
    compare(
        folder.path(),
        "/usr/bin/python3",
        &["-c", code],
        "python.hwt",
    );
    let trace = Trace::open(&folder.path().join("python.hwt")).unwrap();
    assert!(trace.threads.len() >= 5 && !summarise(&trace).damage.is_any());
}

/// Starts a subject that never ends under the recorder, and waits until events are written.
fn started(folder: &Path, trace: &str) -> Option<(std::process::Child, Pid)> {
    let program = is_ready().then(|| subject("steady.c", folder)).flatten()?;
    let child = highwater(folder, &["record", "--out", trace, "--"])
        .arg(program)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        // Its threads have been listed by then, too.
        let has_both = |trace: Trace| trace.events() > 10_000 && trace.samples.len() > 4;
        let is_going = Trace::open(&folder.join(trace)).is_ok_and(has_both);
        if is_going {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "nothing is recorded"
        );
    }
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(children).unwrap();
    let subject = children.split_whitespace().next().unwrap().parse().unwrap();
    Some((child, Pid::from_raw(subject).unwrap()))
}

#[test]
fn a_killed_program_leaves_a_whole_trace() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut highwater, subject)) = started(folder.path(), "killed.hwt") else {
        return;
    };
    kill_process(subject, Signal::KILL).unwrap();
    assert_eq!(highwater.wait().unwrap().code(), Some(128 + 9));
    let trace = Trace::open(&folder.path().join("killed.hwt")).unwrap();
    let summary = summarise(&trace);
    assert!(
        trace.facts.is_sealed && !summary.damage.is_any(),
        "{:?}",
        summary.damage
    );
    assert_eq!(
        (summary.pairing.unknown_frees, summary.pairing.unseen_frees),
        (0, 0)
    );
    assert_eq!(
        trace
            .threads
            .iter()
            .filter(|thread| thread.is_alive)
            .count(),
        4
    );
}

#[test]
fn a_killed_highwater_leaves_the_program_and_a_readable_trace() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut highwater, subject)) = started(folder.path(), "orphan.hwt") else {
        return;
    };
    highwater.kill().unwrap();
    highwater.wait().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let is_alive = kill_process(subject, Signal::CONT).is_ok();
    let _ = kill_process(subject, Signal::KILL);
    assert!(is_alive, "the program goes on");
    let path = folder.path().join("orphan.hwt");
    let summary = summarise(&Trace::open(&path).unwrap());
    assert!(
        !summary.damage.is_any() && summary.allocations > 5000,
        "{summary:?}"
    );
    let checked = run(folder.path(), &["trace", "check", "orphan.hwt"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked).contains("unsealed"), "{}", text(&checked));
}

#[test]
fn signals_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut highwater, _)) = started(folder.path(), "ended.hwt") else {
        return;
    };
    kill_process(Pid::from_child(&highwater), Signal::TERM).unwrap();
    assert_eq!(highwater.wait().unwrap().code(), Some(128 + 15));
    assert!(
        Trace::open(&folder.path().join("ended.hwt"))
            .unwrap()
            .facts
            .is_sealed
    );
}

#[test]
fn recording_ends_at_its_time_or_size_and_the_program_goes_on() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    for (option, value, why) in [
        ("--for", "0.4s", "its time was over"),
        ("--max-size", "600KiB", "its largest size"),
    ] {
        let name = format!("{}.hwt", option.trim_matches('-'));
        let words = [
            "record", option, value, "--out", &name, "--", &program, "1200",
        ];
        let recorded = run(folder.path(), &words);
        assert_eq!(
            recorded.status.code(),
            Some(3),
            "the program's own: {}",
            errors(&recorded)
        );
        let trace = Trace::open(&folder.path().join(&name)).unwrap();
        assert!(
            trace.facts.stopped().unwrap().contains(why),
            "{:?}",
            trace.facts.stopped()
        );
        assert!(
            trace.facts.off_ns.unwrap() < 900_000_000,
            "{:?}",
            trace.facts.off_ns
        );
        assert!(!summarise(&trace).damage.is_any());
    }
}

#[test]
fn a_full_disk_ends_recording_and_not_the_program() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=2m", "none"])
        .arg(&disk);
    if !mount.output().is_ok_and(|made| made.status.success()) {
        return skipped("no right to mount a small file system");
    }
    let recorded = highwater(&disk, &["record", "--out", "full.hwt", "--"])
        .arg(program)
        .arg("1500")
        .output();
    let trace = Trace::open(&disk.join("full.hwt"));
    let found = trace.map(|trace| (trace.events(), trace.about("allocator").is_some()));
    let unmounted = Command::new("umount").arg(&disk).status();
    let recorded = recorded.unwrap();
    assert_eq!(recorded.status.code(), Some(3), "{}", errors(&recorded));
    assert!(
        errors(&recorded).contains("the disk was nearly full"),
        "{}",
        errors(&recorded)
    );
    let (events, has_allocator) = found.unwrap();
    assert!(events > 10_000 && has_allocator);
    assert!(unmounted.unwrap().success());
}

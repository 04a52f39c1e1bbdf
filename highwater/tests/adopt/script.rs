//! The plan as plain shell, on the played systemctl: the same steps, the same way back.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::stage::{Said, Stage, adopt_call, hanging, has_tool, is_root, left_behind};

/// Writes the script and gives a call of it.
fn script(stage: &Stage, more: &[&str]) -> impl Fn(&[&str]) -> Said + use<> {
    let words = adopt_call("bump", "svc@*.service", "0s");
    let said = stage.highwater(&[&words[..], &["--timeout", "2s", "--script"], more].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let file = stage.path("adopt.sh");
    fs::write(&file, said.out).unwrap();
    let path = format!(
        "{}:{}",
        stage.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let root = stage.path("");
    move |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(&file).args(arguments);
        let root = root.to_str().unwrap().trim_end_matches('/');
        command
            .env("PATH", &path)
            .env("FAKE_ROOT", root)
            .env("HIGHWATER_ROOT", root);
        Said::of(command.output().unwrap())
    }
}

#[test]
fn the_script_adopts_and_takes_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(3);
    let before = stage.tree();
    let run = script(&stage, &["--health", "command:test -n {instance}"]);
    assert_eq!(run(&[]).code, 2);
    let said = run(&["adopt"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(stage.running_bump().len(), 3);
    let drop_in = stage.path("etc/systemd/system/svc@1.service.d/highwater.conf");
    assert!(
        fs::read_to_string(drop_in)
            .unwrap()
            .contains("BUMP_MODE=a%%b c")
    );
    let again = run(&["adopt"]);
    assert!(
        again.code == 4 && again.err.contains("was begun before"),
        "{again:?}"
    );
    let back = run(&["revert"]);
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(run(&["revert"]).code, 4);
}

#[test]
fn the_script_takes_all_back_at_the_first_failure() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(3);
    let before = stage.tree();
    let check = format!(
        "command:test ! -e {}/sick-{{instance}}",
        stage.path("").display()
    );
    let run = script(&stage, &["--health", &check]);
    fs::write(stage.path("sick-2"), "").unwrap();
    let untouched = stage.pid("svc@3.service");
    let said = run(&["adopt"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out.contains("svc@2.service did not become well"),
        "{said:?}"
    );
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(stage.pid("svc@3.service"), untouched);
}

#[test]
fn the_script_kills_a_check_that_hangs_and_takes_all_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    let pids = stage.path("pids");
    let run = script(&stage, &["--health", &hanging(&pids)]);
    let untouched = stage.pid("svc@2.service");
    let begun = Instant::now();
    let said = run(&["adopt"]);
    assert_eq!(said.code, 1, "{said:?}");
    let words = "svc@1.service did not become well within 2 s, its health check did not end within";
    assert!(said.out.contains(words), "{said:?}");
    assert!(said.out.contains("s and was killed"), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{begun:?}");
    assert_eq!(left_behind(&pids), [""; 0]);
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(stage.pid("svc@2.service"), untouched);
}

#[test]
fn the_script_reads_from_the_process_what_it_was_started_with() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    stage.set("svc@2.service", "ignores", "");
    let said = script(&stage, &[])(&["adopt"]);
    assert_eq!(said.code, 1, "{said:?}");
    let words =
        "svc@2.service did not become well within 2 s, it was not started with BUMP_MODE=a%b c";
    assert!(said.out.contains(words), "{said:?}");
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
}

#[test]
fn the_script_needs_what_it_checks_health_with_before_anything_is_restarted() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(1);
    let untouched = stage.pid("svc@1.service");
    let said = script(&stage, &["--health", "command:no-such-check {unit}"])(&["adopt"]);
    let words = "its health check needs no-such-check, which is not here";
    assert!(said.code == 4 && said.err.contains(words), "{said:?}");
    assert_eq!(stage.pid("svc@1.service"), untouched);
}

#[test]
fn the_script_refuses_what_it_does_not_know() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let run = script(&stage, &[]);
    let path = stage.drop_in("svc@2.service.d", "highwater.conf", "[Service]\n");
    let before = stage.tree();
    let said = run(&["adopt"]);
    assert!(
        said.code == 4 && said.err.contains("highwater.conf is there"),
        "{said:?}"
    );
    fs::remove_file(path).unwrap();
    let said = run(&["adopt", "/bin/true"]);
    assert!(
        said.code == 4 && said.err.contains("is not the library that was measured"),
        "{said:?}"
    );
    stage.set("svc@1.service", "env", "LD_PRELOAD=/x.so\n");
    let said = run(&["adopt"]);
    assert!(
        said.code == 4 && said.err.contains("sets one of the arm's variables already"),
        "{said:?}"
    );
    assert_eq!(stage.tree().len(), before.len() - 1);
}

#[test]
fn a_killed_script_is_taken_back() {
    if !is_root() || !has_tool("timeout") {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    let run = script(&stage, &[]);
    let mut half_way = 0;
    for tenth in 1..=12 {
        let mut command = Command::new("timeout");
        let root = stage.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        command
            .args([
                "-s",
                "KILL",
                &format!("{:.1}", 0.1 * f64::from(tenth)),
                "sh",
            ])
            .arg(stage.path("adopt.sh"))
            .arg("adopt")
            .env("HIGHWATER_ROOT", root);
        let said = Said::of(stage.surround(&mut command).output().unwrap());
        if stage
            .path("var/lib/highwater")
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some())
        {
            half_way += 1;
            let back = run(&["revert"]);
            assert_eq!(back.code, 0, "{tenth}: {said:?} {back:?}");
        }
        assert_eq!(stage.tree(), before, "{tenth}");
        assert!(
            stage.running_bump().is_empty() && stage.all_run(),
            "{tenth}"
        );
    }
    assert!(half_way > 0, "no kill hit it");
}

#[test]
fn a_script_killed_before_its_first_note_is_taken_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(1);
    let before = stage.tree();
    let run = script(&stage, &[]);
    let text = fs::read_to_string(stage.path("adopt.sh")).unwrap();
    let state = text
        .lines()
        .find_map(|line| line.strip_prefix("state=$root/"));
    let state = stage.path(state.expect("the script has a state"));
    fs::create_dir_all(&state).unwrap();
    let back = run(&["revert"]);
    assert_eq!(back.code, 0, "{back:?}");
    assert!(!state.exists() && stage.all_run());
    assert_eq!(stage.tree(), before);
}

#[test]
fn the_script_is_plain_posix_shell() {
    let stage = Stage::new(1);
    let _ = script(&stage, &["--health", "tcp:127.0.0.1:{instance}"]);
    let checked = Command::new("sh")
        .arg("-n")
        .arg(stage.path("adopt.sh"))
        .status();
    assert!(checked.unwrap().success());
    if has_tool("shellcheck") {
        let output = Command::new("shellcheck")
            .args(["-s", "sh", "-S", "error"])
            .arg(stage.path("adopt.sh"))
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

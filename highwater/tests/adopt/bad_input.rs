//! What must be refused, in words that say what to do; and nothing is changed by it.

use std::fs;
use std::process::Command;

use crate::stage::{
    Said, Stage, adopt_words, compile, has_tool, highwater, is_root, measured, odd_run,
};

/// The call is refused, says these words, and leaves everything as it was.
fn refused(stage: &Stage, arguments: &[&str], code: i32, words: &str) {
    let before = stage.tree();
    let pids: Vec<i32> = (1..=2)
        .map(|n| stage.pid(&format!("svc@{n}.service")))
        .collect();
    let said = stage.highwater(arguments);
    assert_eq!(said.code, code, "{arguments:?}: {said:?}");
    let all = format!("{}{}", said.out, said.err);
    assert!(all.contains(words), "{words}: {said:?}");
    assert_eq!(stage.tree(), before);
    assert!(!stage.path("var/lib/highwater/rollouts/1").exists());
    let now: Vec<i32> = (1..=2)
        .map(|n| stage.pid(&format!("svc@{n}.service")))
        .collect();
    assert_eq!(now, pids);
}

#[test]
fn calls_that_mean_nothing() {
    let stage = Stage::new(2);
    let unit = ["--unit", "svc@*.service"];
    let call = |more: &[&'static str]| [&["adopt"], more].concat();
    let with_unit = |more: &[&'static str]| [&call(more)[..], &unit].concat();
    let odd = odd_run();
    let of_odd = |arm| vec!["adopt", arm, "--run", &odd, "--unit", "svc@*.service"];
    let calls = [
        (call(&["bump"]), 2, "--unit <UNIT>"),
        (call(&[]), 2, "ARM"),
        (
            with_unit(&["bmup"]),
            2,
            "has no arm `bmup`; did you mean bump?; its arms are plain, bump",
        ),
        (
            with_unit(&["bump", "--run", "nope"]),
            4,
            "there is no run `nope`",
        ),
        (with_unit(&["bump", "--pause", "soon"]), 2, "--pause:"),
        (
            with_unit(&["bump", "--health", "ping"]),
            2,
            "`ping` is no health check",
        ),
        (
            with_unit(&["bump", "--health", "tcp:127.0.0.1:{port}"]),
            2,
            "{port} stands for nothing",
        ),
        (with_unit(&["bump", "--env", "A"]), 2, "write NAME=VALUE"),
        (
            with_unit(&["bump", "--env", "LD_PRELOAD=/x"]),
            2,
            "sets LD_PRELOAD itself",
        ),
        (
            with_unit(&["bump", "--library-folder", "/a b"]),
            2,
            "without spaces",
        ),
        (
            with_unit(&["bump", "--library", "/bin/true"]),
            2,
            "is not the library that was measured",
        ),
        (call(&["bump", "--unit", "a/b"]), 2, "is no name of a unit"),
        (call(&["bump", "--unit", "x.socket"]), 2, "is a socket"),
        (of_odd("other-command"), 2, "does not rewrite ExecStart"),
        (of_odd("tokened"), 2, "--env NAME=VALUE"),
        (of_odd("placed"), 2, "give its value with --env PLACE=VALUE"),
        (with_unit(&["plain"]), 4, "there is nothing to adopt"),
        (
            vec!["revert", "nope", "--yes"],
            2,
            "no rollout `nope` is in force here; in force: none",
        ),
        (
            call(&["--resume", "--yes"]),
            4,
            "no rollout was interrupted here",
        ),
    ];
    for (arguments, code, words) in calls {
        refused(&stage, &arguments, code, words);
    }
}

#[test]
fn units_that_cannot_adopt() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    for name in ["masked", "stopped", "chroot", "edited"] {
        stage.unit(&format!("{name}.service"), "");
    }
    stage.set("masked.service", "load", "masked");
    stage.systemctl(&["stop", "stopped.service"]);
    stage.set("chroot.service", "more", "RootDirectory=/srv/x\n");
    stage.set("edited.service", "more", "NeedDaemonReload=yes\n");
    let units = [
        ("nope", "there is no unit nope.service"),
        ("nope@*.service", "no unit that matches nope@*.service runs"),
        ("masked", "masked.service is masked"),
        ("stopped", "stopped.service does not run (inactive)"),
        ("chroot", "a file system of its own (/srv/x)"),
        ("edited", "was changed on disk and systemd has not read it"),
    ];
    for (unit, words) in units {
        refused(
            &stage,
            &["adopt", "bump", "--unit", unit, "--yes"],
            4,
            words,
        );
    }
}

#[test]
fn programs_that_take_no_preload() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adopt/service.c");
    // Beside it and moved: the running program keeps its own file.
    compile(&source, &["-static"], &stage.path("static"));
    fs::rename(stage.path("static"), stage.path("service")).unwrap();
    stage.unit("static.service", "");
    refused(
        &stage,
        &["adopt", "bump", "--unit", "static", "--yes"],
        4,
        "is a static program",
    );
}

#[test]
fn a_drop_in_by_hand_is_never_overwritten() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let words = adopt_words(&["--yes"]);
    let text = "# Written by highwater; or so it says\n[Service]\nEnvironment=A=1\n";
    let path = stage.drop_in("svc@1.service.d", "highwater.conf", text);
    refused(
        &stage,
        &words,
        4,
        "was not written by a rollout that is known here",
    );
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    refused(&stage, &words, 4, "it is a link or a folder, and no file");
}

#[test]
fn an_edit_after_adopting_stops_the_revert_until_it_is_forced() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    assert_eq!(stage.adopt(&["--yes"]).code, 0);
    let path = stage.path("etc/systemd/system/svc@1.service.d/highwater.conf");
    let edited = fs::read_to_string(&path).unwrap() + "Nice=5\n";
    fs::write(&path, &edited).unwrap();
    let said = stage.highwater(&["revert", "--yes"]);
    assert!(
        said.code == 4 && said.out.contains("was edited since highwater wrote it"),
        "{said:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    assert_eq!(stage.running_bump().len(), 2);
    let status = stage.status();
    assert_eq!(status[0]["files"]["edited"], 1, "{status}");
    let again = stage.adopt(&["--yes"]);
    assert!(
        again.code == 4 && again.out.contains("edited since"),
        "{again:?}"
    );
    let forced = stage.highwater(&["revert", "--yes", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(stage.tree(), before);
}

#[test]
fn another_setting_that_wins_is_found_before_anything_restarts() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let file = stage.path("etc/default-svc");
    fs::write(&file, "LD_PRELOAD=/x.so\n").unwrap();
    stage.set(
        "svc@2.service",
        "more",
        "EnvironmentFiles=/etc/default-svc (ignore_errors=no)\n",
    );
    refused(
        &stage,
        &adopt_words(&["--yes"]),
        4,
        "svc@2.service: /etc/default-svc sets LD_PRELOAD",
    );
}

#[test]
fn a_systemd_that_does_not_reload_leaves_everything_as_it_was() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    fs::write(stage.path("run/no-reload"), "").unwrap();
    let said = stage.adopt(&["--yes"]);
    // The way back needs a reload as well: half way, and said.
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.out.contains("No space left on device"), "{said:?}");
    assert!(
        said.out.contains("`highwater revert --yes` goes on"),
        "{said:?}"
    );
    let status = stage.status();
    assert_eq!(status[0]["interrupted"], true, "{status}");
    fs::remove_file(stage.path("run/no-reload")).unwrap();
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
}

#[test]
fn without_systemd_or_root_it_says_so() {
    let stage = Stage::new(1);
    let words = adopt_words(&["--yes"]);
    if rustix::process::geteuid().is_root() && has_tool("setpriv") {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid=65534",
                "--clear-groups",
                env!("CARGO_BIN_EXE_highwater"),
            ])
            .args(["revert", "--yes", "--root"])
            .arg(stage.path(""));
        let said = Said::of(stage.surround(&mut command).output().unwrap());
        assert_eq!(said.code, 4, "{said:?}");
    }
    // Without the played systemctl: the machine's own, or none.
    let mut command = highwater(&measured().path(""), &words);
    let empty = tempfile::tempdir().unwrap();
    command
        .arg("--root")
        .arg(stage.path(""))
        .env("PATH", empty.path());
    let said = Said::of(command.output().unwrap());
    let expected = if rustix::process::geteuid().is_root() {
        "there is no systemctl here"
    } else {
        "only root"
    };
    assert!(said.code == 4 && said.err.contains(expected), "{said:?}");
}

#[test]
fn a_damaged_record_is_named_and_nothing_is_touched() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    assert_eq!(stage.adopt(&["--yes"]).code, 0);
    let folder = stage.path("var/lib/highwater/rollouts");
    let id = stage.status()[0]["rollout"].as_str().unwrap().to_owned();
    let journal = folder.join(&id).join("journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, [&b"garbage\n"[..], &whole].concat()).unwrap();
    let tree = stage.tree();
    for call in [
        &["revert", "--yes"][..],
        &["adopt", "--status"],
        &adopt_words(&["--yes"]),
    ] {
        let said = stage.highwater(call);
        assert!(
            said.code == 4 && said.err.contains("is damaged"),
            "{call:?}: {said:?}"
        );
    }
    assert_eq!(stage.tree(), tree);
    fs::write(&journal, whole).unwrap();
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
}

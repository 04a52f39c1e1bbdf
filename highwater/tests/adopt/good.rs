//! What should happen, happens: the plan, the adoption, the judgement, the way back.

use std::fs;
use std::time::{Duration, Instant};

use crate::stage::{Stage, adopt_call, hanging, is_root, left_behind, measured};

#[test]
fn a_dry_run_prints_everything_and_changes_nothing() {
    let stage = Stage::new(2);
    let before = stage.tree();
    let said = stage.adopt(&[]);
    if rustix::process::geteuid().is_root() {
        assert_eq!(said.code, 0, "{said:?}");
    }
    for words in [
        "Adopt arm bump of run",
        "2 instances of svc@*.service",
        "new      /etc/systemd/system/svc@1.service.d/highwater.conf",
        "+ Environment=\"BUMP_MODE=a%%b c\"",
        "+ Environment=\"LD_PRELOAD=/usr/local/lib/highwater/bump-",
        "svc@2.service.d/highwater.conf (the same)",
        "systemctl restart svc@1.service",
        "predicted",
        "Nothing was changed",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert_eq!(stage.tree(), before);
    assert!(!stage.path("var/lib/highwater").exists());
    assert!(stage.running_bump().is_empty());
}

#[test]
fn adopted_proved_judged_and_taken_back_byte_for_byte() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(3);
    // A drop-in of somebody else's, with a mode of its own, stays as it is.
    let other = stage.drop_in("svc@2.service.d", "override.conf", "[Service]\nNice=5\n");
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let before = stage.tree();
    let said = stage.adopt(&["--yes", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let answer = said.json();
    assert_eq!(answer["schema"], "highwater.adopt/2");
    assert_eq!(answer["outcome"], "adopted");
    let proofs = answer["proofs"].as_array().unwrap();
    assert_eq!(proofs.len(), 3);
    let words = proofs[0]["words"].as_str().unwrap();
    assert!(words.contains("/libbump.so (build id "), "{words}");
    assert_eq!(stage.running_bump().len(), 3);

    let status = stage.status();
    assert_eq!(status[0]["stage"], "adopted");
    assert_eq!(status[0]["running_arm"], 3);
    assert_eq!(status[0]["judged"]["standing"], "too-early");
    assert_eq!(status[0]["judged"]["snapshots"], 1);
    assert_eq!(status[0]["prediction"]["instances"], 3);

    let dry = stage.highwater(&["revert"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.out.contains("Nothing was changed"), "{dry:?}");
    assert_eq!(stage.running_bump().len(), 3);
    let back = stage.highwater(&["revert", "--yes"]);
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(stage.status(), serde_json::json!([]));
    let again = stage.highwater(&["revert", "--yes"]);
    assert_eq!(again.code, 4, "{again:?}");
    assert!(again.err.contains("nothing is adopted here"), "{again:?}");
}

#[test]
fn a_fleet_that_was_watched_is_holding_and_one_that_runs_something_else_is_not() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    assert_eq!(stage.adopt(&["--yes"]).code, 0);
    let mut last = stage.highwater(&["adopt", "--status"]);
    assert_eq!(last.code, 3, "{last:?}");
    assert!(last.out.contains("too early to say"), "{last:?}");
    // The run measured for three seconds: half of that, and eight snapshots, are enough.
    for _ in 0..60 {
        if last.code != 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        last = stage.highwater(&["adopt", "--status"]);
    }
    assert_eq!(last.code, 0, "{last:?}");
    assert!(last.out.contains("holding"), "{last:?}");
    stage.set("svc@2.service", "env", "");
    stage.systemctl(&["restart", "svc@2.service"]);
    let other = stage.highwater(&["adopt", "--status"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(
        other
            .out
            .contains("regressed: 1 of 2 instances do not run the arm: svc@2.service"),
        "{other:?}"
    );
}

#[test]
fn an_instance_that_is_never_well_takes_all_of_them_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(4);
    let before = stage.tree();
    let untouched = stage.pid("svc@4.service");
    fs::write(stage.path("sick-3"), "").unwrap();
    let check = format!(
        "command:test ! -e {}/sick-{{instance}}",
        stage.path("").display()
    );
    let said = stage.adopt(&["--yes", "--health", &check]);
    // The sick one is sick without the arm too: that is said.
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out
            .contains("Not adopted: svc@3.service: not well within 2 s"),
        "{said:?}"
    );
    assert!(said.out.contains("not well: svc@3.service"), "{said:?}");
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(
        stage.pid("svc@4.service"),
        untouched,
        "it was never touched"
    );
}

#[test]
fn a_check_that_hangs_is_killed_and_all_is_taken_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    let pids = stage.path("pids");
    let untouched = stage.pid("svc@2.service");
    let begun = Instant::now();
    let said = stage.adopt(&["--yes", "--health", &hanging(&pids)]);
    assert_eq!(said.code, 1, "{said:?}");
    let words = "Not adopted: svc@1.service: not well within 2 s: sh did not end within";
    assert!(said.out.contains(words), "{said:?}");
    // A try of 5 s with the arm, and one without.
    assert!(begun.elapsed() < Duration::from_secs(30), "{begun:?}");
    assert_eq!(left_behind(&pids), [""; 0]);
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
    assert_eq!(stage.pid("svc@2.service"), untouched);
}

#[test]
fn an_instance_that_does_not_start_takes_all_of_them_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(3);
    let before = stage.tree();
    stage.set("svc@2.service", "refuses", "");
    let said = stage.adopt(&["--yes"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out
            .contains("svc@2.service: systemctl restart failed: Job for"),
        "{said:?}"
    );
    assert!(said.out.contains("Everything is as it was."), "{said:?}");
    assert_eq!(stage.tree(), before);
    assert!(stage.running_bump().is_empty() && stage.all_run());
}

#[test]
fn a_template_is_adopted_by_all_of_its_instances_with_one_file() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    let words = adopt_call("bump", "svc@.service", "0s");
    let said = stage.highwater(&[&words[..], &["--yes"]].concat());
    assert_eq!(said.code, 0);
    assert!(
        stage
            .path("etc/systemd/system/svc@.service.d/highwater.conf")
            .is_file()
    );
    assert_eq!(stage.running_bump().len(), 2);
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), before);
}

#[test]
fn rollouts_build_on_each_other_and_go_back_one_by_one() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    assert_eq!(stage.adopt(&["--yes"]).code, 0);
    let first = stage.tree();
    let odd = crate::stage::odd_run();
    let words = adopt_call("tuned", "svc@*.service", "0s");
    let said = stage.highwater(&[&words[..], &["--run", &odd, "--yes"]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out
            .contains("is an allocator too and is not preloaded any more"),
        "{said:?}"
    );
    assert!(said.out.contains("- Environment=\"BUMP_MODE"), "{said:?}");
    assert!(stage.running_bump().is_empty());
    let id = stage.status()[0]["rollout"].as_str().unwrap().to_owned();
    assert!(id.starts_with("2-") && id.ends_with("-tuned"), "{id}");
    let early = stage.highwater(&[
        "revert",
        &id.replacen('2', "1", 1).replace("tuned", "bump"),
        "--yes",
    ]);
    assert!(early.err.contains("revert it first"), "{early:?}");
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), first);
    assert_eq!(stage.running_bump().len(), 2);
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), before);
}

#[test]
fn what_a_unit_preloads_already_stays_behind_the_arm() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(1);
    let library = stage.path("libquiet.so");
    let nothing =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs/nothing.c");
    crate::stage::compile(&nothing, &["-shared", "-fPIC"], &library);
    // `systemctl edit` writes override.conf, which systemd reads after highwater.conf.
    let setting = format!("[Service]\nEnvironment=LD_PRELOAD={}\n", library.display());
    stage.drop_in("svc@1.service.d", "override.conf", &setting);
    stage.systemctl(&["restart", "svc@1.service"]);
    let before = stage.tree();
    let said = stage.adopt(&["--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("ours is called zz-highwater.conf there"),
        "{said:?}"
    );
    assert!(
        said.out
            .contains("stays preloaded, behind the arm's library"),
        "{said:?}"
    );
    assert_eq!(stage.running_bump().len(), 1);
    let maps = fs::read_to_string(format!("/proc/{}/maps", stage.pid("svc@1.service"))).unwrap();
    assert!(maps.contains("/libquiet.so"), "{maps}");
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), before);
}

#[test]
fn the_ledger_tells_what_was_adopted_and_what_became_of_it() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(1);
    let copy = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(measured().path("."))
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    let runs = copy.path().join("runs");
    let runs = runs.to_str().unwrap();
    assert_eq!(stage.adopt(&["--yes", "--runs", runs]).code, 0);
    let read = || {
        let mut command = crate::stage::highwater(copy.path(), &["log", "--json"]);
        crate::stage::Said::of(command.output().unwrap()).json()["entries"][0].clone()
    };
    let entry = read();
    let attempts = entry["attempts"].as_array().unwrap();
    let words = |n: usize| {
        attempts[attempts.len() - n]["words"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        words(2).starts_with("adopting bump on 1 instance of svc@*.service"),
        "{entry}"
    );
    assert!(words(2).contains("predicted 1 x "), "{entry}");
    assert!(words(1).starts_with("Adopted: 1 instance"), "{entry}");
    assert!(
        entry["revert"].to_string().contains("highwater revert 1-"),
        "{entry}"
    );
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    let entry = read();
    assert_eq!(entry["status"], "reverted");
    assert!(
        !entry.to_string().contains("highwater revert 1-"),
        "{entry}"
    );
}

#[test]
fn what_was_stopped_since_stays_stopped() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(2);
    let before = stage.tree();
    assert_eq!(stage.adopt(&["--yes"]).code, 0);
    let again = stage.adopt(&["--yes"]);
    assert!(
        again.code == 4 && again.out.contains("is adopted here already"),
        "{again:?}"
    );
    stage.systemctl(&["stop", "svc@2.service"]);
    let status = stage.highwater(&["adopt", "--status"]);
    assert!(
        status.out.contains("regressed: not running: svc@2.service"),
        "{status:?}"
    );
    assert_eq!(stage.highwater(&["revert", "--yes"]).code, 0);
    assert_eq!(stage.tree(), before);
    assert!(stage.pid("svc@1.service") > 0 && stage.pid("svc@2.service") == 0);
}

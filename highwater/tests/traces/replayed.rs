//! A real program's trace on its own allocator and on another one.

use std::process::Output;

use serde_json::Value;

use crate::stage::{errors, ready, run, text};

/// The JSON that a command printed.
fn report_of(output: &Output) -> Value {
    let report = serde_json::from_str::<Value>(&text(output));
    report.unwrap_or_else(|_| panic!("{}", errors(output)))
}

#[test]
fn a_recorded_program_is_reproduced_and_tried_with_settings() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let words = ["record", "--out", "steady.hwt", "--", &program, "2500"];
    assert_eq!(run(folder.path(), &words).status.code(), Some(3));
    let words = [
        "replay",
        "steady.hwt",
        "--allocators",
        "glibc",
        "--set",
        "glibc:MALLOC_ARENA_MAX=1",
        "--repeat",
        "2",
        "--budget",
        "0s",
        "--json",
    ];
    let replayed = run(folder.path(), &words);
    let report = report_of(&replayed);
    assert_eq!(report["schema"], "highwater.replay/1");
    assert_eq!(report["trusted"], true, "{}", report["self_check"]);
    assert_eq!(replayed.status.code(), Some(0));
    let arms = report["arms"].as_array().unwrap();
    let names: Vec<&str> = arms
        .iter()
        .map(|arm| arm["arm"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["glibc", "glibc MALLOC_ARENA_MAX=1"]);
    for arm in arms {
        assert_eq!(arm["replays"], 2);
        assert_eq!(arm["problem"], Value::Null);
        assert!(
            arm["malloc_answered_by"]
                .as_str()
                .unwrap()
                .contains("libc.so")
        );
        let forecast = &arm["forecast"];
        // About 3 x 3,000 blocks of 1.5 KB.
        let mean = forecast["mean_bytes"]["median"].as_f64().unwrap();
        assert!((8e6..30e6).contains(&mean), "{forecast}");
        assert!(
            forecast["base_bytes"].as_u64().unwrap() < 1 << 19,
            "{forecast}"
        );
        assert_eq!(forecast["failed"], 0);
    }
    assert!(arms[0]["recorded"] == true && arms[1]["recorded"] == false);
    let shown = run(
        folder.path(),
        &[
            "replay",
            "steady.hwt",
            "--allocators",
            "glibc",
            "--repeat",
            "1",
            "-q",
        ],
    );
    let shown = text(&shown);
    assert!(
        shown.contains("Self-check: trusted") && shown.contains("glibc *"),
        "{shown}"
    );
}

#[test]
fn a_part_of_a_trace_is_a_trace() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let words = ["record", "-q", "--out", "whole.hwt", "--", &program, "900"];
    assert_eq!(run(folder.path(), &words).status.code(), Some(3));
    let words = [
        "trace",
        "cut",
        "whole.hwt",
        "--from",
        "0.3s",
        "--to",
        "0.6s",
        "--out",
        "part.hwt",
    ];
    assert!(run(folder.path(), &words).status.success());
    let checked = run(folder.path(), &["trace", "check", "part.hwt"]);
    assert!(checked.status.success(), "{}", text(&checked));
    let whole = run(folder.path(), &["trace", "info", "--json", "whole.hwt"]);
    let part = run(folder.path(), &["trace", "info", "--json", "part.hwt"]);
    let [whole, part]: [Value; 2] =
        [whole, part].map(|out| serde_json::from_str(&text(&out)).unwrap());
    assert!(part["events"].as_u64() < whole["events"].as_u64());
    assert_eq!(part["unknown_frees"], 0);
    assert_eq!(whole["about"]["program"], "steady");
    assert!(
        whole["about"]["allocator"]
            .as_str()
            .unwrap()
            .contains("libc.so")
    );
}

/// The way of a person who wants it proved: record, replay, run, and the ledger's score.
#[test]
fn predictions_of_a_replay_are_proved_by_a_run() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let run = |words: &[&str]| run(folder.path(), words);
    let words = [
        "record", "-q", "--out", "s.hwt", "--", &program, "10000", "0", "20000",
    ];
    assert_eq!(run(&words).status.code(), Some(0));
    let words = "replay s.hwt -q --allocators glibc --set glibc:MALLOC_ARENA_MAX=1 --repeat 2 --budget 0s --experiment \
                 proof.toml";
    let replayed = run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed));
    let written =
        std::fs::read_to_string(folder.path().join("proof.toml")).expect("the experiment");
    assert!(written.contains("over = \"life\""), "{written}");

    let proved = run(&["run", "proof.toml", "--json", "--quiet"]);
    let report = report_of(&proved);
    let outcomes = report["predictions"].as_array().expect("predictions");
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    for outcome in outcomes {
        assert_eq!(
            outcome["outcome"],
            "inside",
            "{report:#}\n{}",
            errors(&proved)
        );
        assert_eq!(outcome["processes_count"], 2, "{outcome}");
    }
    let again = run(&[
        "replay",
        "s.hwt",
        "-q",
        "--allocators",
        "glibc",
        "--repeat",
        "1",
        "--budget",
        "0s",
    ]);
    assert!(
        text(&again).contains("Predictions in this ledger: 2 of 2 measured means"),
        "{}",
        text(&again)
    );
}

#[test]
fn settings_are_searched_replayed_again_and_drawn() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let run = |words: &str| run(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let recorded = run(&format!("record -q --out s.hwt -- {program} 800 0"));
    assert_eq!(recorded.status.code(), Some(0));
    let words = "replay s.hwt -q --allocators glibc --repeat 1 --tune glibc --budget 15s --plot front.svg --json";
    let tuned = run(words);
    let report = report_of(&tuned);
    let found = &report["tuned"][0];
    assert_eq!(found["allocator"], "glibc");
    let tried = found["tried"].as_array().expect("what was tried");
    assert!(!tried.is_empty(), "{report:#}");
    for one in tried {
        assert!(one["mean_bytes"].as_f64() > Some(1e6), "{one}");
        assert!(
            one["arm"].as_str().unwrap().contains("MALLOC_ARENA_MAX="),
            "{one}"
        );
    }
    let front = found["front"].as_array().expect("a front");
    assert!(!front.is_empty() && front.len() <= tried.len(), "{found}");
    let arms = report["arms"].as_array().expect("arms");
    for name in front {
        assert!(
            arms.iter().any(|arm| arm["arm"] == *name),
            "{name} in {report:#}"
        );
    }
    let drawn = std::fs::read_to_string(folder.path().join("front.svg")).expect("a picture");
    assert!(drawn.starts_with("<svg") && drawn.contains("settings tried"));
}

#[test]
fn factors_are_replayed_and_a_misspelt_setting_is_refused() {
    let Some((folder, program)) = ready("steady.c") else {
        return;
    };
    let run = |words: &str| run(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let recorded = run(&format!("record -q --out s.hwt -- {program} 800 0"));
    assert_eq!(recorded.status.code(), Some(0));
    let factors = r#"
name = "arenas"
[subject]
command = "steady"
[factors.arenas]
default = {}
1 = { environment = { MALLOC_ARENA_MAX = "1" } }
[factors.cache]
default = {}
0 = { environment = { GLIBC_TUNABLES = "glibc.malloc.tcache_count=0" } }
"#;
    let file = folder.path().join("f.toml");
    std::fs::write(&file, factors).expect("a file");
    let words = "replay s.hwt -q --allocators glibc --repeat 2 --factors f.toml --json";
    let replayed = run(words);
    let report = report_of(&replayed);
    let memory = &report["factors"][0];
    assert_eq!(
        (&memory["of"], &memory["why"]),
        (&"memory".into(), &"".into()),
        "{memory:#}"
    );
    assert_eq!(memory["combinations_count"], 4);
    let names: Vec<&str> = report["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .filter_map(|arm| arm["arm"].as_str())
        .collect();
    let expected = ["glibc", "default+default", "default+0", "1+default", "1+0"];
    assert_eq!(names, expected);
    std::fs::write(
        &file,
        factors.replace("MALLOC_ARENA_MAX", "MALLOC_ARENA_MAXX"),
    )
    .expect("a file");
    let refused = run(words);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
    assert!(
        errors(&refused).contains("MALLOC_ARENA_MAXX"),
        "{}",
        errors(&refused)
    );
}

/// A server that is asked to end, and says that all went well, has no life of its own length.
#[test]
fn a_program_that_was_asked_to_end_is_not_one_that_ends() {
    let Some((folder, _)) = ready("steady.c") else {
        return;
    };
    let server = folder.path().join("server.c");
    let lines = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nstatic void end(int n) { _exit(n * 0); }\n\
                 int main(void) { signal(SIGTERM, end); for (;;) { free(malloc(100)); usleep(1000); } }\n";
    std::fs::write(&server, lines).expect("a source");
    let program = folder.path().join("server");
    let built = std::process::Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&server)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let program = program.to_string_lossy().into_owned();
    let words = ["record", "-q", "--out", "s.hwt", "--", &program];
    let mut child = crate::stage::highwater(folder.path(), &words)
        .spawn()
        .expect("highwater");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    let info = run(folder.path(), &["trace", "info", "--json", "s.hwt"]);
    let info: Value = serde_json::from_str(&text(&info)).expect("JSON");
    assert!(
        info["about"]["program"] == "server" && info["about"]["ended"].is_null(),
        "{info:#}"
    );
}

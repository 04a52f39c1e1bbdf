//! What `explain` says that it cost its subject, and how it stops over the budget.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stage::{cause, compile, explain, parsed, probe, top_function};
use testkit::skipped;

/// A budget that nothing keeps, percent.
const NOTHING: &str = "0.0001";

fn item<'a>(json: &'a Value, name: &str) -> &'a Value {
    let items = json["overhead"]["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {json:#}"))
}

/// What the program printed, and the answer.
fn started(program: &str, options: &[&str]) -> (String, Value) {
    let fixed = ["--json", "--quiet", "--duration", "60s", "--every", "300ms"];
    let output = explain(&[&fixed[..], options, &["--", program, "3"]].concat());
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (printed, parsed(&output))
}

#[test]
fn what_the_probe_cost_is_counted_and_the_program_does_what_it_did() {
    if probe().is_none() {
        return;
    }
    let program = compile("gcc", "pairs.c", &["-fno-builtin"], "pairs");
    let (printed, json) = started(program.to_str().unwrap(), &[]);
    assert!(printed.contains("done"), "{printed}");
    let notes = json["notes"].to_string();
    assert!(notes.contains("exit status: 7"), "{notes}");
    let counting = item(&json, "counting");
    assert!(counting["events"].as_u64() > Some(10_000), "{counting}");
    assert!(counting["cpu_s"].as_f64() > Some(0.0), "{counting}");
    assert_eq!(item(&json, "samples")["basis"], "measured");
    let overhead = &json["overhead"];
    assert!(
        overhead["subject_memory_bytes"].as_u64() > Some(0),
        "{overhead}"
    );
    assert!(
        overhead["map_readings"]["count"].as_u64() > Some(1),
        "{overhead}"
    );
    assert!(overhead["stopped"].is_null(), "{overhead}");
}

/// Samples are rare here: what it costs is the counting of every call, which cannot be done less often.
#[test]
fn a_program_that_only_allocates_is_rid_of_the_probe_and_told_when_and_why() {
    if probe().is_none() {
        return;
    }
    let program = compile("gcc", "only_pairs.c", &["-fno-builtin"], "only_pairs");
    let program = program.to_str().unwrap();
    let fixed = ["--quiet", "--duration", "60s", "--every", "300ms"];
    let run = |more: &[&str]| explain(&[&fixed[..], more, &["--", program, "18"]].concat());
    let output = run(&["--json", "--budget", "5"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("done, 0 wrong"), "{printed}");
    let json = parsed(&output);
    let notes = json["notes"].to_string();
    assert!(notes.contains("exit status: 7"), "{notes}");
    let overhead = &json["overhead"];
    let share = |name: &str| overhead[name].as_f64().unwrap_or(0.0);
    if share("subject_cpu_s") < 0.7 * share("observed_s") {
        // The probe lets milliseconds in a second pass, whatever their share.
        return skipped("the machine was too busy for the program to cost anything");
    }
    let stopped = &overhead["stopped"];
    assert_eq!(stopped["mechanism"], "the probe", "{overhead:#}");
    assert_eq!(stopped["mostly"], "counting", "{overhead:#}");
    let after_s = stopped["after_s"].as_f64().unwrap();
    assert!(
        (9.5..17.0).contains(&after_s),
        "ten seconds in a row: {after_s}"
    );
    assert!(stopped["cost_share"].as_f64() > Some(0.05), "{overhead:#}");
    let (counting, samples) = (item(&json, "counting"), item(&json, "samples"));
    assert!(counting["cpu_s"].as_f64() > samples["cpu_s"].as_f64());
    let least = counting["cpu_s_min"].as_f64();
    assert!(least > Some(0.0) && least < counting["cpu_s_max"].as_f64());
}

/// Of a program that allocates so much beside what it is asked after that the probe goes off after ten seconds.
fn explained_past_the_stop(what: &str) -> Option<Value> {
    probe()?;
    let program = compile("gcc", "amid_pairs.c", &["-g", "-fno-builtin"], "amid_pairs");
    let program = program.to_str().unwrap();
    let fixed = ["--json", "--quiet", "--duration", "26s", "--every", "300ms"];
    let json = parsed(&explain(&[&fixed[..], &["--", program, what]].concat()));
    if json["overhead"]["stopped"].is_null() {
        skipped("the machine was too busy for the program to cost anything");
        return None;
    }
    Some(json)
}

/// What the probe had counted stood still from then on: a leak that went on for as long again was said to be retention.
#[test]
fn a_leak_is_named_from_what_was_seen_until_the_probe_went_off() {
    let Some(json) = explained_past_the_stop("lose") else {
        return;
    };
    assert_eq!(cause(&json), "leak", "{json:#}");
    assert_eq!(top_function(&json), "new_page", "{json:#}");
    let notes = json["notes"].to_string();
    assert!(
        notes.contains("exit status: 7"),
        "it ends by itself: {notes}"
    );
}

/// What is freed after the probe went off is not lost.
#[test]
fn what_is_freed_after_the_probe_went_off_is_no_leak() {
    let Some(json) = explained_past_the_stop("free") else {
        return;
    };
    assert_eq!(cause(&json), "filling", "{json:#}");
    assert_eq!(top_function(&json), "new_page", "{json:#}");
}

#[test]
fn uprobes_over_their_budget_come_off_and_say_so() {
    let program = compile(
        "gcc",
        "pairs.c",
        &["-fno-builtin", "-static"],
        "pairs-static",
    );
    let running = Command::new(&program)
        .arg("8")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = running.id().to_string();
    let fixed = ["--json", "--quiet", "--duration", "5s", "--every", "300ms"];
    let json = parsed(&explain(
        &[&fixed[..], &["--budget", NOTHING, "--pid", &pid]].concat(),
    ));
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "as without explain");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    if json["uprobes"].is_null() {
        assert!(!rustix::process::geteuid().is_root(), "{json:#}");
        return skipped("uprobes need root");
    }
    let overhead = &json["overhead"];
    assert_eq!(overhead["stopped"]["mechanism"], "uprobes", "{overhead}");
    assert!(
        overhead["stopped"]["after_s"].as_f64() < Some(4.0),
        "{overhead}"
    );
    assert!(overhead["breakpoints"].as_u64() > Some(2), "{overhead}");
    assert!(
        overhead["kernel_memory_bytes"].as_u64() > Some(1 << 20),
        "{overhead}"
    );
    let hits = item(&json, "uprobes")["events"].as_u64();
    assert_eq!(hits, json["uprobes"]["hits"].as_u64());
    assert!(hits > Some(0), "{overhead}");
}

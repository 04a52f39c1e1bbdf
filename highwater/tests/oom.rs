//! A real kill: a program grows in a cgroup with a limit, and `highwater explain --oom` says why it was killed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use serde_json::Value;
use testkit::{Cgroup, skipped};

const LIMIT_BYTES: u64 = 32 << 20;
/// Where the limit does not hold, the program ends by itself.
const VIRTUAL_KIB: u64 = 256 << 10;

/// `tail` holds a line without an end in memory.
fn fill(cgroup: &Cgroup) -> std::process::ExitStatus {
    let script = format!("echo $$ > \"$0\" && ulimit -v {VIRTUAL_KIB} && exec tail /dev/zero");
    Command::new("sh")
        .args(["-c", &script])
        .arg(cgroup.procs())
        .status()
        .expect("a shell")
}

fn explain() -> (Value, Option<i32>) {
    let done = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["explain", "--oom", "--since", "10m", "--json", "--quiet"])
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    let json =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    (json, done.status.code())
}

#[test]
fn a_process_that_fills_its_cgroup_is_explained() {
    if fs::File::open("/dev/kmsg").is_err() {
        return skipped("the kernel's log may not be read here");
    }
    let cgroup = match Cgroup::new("fill", Some(LIMIT_BYTES)) {
        Ok(cgroup) => cgroup,
        Err(error) => {
            return skipped(&format!(
                "no cgroup with a memory limit can be made here: {error}"
            ));
        }
    };
    for _ in 0..2 {
        let status = fill(&cgroup);
        if status.signal() != Some(9) {
            return skipped(&format!(
                "the limit of a cgroup does not hold here: tail ended with {status}"
            ));
        }
    }
    let (json, code) = explain();
    assert_eq!(
        (json["schema"].as_str(), code),
        (Some("highwater.oom/1"), Some(0))
    );
    let findings = json["findings"].as_array().expect("findings");
    let is_own = |finding: &&Value| finding["kills"][0]["limit_cgroup"] == cgroup.path.as_str();
    let Some(own) = findings.iter().find(is_own) else {
        // Within a cgroup namespace the log has the path of the host.
        return skipped("the kernel's log has another path for the cgroup");
    };
    kills(own);
    assert_eq!(own["cause"], "cgroup_limit");
    assert_eq!(own["made_of"], "anonymous");
    let sentence = own["sentence"].as_str().unwrap();
    let expected = format!(
        "cgroup {} reached its memory limit of 32.0 MiB, and the kernel killed tail",
        cgroup.path
    );
    assert!(sentence.starts_with(&expected), "{sentence}");
    let growth = &own["growth"];
    assert!(
        growth["interval_s"].as_f64().unwrap() < 120.0
            && growth["at_least_bytes_per_hour"].as_f64().unwrap() > 0.0
    );
    let now = &own["now"];
    assert_eq!(now["limit_bytes"], LIMIT_BYTES);
    assert!(
        now["oom_kills"].as_u64().is_none_or(|kills| kills == 2),
        "{now}"
    );
}

fn kills(own: &Value) {
    let kills = own["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 2);
    for kill in kills {
        assert_eq!(kill["missing"], serde_json::json!([]));
        assert_eq!(kill["victims"][0]["command"], "tail");
        assert_eq!(kill["request"]["command"], "tail");
        let anon = kill["victims"][0]["anon_bytes"].as_u64().unwrap();
        assert!(anon > LIMIT_BYTES / 2 && anon <= LIMIT_BYTES, "{anon}");
        assert_eq!(kill["limits"]["memory"]["limit_bytes"], LIMIT_BYTES);
        let memory = &kill["memory"];
        let parts = memory["parts"].as_array().unwrap();
        let sum: f64 = parts
            .iter()
            .map(|part| part["bytes"].as_f64().unwrap())
            .sum();
        assert!(
            (sum - memory["bytes"].as_f64().unwrap()).abs() < 5.0,
            "{memory}"
        );
        assert!(kill["at"]["unix_s"].is_f64());
    }
}

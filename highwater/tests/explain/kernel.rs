//! Memory that the kernel keeps for a process, in a cgroup of its own; what it opens and does not close.

use std::process::Command;

use serde_json::Value;
use testkit::{Cgroup, skipped};

use crate::stage::{Running, cause, explain, parsed};

/// What a program does every 20 ms, in Python; `keep` outlives it.
const PIPES: &str = "r, w = os.pipe(); os.write(w, bytes(40_000)); keep.append((r, w))";
const LOG: &str = "log.write(bytes(200_000)); log.flush()";

fn answer(each: &str, cgroup: Option<&Cgroup>) -> Value {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = format!(
        "import os, resource, time\n\
         most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
         resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 50_000), most))\n\
         keep, log = [], open('log', 'wb')\n\
         for _ in range(1_500):\n\
         \x20   {each}\n\
         \x20   time.sleep(0.02)\n"
    );
    let join = match cgroup {
        Some(_) => "echo $$ > \"$0\" && ",
        None => "",
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{join}exec python3 -c \"$1\"")])
        .arg(cgroup.map(Cgroup::procs).unwrap_or_default())
        .arg(program)
        .current_dir(&folder);
    let running = Running::start(&mut command);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = running.pid();
    let words = ["--json", "--quiet", "--duration", "12s", "--pid", &pid];
    parsed(&explain(&words))
}

fn limitations(json: &Value) -> String {
    json["verdict"]["limitations"].to_string()
}

#[test]
fn pipes_that_are_never_read_are_memory_of_the_kernel() {
    let cgroup = match Cgroup::new("pipes", None) {
        Ok(cgroup) => cgroup,
        Err(error) => return skipped(&format!("no cgroup can be made here: {error}")),
    };
    let json = answer(PIPES, Some(&cgroup));
    assert_eq!(cause(&json), "kernel", "{json:#}");
    assert!(
        limitations(&json).contains("most of them pipes (+"),
        "{json:#}"
    );
    assert!(
        limitations(&json).contains("reaches its limit of"),
        "{json:#}"
    );
}

#[test]
fn a_log_in_the_page_cache_is_no_growth_of_the_process() {
    let cgroup = match Cgroup::new("log", None) {
        Ok(cgroup) => cgroup,
        Err(error) => return skipped(&format!("no cgroup can be made here: {error}")),
    };
    let json = answer(LOG, Some(&cgroup));
    assert_eq!(cause(&json), "flat", "{json:#}");
    assert!(limitations(&json).contains("page cache"), "{json:#}");
}

/// The cgroup is others' too: what is open is seen all the same.
#[test]
fn descriptors_that_are_never_closed_are_named() {
    let json = answer(PIPES, None);
    assert_eq!(cause(&json), "flat", "{json:#}");
    assert!(
        limitations(&json).contains("most of them pipes (+"),
        "{json:#}"
    );
}

//! Real programs under every allocator that this machine can have: CPython with threads and forks,
//! a C++ compiler, redis under load with a background save, tor.
//!
//! `HIGHWATER_CACHE` names a cache that is there already; without it all are added first (some
//! minutes), and what builds slowly is left out. Programs that are not on PATH come out of their Debian
//! packages, unpacked into a temporary folder; one that cannot be had is skipped and said.
//! `HIGHWATER_SMOKE=redis-server,tor` runs these only.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Bench, PATIENCE, Said};
use crate::programs::Programs;
use testkit::free_port;
use testkit::skipped;

/// Longest time for one program under one allocator, seconds. The slowest needed 30 at a load of 50 on four
/// processors, and more than 120 at 135.
const LIMIT_S: &str = "600";

/// How a program is started on an allocator.
struct Arm {
    spec: String,
    /// What `LD_PRELOAD` is set to; empty for none.
    preload: String,
    /// Words before the program: a loader of its own.
    before: Vec<String>,
    /// What must be mapped.
    library: String,
}

impl Arm {
    fn of(entry: &Value) -> Option<Arm> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = text(&entry["spec"]);
        if entry["state"] == "system" {
            return Some(Arm {
                spec,
                preload: String::new(),
                before: Vec::new(),
                library: "libc.so.6".to_owned(),
            });
        }
        if entry["state"] != "installed" {
            return None;
        }
        let loader = &entry["loader"];
        if loader.is_object() {
            let folder = text(&loader["library_path"]);
            let program = text(&loader["program"]);
            let library = format!("{folder}/libc.so.6");
            let before = vec![program, "--library-path".to_owned(), folder];
            let preload = String::new();
            return Some(Arm {
                spec,
                preload,
                before,
                library,
            });
        }
        let library = text(&entry["path"]);
        let companions = entry["companions"].as_array().unwrap().iter().map(text);
        let preload: Vec<String> = companions.chain([library.clone()]).collect();
        Some(Arm {
            spec,
            preload: preload.join(":"),
            before: Vec::new(),
            library,
        })
    }

    /// A program on this allocator, ended after the limit. `timeout` itself stays on libc.
    fn command(&self, programs: &Programs, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT_S, "env"]);
        let libraries = programs.libraries();
        if let [loader, flag, folder] = &self.before[..] {
            // A loader of its own searches neither PATH nor LD_LIBRARY_PATH.
            command.args([loader, flag, &format!("{folder}:{libraries}")]);
        } else {
            command.arg(format!("LD_LIBRARY_PATH={libraries}"));
        }
        if !self.preload.is_empty() {
            command.arg(format!("LD_PRELOAD={}", self.preload));
        }
        let found = programs.find(program).unwrap_or_else(|| program.into());
        command.arg(found).stdin(Stdio::null());
        command
    }
}

fn passed(output: &Output, words: &str) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains(words) {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().last().unwrap_or_default();
    Err(format!("{}: {said:.200} {last}", output.status))
}

const PYTHON: &str = "\
import os, subprocess, sys, threading
def work(n):
    for i in range(30):
        rows = [str(k) * (k % 40) for k in range(3000)]
        if ''.join(rows[::7]).count('7') < 1: os._exit(1)
    subprocess.run(['/bin/true'], check=True)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
[t.start() for t in threads]
for n in range(10):
    pid = os.fork()
    if pid == 0: os._exit(0)
    if os.waitpid(pid, 0)[1] != 0: sys.exit('a forked child failed')
[t.join() for t in threads]
print('LIBRARY' in open('/proc/self/maps').read(), 'done')
";

fn python(arm: &Arm, programs: &Programs, _bench: &Bench) -> Result<(), String> {
    // A version manager may put a script before the interpreter.
    let real = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .map_err(|e| e.to_string())?;
    let real = String::from_utf8_lossy(&real.stdout).trim().to_owned();
    let script = PYTHON.replace("LIBRARY", &arm.library);
    let mut command = arm.command(programs, &real);
    command.args(["-c", &script]).env("PYTHONMALLOC", "malloc");
    passed(&command.output().map_err(|e| e.to_string())?, "True done")
}

const CXX: &str = "\
#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n\
int main() { std::map<std::string, std::smatch> all; std::string s = \"a1\";\n\
std::regex_match(s, all[s], std::regex(\"([a-z])(\\\\d)\")); std::cout << all[s][2]; }\n";

fn compiler(arm: &Arm, programs: &Programs, bench: &Bench) -> Result<(), String> {
    let (source, program) = (bench.file("smoke.cpp"), bench.file("smoke"));
    fs::write(&source, CXX).map_err(|e| e.to_string())?;
    let mut command = arm.command(programs, "g++");
    command.arg("-O1").arg(&source).arg("-o").arg(&program);
    passed(&command.output().map_err(|e| e.to_string())?, "")?;
    let output = Command::new(&program).output();
    passed(&output.map_err(|e| e.to_string())?, "1")
}

fn tor(arm: &Arm, programs: &Programs, bench: &Bench) -> Result<(), String> {
    let data = bench.file("tor");
    let words = [
        "--DisableNetwork",
        "1",
        "--SocksPort",
        "0",
        "--ignore-missing-torrc",
        "-f",
        "/none",
    ];
    let mut command = arm.command(programs, "tor");
    command.args(words).arg("--DataDirectory").arg(&data);
    let log = bench.file("tor.log");
    command
        .stdout(fs::File::create(&log).unwrap())
        .stderr(Stdio::null());
    let mut child = Running(command.spawn().map_err(|e| e.to_string())?);
    let ready = wait(&mut child.0, || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .contains("Bootstrapped 0%")
    });
    let _ = fs::remove_dir_all(&data);
    ready
}

/// A child that is ended with the value, and whatever it started with it: `timeout` passes TERM on.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.0.try_wait() {
            return;
        }
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn wait(child: &mut Child, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !done() {
        still_runs(child, end)?;
    }
    Ok(())
}

/// A moment later: an error when the child is gone, or the time.
fn still_runs(child: &mut Child, end: Instant) -> Result<(), String> {
    if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
        return Err(format!("it ended: {status}"));
    }
    if Instant::now() > end {
        return Err("it did not get there in time".to_owned());
    }
    sleep(Duration::from_millis(50));
    Ok(())
}

/// A redis-server on an arm, and its tools.
struct Redis<'a> {
    server: Running,
    programs: &'a Programs,
    port: String,
}

impl Redis<'_> {
    fn start<'a>(arm: &Arm, programs: &'a Programs, bench: &Bench) -> Result<Redis<'a>, String> {
        let port = free_port().to_string();
        let mut command = arm.command(programs, "redis-server");
        command
            .args(["--port", &port, "--bind", "127.0.0.1", "--io-threads", "3"])
            .args(["--save", "", "--daemonize", "no", "--dir"])
            .arg(bench.folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Running(command.spawn().map_err(|e| e.to_string())?);
        let mut redis = Redis {
            server,
            programs,
            port,
        };
        redis.until("ping", |said| said.contains("PONG"))?;
        Ok(redis)
    }

    fn tool(&self, program: &str, words: &str) -> Command {
        let mut command = self.programs.command(program);
        command.args(["-p", &self.port]).args(words.split(' '));
        command.stdin(Stdio::null());
        command
    }

    fn ask(&self, words: &str) -> String {
        let output = self.tool("redis-cli", words).output();
        output
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
            .unwrap_or_default()
    }

    fn until(&mut self, words: &str, done: impl Fn(&str) -> bool) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while !done(&self.ask(words)) {
            still_runs(&mut self.server.0, end).map_err(|e| format!("{words}: {e}"))?;
        }
        Ok(())
    }

    fn pid(&self) -> String {
        let info = self.ask("info server");
        let pid = info.lines().find_map(|l| l.strip_prefix("process_id:"));
        pid.unwrap_or("none").trim().to_owned()
    }
}

/// Saves in a forked child while the load goes on, and ends in order.
fn redis(arm: &Arm, programs: &Programs, bench: &Bench) -> Result<(), String> {
    let mut redis = Redis::start(arm, programs, bench)?;
    let maps = fs::read_to_string(format!("/proc/{}/maps", redis.pid()));
    if !maps.unwrap_or_default().contains(&arm.library) {
        return Err("the library is not mapped in redis-server".to_owned());
    }
    let words = "-n 10000 -c 20 -r 5000 -d 300 -q -t set,lpush,hset";
    let mut load = redis.tool("redis-benchmark", words);
    let load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut load = Running(load.map_err(|e| e.to_string())?);
    let number = |said: &str| said.trim().parse().unwrap_or(0);
    redis.until("dbsize", |said| number(said) > 1000)?;
    redis.ask("bgsave");
    redis.until("info persistence", |said| {
        said.contains("rdb_bgsave_in_progress:0") && said.contains("rdb_saves:1")
    })?;
    if !load.0.wait().is_ok_and(|status| status.success()) {
        return Err("redis-benchmark failed".to_owned());
    }
    if !bench
        .file("dump.rdb")
        .metadata()
        .is_ok_and(|m| m.len() > 1000)
    {
        return Err("BGSAVE wrote nothing".to_owned());
    }
    redis.ask("shutdown nosave");
    let status = redis.server.0.wait().map_err(|e| e.to_string())?;
    let _ = fs::remove_file(bench.file("dump.rdb"));
    status
        .success()
        .then_some(())
        .ok_or(format!("its end: {status}"))
}

type Smoke = fn(&Arm, &Programs, &Bench) -> Result<(), String>;
const PROGRAMS: &[(&str, Smoke)] = &[
    ("python3", python),
    ("g++", compiler),
    ("redis-server", redis),
    ("tor", tor),
];

#[test]
#[ignore = "long: four real programs under every allocator, a quarter of an hour"]
fn real_programs_run_under_every_allocator() {
    let bench = Bench::new();
    let given = std::env::var_os("HIGHWATER_CACHE");
    let run = |words: &[&str]| {
        let mut command = bench.command(words);
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.envs(given.iter().map(|cache| ("HIGHWATER_CACHE", cache)));
        Said::of(command.output().unwrap())
    };
    if given.is_none() {
        let said = run(&["add", "--all", "--quiet"]);
        assert_eq!(said.code, 0, "{said:?}");
    }
    let list: Value = serde_json::from_str(&run(&["list", "--json"]).out).unwrap();
    let arms = list["allocators"].as_array().unwrap();
    let arms: Vec<Arm> = arms.iter().filter_map(Arm::of).collect();
    assert!(!arms.is_empty(), "no allocator is installed");
    let mut failures = Vec::new();
    let programs = Programs::gather();
    let chosen = std::env::var("HIGHWATER_SMOKE").unwrap_or_default();
    let chosen = |name: &str| chosen.is_empty() || chosen.split(',').any(|c| c == name);
    for (name, smoke) in PROGRAMS.iter().filter(|(name, _)| chosen(name)) {
        if programs.find(name).is_none() {
            skipped(&format!("{name} cannot be had on this machine"));
            continue;
        }
        for arm in &arms {
            let outcome = smoke(arm, &programs, &bench);
            println!("{name} under {}: {outcome:?}", arm.spec);
            if let Err(why) = outcome {
                failures.push(format!("{name} under {}: {why}", arm.spec));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

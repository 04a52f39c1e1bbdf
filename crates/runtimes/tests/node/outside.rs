//! Objects by type without any pause: read from outside, in every version, while the program goes on.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use runtimes::node::Node;
use runtimes::{Limits, ManagedHeap, Snapshot};
use testkit::skipped;

use super::program::{Program, assert_undisturbed, script, stop};

const SESSIONS: u64 = 2_000;
const GONE: u64 = 20_000;

const BODY: &str = "class Session {
    constructor(id) { this.id = id; this.data = { items: [id, 'x' + id] }; }
}
class Admin extends Session {}
class Gone { constructor(id) { this.id = id; this.list = [id]; } }
const sessions = new Map();
const weakly = new WeakMap();
const big = new ArrayBuffer(30_000_000);
class Secret {}
function addSession(id) {
    const session = new Session(id);
    sessions.set(id, session);
    if (id % 10 === 0) weakly.set(session, new Secret());
}
for (let id = 0; id < 2000; id++) addSession(id);
globalThis.add = addSession;
globalThis.count = function countSessions() { return sessions.size; };
globalThis.count();
globalThis.admins = Array.from({ length: 50 }, (_, id) => new Admin(id));
globalThis.counters = (() => { const bytes = new Array(300).fill(0.5); return () => bytes[0] + big.byteLength; })();
let drop = [];
for (let id = 0; id < 20000; id++) drop.push(new Gone(id));
drop = null;";

/// The program that is on the machine, and those of `make runtimes`.
fn versions() -> Vec<(String, PathBuf)> {
    let mut found = vec![("node".to_owned(), PathBuf::from("node"))];
    for version in ["node18", "node22", "node24"] {
        match testkit::fetched(version, "bin/node") {
            Some(node) => found.push((version.to_owned(), node)),
            None => skipped(&format!(
                "{version} is not in target/runtimes (make runtimes)"
            )),
        }
    }
    found
}

fn limits(pause: Duration) -> Limits {
    Limits {
        time: Duration::from_secs(60),
        bytes: 256 << 20,
        pause,
    }
}

fn read(reader: &mut Node) -> Snapshot {
    reader
        .snapshot(&limits(Duration::ZERO))
        .expect("a snapshot")
}

fn objects(snapshot: &Snapshot, name: &str) -> u64 {
    let found = snapshot.types.iter().find(|count| count.name == name);
    found.map_or(0, |count| count.objects)
}

fn bytes(snapshot: &Snapshot, name: &str) -> u64 {
    let found = snapshot.types.iter().find(|count| count.name == name);
    found.map_or(0, |count| count.bytes)
}

#[test]
fn types_and_holders_without_a_pause() {
    for (version, node) in versions() {
        let Some(program) = Program::start_of(&node, &["--inspect-port=0"], &script(BODY)) else {
            return;
        };
        let mut reader = program.reader();
        let snapshot = read(&mut reader);
        let top: Vec<_> = snapshot.types.iter().take(12).collect();
        println!("{version}: {:?} {top:?}", snapshot.cost);
        assert_eq!(objects(&snapshot, "Session"), SESSIONS, "{version}");
        assert_eq!(objects(&snapshot, "Admin"), 50, "{version}");
        assert_eq!(objects(&snapshot, "Secret"), SESSIONS / 10, "{version}");
        assert!(
            objects(&snapshot, "Gone") <= GONE / 100,
            "{version}: {}",
            objects(&snapshot, "Gone")
        );
        assert!(bytes(&snapshot, "ArrayBuffer") >= 30_000_000, "{version}");
        assert!(
            snapshot
                .heap
                .as_ref()
                .is_some_and(|heap| heap.is_collected && heap.used_bytes > 30_000_000)
        );
        let holders = reader.holders(&["Session".into()], &limits(Duration::ZERO));
        let path = holders[0].path.join(" > ");
        println!("{version}: {path} {:?}", holders[0]);
        assert_eq!(holders[0].objects, holders[0].asked, "{version}");
        assert!(
            path.ends_with("variable sessions (Map) > […] (Session)"),
            "{version}: {path}"
        );
        // Not the functions that only read it.
        for functions in [&holders[0].users, &holders[0].makers] {
            let [function] = &functions[..] else {
                panic!("{version}: {functions:?}");
            };
            let is_add = function.starts_with("addSession (") && function.ends_with("app.js:11)");
            assert!(is_add, "{version}: {function}");
        }
        assert_eq!(holders[0].first_new.as_deref(), Some("Session"));
        drop(reader);
        let end = stop(program);
        assert_undisturbed(&end);
        assert_eq!(end.errors, "", "{version}");
    }
}

#[test]
fn growth_while_the_program_goes_on() {
    const GROWING: &str =
        "class Session { constructor(id) { this.id = id; this.text = 'x' + id; } }
        const sessions = []; let id = 0;
        function work() {
            for (let i = 0; i < 20; i++) sessions.push(new Session(id++));
            for (let i = 0; i < 2000; i++) globalThis.last = { i, text: [i] };
            const file = path.join(__dirname, 'count');
            fs.writeFileSync(file + '.new', `${sessions.length}`);
            fs.renameSync(file + '.new', file);
        }
        work(); globalThis.work = setInterval(work, 4);";
    for (version, node) in versions() {
        let Some(program) = Program::start_of(&node, &["--inspect-port=0"], &script(GROWING))
        else {
            return;
        };
        let mut reader = program.reader();
        let count = || {
            let text =
                std::fs::read_to_string(program.folder.path().join("count")).unwrap_or_default();
            text.parse::<u64>().unwrap_or(0)
        };
        std::thread::sleep(Duration::from_secs(1));
        let mut readings = 0;
        for _ in 0..6 {
            let before = count();
            // Objects that move all the time can make a reading fail, and it says so.
            let Ok(snapshot) = reader.snapshot(&limits(Duration::ZERO)) else {
                continue;
            };
            readings += 1;
            let (found, after) = (objects(&snapshot, "Session"), count());
            println!(
                "{version}: {before} <= {found} <= {after}, {:?}",
                snapshot.cost.reading
            );
            // Of the youngest some are missing.
            let slack = after / 10 + 40;
            assert!(
                found + slack >= before && found <= after + slack,
                "{version}: {before} {found} {after}"
            );
            std::thread::sleep(Duration::from_millis(700));
        }
        assert!(readings >= 3, "{version}: {readings} of 6 readings");
        let end = stop(program);
        assert_undisturbed(&end);
        assert_eq!(end.errors, "", "{version}");
    }
}

/// The inspector's heap snapshot of the same process counts the same.
#[test]
fn the_inspector_counts_the_same() {
    for (version, node) in versions() {
        let probe = format!(
            "{BODY}
            process.on('SIGUSR2', () => {{
                const file = path.join(__dirname, 'heap');
                require('v8').writeHeapSnapshot(file);
                const {{ snapshot, nodes, strings }} = JSON.parse(fs.readFileSync(file));
                const {{ node_fields: fields, node_types: types }} = snapshot.meta, counts = {{}};
                const kinds = [types[0].indexOf('object'), types[0].indexOf('closure')];
                for (let at = 0; at < nodes.length; at += fields.length) {{
                    const name = strings[nodes[at + 1]];
                    const kind = kinds.indexOf(nodes[at]);
                    const type = kind === 1 ? `(closure) ${{name}}`.replace(/ $/, '') : name;
                    if (kind >= 0) counts[type] = (counts[type] ?? 0) + 1;
                }}
                console.log(JSON.stringify(counts));
            }});"
        );
        let Some(mut program) = Program::start_of(&node, &[], &script(&probe)) else {
            return;
        };
        let snapshot = read(&mut program.reader());
        let pid = program.pid().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-USR2", &pid])
            .status();
        assert!(sent.is_ok_and(|status| status.success()));
        let mut line = String::new();
        program.output.read_line(&mut line).expect("a line");
        let counts: serde_json::Value = serde_json::from_str(&line).expect("counts");
        let own = [
            "Session",
            "Admin",
            "Secret",
            "Map",
            "WeakMap",
            "Gone",
            "Array",
            "Object",
            "Promise",
            "(closure)",
        ];
        for name in own {
            println!(
                "{version}: {name} {} {}",
                objects(&snapshot, name),
                counts[name]
            );
        }
        for name in ["Session", "Secret"] {
            let (found, expected) = (objects(&snapshot, name), counts[name].as_u64().unwrap_or(0));
            assert!(
                found.abs_diff(expected) <= expected / 50,
                "{version}: {name} {found} {expected}"
            );
        }
    }
}

fn rss_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("statm");
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .expect("pages")
        * 4_096
}

/// `cargo test --release -p highwater-runtimes --test node -- --ignored --nocapture costs`
#[test]
#[ignore = "a measurement"]
fn costs_of_a_snapshot() {
    for (version, node) in versions() {
        for megabytes in [20, 100] {
            let body = format!(
                "class Session {{ constructor(id) {{ this.id = id; this.data = {{ items: [id, 'x' + id] }}; }} }}
                const sessions = new Map();
                for (let id = 0; id < {megabytes} * 4000; id++) sessions.set(id, new Session(id));
                globalThis.use = () => sessions;"
            );
            let Some(program) = Program::start_of(&node, &[], &script(&body)) else {
                return;
            };
            std::thread::sleep(Duration::from_secs(2));
            let mut reader = program.reader();
            let before = rss_bytes(program.pid());
            for _ in 0..3 {
                let begin = Instant::now();
                let read = reader.snapshot(&limits(Duration::ZERO));
                let took = begin.elapsed();
                let status = std::fs::read_to_string("/proc/self/status").expect("status");
                let of = |name: &str| {
                    status
                        .lines()
                        .find(|line| line.starts_with(name))
                        .map_or("", |line| line[name.len()..].trim())
                };
                let found = read.as_ref().map(|snapshot| objects(snapshot, "Session"));
                let bytes = read.as_ref().map_or(0, |read| {
                    read.heap.as_ref().map_or(0, |heap| heap.used_bytes)
                });
                let mut out = std::io::stdout();
                let _ = writeln!(
                    out,
                    "{version}, {megabytes}: {took:?} {found:?} of {}, {bytes} bytes; ours {} {}; rss {before} -> {}",
                    megabytes * 4000,
                    of("VmRSS:"),
                    of("VmHWM:"),
                    rss_bytes(program.pid())
                );
            }
            let begin = Instant::now();
            reader.holders(&["Session".into()], &limits(Duration::ZERO));
            println!("holders {:?}", begin.elapsed());
        }
    }
}

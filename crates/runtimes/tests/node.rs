//! The reader of Node.js against the real `node`: what it finds, and that the program ends as it would have.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runtimes::node::{self, Node};
use runtimes::{Error, Limits, ManagedHeap, Snapshot};
use testkit::{free_port, skipped};

#[path = "node/closing.rs"]
mod closing;
#[path = "node/outside.rs"]
mod outside;
#[path = "node/program.rs"]
mod program;
use program::{Program, assert_undisturbed, only_the_debuggers, script, stop};

/// Enough for sites, not for heap snapshots (250 ms for a MiB).
const SITES: Duration = Duration::from_millis(500);
const TYPES: Duration = Duration::from_secs(60);

fn limits(pause: Duration) -> Limits {
    Limits {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
        pause,
    }
}

fn is_refused(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
}

fn inspector_port(errors: &str) -> u16 {
    let rest = errors
        .split("ws://127.0.0.1:")
        .nth(1)
        .expect("a line of the debugger");
    rest.split('/')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port")
}

fn twice(reader: &mut Node, pause: Duration) -> (Snapshot, Snapshot) {
    let first = reader.snapshot(&limits(pause)).expect("a snapshot");
    std::thread::sleep(Duration::from_secs(2));
    (first, reader.snapshot(&limits(pause)).expect("a snapshot"))
}

const SESSIONS: &str =
    "class Session { constructor(id) { this.id = id; this.data = [id, 'x' + id] } }
const sessions = new Map();
let id = 0;
function handleRequest() { for (let i = 0; i < 50; i++) sessions.set(id, new Session(id++)) }
globalThis.work = setInterval(handleRequest, 5);";

#[test]
fn a_map_of_sessions_has_its_function_for_a_site() {
    let Some(program) = Program::start(&["--inspect-port=0"], &script(SESSIONS)) else {
        return;
    };
    let mut reader = program.reader();
    assert!(reader.warning().expect("a warning").contains("SIGUSR1"));
    let (first, second) = twice(&mut reader, SITES);
    assert!(
        reader.runtime().starts_with("Node.js "),
        "{}",
        reader.runtime()
    );
    assert!(first.sites.is_empty() && !second.types.is_empty());
    let site = &second.sites[0];
    let functions: Vec<_> = site
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    assert!(functions.contains(&"handleRequest"), "{functions:?}");
    assert!(site.frames.iter().any(|frame| {
        frame
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("app.js"))
    }));
    reader.finish().expect("it closes");
    assert!(is_refused(inspector_port(&program.errors())));
    assert_undisturbed(&stop(program));
}

#[test]
fn a_heap_snapshot_names_types_and_what_holds_them() {
    let Some(program) = Program::start(&["--inspect-port=0"], &script(SESSIONS)) else {
        return;
    };
    let mut reader = program.reader();
    let snapshot = reader.snapshot(&limits(TYPES)).expect("a snapshot");
    let sessions = snapshot.types.iter().find(|count| count.name == "Session");
    let sessions = sessions
        .unwrap_or_else(|| panic!("{:?}", snapshot.missing))
        .objects;
    assert!(sessions > 0);
    let holders = reader.holders(&["Session".into()], &limits(TYPES));
    // Not all: the one that is being made is a local variable's, too, and a path is the shortest.
    assert!(
        holders[0].objects * 20 >= holders[0].asked * 19,
        "{holders:?}"
    );
    let path = holders[0].path.join(" > ");
    assert!(
        path.ends_with("variable sessions (Map) > […] (Session)"),
        "{path}"
    );
    assert!(
        holders[0]
            .users
            .iter()
            .any(|user| user.starts_with("handleRequest (")),
        "{:?}",
        holders[0].users
    );
    drop(reader);
    assert_undisturbed(&stop(program));
}

/// What version 20 answers, others do too: sites, types and holders.
#[test]
fn other_versions() {
    for version in ["node18", "node22", "node24"] {
        let Some(node) = testkit::fetched(version, "bin/node") else {
            skipped(&format!(
                "{version} is not in target/runtimes (make runtimes)"
            ));
            continue;
        };
        let program = Program::start_of(&node, &["--inspect-port=0"], &script(SESSIONS));
        let program = program.expect("it starts");
        let mut reader = program.reader();
        let (first, second) = twice(&mut reader, TYPES);
        assert!(first.starts_sampling && !second.starts_sampling);
        let major = version.trim_start_matches("node");
        let name = format!("Node.js {major}.");
        assert!(reader.runtime().starts_with(&name), "{}", reader.runtime());
        let is_handler =
            |frame: &runtimes::Frame| frame.function.as_deref() == Some("handleRequest");
        assert!(second.sites[0].frames.iter().any(is_handler), "{version}");
        let sessions = |snapshot: &Snapshot| {
            let found = snapshot.types.iter().find(|count| count.name == "Session");
            found.map_or(0, |count| count.objects)
        };
        assert!(sessions(&second) > sessions(&first) + 50, "{version}");
        let path = reader.holders(&["Session".into()], &limits(TYPES))[0]
            .path
            .join(" > ");
        assert!(
            path.ends_with("variable sessions (Map) > […] (Session)"),
            "{version}: {path}"
        );
        reader.finish().expect("it closes");
        assert_undisturbed(&stop(program));
    }
}

#[test]
fn buffers_are_outside_of_the_heap() {
    let body = "const kept = []; globalThis.work = setInterval(() => kept.push(Buffer.alloc(100_000)), 10);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    let (first, second) = twice(&mut reader, SITES);
    let buffers = |snapshot: &Snapshot| {
        let heap = snapshot.heap.as_ref().expect("sizes");
        heap.others
            .iter()
            .find(|(name, _)| name == "array buffers")
            .expect("buffers")
            .1
    };
    assert!(buffers(&second) > buffers(&first) + 1_000_000);
    drop(reader);
    assert_undisturbed(&stop(program));
}

#[test]
fn listeners_are_held_by_their_emitter() {
    let body = "const emitter = new (require('events'))(); emitter.setMaxListeners(0);
        function subscribe(n) { const big = new Array(100).fill(n);
            emitter.on('change', function onChange() { big[0]++ }) }
        let n = 0; globalThis.work = setInterval(() => subscribe(n++), 2);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    let (first, second) = twice(&mut reader, TYPES);
    let closures = |snapshot: &Snapshot| {
        let named = snapshot
            .types
            .iter()
            .find(|count| count.name == "(closure) onChange");
        named.map_or(0, |count| count.objects)
    };
    assert!(closures(&second) > closures(&first) + 50);
    let path = reader.holders(&["(closure) onChange".into()], &limits(TYPES))[0]
        .path
        .join(" > ");
    assert!(
        path.contains("(EventEmitter) > ._events (Object) > .change (Array)"),
        "{path}"
    );
    drop(reader);
    assert_undisturbed(&stop(program));
}

#[test]
fn a_healthy_server_serves_on() {
    let body =
        "globalThis.server = require('http').createServer((_, response) => response.end('yes'));
        server.listen(0, '127.0.0.1', () =>
            fs.writeFileSync(path.join(__dirname, 'port'), `${server.address().port}`));";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    let (_, second) = twice(&mut reader, SITES);
    let live: f64 = second.sites.iter().map(|site| site.bytes).sum();
    assert!(live < 2e6, "{live} bytes");
    let port = fs::read_to_string(program.folder.path().join("port")).expect("a port");
    assert!(!is_refused(port.parse().expect("a number")));
    drop(reader);
    assert_undisturbed(&stop(program));
}

#[test]
fn without_a_pause_the_inspector_is_not_touched() {
    let Some(program) = Program::start(&["--inspect-port=0"], &script("")) else {
        return;
    };
    let snapshot = program.reader().snapshot(&limits(Duration::ZERO));
    let snapshot = snapshot.expect("a snapshot");
    assert!(snapshot.sites.is_empty() && !snapshot.types.is_empty());
    assert!(snapshot.missing[0].ends_with("allow it with --allow-pause"));
    let end = stop(program);
    assert_undisturbed(&end);
    assert_eq!(end.errors, "");
}

#[test]
fn a_handler_of_the_program_is_not_called() {
    let body =
        "process.on('SIGUSR1', () => console.log('handler')); process.on('SIGUSR2', () => {});";
    let Some(program) = Program::start(&[], &script(body)) else {
        return;
    };
    let refused = program.reader().snapshot(&limits(SITES));
    let error = refused.expect_err("a refusal");
    assert!(
        error.to_string().contains("handles SIGUSR1 itself"),
        "{error}"
    );
    let end = stop(program);
    assert_undisturbed(&end);
    assert_eq!(end.errors, "");
}

#[test]
fn a_taken_port_is_left_alone() {
    let port = free_port();
    let _taken = TcpListener::bind(("127.0.0.1", port)).expect("a listener");
    let option = format!("--inspect-port={port}");
    let Some(program) = Program::start(&[&option], &script("")) else {
        return;
    };
    let refused = program.reader().snapshot(&limits(SITES));
    let error = refused.expect_err("a refusal");
    assert!(error.to_string().contains("is taken"), "{error}");
    assert_eq!(stop(program).errors, "");
}

#[test]
fn an_inspector_that_was_there_stays() {
    let Some(program) = Program::start(&["--inspect=0"], &script(SESSIONS)) else {
        return;
    };
    let mut reader = program.reader();
    assert!(!reader.warning().expect("a warning").contains("SIGUSR1"));
    twice(&mut reader, SITES);
    reader.finish().expect("it detaches");
    assert!(!is_refused(inspector_port(&program.errors())));
    // A second observation begins anew.
    let first = program
        .reader()
        .snapshot(&limits(SITES))
        .expect("a snapshot");
    assert_eq!(
        first.missing[0],
        "allocation sites: sampling starts with this snapshot"
    );
    assert_undisturbed(&stop(program));
}

#[test]
fn a_program_ends_while_it_is_observed() {
    for ending in [
        "process.exitCode = 3; clearInterval(waits)",
        "process.exit(3)",
    ] {
        let body = format!("setTimeout(() => {{ {ending} }}, 1500);");
        let Some(program) = Program::start(&["--inspect-port=0"], &script(&body)) else {
            return;
        };
        let mut reader = program.reader();
        reader.snapshot(&limits(SITES)).expect("a snapshot");
        let end = program.end();
        assert_eq!(end.code, Some(3));
        assert!(only_the_debuggers(&end.errors), "{}", end.errors);
        assert!(reader.snapshot(&limits(SITES)).is_err());
    }
}

#[test]
fn a_program_may_close_its_inspector() {
    let body = "setTimeout(() => { require('inspector').close(); console.log('closed') }, 1500);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    reader.snapshot(&limits(SITES)).expect("a snapshot");
    std::thread::sleep(Duration::from_secs(3));
    assert!(reader.snapshot(&limits(SITES)).is_err());
    drop(reader);
    let end = stop(program);
    assert_eq!(
        (end.code, end.output.as_str()),
        (Some(7), "closed\nstops\n"),
        "{}",
        end.errors
    );
}

#[test]
fn a_hostile_server_on_the_port_is_left_soon() {
    const VERSION: &str = r#"{"Browser": "node.js/v20.0.0"}"#;
    let list = |url: &str| format!(r#"[{{"webSocketDebuggerUrl": "ws://127.0.0.1{url}"}}]"#);
    let answers = [
        ("", String::new()),
        ("garbage", String::new()),
        (VERSION, String::new()),
        (VERSION, list("/a b")),
        (VERSION, list("/endless")),
    ];
    for (version, list) in answers {
        let port = free_port();
        let body = format!(
            "globalThis.server = require('http').createServer((request, response) => {{
                const body = {{ '/json/version': {version:?}, '/json/list': {list:?} }}[request.url];
                if (body) response.end(body); else setInterval(() => response.write('x'), 10);
            }}).listen({port}, '127.0.0.1');"
        );
        let option = format!("--inspect-port={port}");
        let Some(program) = Program::start(&[&option], &script(&body)) else {
            return;
        };
        let begin = Instant::now();
        let error = program
            .reader()
            .snapshot(&limits(SITES))
            .expect_err("no inspector");
        assert!(begin.elapsed() < Duration::from_secs(10), "{error}");
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
}

#[test]
fn other_programs_are_not_node() {
    assert!(node::open(std::process::id()).is_none());
    assert!(node::open(u32::MAX).is_none());
}

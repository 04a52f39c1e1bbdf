//! A first experiment file for a service that already runs: `highwater init --pid N`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use super::redact::{is_secret_name, redact_command, redact_text};
use units::wording::shown;
use units::{write_bytes_exact, written};

/// What is known of a running program. Everything that could not be read is empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramFacts {
    pub pid: i32,
    pub exe: Option<PathBuf>,
    /// Program and arguments as started.
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    /// Variables with their values, as started.
    pub environment: Vec<(String, String)>,
    /// TCP ports on which it listens, with the address it listens on.
    pub listening: Vec<Listening>,
    pub rss_bytes: Option<u64>,
    pub threads: Option<u64>,
    /// Name of the systemd unit, when its cgroup is that of one.
    pub unit: Option<String>,
    /// What could not be read, and why, a sentence each.
    pub unread: Vec<String>,
}

/// A port that the program listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening {
    pub address: String,
    pub port: u16,
    /// Paths that answered 200: `/metrics`, `/healthz` ...
    pub answers: Vec<String>,
}

/// Variables that say where the program was started from, not how it works.
const AMBIENT: &[&str] = &[
    "_",
    "HOME",
    "HOSTNAME",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LANG",
    "LOGNAME",
    "LS_COLORS",
    "MAIL",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHELL",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "USER",
];
/// Prefixes of variables that choose or tune an allocator: they are what the arms will differ in.
const ALLOCATOR_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "MIMALLOC_",
    "_RJEM_MALLOC_CONF",
    "TCMALLOC_",
    "SNMALLOC_",
];
const LISTED_MAX: usize = 40;
const GUARD_STEP_BYTES: u64 = 64 << 20;
const HEALTH_PATHS: &[&str] = &["/_health", "/healthz", "/health", "/readyz"];

/// A commented experiment file that parses as it stands: the service under its own allocator and one other. It is a
/// beginning to be read and changed, so it says where each line comes from and what is left to decide.
pub fn draft(facts: &ProgramFacts) -> String {
    let known = |path: &PathBuf| !path.as_os_str().is_empty();
    let facts = &ProgramFacts {
        exe: facts.exe.clone().filter(known),
        ..facts.clone()
    };
    let mut out = String::new();
    head(&mut out, facts);
    subject(&mut out, facts);
    environment(&mut out, facts);
    arms(&mut out, facts);
    checks(&mut out, facts);
    out
}

fn head(out: &mut String, facts: &ProgramFacts) {
    let name = name_of(facts);
    line(
        out,
        &format!("# Drafted by `highwater init --pid {}`.", facts.pid),
    );
    if let Some(unit) = &facts.unit {
        line(
            out,
            &format!(
                "# The process belongs to the systemd unit {}.",
                comment(unit)
            ),
        );
    }
    if let Some(rss) = facts.rss_bytes {
        let threads = facts.threads.map_or(String::new(), |n| {
            format!(", {}", written::counted(n, "thread", "threads"))
        });
        line(
            out,
            &format!(
                "# When this was written: {} resident{threads}.",
                written::bytes(rss as f64)
            ),
        );
    }
    for unread in &facts.unread {
        line(out, &format!("# Not found out: {}", comment(unread)));
    }
    line(out, "#");
    line(
        out,
        "# Check it with `highwater run --dry-run`, which starts nothing.",
    );
    line(out, "");
    pair(out, "name", &name);
    line(
        out,
        "# What do you believe? One sentence that the run can refute.",
    );
    pair(
        out,
        "hypothesis",
        "the resident memory that grows is fragmentation: another allocator keeps it flat",
    );
    pair(out, "why", "");
    let evidence = facts
        .rss_bytes
        .map(|rss| format!("{} resident at the start", written::bytes(rss as f64)));
    pair(out, "evidence", &evidence.unwrap_or_default());
    pair(out, "control", "glibc");
    line(
        out,
        "replicas = 2        # processes per arm: two show whether a difference is luck, three do so better",
    );
    line(
        out,
        "duration = \"30m\"    # as long as growth takes to show",
    );
    line(out, "interval = \"1s\"");
    line(out, "warmup = \"3m\"");
    line(out, "");
}

fn subject(out: &mut String, facts: &ProgramFacts) {
    line(out, "[subject]");
    let (command, replaced) = with_placeholders(facts);
    if facts.command.is_empty() && facts.exe.is_none() {
        line(out, "# The command line could not be read.");
    }
    line(
        out,
        "# highwater starts copies of its own beside the running service.",
    );
    if replaced {
        line(
            out,
            "# Each copy needs ports of its own, so {port} stands for the ones it listens on.",
        );
    } else if !facts.listening.is_empty() {
        let ports: Vec<String> = facts.listening.iter().map(|l| l.port.to_string()).collect();
        let words = format!(
            "# It listens on {}, which no argument names: tell the copies to use {{port}},",
            ports.join(", ")
        );
        line(out, &words);
        line(out, "# by an argument or a variable, or they will collide.");
    }
    let _ = writeln!(out, "command = {}", list(&command));
    if let Some(directory) = &facts.directory {
        pair(out, "directory", &literal(&directory.to_string_lossy()));
        line(
            out,
            "# Copies that write to one folder disturb each other: {data} is an empty one for each.",
        );
    }
    if let Some((_, index)) = answering(facts, |path| path == "/metrics") {
        pair(
            out,
            "metrics",
            &format!("http://127.0.0.1:{}/metrics", placeholder(facts, index)),
        );
    }
    line(out, "# memory_limit = \"2GiB\"");
    line(out, "");
    if let Some((path, index)) = answering(facts, |path| HEALTH_PATHS.contains(&path)) {
        line(out, "[subject.ready]");
        pair(
            out,
            "http",
            &format!("http://127.0.0.1:{}{path}", placeholder(facts, index)),
        );
        line(out, "");
    } else if !facts.listening.is_empty() {
        line(out, "[subject.ready]");
        pair(out, "tcp", &format!("127.0.0.1:{}", placeholder(facts, 0)));
        line(out, "");
    }
    line(out, "[subject.stop]");
    line(out, "signal = \"TERM\"");
    line(out, "grace = \"10s\"");
    line(out, "");
}

fn environment(out: &mut String, facts: &ProgramFacts) {
    let own: Vec<&(String, String)> = facts
        .environment
        .iter()
        .filter(|(name, _)| !AMBIENT.contains(&name.as_str()) && !name.starts_with("LC_"))
        .filter(|(name, _)| !name.is_empty() && !name.contains(['=', '\0']))
        .collect();
    if own.is_empty() {
        return;
    }
    line(out, "[subject.environment]");
    for (name, value) in own.iter().take(LISTED_MAX) {
        if is_secret_name(name) || redact_text(value) != *value {
            let hidden = comment(&entry(name, "..."));
            let _ = writeln!(out, "# {hidden}   # looks like a secret: left out");
        } else if ALLOCATOR_VARIABLES
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            let shown = comment(&entry(name, value));
            let _ = writeln!(out, "# {shown}   # tunes the allocator: belongs to an arm");
        } else {
            line(out, &entry(name, &literal(value)));
        }
    }
    if own.len() > LISTED_MAX {
        line(out, &format!("# ... and {} more", own.len() - LISTED_MAX));
    }
    line(out, "");
}

fn arms(out: &mut String, facts: &ProgramFacts) {
    line(out, "# What the service runs today.");
    line(out, "[[arms]]");
    line(out, "name = \"glibc\"");
    line(out, "");
    line(out, "# The cheapest remedy for many threads: fewer arenas.");
    line(out, "[[arms]]");
    line(out, "name = \"glibc-arena2\"");
    line(out, "environment = { MALLOC_ARENA_MAX = \"2\" }");
    line(out, "");
    line(out, "# Others: `highwater allocators list` names them.");
    line(out, "# [[arms]]");
    line(out, "# name = \"jemalloc\"");
    line(out, "# allocator = \"jemalloc@5.3.0\"");
    line(out, "");
    let pid = facts.pid;
    line(
        out,
        "# To watch the running process instead of starting copies, use kind = \"attach\" and",
    );
    line(
        out,
        &format!("# [[subject.attach]] with arm = \"glibc\" and pids = [{pid}]."),
    );
    line(out, "");
}

fn checks(out: &mut String, facts: &ProgramFacts) {
    line(out, "[[verify]]");
    line(out, "trend = [\"flat\", \"plateauing\"]");
    line(out, "");
    if let Some(rss) = facts.rss_bytes {
        // Twice of what it has now, rounded up: a guard, not a goal. Bounded, should /proc tell nonsense.
        let limit = (rss.min(1 << 50) * 2 / GUARD_STEP_BYTES + 1) * GUARD_STEP_BYTES;
        line(
            out,
            "# An arm that gets there is stopped while the others go on.",
        );
        line(out, "[[guard]]");
        pair(out, "rss_max", &write_bytes_exact(limit));
        line(out, "");
    }
    if let Some(unit) = &facts.unit {
        line(out, "[revert]");
        pair(
            out,
            "words",
            &format!("remove the drop-in of {unit} and restart it"),
        );
    }
}

fn name_of(facts: &ProgramFacts) -> String {
    let first = facts.command.first().map(PathBuf::from);
    let exe = facts.exe.clone().or(first).unwrap_or_default();
    let stem = exe
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let words: Vec<&str> = stem
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    match words.join("-") {
        name if name.is_empty() => format!("pid-{}", facts.pid),
        name => name
            .chars()
            .take(40)
            .collect::<String>()
            .trim_matches('-')
            .to_owned(),
    }
}

/// The command with the ports it listens on replaced; whether any was.
fn with_placeholders(facts: &ProgramFacts) -> (Vec<String>, bool) {
    let mut command = redact_command(&facts.command);
    if let (Some(exe), Some(first)) = (&facts.exe, command.first_mut()) {
        *first = exe.to_string_lossy().into_owned();
    }
    if command.first().is_none_or(String::is_empty) {
        command.clear();
        let exe = facts
            .exe
            .as_ref()
            .map(|exe| exe.to_string_lossy().into_owned());
        command.push(exe.unwrap_or_else(|| "./the-service".into()));
    }
    let mut replaced = false;
    let words = command.iter().enumerate().map(|(n, word)| {
        let mut word = literal(word);
        for (index, port) in ports(facts).iter().enumerate().filter(|_| n > 0) {
            if let Some(at) = find_number(&word, *port) {
                word.replace_range(at..at + port.to_string().len(), &placeholder_of(index));
                replaced = true;
            }
        }
        word
    });
    let words = words.collect();
    (words, replaced)
}

/// The distinct ports, in order; as many as there are placeholders.
fn ports(facts: &ProgramFacts) -> Vec<u16> {
    const PLACEHOLDERS: usize = 9;
    let mut seen = BTreeSet::new();
    let fresh = facts
        .listening
        .iter()
        .map(|l| l.port)
        .filter(|port| seen.insert(*port));
    fresh.take(PLACEHOLDERS).collect()
}

/// Where the number stands in the word as a number of its own: 8080 is in `:8080` but not in `180801`.
fn find_number(word: &str, number: u16) -> Option<usize> {
    let digits = number.to_string();
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    word.match_indices(&digits).map(|(at, _)| at).find(|at| {
        !is_digit(word[..*at].chars().next_back())
            && !is_digit(word[at + digits.len()..].chars().next())
    })
}

/// `{port}` of the n-th entry of `listening`.
fn placeholder(facts: &ProgramFacts, index: usize) -> String {
    let port = facts
        .listening
        .get(index)
        .map_or(0, |listening| listening.port);
    match ports(facts).iter().position(|known| *known == port) {
        Some(at) => placeholder_of(at),
        None => port.to_string(),
    }
}

fn placeholder_of(index: usize) -> String {
    if index == 0 {
        "{port}".into()
    } else {
        format!("{{port{}}}", index + 1)
    }
}

/// The first path that answers and that is wanted, with the index of its port.
fn answering(facts: &ProgramFacts, wanted: impl Fn(&str) -> bool) -> Option<(&str, usize)> {
    let each = facts.listening.iter().enumerate();
    each.flat_map(|(n, l)| l.answers.iter().map(move |path| (path.as_str(), n)))
        .find(|(path, _)| wanted(path))
}

/// A text in which no `{word}` is taken for a placeholder.
pub(super) fn literal(text: &str) -> String {
    use super::placeholder::{Piece, pieces};
    let piece = |piece: Piece| match piece {
        Piece::Literal(text) => text.to_owned(),
        Piece::Placeholder(word) => format!("{{{{{word}}}}}"),
    };
    pieces(text).into_iter().map(piece).collect()
}

pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

pub(super) fn pair(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {}", text(value));
}

/// TOML text on one line.
fn text(value: &str) -> String {
    let clean: String = value.chars().filter(|c| *c != '\0').collect();
    if !clean.contains('\n') {
        return toml::Value::String(clean).to_string();
    }
    // The crate would write it over several lines. JSON's escapes are TOML's, but for DEL.
    serde_json::Value::String(clean)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

pub(super) fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| text(word)).collect();
    format!("[{}]", words.join(", "))
}

/// `key = "value"`; the key in quotes when it needs them.
pub(super) fn entry(key: &str, value: &str) -> String {
    let one = toml::Table::from_iter([(key.to_owned(), toml::Value::Boolean(true))]);
    let written = one.to_string();
    let key = written
        .trim_end()
        .strip_suffix("= true")
        .unwrap_or(&written);
    format!("{key}= {}", text(value))
}

/// Foreign text inside a comment: one line, no control characters.
pub(super) fn comment(text: &str) -> String {
    shown(text, 160)
}

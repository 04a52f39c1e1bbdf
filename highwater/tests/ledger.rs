//! The ledger, through its functions and through `highwater log`.

use std::path::Path;

use clap::Parser;
use experiment::file::parse_experiment;
use highwater::cli::log::{self, LogArgs};
use proptest::prelude::*;
use record::ledger::{Attempt, Entry, Ledger, LedgerError, Outcome, Status, Step, render};

const DAY: &str = "2026-11-21";
const HOSTILE: &str =
    "a\x1b[2J <script>alert(1)</script>\n# heading\n- item | `code` *b* \u{202e}gnp";

fn attempt(run: &str, words: &str) -> Attempt {
    Attempt {
        date: DAY.into(),
        run: run.into(),
        words: words.into(),
    }
}

fn ledger() -> (tempfile::TempDir, Ledger) {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::at(&folder.path().join("ledger"));
    (folder, ledger)
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    log: LogArgs,
}

/// Runs `highwater log ...` on this ledger; what it printed, or its error.
fn log_line(folder: &Path, words: &[&str]) -> Result<String, String> {
    let ledger = folder.join("ledger").to_string_lossy().into_owned();
    let words = ["log"]
        .iter()
        .chain(words)
        .copied()
        .chain(["--ledger", &ledger]);
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    log::run(&line.log, &mut out, &mut err).map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8([out, err].concat()).expect("text"))
}

#[test]
fn an_entry_lives_from_goal_to_conclusion() {
    let (_keep, ledger) = ledger();
    assert!(ledger.list().expect("an empty ledger").entries.is_empty());
    let first = ledger
        .add(
            &Entry::new(DAY, "Halve the relay's memory"),
            "Relay: Memory!",
        )
        .expect("an entry");
    let second = ledger
        .add(&Entry::new(DAY, "again"), "relay memory")
        .expect("an entry");
    assert_eq!(
        (first.id.as_str(), second.id.as_str()),
        ("2026-11-21-relay-memory", "2026-11-21-relay-memory-2")
    );
    ledger
        .append_attempt(&first.id, &attempt("2026-11-21-relay-1", "grows"))
        .expect("an attempt");
    ledger
        .append_attempt(&first.id, &attempt("2026-11-22-relay-1", "grows still"))
        .expect("an attempt");
    let done = ledger
        .set_status(&first.id, Status::Concluded, &["it was a leak".into()])
        .expect("a status");
    assert_eq!(done.attempts.len(), 2);
    assert_eq!(ledger.read(&first.id).expect("an entry"), done);
    assert_eq!(done.learnings, ["it was a leak"]);
    let listing = ledger.list().expect("a list");
    assert_eq!(listing.entries, [done, second]);
    assert!(listing.broken.is_empty());
}

#[test]
fn every_text_survives_the_file() {
    let (_keep, ledger) = ledger();
    let entry = Entry {
        hypothesis: HOSTILE.into(),
        evidence: "three quotes ''' and \"\"\" and a \\".into(),
        changed: vec![HOSTILE.into(), String::new()],
        verify: vec![Step {
            step: "x".into(),
            outcome: Outcome::Failed,
            observed: HOSTILE.into(),
        }],
        attempts: vec![attempt("r", HOSTILE)],
        ..Entry::new(DAY, HOSTILE)
    };
    let added = ledger.add(&entry, HOSTILE).expect("an entry");
    assert_eq!(
        added.id,
        "2026-11-21-a-2j-script-alert-1-script-heading-item-code-b"
    );
    assert_eq!(ledger.read(&added.id).expect("an entry"), added);
    assert_eq!(
        Entry {
            id: String::new(),
            ..added
        },
        entry
    );
}

#[test]
fn runs_of_one_question_are_attempts_of_one_entry() {
    let text = "name = \"relay\"\nhypothesis = \"fragmentation\"\ncontrol = \"glibc\"\nadopt = \"arena2\"\n\
        [subject]\ncommand = \"./relay\"\n[[arms]]\nname = \"glibc\"\n[[arms]]\nname = \"arena2\"\n\
        environment = { MALLOC_ARENA_MAX = \"2\", API_KEY = \"hunter2\" }\n\
        [[verify]]\nrss_max = \"512MiB\"\nafter = \"90s\"\narm = \"arena2\"\n[[verify]]\ntrend = [\"flat\", \"plateauing\"]\n\
        [[verify]]\nmetric = \"drops\"\nmax = 3\n[revert]\nwords = \"restart\"\ncommands = [\"systemctl restart 'a b'\"]\n";
    let plan = parse_experiment(text, "x", Path::new("/"), &[], &|_| Ok(())).expect("it parses");
    let entry = Entry::of_experiment(&plan, DAY);
    assert_eq!(entry.goal, "relay: arena2 against glibc");
    assert_eq!(
        entry.changed,
        [
            "glibc: as the program comes",
            "arena2: API_KEY=[redacted], MALLOC_ARENA_MAX=2"
        ]
    );
    let steps: Vec<&str> = entry.verify.iter().map(|step| step.step.as_str()).collect();
    assert_eq!(
        steps,
        [
            "rss_max 512MiB after 1m 30s (arena2)",
            "trend flat or plateauing",
            "drops max 3"
        ]
    );
    assert_eq!(entry.revert, ["restart", "systemctl restart 'a b'"]);

    let (_keep, ledger) = ledger();
    let first = ledger.entry_for(&entry).expect("an entry");
    assert_eq!(first.id, "2026-11-21-relay");
    assert_eq!(ledger.entry_for(&entry).expect("the same").id, first.id);
    let other = Entry {
        hypothesis: "a leak".into(),
        ..entry.clone()
    };
    assert_ne!(
        ledger.entry_for(&other).expect("another question").id,
        first.id
    );
    ledger
        .set_status(&first.id, Status::Failed, &[])
        .expect("a status");
    assert_ne!(ledger.entry_for(&entry).expect("a new try").id, first.id);
}

#[test]
fn many_hands_lose_nothing() {
    let (_keep, ledger) = ledger();
    let entry = ledger.add(&Entry::new(DAY, "g"), "g").expect("an entry");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (ledger, id) = (&ledger, &entry.id);
            scope.spawn(move || {
                for n in 0..10 {
                    ledger
                        .append_attempt(id, &attempt(&format!("{thread}-{n}"), ""))
                        .expect("an attempt");
                    ledger.add(&Entry::new(DAY, "h"), "h").expect("an entry");
                }
            });
        }
    });
    assert_eq!(ledger.read(&entry.id).expect("an entry").attempts.len(), 60);
    assert_eq!(ledger.list().expect("a list").entries.len(), 61);
}

#[test]
fn broken_files_are_named_and_hide_nothing() {
    let (keep, ledger) = ledger();
    ledger
        .add(&Entry::new(DAY, "good"), "good")
        .expect("an entry");
    let folder = keep.path().join("ledger");
    std::fs::write(folder.join("2026-11-20-bad.toml"), "goal = \n").expect("a file");
    std::fs::write(folder.join("2026-11-20-bytes.toml"), [0xff, 0xfe]).expect("a file");
    std::fs::write(folder.join("2026-11-20-empty.toml"), "").expect("a file");
    let newer = "schema = \"highwater.ledger/9\"\nid = \"x\"\ndate = \"2026-11-21\"\nstatus = \"active\"\ngoal = \"g\"\n";
    std::fs::write(folder.join("2026-11-20-newer.toml"), newer).expect("a file");
    std::fs::write(folder.join("notes.txt"), "not an entry").expect("a file");
    let listing = ledger.list().expect("a list");
    assert_eq!(listing.entries.len(), 1);
    let words: Vec<String> = listing.broken.iter().map(LedgerError::to_string).collect();
    assert_eq!(words.len(), 4, "{words:?}");
    assert!(
        words
            .iter()
            .any(|w| w.contains("2026-11-20-newer.toml: its schema is `highwater.ledger/9`")),
        "{words:?}"
    );
    let printed = log_line(keep.path(), &[]).expect("a list");
    assert!(
        printed.contains("good") && printed.contains("left out: "),
        "{printed}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let (keep, ledger) = ledger();
    assert!(matches!(
        ledger.add(&Entry::new("21.11.2026", "g"), "g"),
        Err(LedgerError::Date(_))
    ));
    assert!(matches!(
        ledger.add(&Entry::new("2026-02-30", "g"), "g"),
        Err(LedgerError::Date(_))
    ));
    assert!(matches!(
        ledger.add(&Entry::new(DAY, " "), "g"),
        Err(LedgerError::NoGoal)
    ));
    ledger
        .add(&Entry::new(DAY, "g"), "relay")
        .expect("an entry");
    std::fs::write(keep.path().join("secret.toml"), "x").expect("a file");
    for id in ["../secret", "/etc/passwd", "", ".lock"] {
        assert!(
            matches!(ledger.read(id), Err(LedgerError::Unknown { .. })),
            "{id}"
        );
    }
    let words = ledger.read("2026-11-21-realy").unwrap_err().to_string();
    assert_eq!(
        words,
        "the ledger has no entry `2026-11-21-realy`; did you mean 2026-11-21-relay?"
    );
}

const ADD: &[&str] = &[
    "add",
    "--goal",
    "halve the memory",
    "--hypothesis",
    "it is fragmentation",
    "--changed",
    "arena 2",
    "--verify",
    "RSS below 512 MiB",
    "--verify",
    "p99 below 20 ms",
    "--revert",
    "unset it",
    "--date",
    DAY,
];

/// What `show` says of the entry of the test below.
const SHOWN: &str = "\
2026-11-21-halve-the-memory  concluded
halve the memory

Hypothesis
  it is fragmentation

Result
  refuted

Changed
  - arena 2

Attempts
  - 2026-11-21, run 2026-11-21-relay-1: grows

Verify
  - [open] RSS below 512 MiB
  - [passed] p99 below 20 ms: 14 ms

Learnings
  - it was a leak

Revert
  - unset it
";

#[test]
fn the_log_verb_from_add_to_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = |words: &[&str]| log_line(folder.path(), words);
    assert!(
        log(&[])
            .expect("an empty ledger")
            .starts_with("The ledger is empty")
    );
    log(ADD).expect("added");
    let id = "2026-11-21-halve-the-memory";
    log(&[
        "attempt",
        id,
        "grows",
        "--run",
        "2026-11-21-relay-1",
        "--date",
        DAY,
    ])
    .expect("an attempt");
    log(&["verify", id, "2", "passed", "--observed", "14 ms"]).expect("verified");
    let words = log(&["verify", id, "3", "passed"]).unwrap_err();
    assert!(
        words.contains("has 2 steps of verification; there is no step 3"),
        "{words}"
    );
    let shown = log(&["status", id, "refuted", "--learning", "it was a leak"]).unwrap_err();
    assert!(shown.contains("invalid value 'refuted'"), "{shown}");
    let shown = log(&[
        "status",
        id,
        "concluded",
        "--learning",
        "it was a leak",
        "--result",
        "refuted",
    ]);
    assert_eq!(shown.as_deref(), Ok(SHOWN));
    assert_eq!(log(&["show", id]).as_deref(), Ok(SHOWN));
    assert_eq!(
        log(&[]).as_deref(),
        Ok("2026-11-21-halve-the-memory  concluded  1 attempt    halve the memory\n")
    );
    let json: serde_json::Value =
        serde_json::from_str(&log(&["--json"]).expect("JSON")).expect("JSON");
    assert_eq!(json["schema"], "highwater.ledger/2");
    assert_eq!(json["entries"][0]["verify"][1]["outcome"], "passed");
    let document = log(&["--format", "md"]).expect("Markdown");
    assert!(
        document.contains(
            "## halve the memory\n\n2026-11-21-halve-the-memory · 2026-11-21 · concluded\n"
        )
    );
    assert!(
        document.contains("- \\[passed\\] p99 below 20 ms: 14 ms"),
        "{document}"
    );
}

#[test]
fn hostile_text_stays_text() {
    let entry = Entry {
        id: "x".into(),
        hypothesis: HOSTILE.into(),
        changed: vec![HOSTILE.into(), "- - 1. x".into(), "1. x".into()],
        attempts: vec![attempt(HOSTILE, HOSTILE)],
        ..Entry::new(DAY, HOSTILE)
    };
    let entries = [entry.clone()];
    for shown in [
        render::text(&entry),
        render::text_list(&entries),
        render::markdown(&entries),
    ] {
        assert!(!shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
    }
    assert_eq!(render::text_list(&entries).lines().count(), 1);
    let document = render::markdown(&entries);
    assert!(!document.contains("<script>"), "{document}");
    assert_eq!(
        document
            .lines()
            .filter(|line| line.starts_with('#'))
            .count(),
        2,
        "{document}"
    );
    assert!(document.contains("- \\- - 1. x\n- 1\\. x\n"), "{document}");
}

proptest! {
    #[test]
    fn a_file_that_is_no_entry_never_panics(text in "\\PC{0,200}") {
        let _ = record::ledger::store::parse_entry(&text, "id");
    }

    /// Markdown of any entry keeps its structure: a line begins as this module writes it, never as foreign text does.
    #[test]
    fn markdown_structure_is_ours(text in "(\\PC|[\n\r\t\x1b<>#*`|-]){0,60}") {
        let entry = Entry { hypothesis: text.clone(), changed: vec![text.clone()], ..Entry::new(DAY, &text) };
        let document = render::markdown(&[entry]);
        for line in document.lines().filter(|line| !line.is_empty()) {
            let ours = ["# Ledger", "## ", "**Hypothesis:** ", "**Changed:**", "- "].iter().any(|s| line.starts_with(s));
            prop_assert!(ours || line.ends_with("2026-11-21 · active"), "{line:?}");
        }
        prop_assert!(!document.contains(['\x1b', '<', '\r']));
    }
}

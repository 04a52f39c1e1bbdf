//! Plain English as a test: words that the style guide replaces may not stand in help at all, and in pages and messages
//! no more often than `allowed.txt` says. A count there may only fall: `HIGHWATER_BLESS=1` lowers it, never raises it.

mod names;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use highwater::cli::Cli;
use regex::Regex;

/// What may not be written, and what the field says instead.
const BANNED: &[(&str, &str)] = &[
    (r"mend(s|ed|ing)?", "fix, fixed"),
    (
        r"whoever|nobody|somebody",
        "the thread that, no thread, a user",
    ),
    (r"seldom", "rarely"),
    (r"beneath", "below, under"),
    (r"in the midst of|amid", "during"),
    (r"begins|begun", "starts, started"),
    (r"what it taught|learnt", "findings, conclusions"),
    (
        r"hand(s|ed)? out|hand(s|ed)? over|hand(s|ed)? on",
        "allocate, dispatch, forward",
    ),
    (r"take(s|n)? back|took back", "free, undo, revert"),
    (r"inhabitants?", "runtimes"),
    (r"doings?", "activity, operation"),
    (r"torn", "inconsistent, fragmented"),
    (
        r"(is|are|was|were|be) (said|told)|told apart",
        "is printed, is reported, distinguished",
    ),
    (
        r"honest(ly)?|surely|doubts?",
        "with its confidence; limitations",
    ),
    (r"odd", "outlier"),
    (r"wants?|for want of", "needs, waits for"),
    (r"teeth|tooth|a saw|saws", "cycles, sawtooth"),
    (r"traps?", "uprobes, breakpoints"),
    (r"judg(e|es|ed|ing|ement)", "classify, evaluate"),
    (r"anew", "again"),
    (r"wish for", "run-queue wait"),
    (
        r"(an?|one|each|every|no|last|first|next|many|few|of|\d+|\{\}|\{\w+\}) looks?",
        "sample, snapshot",
    ),
];

fn banned() -> Regex {
    let words: Vec<&str> = BANNED.iter().map(|(word, _)| *word).collect();
    Regex::new(&format!(r"(?i)\b(?:{})\b", words.join("|"))).expect("constant")
}

fn instead(found: &str) -> &'static str {
    let whole = |word: &str| Regex::new(&format!(r"(?i)^(?:{word})$")).expect("constant");
    let entry = BANNED.iter().find(|(word, _)| whole(word).is_match(found));
    entry.map_or("?", |(_, instead)| instead)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn git_files(patterns: &[&str]) -> Vec<String> {
    let mut git = Command::new("git");
    let listed = git
        .arg("ls-files")
        .args(patterns)
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.expect("git runs").stdout).expect("text");
    listed.lines().map(str::to_owned).collect()
}

/// Prose of a page: no blocks of code, no `spans`, no addresses of links.
fn prose(page: &str) -> String {
    let outside: Vec<&str> = page.split("```").step_by(2).collect();
    let code = Regex::new(r"`[^`\n]*`|\]\([^)]*\)").expect("constant");
    code.replace_all(&outside.join("\n"), " ").into_owned()
}

/// The string literals of a source that a person may read: those with a space, before the tests of the file.
fn messages(source: &str) -> String {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    let lines = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = lines.collect();
    let literal = Regex::new(r#""((?:[^"\\]|\\.|\\\n)*)""#).expect("constant");
    let code = code.join("\n");
    let found = literal
        .captures_iter(&code)
        .map(|found| found[1].to_owned());
    found
        .filter(|text| text.contains(' '))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every file that people read, with the part of it that they read.
fn texts() -> Vec<(String, String)> {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_default();
    let pages = git_files(&["README.md", "CHANGELOG.md", "docs/*.md"]);
    let pages = pages
        .into_iter()
        .map(|name| (name.clone(), prose(&read(&name))));
    let sources = git_files(&["highwater/src/*.rs", "crates/*/src/*.rs"]);
    let sources = sources.into_iter().filter(|name| !name.contains("test"));
    let sources = sources.map(|name| (name.clone(), messages(&read(&name))));
    pages.chain(sources).collect()
}

fn counted() -> BTreeMap<String, usize> {
    let banned = banned();
    let counts = texts()
        .into_iter()
        .map(|(name, text)| (name, banned.find_iter(&text).count()));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn list() -> PathBuf {
    root().join("highwater/tests/words/allowed.txt")
}

fn allowed() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(list()).expect("the allow-list");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(count, name)| (name.to_owned(), count.parse().expect("a count")))
        .collect()
}

#[test]
fn private_words_become_fewer() {
    let (now, before) = (counted(), allowed());
    let banned = banned();
    let more: Vec<String> = texts()
        .iter()
        .filter(|(name, _)| now.get(name) > before.get(name))
        .flat_map(|(name, text)| {
            let found = banned.find_iter(text).map(|found| found.as_str());
            let lines = found.map(|word| format!("{name}: {word:?}: {}", instead(word)));
            lines.collect::<Vec<_>>()
        })
        .collect();
    assert!(
        more.is_empty(),
        "say it in the field's words:\n{}",
        more.join("\n")
    );
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        let lines: Vec<String> = now
            .iter()
            .map(|(name, count)| format!("{count} {name}\n"))
            .collect();
        fs::write(list(), lines.concat()).expect("written");
        return;
    }
    let fewer = before
        .iter()
        .filter(|(name, count)| now.get(*name).copied().unwrap_or(0) < **count);
    let fewer: Vec<&String> = fewer.map(|(name, _)| name).collect();
    assert!(
        fewer.is_empty(),
        "these have fewer now; `HIGHWATER_BLESS=1 cargo test -p highwater --test words` lowers the list: {fewer:?}"
    );
}

#[test]
fn help_has_no_private_word() {
    fn read(command: &mut clap::Command, found: &mut Vec<String>) {
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        found.extend(banned().find_iter(&help).map(|word| {
            format!(
                "{name} --help: {:?}: {}",
                word.as_str(),
                instead(word.as_str())
            )
        }));
        for inner in command
            .get_subcommands_mut()
            .filter(|inner| !inner.is_hide_set())
        {
            read(inner, found);
        }
    }
    let mut found = Vec::new();
    read(&mut Cli::command(), &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_reader_of_messages_and_pages_reads_what_people_read() {
    let source =
        "// \"nobody is told\"\nlet x = \"nobody is told\";\n#[cfg(test)]\nmod tests { \"a saw\" }";
    assert_eq!(messages(source), "nobody is told");
    let page = "Nobody `judges` [it](a/odd.md).\n```\nhonest\n```\n";
    let found: Vec<String> = banned()
        .find_iter(&prose(page))
        .map(|m| m.as_str().to_owned())
        .collect();
    assert_eq!(found, ["Nobody"]);
    assert_eq!(instead("a saw"), "cycles, sawtooth");
}

//! What the book promises: every command line in it is one that the command takes, every option of every command is in
//! its page, every page is in the table of contents, every link and anchor exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use highwater::cli::Cli;

/// The page of each command.
const PAGES: &[(&str, &str)] = &[
    ("run", "docs/reference/run.md"),
    ("report", "docs/reference/report.md"),
    ("doctor", "docs/reference/doctor.md"),
    ("allocators", "docs/reference/allocators.md"),
    ("log", "docs/reference/log.md"),
    ("observe", "docs/reference/observe.md"),
    ("adopt", "docs/reference/adopt.md"),
    ("revert", "docs/reference/adopt.md"),
    ("verdict", "docs/reference/verdict.md"),
    ("explain", "docs/reference/explain.md"),
    ("stalls", "docs/reference/stalls.md"),
    ("record", "docs/reference/replay.md"),
    ("replay", "docs/reference/replay.md"),
    ("trace", "docs/reference/replay.md"),
    ("init", "docs/reference/init.md"),
    ("completions", "docs/reference/shell.md"),
    ("man", "docs/reference/shell.md"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_path_buf()
}

/// Every Markdown file that git knows, and its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "*.md"]).current_dir(root()).output();
    let listed = String::from_utf8(listed.expect("git runs").stdout).expect("text");
    let pages: Vec<_> = listed
        .lines()
        .map(|name| {
            let path = root().join(name);
            let text = fs::read_to_string(&path).expect("a page");
            (path, text)
        })
        .collect();
    assert!(
        pages.len() > 20,
        "only {} pages: is this a checkout?",
        pages.len()
    );
    pages
}

fn options_of(verb: &clap::Command, found: &mut BTreeSet<String>) {
    let shown = verb
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    found.extend(shown.filter_map(|argument| argument.get_long().map(|long| format!("--{long}"))));
    for inner in verb.get_subcommands() {
        options_of(inner, found);
    }
}

#[test]
fn every_option_stands_in_the_page_of_its_verb() {
    let mut missing = Vec::new();
    for verb in Cli::command()
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
    {
        let name = verb.get_name();
        let page = PAGES.iter().find(|(known, _)| *known == name);
        let Some((_, page)) = page else {
            panic!("{name} has no page; give it one in docs/ and name it here");
        };
        let text = fs::read_to_string(root().join(page)).expect("a page");
        let mut options = BTreeSet::new();
        options_of(verb, &mut options);
        let absent = options
            .into_iter()
            .filter(|option| !text.contains(option.as_str()));
        missing.extend(absent.map(|option| format!("{page}: {option} of {name}")));
    }
    assert!(
        missing.is_empty(),
        "not documented:\n{}",
        missing.join("\n")
    );
}

/// Whatever a person can type has words in its help.
#[test]
fn nothing_in_the_help_is_without_words() {
    fn walk(verb: &clap::Command, silent: &mut Vec<String>) {
        for argument in verb
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
        {
            if argument
                .get_help()
                .is_none_or(|help| help.to_string().is_empty())
            {
                silent.push(format!("{} {}", verb.get_name(), argument.get_id()));
            }
        }
        for inner in verb.get_subcommands() {
            walk(inner, silent);
        }
    }
    let mut silent = Vec::new();
    walk(&Cli::command(), &mut silent);
    assert!(silent.is_empty(), "without words: {silent:?}");
}

/// A script must know what an exit code means without reading the source.
#[test]
fn the_help_of_every_verb_names_its_exit_codes() {
    let prints_only = ["completions", "man"];
    let verbs = Cli::command();
    let named = |verb: &&clap::Command| {
        let help = verb.get_after_help().map(ToString::to_string);
        help.is_some_and(|help| help.contains("Exit codes: "))
    };
    let silent: Vec<&str> = verbs
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && !prints_only.contains(&verb.get_name()))
        .filter(|verb| !named(verb))
        .map(clap::Command::get_name)
        .collect();
    assert!(silent.is_empty(), "without exit codes: {silent:?}");
}

/// A line of a block as it is typed, if it calls highwater: without the prompt and the remark beside it.
fn typed(line: &str) -> Option<String> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    // The footer of a report, a synopsis with optional parts, and a line that goes on are no calls.
    let is_call = line.starts_with("highwater ") && !line.starts_with("highwater itself:");
    if !is_call || line.contains('[') || line.contains("...") || line.ends_with('\\') {
        return None;
    }
    // Two spaces start a remark; the rest of a pipeline is the shell's.
    let ends = ["  ", " > ", " 2>", "; ", " | ", " && "];
    let end = ends.iter().filter_map(|end| line.find(end)).min();
    let substituted = regex::Regex::new(r"\$\([^)]*\)").expect("constant");
    let call = substituted.replace_all(&line[..end.unwrap_or(line.len())], "4242");
    Some(call.replace(" PID", " 4242"))
}

/// The command lines in the blocks of a page.
fn command_lines(text: &str) -> Vec<String> {
    // A block with a tree of processes is none of commands.
    let blocks = text.split("```").skip(1).step_by(2);
    let blocks = blocks.filter(|block| !block.contains("|--"));
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    lines.filter_map(typed).collect()
}

#[test]
fn a_command_line_is_found_in_what_is_shown() {
    let text = "```\n$ sudo highwater explain --pid $(pgrep -x a) --json | head -4\nhighwater itself: 1 %\n```\n";
    assert_eq!(command_lines(text), ["highwater explain --pid 4242 --json"]);
    assert_eq!(typed("highwater run [OPTIONS] FILE"), None);
}

/// Every page of the book is in its table of contents, once.
#[test]
fn the_table_of_contents_has_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("a page");
    let link = regex::Regex::new(r"\]\(([^)]+)\)").expect("constant");
    let mut listed: Vec<PathBuf> = link
        .captures_iter(&summary)
        .map(|found| root().join("docs").join(&found[1]))
        .collect();
    let folder = root().join("docs");
    let book = pages().into_iter().map(|(path, _)| path);
    let book = book.filter(|path| path.starts_with(&folder) && !path.ends_with("SUMMARY.md"));
    let mut there: Vec<PathBuf> = book.collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}

/// A page of the book starts with a block in its first lines, which starts with a command.
#[test]
fn every_page_starts_with_a_command() {
    let folder = root().join("docs");
    let book = pages()
        .into_iter()
        .filter(|(path, _)| path.starts_with(&folder));
    let silent: Vec<String> = book
        .filter(|(path, _)| !path.ends_with("SUMMARY.md"))
        .filter(|(_, text)| {
            let mut lines = text
                .lines()
                .take(7)
                .skip_while(|line| !line.starts_with("```"));
            let shown = lines.nth(1).unwrap_or_default();
            !(shown.starts_with("$ ") || shown.starts_with("highwater "))
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "no command at the top: {silent:?}");
}

#[test]
fn every_command_line_is_one_that_the_command_takes() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (path, text) in pages() {
        for line in command_lines(&text) {
            let words = shlex::split(line.split(" # ").next().unwrap_or(&line));
            let words = words.unwrap_or_else(|| panic!("{}: {line}", path.display()));
            tried += 1;
            if let Err(error) = Cli::command().try_get_matches_from(words) {
                let first = error
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                wrong.push(format!("{}: {line}\n    {first}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "refused:\n{}", wrong.join("\n"));
    assert!(tried > 60, "only {tried} command lines found");
}

/// As GitHub makes them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// How a page of the book links to a file that is not in it.
const REPOSITORY: &str = "https://github.com/highwater-rs/highwater/blob/main/";

/// Without `..`.
fn normal(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[test]
fn every_link_leads_somewhere() {
    let book = normal(&root().join("docs"));
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").expect("constant");
    let (mut dead, mut followed) = (Vec::new(), 0);
    for (path, text) in pages() {
        // Outside of blocks of code only.
        let prose: Vec<&str> = text.split("```").step_by(2).collect();
        for target in prose.iter().flat_map(|part| link.captures_iter(part)) {
            let target = &target[1];
            let ours = target.strip_prefix(REPOSITORY);
            if ours.is_none() && target.contains("://") {
                continue;
            }
            followed += 1;
            let target = ours.unwrap_or(target);
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there = match (ours, file) {
                (Some(_), file) => root().join(file),
                (None, "") => path.clone(),
                (None, file) => path.parent().expect("a folder").join(file),
            };
            // As web pages the book holds what is below docs/, and nothing else.
            let leaves =
                ours.is_none() && normal(&path).starts_with(&book) && file.starts_with("..");
            if leaves && !normal(&there).starts_with(&book) {
                dead.push(format!(
                    "{}: {target}: leaves the book; link to {REPOSITORY}",
                    path.display()
                ));
            }
            let is_dead = match (there.exists(), anchor) {
                (false, _) => true,
                (true, "") => false,
                (true, anchor) => {
                    !fs::read_to_string(&there).is_ok_and(|text| anchors(&text).contains(anchor))
                }
            };
            if is_dead {
                dead.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(followed > 40, "only {followed} links found");
}

//! What the pages promise: every command line in them is one that the command takes, every option of every verb stands in
//! its page, every link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use highwater::cli::Cli;

/// The page of each verb; `init` and those of the shell stand with what they are for.
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
    ("init", "docs/reference/experiment-file.md"),
    ("completions", "README.md"),
    ("man", "README.md"),
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
    fn look(verb: &clap::Command, silent: &mut Vec<String>) {
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
            look(inner, silent);
        }
    }
    let mut silent = Vec::new();
    look(&Cli::command(), &mut silent);
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

/// The command lines in the blocks of a page, without the remark beside each.
fn command_lines(text: &str) -> Vec<String> {
    // A block with a tree of processes is none of commands.
    let blocks = text.split("```").skip(1).step_by(2);
    let blocks = blocks.filter(|block| !block.contains("|--"));
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    let ours = lines.filter(|line| line.starts_with("highwater ") && !line.ends_with('\\'));
    ours.map(|line| {
        // Two spaces begin a remark; a pipe and a redirection are the shell's.
        let typed = line.split("  ").next().unwrap_or(line);
        let typed = typed.split(" > ").next().unwrap_or(typed);
        typed.replace(" PID", " 4242")
    })
    .filter(|line| !line.contains(" | "))
    .collect()
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

#[test]
fn every_link_leads_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").expect("constant");
    let (mut dead, mut followed) = (Vec::new(), 0);
    for (path, text) in pages() {
        // Outside of blocks of code only.
        let prose: Vec<&str> = text.split("```").step_by(2).collect();
        for target in prose.iter().flat_map(|part| link.captures_iter(part)) {
            let target = &target[1];
            if target.contains("://") {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => path.clone(),
                file => path.parent().expect("a folder").join(file),
            };
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

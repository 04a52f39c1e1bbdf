//! Plain English in names: words that the style guide replaces stand in no identifier, but for those that `names.txt`
//! counts. A count there may only fall, as in `allowed.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;

use crate::{git_files, root};

/// Parts of identifiers, in lower case.
const BANNED: &[&str] = &[
    "look",
    "looks",
    "looked",
    "looker",
    "looking",
    "glance",
    "inhabitant",
    "inhabitants",
    "doubts",
    "mended",
    "whoever",
    "seldom",
    "beneath",
];

/// The words of an identifier: `lastLook_at` is last, look, at.
fn words(word: &Regex, identifier: &str) -> Vec<String> {
    word.find_iter(identifier)
        .map(|found| found.as_str().to_lowercase())
        .collect()
}

/// Identifiers of a source with a banned word, one for each place.
fn found(source: &str) -> Vec<String> {
    let aside = Regex::new(r#"//[^\n]*|'"'|"(?:[^"\\]|\\.|\\\n)*""#).expect("constant");
    let code = aside.replace_all(source, " ");
    let identifier = Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").expect("constant");
    let word = Regex::new(r"[A-Z]?[a-z]+|[A-Z]+").expect("constant");
    identifier
        .find_iter(&code)
        .map(|name| name.as_str().to_owned())
        .filter(|name| {
            words(&word, name)
                .iter()
                .any(|word| BANNED.contains(&word.as_str()))
        })
        .collect()
}

fn counted() -> (BTreeMap<String, usize>, BTreeSet<String>) {
    let (mut counts, mut names) = (BTreeMap::new(), BTreeSet::new());
    for file in git_files(&["crates/*.rs", "highwater/*.rs", "probe/*.rs", "alloc/*.rs"]) {
        let source = fs::read_to_string(root().join(&file)).unwrap_or_default();
        let here = found(&source);
        if !here.is_empty() {
            counts.insert(file.clone(), here.len());
            names.extend(here.into_iter().map(|name| format!("{file}: {name}")));
        }
    }
    (counts, names)
}

#[test]
fn private_words_in_names_become_fewer() {
    let list = root().join("highwater/tests/words/names.txt");
    let text = fs::read_to_string(&list).expect("the allow-list");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let before: BTreeMap<String, usize> = lines
        .map(|(count, file)| (file.to_owned(), count.parse().expect("a count")))
        .collect();
    let (now, names) = counted();
    let more = now
        .iter()
        .any(|(file, count)| before.get(file).is_none_or(|most| count > most));
    assert!(!more, "name it in the field's words: {names:#?}");
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        let lines = now.iter().map(|(file, count)| format!("{count} {file}\n"));
        fs::write(&list, lines.collect::<String>()).expect("written");
        return;
    }
    assert_eq!(
        now, before,
        "fewer now: `HIGHWATER_BLESS=1 cargo test -p highwater --test words` lowers the list"
    );
}

#[test]
fn names_are_read_by_their_words() {
    let source = "// look\nlet lookup = \"look\"; fn last_look() -> HeapLook { LOOKS_MIN }";
    assert_eq!(found(source), ["last_look", "HeapLook", "LOOKS_MIN"]);
}

//! `THIRD-PARTY-NOTICES`: what cargo knows, with the texts that licences want beside a program, behind what it does not
//! know, which `by_hand.txt` holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::tree::{Package, Tree};
use super::{read, root};

const BY_HAND: &str = "highwater/tests/licences/by_hand.txt";

/// Texts of what crates carry along, which their own licence field does not name.
const CARRIED: &[(&str, &str)] = &[
    ("dejavu", "assets/dejavu-fonts-ttf-2.37/LICENSE"),
    ("ring", "third_party/fiat/LICENSE"),
];

pub fn render(tree: &Tree) -> String {
    let mut text = read(BY_HAND);
    let (shipped, others): (Vec<_>, Vec<_>) = tree.foreign().partition(|p| tree.is_shipped(p));
    text += "\n\nCrates in highwater's programs\n==============================\n\n";
    shipped.iter().for_each(|package| text += &line(package));
    text += "\n\nCrates that only tests, builds and subjects use\n";
    text += "===============================================\n\n";
    others.iter().for_each(|package| text += &line(package));
    text += "\n\nLicence texts\n=============\n\n";
    text += "Of the crates in highwater's programs that do not offer Apache-2.0, whose text is the file LICENSE.\n";
    for (licence, crates) in texts(&shipped) {
        text += &format!("\n{:-<80}\n{}\n\n{licence}\n", "", crates.join(", "));
    }
    text
}

/// Name, version, licence, and where its source is.
fn line(package: &Package) -> String {
    let licence = package.license.as_deref().unwrap_or("no licence");
    let authors = package.authors.join(", ");
    let source = package.repository.as_deref().unwrap_or(&authors);
    format!("{package}: {licence}; {source}\n")
}

/// Each text once, with the crates that have it.
fn texts(packages: &[&Package]) -> Vec<(String, Vec<String>)> {
    let mut crates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        for text in texts_of(package) {
            crates.entry(text).or_default().push(package.to_string());
        }
    }
    let vendored = read("crates/report/src/html/vendor/uPlot.LICENSE");
    crates.insert(tidied(&vendored), vec!["uPlot".to_owned()]);
    let mut texts: Vec<_> = crates.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    texts
}

fn texts_of(package: &Package) -> Vec<String> {
    let carried = CARRIED.iter().filter(|(name, _)| *name == package.name);
    let mut files: Vec<String> = carried.map(|(_, file)| (*file).to_owned()).collect();
    let licence = package.license.as_deref().unwrap_or_default();
    // A choice that is Apache-2.0 wants no text but that one. ("(MIT OR Apache-2.0) AND Unicode-3.0" is no choice.)
    let offers_apache = super::expression::holds(licence, &|id| id == "Apache-2.0") == Some(true);
    if !offers_apache {
        files.extend(licence_files(&package.folder));
    }
    let read = |file: &String| fs::read(package.folder.join(file)).expect("a licence file");
    let mut texts: Vec<String> = files
        .iter()
        .map(|file| tidied(&String::from_utf8_lossy(&read(file))))
        // What was a link in the crate's repository is a path here.
        .filter(|text| text.lines().count() > 1)
        .collect();
    if texts.is_empty() && !offers_apache {
        assert_eq!(licence, "MIT", "{package} has no licence file");
        texts.push(mit_of(package));
    }
    texts
}

/// The MIT licence with the authors' names, for crates that have no file of it.
fn mit_of(package: &Package) -> String {
    let holder = match package.authors.is_empty() {
        true => format!("the authors of {}", package.name),
        false => package.authors.join(", "),
    };
    let text = read("LICENSES/MIT.txt");
    tidied(&text.replace("the copyright holders", &holder))
}

/// Files beside the manifest, without those of a licence that is not the one chosen.
fn licence_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the crate's folder").flatten();
    let mut files: Vec<String> = entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            ["LICEN", "COPYRIGHT", "NOTICE"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .filter(|name| !name.starts_with("LICENSE-APACHE"))
        .collect();
    files.sort();
    files
}

/// Without trailing blanks and form feeds, which editors take away.
fn tidied(text: &str) -> String {
    let lines: Vec<&str> = text
        .trim_matches('\u{feff}')
        .lines()
        .map(str::trim_end)
        .collect();
    lines.join("\n").replace('\u{c}', "").trim().to_owned()
}

/// Every Go module, vendored file and optional allocator is named in the part that is written by hand.
pub fn check_by_hand(optional: &[(String, String)]) {
    let text = read(BY_HAND);
    let mut missing: Vec<String> = Vec::new();
    let mut want = |what: String| {
        if !text.lines().any(|line| line.starts_with(&what)) {
            missing.push(what);
        }
    };
    for (name, version) in optional {
        want(format!("{name} {version}"));
    }
    for module in ["grpcmem", "prometheus", "reedsolomon"] {
        for (name, version) in required(&read(&format!("slab/{module}/go.mod"))) {
            want(format!("{name} {version}"));
        }
    }
    for entry in fs::read_dir(root().join("crates/report/src/html/vendor")).expect("a folder") {
        let name = entry.expect("a file").file_name();
        let name = name.to_string_lossy();
        if name != "README.md" {
            want(name.split('.').next().expect("a name").to_owned());
        }
    }
    assert!(missing.is_empty(), "{BY_HAND} lacks {missing:#?}");
}

/// The modules that a go.mod requires, without our own.
fn required(go_mod: &str) -> Vec<(&str, &str)> {
    let lines = go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require "));
    let pairs = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    let is_foreign = |(name, version): &(&str, &str)| {
        name.contains('/') && version.starts_with('v') && !name.contains("/highwater/")
    };
    pairs.filter(is_foreign).collect()
}

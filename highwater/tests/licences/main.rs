//! The supply chain, without anything to install: every dependency has a licence that `deny.toml` allows, one version,
//! and comes from crates.io; `THIRD-PARTY-NOTICES` is what the tree says today.
//!
//! `HIGHWATER_BLESS=1 cargo test -p highwater --test licences` writes the notices anew.

mod ebpf;
mod expression;
mod notices;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tree::Tree;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("the workspace").to_path_buf()
}

pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn deny() -> toml::Table {
    read("deny.toml").parse().expect("deny.toml")
}

fn words(list: &toml::Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|word| word.as_str().expect("a word").to_owned())
        .collect()
}

/// The tree that cargo resolved. Without a network some crates may be absent, and the skip is printed; any other
/// error of cargo is a fault of ours (a lock file that does not fit the manifests).
fn tree() -> Option<Tree> {
    let of_network = [
        "failed to download",
        "spurious network",
        "Could not resolve",
    ];
    match Tree::read() {
        Ok(tree) => Some(tree),
        Err(why) => {
            let is_of_network = of_network.iter().any(|words| why.contains(words));
            assert!(is_of_network, "cargo metadata: {why}");
            testkit::skipped(&format!("cargo metadata: {why}"));
            None
        }
    }
}

#[test]
fn every_licence_is_allowed() {
    let Some(tree) = tree() else { return };
    let licences = &deny()["licenses"];
    let everywhere = words(&licences["allow"]);
    let exceptions = licences["exceptions"].as_array().expect("a list");
    let excepted = |name: &str| {
        let of_crate = |e: &&toml::Value| e["crate"].as_str() == Some(name);
        let exception = exceptions.iter().find(of_crate);
        exception.map_or(Vec::new(), |e| words(&e["allow"]))
    };
    let mut faults = Vec::new();
    for package in tree.foreign() {
        let more = excepted(&package.name);
        let allowed = |id: &str| everywhere.iter().chain(&more).any(|known| known == id);
        let text = package.license.as_deref().unwrap_or("");
        if expression::holds(text, &allowed) != Some(true) {
            faults.push(format!("{package}: {text:?}"));
        }
    }
    assert!(
        faults.is_empty(),
        "replace the crate, or allow its licence in deny.toml with a reason:\n{}",
        faults.join("\n")
    );
    for exception in exceptions {
        let name = exception["crate"].as_str().expect("a name");
        let is_there = tree.foreign().any(|package| package.name == name);
        assert!(is_there, "{name} is gone: take its exception out");
    }
}

#[test]
fn a_second_version_of_a_crate_has_a_reason() {
    let Some(tree) = tree() else { return };
    let deny = deny();
    let skips = deny["bans"]["skip"].as_array().expect("a list").iter();
    let skips: BTreeSet<&str> = skips
        .inspect(|skip| assert!(skip["reason"].as_str().is_some(), "{skip}: no reason"))
        .map(|skip| skip["crate"].as_str().expect("a crate"))
        .collect();
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in tree.foreign() {
        let all = versions.entry(&package.name).or_default();
        all.push(format!("{}@{}", package.name, package.version));
    }
    versions.retain(|_, all| all.len() > 1);
    let unstated: Vec<&Vec<String>> = versions
        .values()
        .filter(|all| {
            all.iter()
                .filter(|one| !skips.contains(one.as_str()))
                .count()
                > 1
        })
        .collect();
    assert!(unstated.is_empty(), "no skip in deny.toml: {unstated:?}");
    let needed: BTreeSet<&str> = versions.values().flatten().map(String::as_str).collect();
    let stale: Vec<_> = skips.difference(&needed).collect();
    assert!(stale.is_empty(), "no longer needed: {stale:?}");
}

/// Of every lock file: those of benchmarks and fuzzers too.
#[test]
fn every_crate_comes_from_crates_io() {
    let mut git = Command::new("git");
    let listed = git
        .args(["ls-files", "*Cargo.lock"])
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.expect("git runs").stdout).expect("text");
    assert!(listed.lines().any(|name| name == "Cargo.lock"), "{listed}");
    let mut faults = Vec::new();
    for name in listed.lines() {
        let lock: toml::Table = read(name).parse().expect(name);
        let packages = lock.get("package").and_then(|packages| packages.as_array());
        for package in packages.into_iter().flatten() {
            let Some(source) = package.get("source").and_then(|source| source.as_str()) else {
                continue; // a path: ours
            };
            if source != CRATES_IO || package.get("checksum").is_none() {
                faults.push(format!("{name}: {}: {source}", package["name"]));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn third_party_notices_are_those_of_the_tree() {
    let Some(tree) = tree() else { return };
    let file = "THIRD-PARTY-NOTICES";
    let now = notices::render(&tree);
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        fs::write(root().join(file), &now).expect("written");
    }
    let kept = read(file);
    let differ = |(kept, now): (&str, &str)| (kept != now).then(|| format!("- {kept}\n+ {now}"));
    let first = kept.lines().zip(now.lines()).find_map(differ);
    assert!(
        kept == now,
        "{file} is stale; HIGHWATER_BLESS=1 cargo test -p highwater --test licences\n{}",
        first.unwrap_or_default()
    );
}

#[test]
fn what_cargo_does_not_know_is_in_the_notices() {
    notices::check_by_hand(&tree().map_or(Vec::new(), |tree| tree.optional("highwater-alloc")));
}

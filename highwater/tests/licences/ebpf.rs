//! The licence that the eBPF programs declare to the kernel is the licence of the files that assemble them.

use std::fs;
use std::path::Path;

use super::{read, root};

const EBPF: &str = "crates/bpf/src/load.rs";
const EXPRESSION: &str = "Apache-2.0 OR MIT OR GPL-2.0-only";

/// The files below a folder that assemble eBPF instructions, from the workspace's root.
fn assemblers(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            assemblers(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            if text.contains("insn::{") || path.ends_with("bpf/src/insn.rs") {
                let name = path.strip_prefix(root()).expect("below the root");
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
}

#[test]
fn the_licence_that_the_kernel_is_given_is_that_of_the_sources() {
    assert!(read(EBPF).contains("c\"Dual MIT/GPL\""), "{EBPF}");
    let reuse: toml::Table = read("REUSE.toml").parse().expect("REUSE.toml");
    let tables = reuse["annotations"].as_array().expect("a list");
    let is_dual =
        |table: &&toml::Value| table["SPDX-License-Identifier"].as_str() == Some(EXPRESSION);
    let table = tables.iter().find(is_dual).expect("the programs' table");
    let mut named = super::words(&table["path"]);
    named.sort();
    let mut found = Vec::new();
    assemblers(&root().join("crates"), &mut found);
    assert_eq!(
        named, found,
        "REUSE.toml and the files that assemble programs"
    );
    for id in EXPRESSION.split(" OR ") {
        let file = format!("LICENSES/{id}.txt");
        assert!(read(&file).lines().count() > 10, "{file}");
    }
}

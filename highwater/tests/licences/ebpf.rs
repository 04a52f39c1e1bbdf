//! The licence that the eBPF programs declare to the kernel is the licence of their sources and objects.

use super::{read, root};

const DECLARES: &str = "crates/bpf/programs/bpf.h";
const EXPRESSION: &str = "Apache-2.0 OR MIT OR GPL-2.0-only";

#[test]
fn the_licence_that_the_kernel_is_given_is_that_of_the_sources() {
    assert!(
        read(DECLARES).contains("SEC(\"license\") = \"Dual MIT/GPL\""),
        "{DECLARES}"
    );
    let reuse: toml::Table = read("REUSE.toml").parse().expect("REUSE.toml");
    let tables = reuse["annotations"].as_array().expect("a list");
    let is_dual =
        |table: &&toml::Value| table["SPDX-License-Identifier"].as_str() == Some(EXPRESSION);
    let table = tables.iter().find(is_dual).expect("the programs' table");
    let paths = ["crates/bpf/programs/**", "crates/bpf/objects/**"];
    assert_eq!(super::words(&table["path"]), paths);
    let programs = std::fs::read_dir(root().join("crates/bpf/programs")).expect("a folder");
    let sources = programs
        .map(|entry| entry.expect("a file").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "c" || extension == "h")
        });
    let mut count = 0;
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("a source");
        let line = format!("/* SPDX-License-Identifier: {EXPRESSION} */");
        assert_eq!(text.lines().next(), Some(&*line), "{}", source.display());
        count += 1;
    }
    assert!(count >= 4, "{count} sources");
    for id in EXPRESSION.split(" OR ") {
        let file = format!("LICENSES/{id}.txt");
        assert!(read(&file).lines().count() > 10, "{file}");
    }
}

//! Circles of imports between the files of a crate: each file of one can be understood only with all others. How many
//! files are in circles has a limit for each crate, which may only fall.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of sources, and how many of their files may be in circles.
const LIMITS: &[(&str, usize)] = &[
    ("highwater/src", 0),
    ("crates/units/src", 0),
    ("crates/experiment/src", 0),
    ("crates/allocators/src", 0),
    ("crates/observe/src", 0),
    ("crates/symbols/src", 0),
    ("crates/bpf/src", 0),
    ("crates/import/src", 0),
    ("crates/oom/src", 0),
    ("crates/trace/src", 0),
    ("crates/replay/src", 0),
    ("crates/heap/src", 0),
    ("crates/runtimes/src", 0),
    ("crates/sched/src", 0),
    ("crates/record/src", 0),
    ("crates/series/src", 0),
    ("crates/memory/src", 0),
    ("crates/stalls/src", 0),
    ("crates/verdict/src", 0),
    ("crates/report/src", 0),
    ("crates/rollout/src", 0),
    ("crates/testkit/src", 0),
    ("alloc/src", 4),
    ("probe/abi/src", 0),
    ("probe/heap/src", 0),
    ("probe/preload/src", 4),
    ("probe/sampler/src", 0),
    ("probe/trace-abi/src", 0),
    ("replayer/src", 0),
    ("guests/src", 0),
    ("load/src", 0),
];

/// A file by its path in the crate; what it imports.
type Graph = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

#[test]
fn files_in_circles_do_not_become_more() {
    let mut faults = Vec::new();
    for (folder, limit) in LIMITS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(folder);
        let circles = circles(&graph(&path));
        let files: usize = circles.iter().map(Vec::len).sum();
        let names: Vec<String> = circles.iter().map(|circle| circle.join(" <-> ")).collect();
        let names = names.join("\n");
        match files.cmp(limit) {
            Ordering::Greater => faults.push(format!(
                "{folder}: {files} files in circles of imports, {limit} allowed; what two files need belongs into a \
                 third:\n{names}"
            )),
            Ordering::Less => faults.push(format!(
                "{folder}: only {files} files in circles; lower the limit of {limit}"
            )),
            Ordering::Equal => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use crate::b::{self, Thing as Other};\n");
    write(
        "b.rs",
        "fn f() { super::c::g() }\n// use crate::a::Thing;\n",
    );
    write("c.rs", "use super::{a, b};\n#[cfg(test)]\nmod tests {}\n");
    assert_eq!(circles(&graph(folder.path())), [["a", "b", "c"]]);
    write("b.rs", "#[cfg(test)]\nmod tests { use super::super::c; }\n");
    assert!(circles(&graph(folder.path())).is_empty());
}

/// Each strongly connected part of more than one file, by name.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut parts: BTreeSet<Vec<String>> = BTreeSet::new();
    let reach: BTreeMap<_, _> = graph
        .keys()
        .map(|file| (file, reached(graph, file)))
        .collect();
    for file in graph.keys() {
        let both = reach[&file]
            .iter()
            .filter(|other| reach[*other].contains(&file));
        let part: Vec<String> = both.map(|other| other.join("::")).collect();
        if part.len() > 1 {
            parts.insert(part);
        }
    }
    parts.into_iter().collect()
}

fn reached<'a>(graph: &'a Graph, from: &'a Vec<String>) -> BTreeSet<&'a Vec<String>> {
    let (mut found, mut queue) = (BTreeSet::new(), vec![from]);
    while let Some(file) = queue.pop() {
        queue.extend(graph[file].iter().filter(|next| found.insert(*next)));
    }
    found
}

/// A folder's own file that only declares modules imports nothing that counts: what it names is below it.
fn graph(root: &Path) -> Graph {
    let mut files = BTreeMap::new();
    walk(root, root, &mut files);
    let imports = |(file, text): (&Vec<String>, &String)| {
        let all = paths(text)
            .into_iter()
            .filter_map(|path| target(file, &path, &files));
        let others = all.filter(|other| !other.is_empty() && !file.starts_with(other));
        (file.clone(), others.collect())
    };
    files.iter().map(imports).collect()
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let inside = path.strip_prefix(root).unwrap().with_extension("");
            let mut name: Vec<String> = inside
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            name.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            files.insert(name, product(&fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Without comments, and without the tests at the end.
fn product(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path that begins with `crate`, `super` or `self`; a group at its end makes several.
fn paths(text: &str) -> Vec<Vec<String>> {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            if at > 0 && is_in_name(text.as_bytes()[at - 1]) {
                continue;
            }
            let rest = &text[at..];
            let end = rest
                .bytes()
                .position(|byte| !is_in_name(byte))
                .unwrap_or(rest.len());
            let path = parts(&rest[..end]);
            match rest[end..]
                .strip_prefix('{')
                .and_then(|group| group.split_once(';'))
            {
                Some((group, _)) if rest[..end].ends_with("::") => {
                    let group = group.replace(['{', '}', '\n'], " ");
                    let each = group.split(',').map(|one| parts(one.trim()));
                    found.extend(each.map(|one| [path.clone(), one].concat()));
                }
                _ => found.push(path),
            }
        }
    }
    found
}

/// The names of a path; of `a as b` those of `a`.
fn parts(path: &str) -> Vec<String> {
    let path = path.split(' ').next().unwrap_or_default();
    let names = path.split("::").filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The file that a path in `file` leads to.
fn target(
    file: &[String],
    path: &[String],
    files: &BTreeMap<Vec<String>, String>,
) -> Option<Vec<String>> {
    let mut place = if path[0] == "crate" {
        Vec::new()
    } else {
        file.to_vec()
    };
    let ups = path
        .iter()
        .take_while(|name| ["crate", "super", "self"].contains(&name.as_str()));
    let ups = ups
        .inspect(|name| {
            if *name == "super" {
                place.pop();
            }
        })
        .count();
    place.extend_from_slice(&path[ups..]);
    while !files.contains_key(&place) {
        place.pop()?;
    }
    Some(place)
}

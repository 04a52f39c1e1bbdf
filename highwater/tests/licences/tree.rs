//! The dependency tree as `cargo metadata` gives it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The tree of one target on every machine, so that the notices are the same everywhere. aarch64 has no crate besides.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: Option<String>,
    pub authors: Vec<String>,
    pub repository: Option<String>,
    pub folder: PathBuf,
    id: String,
    is_ours: bool,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

pub struct Tree {
    /// By name, then version.
    packages: Vec<Package>,
    /// Of the programs that `cargo build` makes: ids of all that is linked into them, or expands their code.
    shipped: BTreeSet<String>,
    metadata: Value,
}

impl Tree {
    /// Offline at first: after a build everything is there.
    pub fn read() -> Result<Tree, String> {
        let text = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
        let metadata: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let ours = ids(&metadata["workspace_members"]);
        let packages = metadata["packages"].as_array().ok_or("no packages")?;
        let mut packages: Vec<Package> = packages.iter().map(|p| package(p, &ours)).collect();
        packages.sort();
        let shipped = linked_into(
            &ids(&metadata["workspace_default_members"]),
            &metadata["resolve"]["nodes"],
        );
        Ok(Tree {
            packages,
            shipped,
            metadata,
        })
    }

    /// Packages of others.
    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| !package.is_ours)
    }

    pub fn is_shipped(&self, package: &Package) -> bool {
        self.shipped.contains(&package.id)
    }

    /// Name and version of each optional dependency of one of our packages.
    pub fn optional(&self, name: &str) -> Vec<(String, String)> {
        let packages = self.metadata["packages"].as_array().into_iter().flatten();
        let ours = packages.filter(|package| package["name"] == name);
        let dependencies = ours.flat_map(|p| p["dependencies"].as_array().into_iter().flatten());
        // Without a source: a path, ours.
        dependencies
            .filter(|d| d["optional"] == true && d["source"].is_string())
            .map(|d| (word(&d["name"]), word(&d["req"]).replace('=', "")))
            .collect()
    }
}

fn metadata(more: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", TARGET])
        .args(more)
        .current_dir(super::root());
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).replace('\n', " ")),
    }
}

fn ids(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(word).collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn package(value: &Value, ours: &BTreeSet<String>) -> Package {
    let id = word(&value["id"]);
    let manifest = PathBuf::from(word(&value["manifest_path"]));
    Package {
        name: word(&value["name"]),
        version: word(&value["version"]),
        license: value["license"].as_str().map(ToOwned::to_owned),
        authors: ids(&value["authors"]).into_iter().collect(),
        repository: value["repository"].as_str().map(ToOwned::to_owned),
        folder: manifest.parent().expect("a folder").to_path_buf(),
        is_ours: ours.contains(&id),
        id,
    }
}

/// What a build script packs into a program: shipped as well.
const PACKED: &str = "dejavu";

/// The roots and their normal dependencies, all the way down.
fn linked_into(roots: &BTreeSet<String>, nodes: &Value) -> BTreeSet<String> {
    let nodes = nodes.as_array().into_iter().flatten();
    let nodes: HashMap<String, &Value> = nodes.map(|node| (word(&node["id"]), node)).collect();
    let is_normal = |dependency: &&Value| {
        let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.any(|kind| kind["kind"].is_null() || dependency["name"] == PACKED)
    };
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = roots.iter().cloned().collect();
    while let Some(id) = open.pop() {
        if let Some(node) = nodes.get(&id).filter(|_| found.insert(id.clone())) {
            let dependencies = node["deps"].as_array().into_iter().flatten();
            open.extend(dependencies.filter(is_normal).map(|d| word(&d["pkg"])));
        }
    }
    found
}

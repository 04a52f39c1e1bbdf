//! What a recipe file says: an allocator of one version, where it comes from, how it is built, what
//! is known about it. Pure data; `allocators/README.md` describes the format for people.

mod route;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use route::*;

/// One file of `allocators/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    /// The upstream version; `system` for what the machine has.
    pub version: String,
    /// One line: what it is, and what is special about this entry.
    pub summary: String,
    /// As the source says it, in SPDX words where they exist.
    pub licence: String,
    /// What the allocator itself can tell about its heap at run time.
    pub statistics: String,
    /// Why it is added only when it is named (a slow build), if so.
    pub opt_in: Option<String>,
    /// Misuse that stops the program instead of corrupting it.
    #[serde(default)]
    pub protections: Vec<String>,
    /// What is known to be wrong with exactly this version: memory is corrupted or lost, or a
    /// program hangs or dies.
    #[serde(default)]
    pub defects: Vec<Defect>,
    /// Where it departs from what C, C++ or POSIX ask for, and no memory is harmed.
    #[serde(default)]
    pub deviations: Vec<Defect>,
    #[serde(default)]
    pub version_proof: VersionProof,
    #[serde(default)]
    pub tunables: Tunables,
    /// Ways to get it; the first that fits the machine is used.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
}

/// A known defect. `id` is a stable word for reports; `text` is one sentence with numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    pub id: String,
    pub text: String,
}

/// How a built library shows that it is the version its recipe claims.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionProof {
    /// Texts that must stand in the library's bytes.
    #[serde(default)]
    pub strings: Vec<String>,
    /// What a program started with it prints on stderr.
    pub says: Option<Says>,
    /// A line of the source that was compiled.
    pub source: Option<SourceText>,
    /// Why none of these is possible.
    pub because: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Says {
    pub environment: BTreeMap<String, String>,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceText {
    /// Relative to the source's folder.
    pub file: String,
    pub text: String,
}

/// What this version reads from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// Whole variables; a `*` at the end of one stands for any rest.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Variables that hold many `key=value`.
    #[serde(default)]
    pub lists: Vec<TunableList>,
    /// Every value is a number: anything else is ignored by the allocator without a word.
    #[serde(default)]
    pub numeric: bool,
}

/// A variable such as `MALLOC_CONF=key:value,key:value`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunableList {
    pub variable: String,
    /// What stands between two pairs.
    pub between: char,
    /// What stands between a key and its value.
    pub assign: char,
    pub keys: Vec<String>,
    /// Keys that exist upstream and are compiled out here, with the reason.
    #[serde(default)]
    pub compiled_out: Vec<String>,
    #[serde(default)]
    pub compiled_out_because: String,
}

/// The system glibc's recipe has this version.
pub const SYSTEM_VERSION: &str = "system";

impl Recipe {
    /// `name@version`, or the bare name of what the machine has.
    pub fn label(&self) -> String {
        if self.is_system() {
            self.name.clone()
        } else {
            format!("{}@{}", self.name, self.version)
        }
    }

    pub fn is_system(&self) -> bool {
        self.version == SYSTEM_VERSION
    }

    /// What is wrong with the recipe itself; empty for a good one. Run over the whole catalogue by
    /// a test, so that a bad file never ships.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.routes.is_empty() {
            faults.push("has no [[route]]".to_owned());
        }
        let named = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._+-".contains(c))
        };
        if !named(&self.name) || !named(&self.version) {
            faults.push(format!("name and version must be plain: {}", self.label()));
        }
        for route in &self.routes {
            route.faults(&mut faults);
        }
        if self.version_proof.is_empty() && !self.is_system() {
            faults.push("version_proof says neither a proof nor `because`".to_owned());
        }
        faults
    }
}

impl VersionProof {
    fn is_empty(&self) -> bool {
        self.strings.is_empty()
            && self.says.is_none()
            && self.source.is_none()
            && self.because.is_none()
    }
}

//! One allocator as `highwater allocators` shows it, and the table of all of them.

use std::path::PathBuf;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::check;
use allocators::{Defect, Library, Loader, Recipe, Report};

/// One allocator in `--json`.
#[derive(Debug, Serialize)]
pub struct Entry {
    pub spec: String,
    pub name: String,
    /// `system`, `installed`, `absent`, `outdated`, `damaged`, `removed`, `unusable`.
    pub state: &'static str,
    /// What is damaged, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    pub version: Option<String>,
    pub path: Option<PathBuf>,
    pub companions: Vec<PathBuf>,
    pub loader: Option<Loader>,
    /// What the last check of exactly these bytes found.
    pub check: Option<Report>,
    /// The package that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PathBuf>,
    /// What was found makes the verb fail.
    #[serde(skip)]
    pub failed: bool,
    pub sha256: Option<String>,
    pub build_id: Option<String>,
    /// Of the library that is there; else of the route that would be taken first.
    pub source: String,
    pub licence: Option<String>,
    pub defects: Vec<Defect>,
    pub deviations: Vec<Defect>,
    pub protections: Vec<String>,
    pub statistics: Option<String>,
    pub version_shown: Option<String>,
    pub compiler: Option<String>,
    pub built_at: Option<String>,
}

impl Entry {
    pub fn of(library: Library) -> Entry {
        let used = library.path.is_some() || library.loader.is_some();
        let state = if used { "installed" } else { "system" };
        Entry {
            state,
            damage: None,
            spec: library.spec,
            name: library.name,
            version: library.version,
            path: library.path,
            companions: library.companions,
            loader: library.loader,
            check: None,
            package: None,
            failed: false,
            sha256: library.sha256,
            build_id: library.build_id,
            source: library.source,
            licence: library.licence,
            defects: library.defects,
            deviations: library.deviations,
            protections: library.protections,
            statistics: library.statistics,
            version_shown: library.version_shown,
            compiler: library.compiler,
            built_at: library.built_at,
        }
    }

    /// A file that cannot be used.
    pub fn refused(spec: &str) -> Entry {
        Entry {
            state: "unusable",
            ..Entry::of(Library::unknown(spec))
        }
    }

    pub fn absent(recipe: &Recipe, state: &'static str) -> Entry {
        let version = Some(recipe.version.clone());
        Entry {
            state,
            version,
            ..Entry::of(Library::described(recipe))
        }
    }
}

/// Every allocator in a row.
pub fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "allocator",
        "state",
        "from",
        "checked",
        "known defects",
        "protections",
        "what its statistics tell",
    ]);
    for entry in entries {
        let defects: Vec<&str> = entry.defects.iter().map(|d| d.id.as_str()).collect();
        let statistics = entry.statistics.as_deref().unwrap_or_default();
        // The commit that crates carry after a `+` is in --json.
        let source = match entry.source.split_once('+') {
            Some((short, _)) if short.starts_with("crate") => short,
            _ => &entry.source,
        };
        table.add_row([
            &entry.spec,
            entry.state,
            source,
            &check::cell(entry.check.as_ref()),
            &defects.join(", "),
            &entry.protections.join(", "),
            statistics.split([':', ';']).next().unwrap_or_default(),
        ]);
    }
    table
}

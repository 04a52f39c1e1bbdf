//! Allocators as pinned, verified, preloadable libraries.
//!
//! In: a name (`mimalloc@2.0.9`, `glibc`, `./lib.so`) and the recipes of `allocators/`. Out: a [`Library`], which an
//! arm preloads and a report describes. Called by: the command, before a run starts and for `highwater allocators`.
//!
//! A [`Spec`] names one; [`ensure`] fetches, builds and verifies it as its recipe says. Adding an allocator to the
//! catalogue is adding a file to `allocators/`.

mod add;
mod build;
mod cache;
mod catalogue;
mod check;
mod elf;
mod environment;
mod library;
mod machine;
mod package;
mod recipe;
mod reproduce;
mod run;
mod source;
mod spec;
mod verify;

pub use add::{Progress, Step};
pub use cache::{CACHE_VARIABLE, Cache, Manifest, State};
pub use catalogue::catalogue;
pub use check::{Answer, Checker, Finding, Outcome, Protection, Report};
pub use elf::{Elf, Libc, misfit, parse_elf};
pub use environment::{Advice, Severity, validate_environment};
pub use library::{Library, Loader};
pub use machine::{Machine, glibc_version};
pub use package::parse_maintainer;
pub use recipe::{Defect, Recipe};
pub use reproduce::Reproducer;
pub use spec::{Spec, SpecError};
pub use verify::read_elf;

use anyhow::Result;

/// The library of a spec if it is ready to use; `None` when it would have to be added first.
///
/// # Errors
/// A damaged cache, with the command that repairs it; a file of the user's own that is missing or
/// cannot be preloaded.
pub fn installed(spec: &Spec) -> Result<Option<Library>> {
    Cache::open()?.installed(spec)
}

/// The library of a spec, added first if it is not there. `progress` hears of each step.
///
/// # Errors
/// Whatever keeps it from being added, with what to do next; nothing half-installed stays.
pub fn ensure(spec: &Spec, progress: Progress<'_>) -> Result<Library> {
    Cache::open()?.ensure(spec, progress)
}

/// What speaks against running on a library, a sentence each: the defects that its recipe knows, else
/// those that the last check of exactly these bytes found.
pub fn known_defects(library: &Library) -> Vec<String> {
    if !library.defects.is_empty() {
        return library.defects.iter().map(|d| d.text.clone()).collect();
    }
    let report = checked(library);
    let words = |f: &Finding| format!("a check found: {} ({}): {}", f.probe, f.about, f.words);
    report.iter().flat_map(Report::defects).map(words).collect()
}

/// Misuse that a library stops, by the names of a check: as the last check of exactly these bytes
/// saw it, else as its recipe has it.
pub fn protections(library: &Library) -> Vec<String> {
    match checked(library) {
        Some(report) => report.stopped().map(|p| p.misuse.clone()).collect(),
        None => library.protections.clone(),
    }
}

/// What the last check of exactly these bytes found, if there was one.
pub fn checked(library: &Library) -> Option<Report> {
    Cache::open().ok()?.checked(library)
}

//! `highwater allocators`: adds, lists and removes the libraries that arms run on.

mod check;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::subject::allocator::{
    CACHE_VARIABLE, Cache, Defect, Library, Loader, Manifest, Recipe, Report, Spec, State, Step,
    catalogue,
};

const SCHEMA: &str = "highwater.allocators/1";
const FAILED_CHECK: u8 = 1;
const USAGE: u8 = 2;
const COULD_NOT: u8 = 4;

/// Fetch, build and verify allocators as preloadable libraries, pinned by version.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    highwater allocators list\n  \
    highwater allocators add mimalloc@2.0.9 jemalloc@5.3.0\n  \
    LD_PRELOAD=$(highwater allocators path mimalloc@2.0.9) ./server\n\n\
    Libraries are kept in the user's cache folder; HIGHWATER_CACHE names another one.")]
pub struct AllocatorsArgs {
    #[command(subcommand)]
    action: Action,
    /// Print JSON (highwater.allocators/1) instead of words
    #[arg(long, global = true)]
    json: bool,
    /// Show no progress
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show every allocator: installed or not, where it comes from, defects, protections
    List,
    /// Fetch, build and verify allocators into the cache
    Add {
        /// Which ones, such as mimalloc@2.0.9
        #[arg(required = true, value_name = "NAME@VERSION")]
        specs: Vec<String>,
        /// Use the route of this client only, where a recipe has several
        #[arg(long, value_name = "CLIENT", value_parser = ["cargo", "apt", "pip"])]
        route: Option<String>,
    },
    /// Try allocators with probes in child processes and keep what is found
    Check {
        #[arg(required = true, value_name = "NAME@VERSION")]
        specs: Vec<String>,
        /// Run these probes only, and keep nothing, such as --only fork,alignment
        #[arg(long, value_name = "PROBES", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Print what to put into LD_PRELOAD
    Path {
        #[arg(value_name = "NAME@VERSION")]
        spec: String,
    },
    /// Take allocators out of the cache
    Remove {
        #[arg(required = true, value_name = "NAME@VERSION")]
        specs: Vec<String>,
    },
}

/// Runs the verb. The exit code is 0 when all was done, 1 when a check found a defect, 2 for a name
/// that is not offered, 4 when
/// something could not be done; its reason is on stderr.
///
/// # Errors
/// Failures before any allocator was looked at, such as a user without a cache folder.
pub fn run(args: &AllocatorsArgs) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let verb = Verb {
        cache,
        json: args.json,
        quiet: args.quiet,
    };
    match &args.action {
        Action::List => verb.list(),
        Action::Add { specs, route } => verb.each(specs, |spec| verb.add(spec, route.as_deref())),
        Action::Check { specs, only } => verb.each(specs, |spec| verb.check(spec, only)),
        Action::Path { spec } => verb.each(std::slice::from_ref(spec), |spec| verb.path(spec)),
        Action::Remove { specs } => verb.each(specs, |spec| verb.remove(spec)),
    }
}

struct Verb {
    cache: Cache,
    json: bool,
    quiet: bool,
}

/// One allocator in `--json`.
#[derive(Debug, Serialize)]
struct Entry {
    spec: String,
    name: String,
    /// `system`, `installed`, `absent`, `outdated`, `damaged`, `removed`.
    state: &'static str,
    /// What is damaged, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    version: Option<String>,
    path: Option<PathBuf>,
    companions: Vec<PathBuf>,
    loader: Option<Loader>,
    /// What the last check of exactly these bytes found.
    check: Option<Report>,
    sha256: Option<String>,
    build_id: Option<String>,
    /// Of the library that is there; else of the route that would be taken first.
    source: String,
    licence: Option<String>,
    defects: Vec<Defect>,
    protections: Vec<String>,
    statistics: Option<String>,
    version_shown: Option<String>,
    compiler: Option<String>,
    built_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    cache: PathBuf,
    allocators: Vec<Entry>,
}

impl Verb {
    /// Does one thing for each spec and goes on after a failure; the worst failure decides.
    fn each(&self, specs: &[String], act: impl Fn(&Spec) -> Result<Entry>) -> Result<ExitCode> {
        // All names first: a slip in the last one is not found after minutes of building.
        let parsed: Vec<_> = specs.iter().map(|text| Spec::parse(text)).collect();
        let mut unknown = false;
        for error in parsed.iter().filter_map(|p| p.as_ref().err()) {
            anstream::eprintln!("highwater: {error}");
            unknown = true;
        }
        if unknown {
            return Ok(ExitCode::from(USAGE));
        }
        let mut entries = Vec::new();
        let mut failed = false;
        for spec in parsed.into_iter().flatten() {
            match act(&spec) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    anstream::eprintln!("highwater: {error:#}");
                    failed = true;
                }
            }
        }
        let defects = entries
            .iter()
            .filter_map(|e| e.check.as_ref())
            .any(|r| r.defects().next().is_some());
        self.print_json(entries)?;
        Ok(match (failed, defects) {
            (true, _) => ExitCode::from(COULD_NOT),
            (false, true) => ExitCode::from(FAILED_CHECK),
            (false, false) => ExitCode::SUCCESS,
        })
    }

    fn print_json(&self, allocators: Vec<Entry>) -> Result<()> {
        if self.json {
            let cache = self.cache.folder().to_owned();
            let answer = Answer {
                schema: SCHEMA,
                cache,
                allocators,
            };
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
        }
        Ok(())
    }

    fn say(&self, words: &str) {
        if !self.json {
            anstream::println!("{words}");
        }
    }

    fn add(&self, spec: &Spec, client: Option<&str>) -> Result<Entry> {
        let bar = self.bar(spec);
        let progress = |step: Step| {
            bar.set_position(step.number());
            bar.set_message(step.to_string());
        };
        let library = match spec {
            Spec::Catalogued(recipe) if !recipe.is_system() => {
                self.cache.add(recipe, client, &progress)
            }
            _ => self.cache.ensure(spec, &progress),
        };
        bar.finish_and_clear();
        let library = library?;
        match (&library.path, &library.loader) {
            (Some(path), _) => self.say(&format!("{spec}  {}  {}", library.source, path.display())),
            (None, Some(loader)) => {
                self.say(&format!(
                    "{spec}  {}  {}",
                    library.source,
                    loader.program.display()
                ));
            }
            (None, None) => self.say(&format!("{spec}  is on this machine already")),
        }
        for defect in &library.defects {
            anstream::eprintln!("highwater: {spec} has a known defect: {}", defect.text);
        }
        Ok(Entry::of(library))
    }

    fn check(&self, spec: &Spec, only: &[String]) -> Result<Entry> {
        let bar = self.bar(spec);
        let library = self
            .cache
            .ensure(spec, &|step| bar.set_message(step.to_string()))?;
        let report = self
            .cache
            .check(&library, only, &|probe| bar.set_message(probe.to_owned()));
        bar.finish_and_clear();
        let report = report?;
        self.say(&check::words(&report));
        Ok(Entry {
            check: Some(report),
            ..Entry::of(library)
        })
    }

    fn bar(&self, spec: &Spec) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(Step::COUNT);
        let style = ProgressStyle::with_template("{prefix} [{bar:12}] {elapsed} {wide_msg}");
        bar.set_style(style.expect("a constant template").progress_chars("=> "));
        bar.set_prefix(spec.to_string());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    fn path(&self, spec: &Spec) -> Result<Entry> {
        let Some(library) = self.cache.installed(spec)? else {
            anyhow::bail!("{spec} is not installed. Add it with: highwater allocators add {spec}");
        };
        match library.preload()? {
            Some(value) => self.say(&value.to_string_lossy()),
            None if library.loader.is_some() => anyhow::bail!(
                "{spec} is a whole C library, which cannot be preloaded; start the program through \
                 its loader: {}",
                library
                    .loader
                    .map(|l| words(&l.prefix(None)))
                    .unwrap_or_default()
            ),
            None if !self.json => anstream::eprintln!(
                "highwater: {spec} is what this machine has: there is nothing to preload"
            ),
            None => {}
        }
        Ok(Entry::of(library))
    }

    fn remove(&self, spec: &Spec) -> Result<Entry> {
        let recipe = match spec {
            Spec::Catalogued(recipe) if !recipe.is_system() => recipe,
            _ => anyhow::bail!("{spec} is not in the cache, so it cannot be removed from it"),
        };
        let was = self.cache.remove(recipe)?;
        self.say(&format!(
            "{spec}  {}",
            if was { "removed" } else { "was not installed" }
        ));
        Ok(Entry::absent(
            recipe,
            if was { "removed" } else { "absent" },
        ))
    }

    fn list(&self) -> Result<ExitCode> {
        let entries = catalogue().iter().map(|recipe| self.entry(recipe));
        let entries = entries.collect::<Result<Vec<Entry>>>()?;
        if self.json {
            self.print_json(entries)?;
        } else {
            anstream::println!("{}", table(&entries));
            anstream::println!(
                "Libraries are kept in {} ({CACHE_VARIABLE} names another folder).",
                self.cache.folder().display()
            );
        }
        Ok(ExitCode::SUCCESS)
    }

    fn entry(&self, recipe: &'static Recipe) -> Result<Entry> {
        if recipe.is_system() {
            let library = self.cache.installed(&Spec::Catalogued(recipe))?;
            let entry = library.map(|library| self.with_check(library));
            return Ok(entry.unwrap_or_else(|| Entry::absent(recipe, "absent")));
        }
        Ok(match self.cache.state(recipe)? {
            State::Absent => Entry::absent(recipe, "absent"),
            State::Outdated => Entry::absent(recipe, "outdated"),
            State::Corrupt(why) => Entry {
                damage: Some(why),
                ..Entry::absent(recipe, "damaged")
            },
            State::Ready(manifest) => self.ready(recipe, *manifest),
        })
    }

    fn ready(&self, recipe: &Recipe, manifest: Manifest) -> Entry {
        self.with_check(Library::built(recipe, manifest, &self.cache))
    }
}

impl Verb {
    fn with_check(&self, library: Library) -> Entry {
        let check = self.cache.checked(&library);
        Entry {
            check,
            ..Entry::of(library)
        }
    }
}

impl Entry {
    fn of(library: Library) -> Entry {
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
            sha256: library.sha256,
            build_id: library.build_id,
            source: library.source,
            licence: library.licence,
            defects: library.defects,
            protections: library.protections,
            statistics: library.statistics,
            version_shown: library.version_shown,
            compiler: library.compiler,
            built_at: library.built_at,
        }
    }

    fn absent(recipe: &Recipe, state: &'static str) -> Entry {
        let version = Some(recipe.version.clone());
        Entry {
            state,
            version,
            ..Entry::of(Library::described(recipe))
        }
    }
}

fn words(words: &[std::ffi::OsString]) -> String {
    words
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn table(entries: &[Entry]) -> Table {
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

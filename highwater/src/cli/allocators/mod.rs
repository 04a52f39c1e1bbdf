//! `highwater allocators`: adds, lists and removes the libraries that arms run on.

mod add;
mod check;
mod dossier;
mod entry;
mod report;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::exit;
use crate::cli::out::{print, say};
use allocators::{
    CACHE_VARIABLE, Cache, Checker, Library, Manifest, Recipe, Spec, State, Step, catalogue,
    parse_maintainer,
};
use entry::{Entry, table};

const SCHEMA: &str = "highwater.allocators/1";

/// Fetch, build and check allocators as preloadable libraries, pinned by version
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater allocators list
  highwater allocators add mimalloc@2.0.9 jemalloc@5.3.0
  LD_PRELOAD=$(highwater allocators path mimalloc@2.0.9) ./server
  highwater allocators check mimalloc@3.0.1 ./my-malloc.so
  highwater allocators report mimalloc@3.0.1 --upstream > bug.md
  highwater allocators package mimalloc@2.1.7 --deb", after_help = "\
Libraries are kept in the user's cache folder; HIGHWATER_CACHE names another one.
Exit codes: 0 done; 1 `check` found a defect; 2 unknown name, or the call is wrong; 4 could not
fetch, build or write.")]
pub struct AllocatorsArgs {
    #[command(subcommand)]
    action: Action,
    /// Print JSON (highwater.allocators/1) instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Print no progress
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every allocator: installed or not, its source, defects, protections
    List,
    /// Fetch, build and verify allocators into the cache
    Add {
        /// Which ones, such as mimalloc@2.0.9
        #[arg(
            required_unless_present = "all",
            conflicts_with = "all",
            value_name = "NAME@VERSION"
        )]
        specs: Vec<String>,
        /// Every allocator that can be built here, except those that build slowly
        #[arg(long)]
        all: bool,
        /// With --all: also those that build slowly
        #[arg(long, requires = "all")]
        slow: bool,
        /// Fetch with this client, where a recipe has several
        #[arg(long, value_name = "CLIENT", value_parser = ["cargo", "apt", "pip"])]
        route: Option<String>,
    },
    /// Test allocators in child processes and keep the result
    Check {
        /// Which ones; a path such as ./my-malloc.so names your own library
        #[arg(required = true, value_name = "NAME@VERSION")]
        specs: Vec<String>,
        /// Fail also for departures from the standards that harm no memory
        #[arg(long)]
        strict: bool,
        /// Run these tests only, such as fork,alignment; the result is not kept
        #[arg(long, value_name = "PROBES", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Print the value for LD_PRELOAD
    Path {
        /// Which one
        #[arg(value_name = "NAME@VERSION")]
        spec: String,
    },
    /// Write what is known of an allocator as Markdown; with --upstream, a bug report for its authors
    Report {
        /// Which one
        #[arg(value_name = "NAME@VERSION")]
        spec: String,
        /// Write a bug report: environment, build ids, smallest reproducer, other versions, commands
        #[arg(long)]
        upstream: bool,
        /// Report on these tests only; they are run again
        #[arg(long, value_name = "PROBES", value_delimiter = ',')]
        only: Vec<String>,
        /// Write to this file instead of standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Build a package that installs an allocator at a stable path
    Package {
        /// Which one
        #[arg(value_name = "NAME@VERSION")]
        spec: String,
        /// A Debian package
        #[arg(long, required = true)]
        deb: bool,
        /// Folder to write to
        #[arg(long, short, value_name = "FOLDER", default_value = ".")]
        output: PathBuf,
        /// Maintainer of the package, as NAME <ADDRESS>
        #[arg(long, value_name = "NAME <ADDRESS>", value_parser = parse_maintainer)]
        maintainer: Option<String>,
    },
    /// Remove allocators from the cache
    Remove {
        /// Which ones
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
        bars: MultiProgress::new(),
    };
    match &args.action {
        Action::List => verb.list(),
        Action::Add {
            specs,
            all,
            slow,
            route,
        } => {
            let specs = if *all {
                verb.offered(*slow)
            } else {
                specs.clone()
            };
            verb.add(&specs, route.as_deref())
        }
        Action::Check {
            specs,
            strict,
            only,
        } => {
            let checker = OnceCell::new();
            verb.each(specs, |spec| {
                // Compiled once, and only when all names are known.
                if checker.get().is_none() {
                    let _ = checker.set(verb.cache.checker(only)?);
                }
                verb.check(spec, checker.get().expect("set above"), *strict)
            })
        }
        Action::Report {
            spec,
            upstream,
            only,
            output,
        } => verb.each(std::slice::from_ref(spec), |spec| {
            verb.report(spec, *upstream, only, output.as_deref())
        }),
        Action::Package {
            spec,
            deb: _,
            output,
            maintainer,
        } => verb.each(std::slice::from_ref(spec), |spec| {
            verb.package(spec, output, maintainer.as_deref())
        }),
        Action::Path { spec } => verb.each(std::slice::from_ref(spec), |spec| verb.path(spec)),
        Action::Remove { specs } => verb.each(specs, |spec| verb.remove(spec)),
    }
}

struct Verb {
    cache: Cache,
    json: bool,
    quiet: bool,
    /// What is under way; lines are written above it.
    bars: MultiProgress,
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
        let Some(specs) = parsed(specs) else {
            return Ok(ExitCode::from(exit::USAGE));
        };
        self.conclude(specs.iter().map(|spec| self.heard(act(spec))).collect())
    }

    /// The entry; `None` after saying why there is none.
    fn heard(&self, done: Result<Entry>) -> Option<Entry> {
        done.inspect_err(|error| self.complain(&crate::cli::chain(error).join(": ")))
            .ok()
    }

    fn complain(&self, words: &str) {
        self.bars.suspend(|| say!("highwater: {words}"));
    }

    /// What was done, as JSON where asked, and the exit code; what failed is `None`.
    fn conclude(&self, done: Vec<Option<Entry>>) -> Result<ExitCode> {
        let failed = done.iter().any(Option::is_none);
        let entries: Vec<Entry> = done.into_iter().flatten().collect();
        let defects = entries.iter().any(|entry| entry.failed);
        self.print_json(entries)?;
        Ok(match (failed, defects) {
            (true, _) => ExitCode::from(exit::COULD_NOT_RUN),
            (false, true) => ExitCode::from(exit::FAILED),
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
            print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
        }
        Ok(())
    }

    /// On stdout, above the bars; nothing where JSON is asked for.
    fn tell(&self, words: &str) -> Result<()> {
        match self.json {
            true => Ok(()),
            false => self.bars.suspend(|| print(&format!("{words}\n"))),
        }
    }

    fn check(&self, spec: &Spec, checker: &Checker<'_>, strict: bool) -> Result<Entry> {
        let bar = self.bar(spec);
        let progress = |probe: &str| bar.set_message(probe.to_owned());
        let (library, report) = match spec {
            Spec::File(path) => checker.check_file(path, &progress)?,
            Spec::Catalogued(_) => {
                let library = self
                    .cache
                    .ensure(spec, &|step| bar.set_message(step.to_string()))?;
                let report = checker.check(&library, &progress)?;
                (Some(library), report)
            }
        };
        bar.finish_and_clear();
        self.tell(&check::words(&report))?;
        let entry = match library {
            Some(library) => Entry::of(library),
            None => Entry::refused(&spec.to_string()),
        };
        Ok(Entry {
            failed: report.defects().next().is_some()
                || strict && report.deviations().next().is_some(),
            check: Some(report),
            ..entry
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
        let bar = self.bars.add(bar);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    fn path(&self, spec: &Spec) -> Result<Entry> {
        let Some(library) = self.cache.installed(spec)? else {
            anyhow::bail!("{spec} is not installed. Add it with: highwater allocators add {spec}");
        };
        match library.preload()? {
            Some(value) => self.tell(&value.to_string_lossy())?,
            None if library.loader.is_some() => anyhow::bail!(
                "{spec} is a whole C library, which cannot be preloaded; start the program through \
                 its loader: {}",
                library
                    .loader
                    .map(|l| words(&l.prefix(None)))
                    .unwrap_or_default()
            ),
            None if !self.json => {
                say!("highwater: {spec} is what this machine has: there is nothing to preload")
            }
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
        self.tell(&format!(
            "{spec}  {}",
            if was { "removed" } else { "was not installed" }
        ))?;
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
            print(&format!(
                "{}\nLibraries are kept in {} ({CACHE_VARIABLE} names another folder).\n",
                table(&entries),
                self.cache.folder().display()
            ))?;
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

/// All names first: a slip in the last one is not found after minutes of building. `None` after
/// saying which are not offered.
fn parsed(specs: &[String]) -> Option<Vec<Spec>> {
    let parsed: Vec<_> = specs.iter().map(|text| Spec::parse(text)).collect();
    for error in parsed.iter().filter_map(|p| p.as_ref().err()) {
        say!("highwater: {error}");
    }
    parsed.into_iter().collect::<Result<_, _>>().ok()
}

fn words(words: &[std::ffi::OsString]) -> String {
    words
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

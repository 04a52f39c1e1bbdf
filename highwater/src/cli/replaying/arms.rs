//! Which allocators a trace is replayed on.

use std::path::Path;

use anyhow::Context;

use crate::cli::exit::Usage;
use crate::cli::out::say;
use crate::cli::run::prepare::{read, spec_of, tunables};
use allocators::{Library, Recipe, Spec, SpecError, Step, catalogue, ensure, installed};
use observe::fact::arm::is_system_libc;
use replay::{Arm, Setting, knobs};
use trace::Trace;

/// What was asked for.
pub struct Choice<'a> {
    pub allocators: &'a str,
    pub settings: &'a [String],
    /// Allocators whose settings are searched, with commas between them.
    pub tune: &'a str,
    /// An experiment file, whose arms are replayed too.
    pub factors: Option<&'a Path>,
    pub quiet: bool,
}

/// The arms; the recorded allocator's is the first, where it is here.
pub struct Chosen {
    pub arms: Vec<(Arm, bool)>,
    /// Why the recorded allocator is not among them.
    pub why_not_recorded: Option<String>,
    /// As they come: their settings are searched.
    pub tuned: Vec<Arm>,
    /// Of the experiment file: each combination of levels.
    pub factors: Vec<experiment::file::Arm>,
    pub notes: Vec<String>,
}

/// Finds the libraries, and adds those that were named and are not installed.
///
/// # Errors
/// A name that no allocator has, a setting that its allocator does not read, or a library that cannot be added.
pub fn choose(trace: &Trace, choice: &Choice<'_>) -> anyhow::Result<Chosen> {
    let mut chosen = Chosen {
        arms: Vec::new(),
        why_not_recorded: None,
        tuned: Vec::new(),
        factors: Vec::new(),
        notes: Vec::new(),
    };
    match recorded(trace) {
        Ok(arm) => chosen.arms.push((arm, true)),
        Err(why) => chosen.why_not_recorded = Some(why),
    }
    let libraries = match choice.allocators {
        "all" => all(&mut chosen.notes)?,
        list => named(list, choice.quiet)?,
    };
    for library in &libraries {
        add(&mut chosen, Arm::plain(library.clone()));
    }
    if let Some(file) = choice.factors {
        factors(&mut chosen, file, choice.quiet)?;
    }
    for word in words_of(choice.tune) {
        let spec = find(word)?;
        let has_knobs = |recipe| !knobs(recipe, usize::MAX).is_empty();
        if !spec.recipe().is_some_and(has_knobs) {
            let words = "has no settings whose effect a replay could show";
            return Err(Usage(format!("--tune: {spec} {words}")).into());
        }
        let arm = Arm::plain(ready(&spec, choice.quiet)?);
        add(&mut chosen, arm.clone());
        if !chosen.tuned.iter().any(|other| other.name == arm.name) {
            chosen.tuned.push(arm);
        }
    }
    for text in choice.settings {
        let (name, settings) = Setting::parse(text).map_err(|error| Usage(error.to_string()))?;
        let spec = find(&name)?;
        let library = ready(&spec, choice.quiet)?;
        for setting in settings {
            let arm = Arm::with(library.clone(), spec.recipe(), &[setting]);
            add(&mut chosen, arm.map_err(|error| Usage(error.to_string()))?);
        }
    }
    Ok(chosen)
}

/// The arms of an experiment with factors, each by its name there.
fn factors(chosen: &mut Chosen, file: &Path, quiet: bool) -> anyhow::Result<()> {
    let refuse = |words: String| Usage(format!("--factors {}: {words}", file.display()));
    let experiment = read(file, &[])?;
    if experiment.arms.iter().any(|arm| arm.levels.is_empty()) {
        return Err(refuse("its arms have no levels; write [factors]".to_owned()).into());
    }
    chosen.notes.extend(tunables(&experiment)?);
    let recorded = chosen.arms.iter().find(|(_, is_recorded)| *is_recorded);
    let recorded = recorded.map(|(arm, _)| arm.clone());
    for arm in &experiment.arms {
        if arm.command.is_some() || !arm.arguments.is_empty() || arm.curve.is_some() {
            let words = "varies the command, and a replay has one program";
            return Err(refuse(format!("arm {} {words}", arm.name)).into());
        }
        let (library, mut environment) = match arm.allocator.as_str() {
            // As it was recorded, settings too.
            "" => {
                let recorded = recorded.clone();
                let recorded = recorded.context("the recorded allocator is not on this machine")?;
                (recorded.library, recorded.environment)
            }
            _ => (ready(&spec_of(&experiment, arm)?, quiet)?, Vec::new()),
        };
        if library.loader.is_some() {
            let words = "is a C library of its own, which cannot be preloaded";
            return Err(refuse(format!("arm {}: {} {words}", arm.name, library.spec)).into());
        }
        for (name, value) in experiment
            .subject
            .environment
            .iter()
            .chain(&arm.environment)
        {
            environment.retain(|(other, _)| other != name);
            environment.push((name.clone(), value.clone()));
        }
        let replayed = Arm {
            name: arm.name.clone(),
            library,
            environment,
        };
        chosen.arms.push((replayed, false));
    }
    chosen.factors = experiment.arms;
    Ok(())
}

/// An arm that is there already is not added twice; one that cannot be preloaded is left out.
fn add(chosen: &mut Chosen, arm: Arm) {
    let is_same = |other: &(Arm, bool)| {
        other.0.library.path == arm.library.path && other.0.environment == arm.environment
    };
    if arm.library.loader.is_some() {
        let words = "is a C library of its own, not a library to preload: left out";
        chosen.notes.push(format!("{} {words}", arm.name));
    } else if !chosen.arms.iter().any(is_same) {
        chosen.arms.push((arm, false));
    }
}

/// The allocator that the program ran on, with the settings that it had.
fn recorded(trace: &Trace) -> Result<Arm, String> {
    let path = trace.about("allocator").ok_or(
        "the trace does not say on which allocator the program ran: it ended before highwater read its mappings",
    )?;
    let library = match is_system_libc(path) {
        true => Spec::parse("glibc")
            .map_err(|error| error.to_string())
            .and_then(|spec| library_of(&spec))?,
        false => by_path(Path::new(path))?,
    };
    let mut arm = Arm::plain(library);
    let settings = trace.about("settings").unwrap_or_default().split('\t');
    arm.environment = settings
        .filter_map(|setting| setting.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in &arm.environment {
        arm.name.push_str(&format!(" {name}={value}"));
    }
    Ok(arm)
}

fn library_of(spec: &Spec) -> Result<Library, String> {
    match installed(spec) {
        Ok(Some(library)) => Ok(library),
        Ok(None) => Err(format!(
            "{spec} is not installed: highwater allocators add {spec}"
        )),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// By the catalogue's name, where the file is the catalogue's.
fn by_path(path: &Path) -> Result<Library, String> {
    let real = path.canonicalize().map_err(|_| {
        format!(
            "the recorded allocator, {}, is not on this machine",
            path.display()
        )
    })?;
    let is_it = |library: &Library| {
        library
            .path
            .as_deref()
            .and_then(|path| path.canonicalize().ok())
            == Some(real.clone())
    };
    let of_catalogue = catalogue().iter().filter(|recipe| !recipe.is_system());
    let known =
        of_catalogue.filter_map(|recipe| installed(&Spec::Catalogued(recipe)).ok().flatten());
    match known.into_iter().find(is_it) {
        Some(library) => Ok(library),
        None => library_of(&Spec::File(real)),
    }
}

/// All that are installed, and glibc.
fn all(notes: &mut Vec<String>) -> anyhow::Result<Vec<Library>> {
    let (mut found, mut absent) = (Vec::new(), 0u64);
    for recipe in catalogue() {
        match installed(&Spec::Catalogued(recipe)) {
            Ok(Some(library)) => found.push(library),
            Ok(None) => absent += 1,
            Err(error) => notes.push(format!("{} is left out: {error:#}", recipe.label())),
        }
    }
    if absent > 0 {
        notes.push(format!(
            "{absent} more allocators are in the catalogue and not installed: highwater allocators list"
        ));
    }
    Ok(found)
}

fn named(list: &str, quiet: bool) -> anyhow::Result<Vec<Library>> {
    let libraries = words_of(list).map(|word| ready(&find(word)?, quiet));
    libraries.collect()
}

/// Of a list with commas between them.
fn words_of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// The allocator of a name; without a version its newest of numbers alone that is installed, or else can be added.
fn find(word: &str) -> anyhow::Result<Spec> {
    match Spec::parse(word) {
        Ok(spec) => Ok(spec),
        Err(SpecError::NeedsVersion { name, .. }) => {
            let is_plain = |recipe: &&'static Recipe| {
                recipe
                    .version
                    .chars()
                    .all(|letter| letter.is_ascii_digit() || letter == '.')
            };
            let of_name = || catalogue().iter().filter(|recipe| recipe.name == name);
            let is_here = |recipe: &&'static Recipe| {
                matches!(installed(&Spec::Catalogued(recipe)), Ok(Some(_)))
            };
            let plain = || of_name().filter(is_plain);
            let newest = plain()
                .rfind(is_here)
                .or(plain().next_back())
                .or(of_name().next_back());
            Ok(Spec::Catalogued(
                newest.context("a name of the catalogue has a version")?,
            ))
        }
        Err(error) => Err(Usage(error.to_string()).into()),
    }
}

fn ready(spec: &Spec, quiet: bool) -> anyhow::Result<Library> {
    if let Some(library) = installed(spec)? {
        return Ok(library);
    }
    if !quiet {
        say!("highwater: {spec} is not installed; adding it");
    }
    ensure(spec, &|_step: Step| {})
}

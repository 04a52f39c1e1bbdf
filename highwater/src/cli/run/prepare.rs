//! From the experiment file to everything that a run needs: the checked plan, and a library for each arm.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::chain;
use crate::cli::exit::Usage;
use crate::cli::explain::launch::probe_for;
use crate::cli::out::say;
use allocators::{Advice, Library, Severity, Spec};
use experiment::file::{Arm, Experiment, SubjectKind, read_experiment};
use experiment::preflight::program_of;
use experiment::service::Preload;
use observe::fact::program::read_program;
use observe::proc::identity::probe_filters;

/// A plan whose allocators are there.
#[derive(Debug)]
pub struct Prepared {
    pub experiment: Experiment,
    /// By arm. An arm that names no allocator has none.
    pub libraries: BTreeMap<String, Library>,
    /// By arm, where the plan asks for the probe: its library, or why the arm runs without it.
    pub probes: BTreeMap<String, Result<PathBuf, String>>,
    /// Worth a line in the report: tunables that do nothing here, known defects of allocators.
    pub warnings: Vec<String>,
}

/// Reads and checks the file; nothing is fetched.
///
/// # Errors
/// Every problem of the file at once, each with its place, as [`Usage`].
pub fn read(file: &Path, overrides: &[String]) -> anyhow::Result<Experiment> {
    let known = |name: &str| {
        Spec::parse(name)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    read_experiment(file, overrides, &known).map_err(|problems| Usage(problems.to_string()).into())
}

/// Makes every allocator ready, adding those that are not installed yet.
///
/// # Errors
/// A misspelt tunable ([`Usage`]), an allocator that cannot be added, or a probe that another user could replace: with
/// what to do next.
pub fn prepare(experiment: Experiment, quiet: bool) -> anyhow::Result<Prepared> {
    let mut warnings = tunables(&experiment)?;
    let mut libraries = BTreeMap::new();
    if experiment.subject.remote.is_some() {
        // Nothing is preloaded on other hosts, and nothing compared: the collector goes by name and version.
        return Ok(Prepared {
            experiment,
            libraries,
            probes: BTreeMap::new(),
            warnings,
        });
    }
    for arm in experiment
        .arms
        .iter()
        .filter(|arm| !arm.allocator.is_empty())
    {
        let spec = spec_of(&experiment, arm)?;
        let library = ensure(&spec, quiet)
            .with_context(|| format!("arm {}: allocator {}", arm.name, arm.allocator))?;
        warnings.extend(defects(&arm.name, &library));
        libraries.insert(arm.name.clone(), library);
    }
    Ok(Prepared {
        probes: find_probes(&experiment)?,
        experiment,
        libraries,
        warnings,
    })
}

/// The same without adding anything, for a dry run; what would stop the run is said beside it. An allocator that is
/// not installed is worth a warning.
///
/// # Errors
/// A misspelt tunable ([`Usage`]).
pub fn prepare_nothing(experiment: Experiment) -> anyhow::Result<(Prepared, Vec<String>)> {
    let mut prepared = Prepared {
        warnings: tunables(&experiment)?,
        libraries: BTreeMap::new(),
        probes: BTreeMap::new(),
        experiment,
    };
    let mut problems = Vec::new();
    match find_probes(&prepared.experiment) {
        Ok(probes) => prepared.probes = probes,
        Err(error) => problems.push(error.to_string()),
    }
    for arm in prepared
        .experiment
        .arms
        .iter()
        .filter(|arm| !arm.allocator.is_empty())
    {
        let found =
            spec_of(&prepared.experiment, arm).and_then(|spec| allocators::installed(&spec));
        match found {
            Ok(Some(library)) => {
                prepared.warnings.extend(defects(&arm.name, &library));
                prepared.libraries.insert(arm.name.clone(), library);
            }
            Ok(None) => prepared.warnings.push(format!(
                "arm {}: {} is not installed: a run adds it first",
                arm.name, arm.allocator
            )),
            Err(error) => problems.push(format!("arm {}: {}", arm.name, chain(&error).join(": "))),
        }
    }
    Ok((prepared, problems))
}

/// Nothing is loaded into processes that run already.
fn find_probes(
    experiment: &Experiment,
) -> anyhow::Result<BTreeMap<String, Result<PathBuf, String>>> {
    let is_wanted = experiment.probe && experiment.subject.kind == SubjectKind::Service;
    let arms = experiment.arms.iter().filter(|_| is_wanted);
    let probe = |arm: &Arm| {
        let program = program_of(experiment, arm).and_then(|path| read_program(&path).ok());
        let found = probe_for(program.as_ref())?;
        Ok((arm.name.clone(), found.map(|probe| probe.library)))
    };
    arms.map(probe).collect()
}

/// A line for each known defect of an arm's allocator.
fn defects(arm: &str, library: &Library) -> Vec<String> {
    let known = allocators::known_defects(library).into_iter();
    known
        .map(|defect| format!("arm {arm}: {} has a known defect: {defect}", library.spec))
        .collect()
}

impl Prepared {
    /// What each arm's processes are started with.
    pub fn preloads(&self) -> BTreeMap<String, Preload> {
        let preload = |library: &Library| Preload {
            library: library.path.clone(),
            companions: library.companions.clone(),
            loader: loader_words(library),
            environment: BTreeMap::new(),
        };
        let mut preloads: BTreeMap<String, Preload> = self
            .libraries
            .iter()
            .map(|(arm, library)| (arm.clone(), preload(library)))
            .collect();
        for (arm, probe) in &self.probes {
            let preload = preloads.entry(arm.clone()).or_default();
            // The probe sees only calls that meet it before the allocator.
            let library = probe.as_ref().ok().cloned();
            let filters = library.as_ref().map(|_| probe_filters());
            let filters = filters.map(|(name, value)| (name.to_owned(), value));
            preload.environment.extend(filters);
            preload.companions.splice(0..0, library);
        }
        preloads
    }

    /// A line for each arm that runs without the probe that the plan asks for.
    pub fn without_probe(&self) -> Vec<String> {
        let line = |(arm, probe): (&String, &Result<PathBuf, String>)| {
            let why = probe.as_ref().err()?;
            Some(format!("arm {arm} runs without the probe: {why}"))
        };
        self.probes.iter().filter_map(line).collect()
    }
}

fn loader_words(library: &Library) -> Vec<String> {
    let words = library.loader.iter().flat_map(|loader| loader.prefix(None));
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// A relative path of a library starts at the experiment file's folder, like every other path in it.
pub fn spec_of(experiment: &Experiment, arm: &Arm) -> anyhow::Result<Spec> {
    Ok(
        match Spec::parse(&arm.allocator).map_err(|error| Usage(error.to_string()))? {
            Spec::File(path) => Spec::File(experiment.base.join(path)),
            catalogued => catalogued,
        },
    )
}

/// What the arms' allocators make of their variables; the warnings.
///
/// # Errors
/// A variable that no allocator reads as it stands, as [`Usage`].
pub fn tunables(experiment: &Experiment) -> anyhow::Result<Vec<String>> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for arm in &experiment.arms {
        for advice in advice_on(experiment, arm, &arm.allocator) {
            let words = format!("arm {}: {}: {}", arm.name, advice.variable, advice.message);
            match advice.severity {
                Severity::Error if !is_for_another(experiment, arm, &advice) => errors.push(words),
                _ => warnings.push(words),
            }
        }
    }
    if !errors.is_empty() {
        bail!(Usage(errors.join("\n")));
    }
    Ok(warnings)
}

/// Of an arm's variables, on this allocator.
fn advice_on(experiment: &Experiment, arm: &Arm, allocator: &str) -> Vec<Advice> {
    let name = if allocator.is_empty() {
        "glibc"
    } else {
        allocator
    };
    let Ok(spec) = Spec::parse(name) else {
        return Vec::new();
    };
    let mut environment = experiment.subject.environment.clone();
    environment.extend(arm.environment.clone());
    allocators::validate_environment(&spec, &environment)
}

/// Whether a level of a factor sets a variable for another arm's allocator: with a version as a second factor, each
/// level sets what all versions read.
fn is_for_another(experiment: &Experiment, arm: &Arm, advice: &Advice) -> bool {
    let mut others = experiment
        .arms
        .iter()
        .filter(|other| other.allocator != arm.allocator);
    !arm.levels.is_empty()
        && others.any(|other| {
            let found = advice_on(experiment, arm, &other.allocator);
            found.iter().all(|other| other.variable != advice.variable)
        })
}

fn ensure(spec: &Spec, quiet: bool) -> anyhow::Result<Library> {
    if let Some(library) = allocators::installed(spec)? {
        return Ok(library);
    }
    let bar = if quiet {
        ProgressBar::hidden()
    } else {
        ProgressBar::new_spinner()
    };
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("constant"));
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    let name = match spec {
        Spec::Catalogued(recipe) => format!("{}@{}", recipe.name, recipe.version),
        Spec::File(path) => path.display().to_string(),
    };
    let last = RefCell::new(String::new());
    let library = allocators::ensure(spec, &|step| {
        let words = format!("{name}: {step}");
        bar.set_message(words.clone());
        // Without a terminal the spinner is silent: a line per step then.
        if bar.is_hidden() && !quiet && *last.borrow() != words {
            say!("highwater: {words}");
        }
        *last.borrow_mut() = words;
    });
    bar.finish_and_clear();
    library
}

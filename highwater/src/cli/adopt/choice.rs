//! From a run and the name of an arm to what a rollout needs: the very library that was measured, the arm's
//! variables, and what is to be expected of the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::AdoptArgs;
use crate::cli::conclude::{Judged, judge, ledger_of};
use crate::cli::exit::Usage;
use crate::cli::find_run;
use allocators::{Library, Spec};
use experiment::file::redact::REDACTED;
use experiment::file::{Arm, SubjectKind};
use experiment::placeholder::{Values, expand};
use record::ledger::Ledger;
use record::run::{Process, Run};
use rollout::files::sha256;
use rollout::pattern::parse_pattern;
use rollout::plan::{LedgerPlace, Request, Source};
use rollout::predict::{Prediction, predict};
use series::arms::subjects;
use units::wording::nearest;

/// What is to be adopted, and what the run says of it.
pub struct Choice {
    pub request: Request,
    pub headline: String,
    /// About the arm, a sentence each.
    pub said: Vec<String>,
    /// Against adopting it at all.
    pub against: Vec<String>,
}

/// Reads and judges the run, and finds the arm's library.
///
/// # Errors
/// No such run or arm; an arm that no drop-in can put into service; a library that is not there any more.
pub fn choose(args: &AdoptArgs) -> anyhow::Result<Choice> {
    let patterns = args
        .unit
        .iter()
        .map(|unit| parse_pattern(unit).map_err(|why| Usage(why.to_string())));
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    let (health, timing) = (args.health()?, args.timing()?);
    let library_folder = args.library_folder()?;
    let folder = find_run(&args.runs, &args.run)?;
    let judged = judge(&folder)?;
    let run = &judged.run;
    let arm = arm_of(run, args.arm.as_deref().unwrap_or_default())?;
    check_arm(run, arm)?;
    let (libraries, system) = libraries(run, arm, args.library.as_ref(), library_folder)?;
    let about = match arm.allocator.as_str() {
        "" => "the allocator that the program comes with".to_owned(),
        name => name.to_owned(),
    };
    Ok(Choice {
        request: Request {
            environment: environment(run, arm, &args.env)?,
            told: vec![format!("Arm {} ({about}) of run {}.", arm.name, run.id)],
            arm: arm.name.clone(),
            run: run.id.clone(),
            patterns,
            libraries,
            system,
            health,
            timing,
            prediction: prediction(&judged, &arm.name),
            ledger: ledger_place(run),
        },
        headline: judged.verdict.headline.clone(),
        said: said(&judged, &arm.name),
        against: against(&judged, &arm.name),
    })
}

fn arm_of<'a>(run: &'a Run, name: &str) -> anyhow::Result<&'a Arm> {
    let arms = &run.experiment.arms;
    arms.iter().find(|arm| arm.name == name).ok_or_else(|| {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let hint =
            nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near}?"));
        Usage(format!(
            "run {} has no arm {}{}; its arms are {}",
            run.id,
            units::wording::quoted(name),
            hint.unwrap_or_default(),
            names.join(", ")
        ))
        .into()
    })
}

/// What a drop-in of ours cannot do for an arm.
fn check_arm(run: &Run, arm: &Arm) -> anyhow::Result<()> {
    let name = &arm.name;
    if run.experiment.subject.kind == SubjectKind::Fake {
        bail!(Usage(format!(
            "run {} is simulated: there is nothing to put into service",
            run.id
        )));
    }
    if arm.command.is_some() || !arm.arguments.is_empty() {
        bail!(Usage(format!(
            "arm {name} differs in its command or arguments: adopt preloads a library and sets variables, it does not \
             rewrite ExecStart; change the unit itself and deploy that"
        )));
    }
    Ok(())
}

/// The arm's variables with their values.
fn environment(run: &Run, arm: &Arm, given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut environment = BTreeMap::new();
    let values = Values {
        run: run.id.clone(),
        arm: Some(arm.name.clone()),
        ..Values::default()
    };
    for (name, value) in &arm.environment {
        let value = expand(value, &values).map_err(|error| {
            Usage(format!(
                "arm {}: {name}: {error}; give its value with --env {name}=VALUE",
                arm.name
            ))
        });
        match given
            .iter()
            .any(|pair| pair.split('=').next() == Some(name))
        {
            true => continue,
            false => environment.insert(name.clone(), value?),
        };
    }
    for pair in given {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Usage(format!(
                "--env {}: write NAME=VALUE",
                units::wording::quoted(pair)
            ))
        })?;
        environment.insert(name.to_owned(), value.to_owned());
    }
    if environment.contains_key("LD_PRELOAD") {
        bail!(Usage(format!(
            "arm {} sets LD_PRELOAD itself: name the library as its allocator in the experiment",
            arm.name
        )));
    }
    let missing: Vec<&str> = environment
        .iter()
        .filter(|(_, value)| value.contains(REDACTED))
        .map(|(name, _)| name.as_str())
        .collect();
    if !missing.is_empty() {
        bail!(Usage(format!(
            "the record of run {} has left out the value of {}: give it with --env NAME=VALUE",
            run.id,
            missing.join(", ")
        )));
    }
    Ok(environment)
}

/// The libraries to preload, the allocator last; and whether the arm is the system's own.
fn libraries(
    run: &Run,
    arm: &Arm,
    copy: Option<&PathBuf>,
    folder: &Path,
) -> anyhow::Result<(Vec<Source>, bool)> {
    if arm.allocator.is_empty() {
        return Ok((Vec::new(), false));
    }
    let spec = Spec::parse(&arm.allocator).map_err(|error| Usage(error.to_string()))?;
    if spec.recipe().is_some_and(|recipe| recipe.is_system()) {
        return Ok((Vec::new(), true));
    }
    let proved = proved(run, arm)?;
    if proved
        .path
        .file_name()
        .is_some_and(|name| name == "libc.so.6")
    {
        bail!(Usage(format!(
            "arm {} is a whole C library that the program is started through; that cannot be preloaded. Build the \
             service against it, or choose another arm",
            arm.name
        )));
    }
    let spec = match spec {
        Spec::File(path) => Spec::File(run.experiment.base.join(path)),
        catalogued => catalogued,
    };
    // A cache that is damaged, or another user's, is no reason to stop: the measured file may be there.
    let installed = allocators::installed(&spec).ok().flatten();
    let main = find_measured(&proved, installed.as_ref(), copy)
        .with_context(|| format!("arm {}: the library that run {} measured", arm.name, run.id))?;
    let companions = installed
        .iter()
        .flat_map(|library| library.companions.clone());
    let mut files: Vec<PathBuf> = companions.collect();
    files.push(main);
    let source = |from: PathBuf| source(from, &arm.name, folder);
    Ok((
        files
            .into_iter()
            .map(source)
            .collect::<anyhow::Result<_>>()?,
        false,
    ))
}

/// What the processes of an arm were proved to run.
struct Proved {
    path: PathBuf,
    sha256: String,
}

fn proved(run: &Run, arm: &Arm) -> anyhow::Result<Proved> {
    let processes: Vec<&Process> = subjects(run, &arm.name).into_values().flatten().collect();
    let last = |process: &Process, key: &str| {
        let facts = process.facts.get(key)?;
        facts
            .iter()
            .rev()
            .map(|(_, value)| value.clone())
            .find(|value| !value.is_empty())
    };
    let found: BTreeSet<(String, String)> = processes
        .iter()
        .filter_map(|process| {
            Some((
                last(process, "allocator.path")?,
                last(process, "allocator.sha256")?,
            ))
        })
        .collect();
    let digests: BTreeSet<&String> = found.iter().map(|(_, digest)| digest).collect();
    match (found.iter().next(), digests.len()) {
        (Some((path, sha256)), 1) => Ok(Proved {
            path: PathBuf::from(path.trim_end_matches(" (deleted)")),
            sha256: sha256.clone(),
        }),
        (None, _) => bail!(
            "run {} did not prove which library arm {} ran on: run it again with the rights that `highwater doctor` \
             names",
            run.id,
            arm.name
        ),
        (Some(_), n) => bail!(
            "the processes of arm {} ran on {n} different libraries: `highwater report {}` says which",
            arm.name,
            run.id
        ),
    }
}

/// The file with the bytes that were measured: the copy that was given, where it was then, or in this user's cache.
fn find_measured(
    proved: &Proved,
    installed: Option<&Library>,
    copy: Option<&PathBuf>,
) -> anyhow::Result<PathBuf> {
    let same = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| sha256(&bytes) == proved.sha256);
    if let Some(copy) = copy.filter(|copy| !same(copy)) {
        bail!(Usage(format!(
            "{} is not the library that was measured (sha256 {})",
            copy.display(),
            proved.sha256
        )));
    }
    let cached = installed.and_then(|library| library.path.clone());
    let places = [copy.cloned(), Some(proved.path.clone()), cached];
    let found = places.into_iter().flatten().find(same);
    let found = found.with_context(|| {
        format!(
            "{} with sha256 {} is not here any more, or was replaced: what was not measured is not adopted. Name a \
             copy with --library, or run the experiment again",
            proved.path.display(),
            proved.sha256
        )
    })?;
    std::path::absolute(&found).context("the working folder")
}

/// Named by its content, so that another version never takes its place under a running service.
fn source(from: PathBuf, arm: &str, folder: &Path) -> anyhow::Result<Source> {
    let bytes = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
    let sha256 = sha256(&bytes);
    let fine = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let clean = |text: &str| {
        text.chars()
            .map(|c| if fine(c) { c } else { '-' })
            .collect::<String>()
    };
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let place = format!("{}-{}", clean(arm), &sha256[..12]);
    let build_id = allocators::read_elf(&from)
        .ok()
        .and_then(|elf| elf.build_id);
    Ok(Source {
        to: folder.join(place).join(clean(&name)),
        from,
        sha256,
        build_id,
    })
}

fn prediction(judged: &Judged, arm: &str) -> Option<Prediction> {
    let row = judged.verdict.arms.iter().find(|row| row.arm == arm)?;
    let last = judged.run.last;
    let ages = subjects(&judged.run, arm)
        .into_values()
        .flatten()
        .map(|process| {
            let end = process.ended.unwrap_or(last);
            (end.0 - process.started.0) as f64 / 1e9
        });
    predict(&row.memory, ages.fold(0.0, f64::max))
}

/// What the run says of the arm.
fn said(judged: &Judged, arm: &str) -> Vec<String> {
    let pairs = judged
        .verdict
        .pairs
        .iter()
        .filter(|pair| pair.a == arm || pair.b == arm);
    let mut said: Vec<String> = pairs.map(|pair| pair.words.clone()).collect();
    let row = judged.verdict.arms.iter().find(|row| row.arm == arm);
    said.extend(row.map(|row| {
        format!(
            "its memory is {}: {}",
            row.memory.label.word(),
            row.memory.rule
        )
    }));
    said.extend(
        row.iter()
            .flat_map(|row| row.defects.clone())
            .map(|defect| format!("known defect: {defect}")),
    );
    said
}

fn against(judged: &Judged, arm: &str) -> Vec<String> {
    let verdict = &judged.verdict;
    let row = verdict.arms.iter().find(|row| row.arm == arm);
    let stopped = row.and_then(|row| row.aborted.as_ref());
    let mut against: Vec<String> = stopped
        .map(|why| format!("the run stopped this arm: {why}"))
        .into_iter()
        .collect();
    let failed = verdict
        .checks
        .iter()
        .filter(|check| check.arm == arm && check.passed == Some(false));
    against.extend(failed.map(|check| format!("it failed {}: {}", check.check, check.observed)));
    let crashed = row.map_or(0, |row| row.crashed);
    if crashed > 0 && stopped.is_none() {
        against.push(format!("{crashed} of its processes ended unexpectedly"));
    }
    against
}

/// The entry that has this run among its attempts.
fn ledger_place(run: &Run) -> Option<LedgerPlace> {
    let runs = run.folder.parent()?;
    let folder = ledger_of(runs);
    let entries = Ledger::at(&folder).list().ok()?.entries;
    let mine = entries
        .iter()
        .rev()
        .find(|entry| entry.attempts.iter().any(|a| a.run == run.id));
    Some(LedgerPlace {
        entry: mine?.id.clone(),
        folder,
    })
}

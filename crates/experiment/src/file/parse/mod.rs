//! From the text of an experiment file to a checked [`Experiment`]: pure, every problem with its place.

mod arms;
mod attach;
mod backing;
mod checks;
mod design;
mod factors;
mod remote;
mod setting;
mod subject;
mod timing;
mod values;

use std::io::Read;
use std::path::{Path, PathBuf};

use super::placeholder::Moment;
use super::syntax::fields::{Faults, Fields};
use super::syntax::problem::{Place, Placed, Problems, Source};
use super::syntax::set;
use super::syntax::tree::{self, Table};
use super::{Experiment, Revert, SubjectKind};
use units::wording::{nearest, quoted};

pub use attach::with_suffix;

/// Larger than any experiment that a person or a generator writes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Longest name of an experiment or an arm: it becomes part of file names.
const NAME_BYTES_MAX: usize = 64;
/// More arms than that cannot be told apart in one chart, nor run on one machine.
const ARMS_MAX: usize = 64;

const KEYS: &[&str] = &[
    "name",
    "hypothesis",
    "why",
    "evidence",
    "control",
    "adopt",
    "replicas",
    "duration",
    "interval",
    "warmup",
    "seed",
    "matters",
    "probe",
    "stalls",
    "base",
    "subject",
    "backing",
    "load",
    "arms",
    "factors",
    "arms_max",
    "verify",
    "guard",
    "revert",
];

/// Is this allocator known? The error is a sentence that names the nearest one.
pub type KnownAllocator<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Reads, overrides, parses and checks the experiment file at `path`; nothing is run. `overrides` are the
/// texts after `--set`.
pub fn read_experiment(
    path: &Path,
    overrides: &[String],
    known: KnownAllocator,
) -> Result<Experiment, Problems> {
    let name = path.display().to_string();
    let bytes = read_bounded(path)
        .map_err(|error| Problems::of_file(&name, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let message = format!(
            "line {} is not UTF-8 text; is this an experiment file?",
            line + 1
        );
        Problems::of_file(&name, message)
    })?;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let base = absolute.parent().unwrap_or(Path::new("/")).to_path_buf();
    parse_experiment(&text, &name, &base, overrides, known)
}

/// One byte more than is allowed, so that the parser sees that it is too much.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read_experiment`], on text. `name` is shown in messages; `base` is the folder that relative paths start
/// from, unless the file says otherwise.
pub fn parse_experiment(
    text: &str,
    name: &str,
    base: &Path,
    overrides: &[String],
    known: KnownAllocator,
) -> Result<Experiment, Problems> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!(
            "larger than {} KiB; is this an experiment file?",
            FILE_BYTES_MAX >> 10
        );
        return Err(Problems::of_file(name, message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sources = vec![Source {
        name: name.into(),
        text: text.into(),
    }];
    sources.extend(overrides.iter().map(|set| Source {
        name: set.clone(),
        text: set.clone(),
    }));
    let mut root = tree::parse_table(text, 0).map_err(|faults| Problems::new(faults, &sources))?;
    let refused = overrides
        .iter()
        .enumerate()
        .filter_map(|(n, set)| set::apply(&mut root, set, n + 1).err());
    let refused: Vec<_> = refused.collect();
    let faults = Faults::default();
    let experiment = experiment(
        &root,
        base,
        &Context {
            faults: &faults,
            known,
        },
    );
    let mut all = faults.into_inner();
    all.extend(refused);
    if all.is_empty() {
        Ok(experiment)
    } else {
        Err(Problems::new(all, &sources))
    }
}

/// What every part of the parser needs.
struct Context<'a> {
    faults: &'a Faults,
    known: KnownAllocator<'a>,
}

fn experiment(root: &Table, base: &Path, context: &Context) -> Experiment {
    let top = Fields::new(root, Place::WHOLE, "the experiment", KEYS, context.faults);
    let words = |key: &str| top.text(key).map(|text| text.value).unwrap_or_default();
    let arms = arms::parse(&top, context);
    let names: Vec<&str> = arms.iter().map(|arm| arm.value.name.as_str()).collect();
    let subject = subject::parse(&top, &arms, context);
    let backing = backing::parse(&top, subject.kind, context);
    let load = subject::parse_load(&top, subject.kind, context);
    let timing = timing::parse(&top, context.faults);
    let control = control(&top, &names, context.faults);
    let adopt = top
        .text("adopt")
        .map(|arm| known_arm(&arm, "adopt", &names, context.faults));
    let verify = checks::parse(&top, "verify", &names, timing.duration, context);
    let guard = checks::parse(&top, "guard", &names, timing.duration, context);
    if subject.remote.is_some() {
        remote::check_conditions(&verify, "verify", context.faults);
        remote::check_conditions(&guard, "guard", context.faults);
    }
    let stalls = top.boolean("stalls").unwrap_or(false);
    if stalls && matches!(subject.kind, SubjectKind::Remote | SubjectKind::Fake) {
        let words = "`stalls` needs processes on this machine: a remote or fake subject has none";
        context.faults.note(Place::WHOLE, words);
    }
    Experiment {
        name: name(&top, context.faults),
        hypothesis: words("hypothesis"),
        why: words("why"),
        evidence: words("evidence"),
        control,
        adopt,
        subject,
        backing,
        load,
        replicas: timing.replicas,
        duration: timing.duration,
        interval: timing.interval,
        warmup: timing.warmup,
        seed: timing.seed,
        matters: matters(&top, context.faults),
        probe: top.boolean("probe").unwrap_or(false),
        stalls,
        verify,
        guard,
        revert: revert(&top, context),
        base: top
            .text("base")
            .map_or_else(|| base.to_path_buf(), |path| base.join(path.value)),
        arms: arms.into_iter().map(|arm| arm.value).collect(),
    }
}

fn name(top: &Fields, faults: &Faults) -> String {
    let Some(name) = top.text("name") else {
        if !top.has("name") {
            faults.note(
                Place::WHOLE,
                "`name` is missing; a short one such as \"relay-leak\"",
            );
        }
        return String::new();
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.value.chars().all(fits) && name.value.starts_with(|c: char| c != '-');
    if !good || name.value.is_empty() || name.value.len() > NAME_BYTES_MAX {
        let message = format!(
            "`name` is {}; it becomes the name of a folder",
            quoted(&name.value)
        );
        let rule = "a to z, 0 to 9 and -, at most 64 characters, the first not a -";
        let help = match simplified(&name.value) {
            simple if simple.is_empty() => rule.to_owned(),
            simple => format!("{rule}; for example \"{simple}\""),
        };
        faults.note_with_help(name.place, message, help);
    }
    name.value
}

/// The nearest name that is allowed.
fn simplified(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words.join("-").chars().take(NAME_BYTES_MAX).collect()
}

fn control(top: &Fields, names: &[&str], faults: &Faults) -> String {
    if let Some(control) = top.text("control") {
        if control.value.is_empty() {
            let message = "`control` is empty; name the arm that the others are compared with";
            faults.note(control.place, message);
            return String::new();
        }
        return known_arm(&control, "control", names, faults);
    }
    // The first combination has each factor's reference.
    if let (true, false, Some(first)) = (top.has("factors"), top.has("control"), names.first()) {
        return (*first).to_owned();
    }
    if !top.has("control") {
        let message = "`control` is missing; name the arm that the others are compared with";
        match names {
            [] => faults.note(Place::WHOLE, message),
            _ => faults.note(
                Place::WHOLE,
                format!("{message} (arms: {})", names.join(", ")),
            ),
        }
    }
    String::new()
}

/// The name itself; noted when no arm has it.
fn known_arm(arm: &Placed<String>, key: &str, names: &[&str], faults: &Faults) -> String {
    // Without any arm, every name is wrong, and one problem is enough.
    if !names.is_empty() && !names.contains(&arm.value.as_str()) {
        let message = format!("`{key}`: no arm is called {}", quoted(&arm.value));
        match nearest(&arm.value, names.iter().copied()) {
            Some(near) => faults.note(arm.place, format!("{message}; did you mean `{near}`?")),
            None => faults.note(arm.place, format!("{message} (arms: {})", names.join(", "))),
        }
    }
    arm.value.clone()
}

/// A percentage; 0 unless given.
fn matters(top: &Fields, faults: &Faults) -> f64 {
    let Some(text) = top.text("matters") else {
        return 0.0;
    };
    let number = text.value.trim().strip_suffix('%').map(str::trim_end);
    let percent = number.and_then(|number| number.parse::<f64>().ok());
    let Some(percent) = percent.filter(|percent| (0.0..=1000.0).contains(percent)) else {
        let message = format!("`matters` is {}", quoted(&text.value));
        faults.note_with_help(text.place, message, "a percentage such as \"20%\"");
        return 0.0;
    };
    percent / 100.0
}

fn revert(top: &Fields, context: &Context) -> Revert {
    let Some((table, place)) = top.table("revert") else {
        return Revert::default();
    };
    let fields = Fields::new(
        table,
        place,
        "[revert]",
        &["words", "commands"],
        context.faults,
    );
    Revert {
        words: fields
            .text("words")
            .map(|text| text.value)
            .unwrap_or_default(),
        commands: values::commands(&fields, "commands", Moment::Running, context.faults),
    }
}

/// A folder as typed.
fn directory(fields: &Fields) -> Option<PathBuf> {
    path(fields, "directory")
}

/// A path as typed.
fn path(fields: &Fields, key: &str) -> Option<PathBuf> {
    fields.text(key).map(|path| PathBuf::from(path.value))
}

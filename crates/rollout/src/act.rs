//! Puts a plan into force, step by step, each in the journal before and after; back to the start at the first failure.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::crash;
use super::error::Error;
use super::files::{self, Shape};
use super::journal::{Step, What};
use super::plan::{After, Instance, Plan, PlannedFile};
use super::proof::{Seen, Witness};
use super::shelf::Rollout;
use super::systemd::Host;
use super::unit::Unit;

/// From one snapshot of an instance to the next.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);
/// A process that runs something else is believed after this long: systemd shows the new process before it has
/// become the program, and a wrapper script may run first.
const OTHER_MAX: Duration = Duration::from_secs(5);
/// Anybody may load the library, only root may change it.
const FOLDER_MODE: u32 = 0o755;

/// What the steps need besides the plan.
pub struct Means<'a> {
    pub host: &'a Host,
    pub witness: Witness,
    /// Set by Ctrl-C: stop at the next instance.
    pub stop: &'a AtomicBool,
    /// Told of every step.
    pub say: &'a mut dyn FnMut(&str),
}

/// `false`: asked to stop.
pub(super) fn forward(rollout: &mut Rollout, means: &mut Means<'_>) -> Result<bool, Error> {
    let plan = rollout.plan.clone();
    for folder in &plan.folders {
        let step = Step::Folder(folder.clone());
        take(rollout, step, || {
            let path = means.host.file(folder);
            files::make_folder(&path, FOLDER_MODE).map_err(|error| at(&path, error))
        })?;
    }
    for file in &plan.files {
        // Written anew when it is taken up again: a kill may have come at any place.
        let step = Step::File(file.path.clone());
        take(rollout, step, || put(means.host, &plan, file))?;
        (means.say)(&format!("wrote {}", file.path.display()));
    }
    take(rollout, Step::Reload, || Ok(means.host.reload()?))?;
    for instance in &plan.instances {
        check_settings(means.host, instance)?;
    }
    let mut first = true;
    for instance in &plan.instances {
        let step = Step::Restart(instance.unit.clone());
        if rollout.is_done(&step) {
            continue;
        }
        if !first && !rest(plan.timing.pause_s, means.stop) || means.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        first = false;
        rollout.write(What::Begin(step.clone()))?;
        let words = bring_up(means, &plan, instance).map_err(|error| Error::Instance {
            unit: instance.unit.clone(),
            error: Box::new(error),
        })?;
        (means.say)(&format!("{}: {words}", instance.unit));
        rollout.write(What::Done { step, words })?;
    }
    Ok(true)
}

/// One step that leaves nothing to tell, in the journal before and after.
pub(super) fn take(
    rollout: &mut Rollout,
    step: Step,
    act: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    rollout.write(What::Begin(step.clone()))?;
    act()?;
    let words = String::new();
    rollout.write(What::Done { step, words })
}

fn put(host: &Host, plan: &Plan, file: &PlannedFile) -> Result<(), Error> {
    let path = host.file(&file.path);
    if is_in_place(&path, file) {
        return Ok(());
    }
    let content = match &file.after {
        After::Text(text) => text.clone().into_bytes(),
        After::CopyOf(from) => std::fs::read(from).map_err(|error| at(from, error))?,
    };
    if files::sha256(&content) != file.sha256 {
        return Err(Error::Changed(path));
    }
    files::write(&path, &plan.id, Shape::new(&content, file.mode)).map_err(|error| at(&path, error))
}

pub(super) fn is_in_place(path: &Path, file: &PlannedFile) -> bool {
    std::fs::read(path).is_ok_and(|bytes| files::sha256(&bytes) == file.sha256)
}

pub(super) fn at(path: &Path, error: std::io::Error) -> Error {
    let path = path.to_path_buf();
    Error::File { path, error }
}

/// What systemd has read is what the next start will get: checked before any instance is touched.
fn check_settings(host: &Host, instance: &Instance) -> Result<(), Error> {
    let unit = host.unit(&instance.unit)?;
    for (name, wanted) in &instance.environment {
        let has = unit.environment.iter().find(|(known, _)| known == name);
        if has.map(|(_, value)| value) != Some(wanted) {
            let has = has.map_or("nothing".to_owned(), |(_, value)| {
                units::wording::quoted(value)
            });
            return Err(Error::Overruled {
                has,
                name: name.clone(),
                unit: unit.name,
            });
        }
    }
    Ok(())
}

/// Restarts an instance unless it runs the arm already, and waits until it is well; the value is the proof.
fn bring_up(means: &mut Means<'_>, plan: &Plan, instance: &Instance) -> Result<String, Error> {
    let before = means.host.unit(&instance.unit)?;
    let runs_it = is_up(&before)
        && matches!(
            means
                .witness
                .inspect(means.host, plan, before.main_pid, &instance.environment),
            Seen::Arm(_)
        )
        && before.main_pid != instance.pid;
    if !runs_it {
        means.host.restart(&instance.unit)?;
    }
    let (unit, _) = wait_until_well(means, plan, instance, Some(&instance.environment))?;
    crash::point("instance: well");
    thread::sleep(seconds(plan.timing.settle_s));
    let (after, proof) = wait_until_well(means, plan, instance, Some(&instance.environment))?;
    if after.main_pid != unit.main_pid || after.restarts > unit.restarts {
        return Err(Error::EndedAgain {
            settle_s: plan.timing.settle_s,
            before: unit.main_pid,
            after: after.main_pid,
        });
    }
    Ok(proof)
}

/// Waits until an instance is active, runs the arm (when variables are given) and answers its health check.
pub(super) fn wait_until_well(
    means: &mut Means<'_>,
    plan: &Plan,
    instance: &Instance,
    environment: Option<&std::collections::BTreeMap<String, String>>,
) -> Result<(Unit, String), Error> {
    let begun = Instant::now();
    let limit = seconds(plan.timing.health_s);
    let mut other_since: Option<Instant> = None;
    loop {
        let unit = means.host.unit(&instance.unit)?;
        let last = match is_well(
            means,
            plan,
            &unit,
            environment,
            limit.saturating_sub(begun.elapsed()),
        ) {
            Ok(proof) => return Ok((unit, proof)),
            Err(Unwell::Failed) => return Err(Error::UnitFailed(unit.name)),
            Err(Unwell::Other(why)) => {
                let since = *other_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= OTHER_MAX {
                    return Err(Error::OtherProgram(why));
                }
                why
            }
            Err(Unwell::NotYet(why)) => {
                other_since = None;
                why
            }
        };
        if begun.elapsed() >= limit {
            let limit_s = plan.timing.health_s;
            return Err(Error::NotWell { limit_s, last });
        }
        thread::sleep(SNAPSHOT_EVERY);
    }
}

enum Unwell {
    /// It will not become well by waiting.
    Failed,
    Other(String),
    NotYet(String),
}

fn is_well(
    means: &mut Means<'_>,
    plan: &Plan,
    unit: &Unit,
    environment: Option<&std::collections::BTreeMap<String, String>>,
    left: Duration,
) -> Result<String, Unwell> {
    if unit.active == "failed" {
        return Err(Unwell::Failed);
    }
    if !is_up(unit) {
        return Err(Unwell::NotYet(format!(
            "it is {} ({})",
            unit.active, unit.sub
        )));
    }
    let proof = match environment {
        None => format!("pid {} is active", unit.main_pid),
        Some(wanted) => match means
            .witness
            .inspect(means.host, plan, unit.main_pid, wanted)
        {
            Seen::Arm(words) => words,
            Seen::Other(why) => return Err(Unwell::Other(why)),
            Seen::Unknown(why) => return Err(Unwell::NotYet(why)),
        },
    };
    let asked = plan.health.ask(&unit.name, unit.main_pid, left);
    asked.map_err(|why| Unwell::NotYet(why.to_string()))?;
    Ok(proof)
}

pub(super) fn is_up(unit: &Unit) -> bool {
    unit.active == "active" && unit.main_pid > 0
}

/// Waits; `false` when asked to stop meanwhile.
pub(super) fn rest(pause_s: f64, stop: &AtomicBool) -> bool {
    let end = Instant::now() + seconds(pause_s);
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(SNAPSHOT_EVERY.min(end.saturating_duration_since(Instant::now())));
    }
    true
}

pub(super) fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::ZERO)
}

//! The way back: every file as it was, then every instance that may have seen ours restarted.

use super::act::{Means, at, is_in_place, is_up, rest, seconds, take, wait_until_well};
use super::error::Error;
use super::files::{self, Shape};
use super::journal::{Step, What, brought_up};
use super::plan::{After, Instance, Plan, PlannedFile};
use super::shelf::{Rollout, Shelf};
use super::systemd::Host;

/// Whether to rest between instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As the plan says: a revert in peace.
    Planned,
    /// A rollback: what is broken is mended first.
    Fast,
}

/// Takes everything back; the value says what could not be made as it was (empty: nothing).
///
/// # Errors
/// A step failed; calling it again goes on.
pub fn revert(
    rollout: &mut Rollout,
    means: &mut Means<'_>,
    why: &str,
    pace: Pace,
) -> Result<String, Error> {
    rollout.write(What::Backward {
        why: why.to_owned(),
    })?;
    // Who had been brought up, and is down now, was stopped by somebody else since.
    let well = brought_up(&rollout.records);
    let plan = rollout.plan.clone();
    let mut left = Vec::new();
    for file in plan.files.iter().rev().filter(|file| is_drop_in(file)) {
        let step = Step::File(file.path.clone());
        take(rollout, step, || restore(means.host, &plan, file))?;
    }
    for folder in plan
        .folders
        .iter()
        .rev()
        .filter(|folder| is_drop_in_folder(folder))
    {
        let step = Step::Folder(folder.clone());
        take(rollout, step, || remove_folder(means.host, folder))?;
    }
    take(rollout, Step::Reload, || Ok(means.host.reload()?))?;
    let mut touched = false;
    for instance in plan.instances.iter().rev() {
        let step = Step::Restart(instance.unit.clone());
        if rollout.is_done(&step) || !needs_restart(means.host, instance, well.contains(&step))? {
            continue;
        }
        if touched && pace == Pace::Planned {
            rest(plan.timing.pause_s, means.stop);
        }
        touched = true;
        rollout.write(What::Begin(step.clone()))?;
        let words = match bring_back(means, &plan, instance) {
            Ok(words) => words,
            // The others must not wait for one that cannot be helped.
            Err(error) => {
                let words = error.to_string();
                left.push(format!("{}: {words}", instance.unit));
                words
            }
        };
        (means.say)(&format!("{}: {words}", instance.unit));
        rollout.write(What::Done { step, words })?;
    }
    remove_libraries(rollout, means, &plan)?;
    let words = left.join("; ");
    rollout.write(What::Reverted {
        words: words.clone(),
    })?;
    Ok(words)
}

/// What a revert would find in its way, in words: files of ours that somebody has edited.
pub fn edited(host: &Host, plan: &Plan) -> Vec<String> {
    let foreign = |file: &&PlannedFile| {
        let path = host.file(&file.path);
        !is_in_place(&path, file) && !is_as_before(&path, file)
    };
    let drop_ins = plan.files.iter().filter(|file| is_drop_in(file));
    drop_ins
        .filter(foreign)
        .map(|file| file.path.display().to_string())
        .collect()
}

/// Whether the file is what it was before the rollout.
pub fn is_as_before(path: &std::path::Path, file: &PlannedFile) -> bool {
    match files::keep(path) {
        Ok(now) => now == file.before,
        Err(_) => false,
    }
}

fn is_drop_in(file: &PlannedFile) -> bool {
    matches!(file.after, After::Text(_))
}

fn is_drop_in_folder(folder: &std::path::Path) -> bool {
    folder.starts_with("/etc/systemd")
}

fn restore(host: &Host, plan: &Plan, file: &PlannedFile) -> Result<(), Error> {
    let path = host.file(&file.path);
    let beside = files::beside(&path, &plan.id);
    files::remove(&beside).map_err(|error| at(&beside, error))?;
    if is_as_before(&path, file) {
        return Ok(());
    }
    if path.exists() && !is_in_place(&path, file) {
        return Err(Error::Edited(path));
    }
    put_back(&path, plan, file).map_err(|error| at(&path, error))
}

/// Puts back what was kept, or takes the file away, whatever is there now.
fn put_back(path: &std::path::Path, plan: &Plan, file: &PlannedFile) -> std::io::Result<()> {
    let Some(before) = &file.before else {
        return files::remove(path);
    };
    let bytes = before.bytes()?;
    let shape = Shape {
        owner: Some((before.uid, before.gid)),
        modified: Some((before.modified_s, before.modified_ns)),
        ..Shape::new(&bytes, before.mode)
    };
    files::write(path, &plan.id, shape)
}

/// Overwrites edits with what was there before the rollout.
///
/// # Errors
/// A file that cannot be written, in words.
pub fn discard_edits(host: &Host, plan: &Plan) -> Result<(), Error> {
    for file in plan.files.iter().filter(|file| is_drop_in(file)) {
        let path = host.file(&file.path);
        if !is_in_place(&path, file) && !is_as_before(&path, file) {
            put_back(&path, plan, file).map_err(|error| at(&path, error))?;
        }
    }
    Ok(())
}

/// A folder into which somebody has put something stays.
fn remove_folder(host: &Host, folder: &std::path::Path) -> Result<(), Error> {
    let path = host.file(folder);
    files::remove_folder(&path)
        .map(|_| ())
        .map_err(|error| at(&path, error))
}

/// Whether an instance may run, or be about to run, what was written for it.
fn needs_restart(host: &Host, instance: &Instance, was_well: bool) -> Result<bool, Error> {
    let unit = host.unit(&instance.unit)?;
    if unit.load != "loaded" {
        return Ok(false);
    }
    let pid = unit.main_pid;
    let start = observe::proc::read_start_ticks(&Default::default(), pid).ok();
    let untouched = pid == instance.pid && start == Some(instance.start_ticks);
    let stopped_since = was_well && matches!(unit.active.as_str(), "inactive" | "failed");
    let as_it_was = untouched && is_up(&unit);
    Ok(!as_it_was && !stopped_since)
}

fn bring_back(means: &mut Means<'_>, plan: &Plan, instance: &Instance) -> Result<String, Error> {
    means.host.forget_failures(&instance.unit);
    means.host.restart(&instance.unit)?;
    let (unit, _) = wait_until_well(means, plan, instance, None)?;
    std::thread::sleep(seconds(plan.timing.settle_s).min(seconds(1.0)));
    Ok(format!("pid {} runs as before the rollout", unit.main_pid))
}

/// Libraries and their folders go when no other rollout in force has them.
fn remove_libraries(rollout: &mut Rollout, means: &Means<'_>, plan: &Plan) -> Result<(), Error> {
    let others = Shelf::of(means.host).list().map_err(Error::Shelf)?;
    let open: Vec<&Plan> = others
        .iter()
        .filter(|other| other.stage().is_open() && other.plan.id != plan.id)
        .map(|other| &other.plan)
        .collect();
    for file in plan.files.iter().filter(|file| !is_drop_in(file)) {
        let path = means.host.file(&file.path);
        let beside = files::beside(&path, &plan.id);
        files::remove(&beside).map_err(|error| at(&beside, error))?;
        if open
            .iter()
            .any(|other| other.libraries.iter().any(|l| l.to == file.path))
        {
            continue;
        }
        let step = Step::File(file.path.clone());
        take(rollout, step, || {
            files::remove(&path).map_err(|error| at(&path, error))
        })?;
    }
    for folder in plan
        .folders
        .iter()
        .rev()
        .filter(|folder| !is_drop_in_folder(folder))
    {
        let step = Step::Folder(folder.clone());
        take(rollout, step, || remove_folder(means.host, folder))?;
    }
    Ok(())
}

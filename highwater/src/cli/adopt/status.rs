//! `highwater adopt --status`: where each rollout stands, and whether the arm keeps what its run promised.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::{SCHEMA, show};
use crate::cli::exit;
use crate::cli::out::{print, say};
use report::visible::visible;
use rollout::back::is_as_before;
use rollout::files::sha256;
use rollout::journal::Stage;
use rollout::proof::{Seen, Witness};
use rollout::samples;
use rollout::samples::{Sample, Snapshot};
use rollout::shelf::{Rollout, Shelf, now_s};
use rollout::standing::{Standing, Word, stand};
use rollout::systemd::Host;
use units::written;

/// What was found of one rollout.
struct Status {
    id: String,
    stage: Stage,
    /// Somebody is at work on it right now.
    busy: bool,
    /// Of the files: as the rollout writes them, as they were before, anything else.
    files: [usize; 3],
    snapshot: Snapshot,
    standing: Option<Standing>,
}

/// Takes a snapshot, keeps it, judges, prints; the value is the exit code.
///
/// # Errors
/// The rollouts cannot be read (root only), or systemd does not answer.
pub fn run(host: &Host, shelf: &Shelf, as_json: bool) -> anyhow::Result<u8> {
    let all = shelf.list()?;
    let busy = shelf.is_busy();
    let open: Vec<&Rollout> = all
        .iter()
        .filter(|rollout| rollout.stage().is_open())
        .collect();
    let mut witness = Witness::default();
    let mut found = Vec::new();
    for (n, rollout) in open.iter().enumerate() {
        // A later rollout that wrote the same files has taken this one's place.
        let replaced = open[n + 1..]
            .iter()
            .any(|later| shares_a_file(later, rollout));
        if !replaced {
            found.push((*rollout, examine(host, &mut witness, rollout, busy)?));
        }
    }
    if as_json {
        let rollouts: Vec<Value> = found
            .iter()
            .map(|(rollout, status)| in_json(rollout, status))
            .collect();
        let answer = json!({"schema": SCHEMA, "action": "status", "rollouts": rollouts});
        print(&format!("{answer:#}\n"))?;
    } else if found.is_empty() {
        print("Nothing is adopted here.\n")?;
    } else {
        let texts: Vec<String> = found
            .iter()
            .map(|(rollout, status)| text(rollout, status))
            .collect();
        print(&texts.join("\n"))?;
    }
    Ok(found
        .iter()
        .map(|(_, status)| code(status))
        .max_by_key(|code| severity(*code))
        .unwrap_or(exit::DONE))
}

pub fn shares_a_file(a: &Rollout, b: &Rollout) -> bool {
    let drop_in = |path: &Path| path.starts_with("/etc/systemd");
    let paths = |rollout: &Rollout| -> Vec<_> {
        rollout
            .plan
            .files
            .iter()
            .map(|file| file.path.clone())
            .collect()
    };
    let theirs = paths(b);
    paths(a)
        .iter()
        .any(|path| drop_in(path) && theirs.contains(path))
}

fn examine(
    host: &Host,
    witness: &mut Witness,
    rollout: &Rollout,
    busy: bool,
) -> anyhow::Result<Status> {
    let stage = rollout.stage();
    let snapshot = snapshot(host, witness, rollout)?;
    let mut standing = None;
    if let (Stage::Adopted, Some(since_s)) = (&stage, rollout.adopted_at_s()) {
        let path = rollout.samples_file();
        let kept = samples::append(&path, &snapshot);
        let mut snapshots = samples::read(&path)?;
        if let Err(error) = kept {
            say!(
                "highwater: this sample was not kept: {}: {error}",
                path.display()
            );
            snapshots.push(snapshot.clone());
        }
        standing = Some(stand(rollout.plan.prediction.as_ref(), &snapshots, since_s));
    }
    Ok(Status {
        id: rollout.plan.id.clone(),
        stage,
        busy,
        files: files(host, rollout),
        snapshot,
        standing,
    })
}

fn snapshot(host: &Host, witness: &mut Witness, rollout: &Rollout) -> anyhow::Result<Snapshot> {
    let plan = &rollout.plan;
    let names: Vec<String> = plan
        .instances
        .iter()
        .map(|instance| instance.unit.clone())
        .collect();
    let units = host.show(&names).map_err(anyhow::Error::msg)?;
    let sample = |instance: &rollout::plan::Instance| {
        let unit = units.iter().find(|unit| unit.name == instance.unit);
        let pid = unit.map_or(0, |unit| unit.main_pid);
        let size = witness.size(pid).filter(|_| pid > 0);
        let seen = size.map(|_| witness.inspect(host, plan, pid, &instance.environment));
        Sample {
            unit: instance.unit.clone(),
            pid: if size.is_some() { pid } else { 0 },
            start_ticks: size.map_or(0, |(start, _)| start),
            rss_bytes: size.map(|(_, bytes)| bytes),
            runs_arm: seen.and_then(|seen| match seen {
                Seen::Arm(_) => Some(true),
                Seen::Other(_) => Some(false),
                Seen::Unknown(_) => None,
            }),
        }
    };
    Ok(Snapshot {
        at_s: now_s(),
        instances: plan.instances.iter().map(sample).collect(),
    })
}

/// (new, as before, neither).
fn files(host: &Host, rollout: &Rollout) -> [usize; 3] {
    let mut counts = [0; 3];
    for file in &rollout.plan.files {
        let path = host.file(&file.path);
        let is_new = std::fs::read(&path).is_ok_and(|bytes| sha256(&bytes) == file.sha256);
        let at = match (is_new, is_as_before(&path, file)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        counts[at] += 1;
    }
    counts
}

fn running(snapshot: &Snapshot) -> usize {
    snapshot
        .instances
        .iter()
        .filter(|sample| sample.runs_arm == Some(true))
        .count()
}

fn text(rollout: &Rollout, status: &Status) -> String {
    let plan = &rollout.plan;
    let mut out = format!(
        "{}: {} (arm {} of run {}, {})\n",
        status.id,
        stage_words(status),
        plan.arm,
        plan.run,
        plan.patterns.join(", ")
    );
    let mut line = |name: &str, words: String| {
        let _ = writeln!(out, "  {name:<10} {}", visible(&words));
    };
    let [new, old, odd] = status.files;
    let mut words = format!("{new} of {} in place", plan.files.len());
    if odd > 0 {
        words += &format!(", {odd} edited or blocked");
    }
    if old > 0 {
        words += &format!(", {old} as before");
    }
    line("files", words);
    line(
        "instances",
        format!(
            "{} of {} run the arm",
            running(&status.snapshot),
            plan.instances.len()
        ),
    );
    for sample in status
        .snapshot
        .instances
        .iter()
        .filter(|sample| sample.runs_arm != Some(true))
        .take(10)
    {
        line("", format!("{}: {}", sample.unit, sample_words(sample)));
    }
    if let Some(prediction) = &plan.prediction {
        line("predicted", show::predicted(prediction));
    }
    if let Some(standing) = &status.standing {
        line("seen", seen_words(standing));
        line("standing", standing_words(standing));
    }
    out
}

fn sample_words(sample: &Sample) -> &'static str {
    match (sample.pid, sample.runs_arm) {
        (0, _) => "does not run",
        (_, Some(false)) => "runs something else",
        _ => "what it runs could not be read",
    }
}

fn stage_words(status: &Status) -> String {
    match (&status.stage, status.busy) {
        (Stage::Adopted, _) => "adopted".to_owned(),
        (stage, true) => format!("{}, another highwater works on it right now", stage.word()),
        (Stage::Reverting { why }, false) => {
            format!("interrupted on the way back ({why}); `highwater revert --yes` goes on")
        }
        (_, false) => "interrupted on the way to the arm; `highwater adopt --resume --yes` goes on, `highwater revert \
                       --yes` takes it back"
            .to_owned(),
    }
}

fn seen_words(standing: &Standing) -> String {
    let now = standing.total_bytes.map(written::bytes);
    let judged = standing
        .total
        .map(|t| format!(", level {}", written::bytes_interval(t.value, t.lo, t.hi)));
    let label = standing.label.map(|label| format!(", {}", label.word()));
    format!(
        "{} now{}{}; {} samples",
        now.unwrap_or_else(|| "not all could be read".to_owned()),
        judged.unwrap_or_default(),
        label.unwrap_or_default(),
        standing.snapshots
    )
}

fn standing_words(standing: &Standing) -> String {
    let needs = standing
        .needs
        .as_ref()
        .map(|needs| format!("; it needs {needs}"));
    format!(
        "{}: {}{}",
        standing.word.word(),
        standing.why,
        needs.unwrap_or_default()
    )
}

fn in_json(rollout: &Rollout, status: &Status) -> Value {
    let plan = &rollout.plan;
    let [new, old, odd] = status.files;
    let standing = status.standing.as_ref().map(|standing| {
        json!({
            "standing": standing.word,
            "why": standing.why,
            "needs": standing.needs,
            "snapshots": standing.snapshots,
            "total_bytes": standing.total_bytes,
            "level_bytes": standing.total.map(|t| t.value),
            "level_bytes_lo": standing.total.map(|t| t.lo),
            "level_bytes_hi": standing.total.map(|t| t.hi),
            "label": standing.label.map(|label| label.word()),
        })
    });
    json!({
        "rollout": status.id,
        "stage": status.stage.word(),
        "busy": status.busy,
        "interrupted": !matches!(status.stage, Stage::Adopted) && !status.busy,
        "words": stage_words(status),
        "arm": plan.arm,
        "run": plan.run,
        "units": plan.patterns,
        "files": {"in_place": new, "as_before": old, "edited": odd},
        "instances": status.snapshot.instances,
        "running_arm": running(&status.snapshot),
        "prediction": plan.prediction.as_ref().map(show::prediction_json),
        "judged": standing,
    })
}

fn code(status: &Status) -> u8 {
    match (&status.stage, &status.standing) {
        (Stage::Adopted, Some(standing)) => match standing.word {
            Word::Holding => exit::DONE,
            Word::Regressed => exit::FAILED,
            Word::TooEarly => exit::UNDECIDED,
        },
        _ => exit::UNDECIDED,
    }
}

/// Of several rollouts, the worst speaks.
fn severity(code: u8) -> u8 {
    match code {
        exit::DONE => 0,
        exit::FAILED => 2,
        _ => 1,
    }
}

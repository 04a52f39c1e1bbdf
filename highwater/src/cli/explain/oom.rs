//! `highwater explain --oom`: why the OOM killer came.

use std::path::Path;
use std::time::Duration;

use super::ExplainArgs;
use crate::cli::exit;
use crate::cli::out::{self, say};
use observe::cgroup::mounts::read_mounts;
use oom::blocks::{Blocks, Found};
use oom::kill::{At, Kill};
use oom::log::{Boot, Reading, read_file, read_kernel};
use oom::now::read_now;
use report::oom::{OomReport, json, text};
use units::written::{counted, seconds};
use verdict::oom::conclude;

/// There where systemd runs the machine (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Less than this is the error of the clocks.
const SUSPENDED_MIN_S: f64 = 1.0;

/// Reads, concludes, prints; the value is the exit code.
pub fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    let boot = Boot::read();
    let report = explain(args.kernel_log.as_deref(), args.since, &boot, args.quiet)?;
    match args.json {
        true => out::print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&json(&report))?
        ))?,
        false => out::print(&text(&report))?,
    }
    Ok(exit::DONE)
}

fn explain(
    file: Option<&Path>,
    since: Option<Duration>,
    boot: &Boot,
    quiet: bool,
) -> anyhow::Result<OomReport> {
    let mut blocks = Blocks::default();
    if let Some(file) = file.filter(|_| !quiet) {
        say!("highwater: reading {}", file.display());
    }
    let reading = match file {
        Some(file) => read_file(file, boot, &mut blocks)?,
        None => read_kernel(boot, &mut blocks)?,
    };
    let Found {
        mut kills,
        left_out,
    } = blocks.finish();
    let count = kills.len();
    let mut notes = Vec::new();
    if let Some(since) = since {
        let is_known = keep_since(&mut kills, since.as_secs_f64(), boot.now_s, &reading);
        notes.extend((!is_known).then(|| {
            "The log has no wall clock: --since is counted back from its last line.".to_owned()
        }));
    }
    let earlier = (count - kills.len()) as u64;
    notes.extend(limits(&reading, left_out, boot, file.is_none()));
    let mounts = read_mounts();
    // A file may be of another machine: the cgroup of the same path here would be another one.
    let now = |path: &str| file.is_none().then(|| read_now(&mounts, path))?;
    Ok(OomReport {
        since_s: since.map(|since| since.as_secs_f64()),
        earlier,
        findings: conclude(kills, now),
        notes,
        reading,
    })
}

/// Drops kills that are older; whether the log's wall clock told.
fn keep_since(kills: &mut Vec<Kill>, since_s: f64, now_s: f64, reading: &Reading) -> bool {
    let last = reading.last.unwrap_or_default();
    if last.wall_s.is_some() {
        let is_recent = |at: At| at.wall_s.is_none_or(|wall_s| wall_s >= now_s - since_s);
        kills.retain(|kill| is_recent(kill.at));
        return true;
    }
    kills.retain(|kill| last.since(kill.at).is_none_or(|seconds| seconds <= since_s));
    false
}

/// What the answer leaves out.
fn limits(reading: &Reading, left_out: u64, boot: &Boot, is_own: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if reading.lines > 0 && reading.first.is_none() {
        notes.push(
            "No line starts with a stamp of dmesg, journalctl or syslog: is it a log of the kernel's?".to_owned(),
        );
    }
    if reading.overwritten > 0 {
        notes.push(format!(
            "The kernel's ring is full: {} before the first line were overwritten. Where a journal is kept, \
             `journalctl -k -b -o json | highwater explain --oom --kernel-log -` goes further back; log_buf_len= makes \
             the ring larger.",
            counted(reading.overwritten, "record", "records")
        ));
    }
    if left_out > 0 {
        notes.push(format!(
            "{} before these were left out.",
            counted(left_out, "kill", "kills")
        ));
    }
    if reading.is_cut {
        let why = "it is too large, or is written faster than it can be read";
        notes.push(format!("The log was not read to its end: {why}."));
    }
    if reading.cut_lines > 0 {
        let lines = counted(reading.cut_lines, "line", "lines");
        notes.push(format!("{lines} longer than 256 KiB were read in part."));
    }
    if is_own && boot.suspended_s > SUSPENDED_MIN_S {
        notes.push(format!(
            "The machine was suspended for {} since boot, which the kernel's stamps leave out: what was written \
             before that happened up to so much earlier than the times here.",
            seconds(boot.suspended_s)
        ));
    }
    if is_own && Path::new(SYSTEMD).exists() {
        notes.push(
            "systemd-oomd writes into the journal, not into the kernel's log: `journalctl --since -1h -o json | \
             highwater explain --oom --kernel-log -` shows its kills too."
                .to_owned(),
        );
    }
    notes
}

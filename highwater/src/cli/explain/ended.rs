//! `highwater explain --core`: a process that has ended.

use std::path::Path;

use anyhow::Context;

use super::ExplainArgs;
use crate::cli::exit;
use crate::cli::out::{self, say};
use heap::corefile::{CoreFile, Unsearched};
use memory::account::account;
use memory::areas::Remembered;
use memory::in_use::{InUse, in_use};
use report::ended::{Ended, json, text};
use units::written::bytes;
use verdict::cause::ended::judge_ended;

/// Files that are named one by one.
const ABSENT_SHOWN: usize = 3;

/// Reads, judges, prints; the value is the exit code.
pub fn run(file: &Path, args: &ExplainArgs) -> anyhow::Result<u8> {
    if !args.quiet {
        say!("highwater: reading {}", file.display());
    }
    let core = CoreFile::open(file, args.exe.as_deref());
    let mut core = core.with_context(|| file.display().to_string())?;
    let ended = explain(file, &mut core);
    match args.json {
        true => out::print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&json(&ended))?
        ))?,
        false => out::print(&text(&ended))?,
    }
    Ok(match ended.verdict.undecided {
        true => exit::UNDECIDED,
        false => exit::DONE,
    })
}

fn explain(file: &Path, core: &mut CoreFile) -> Ended {
    let snapshot = core.snapshot();
    let (account, _) = account(&snapshot, &mut Remembered::default());
    let mut notes = missing(core);
    let found = core.holders(&snapshot);
    let blocks: Option<InUse> = match found {
        Ok(holders) => {
            let mut classes = std::collections::BTreeMap::new();
            for &table in snapshot.types.by_table.keys() {
                classes.insert(table, core.class(&snapshot, table));
            }
            let class = |table: u64| classes.get(&table).cloned().flatten();
            Some(in_use(&snapshot, &holders, class, |at| {
                core.place_of(&snapshot, at)
            }))
        }
        Err(why) => {
            notes.push(unsearched(why));
            None
        }
    };
    if blocks.is_some() && snapshot.walk.as_ref().is_some_and(|walk| !walk.complete) {
        notes.push(
            "A size in glibc's heap cannot be: the heap was being changed, or is corrupted. What lies behind it is not \
             counted as heap."
                .to_owned(),
        );
    }
    let name = |signal: i32| {
        let name = signal_hook::low_level::signal_name(signal);
        name.map_or_else(|| format!("signal {signal}"), str::to_owned)
    };
    Ended {
        file: file.display().to_string(),
        pid: core.pid(),
        command: core.command().to_owned(),
        signal: core.signal().map(name),
        threads: snapshot.threads,
        verdict: judge_ended(&account, blocks.as_ref()),
        in_use: blocks,
        account,
        notes,
    }
}

fn missing(core: &CoreFile) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = core.cut_by() {
        notes.push(format!(
            "The packed file is cut off or damaged, and was unpacked up to there: {why}."
        ));
    }
    if core.missing_bytes() > 0 {
        notes.push(format!(
            "The file ends early: {} that its headers promise are missing. Was there room on the disk, or a limit \
             (`ulimit -c`, ExternalSizeMax= of systemd-coredump)?",
            bytes(core.missing_bytes() as f64)
        ));
    }
    if core.is_cut() {
        notes.push("Not all threads are in it.".to_owned());
    }
    if core.leaves_out_memory() {
        notes.push(
            "Memory of its own is not in the core: /proc/PID/coredump_filter left it out. Bit 0 (0x1) has to be set."
                .to_owned(),
        );
    }
    if core.leaves_out_shared() {
        notes.push(
            "Shared memory is not in the core (bits 1 and 3 of /proc/PID/coredump_filter): what only a pointer there \
             holds seems unreachable."
                .to_owned(),
        );
    }
    let absent = core.absent_files();
    let shown: Vec<&str> = absent
        .iter()
        .take(ABSENT_SHOWN)
        .map(String::as_str)
        .collect();
    if !shown.is_empty() {
        let more = match absent.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        notes.push(format!(
            "Not there, or not as they were mapped: {}{more}. Names of classes and variables in them are missing; \
             --exe FILE says where the program lies now.",
            shown.join(", ")
        ));
    }
    notes
}

fn unsearched(why: Unsearched) -> String {
    let why = match why {
        Unsearched::NoBlocks => {
            "no block of glibc's heap was found: another allocator, or a static program of another libc"
        }
        Unsearched::TooMany => "there are more than 4 million blocks",
        Unsearched::Incomplete => "a part of the memory is not in the core",
        Unsearched::Limits => "it took too long, or there are too many pointers",
    };
    format!("Unreachable blocks were not searched: {why}.")
}

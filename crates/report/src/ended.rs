//! A process that has ended, from its core: text and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::visible::{shortened, visible};
use memory::account::{Account, LiveBy, Part};
use memory::in_use::{Group, InUse, Kind};
use units::written::{bytes, percent};
use verdict::cause::CauseVerdict;
use verdict::cause::ended::kind;

pub const SCHEMA: &str = "highwater.core/1";

const COLUMNS: usize = 96;
/// Kinds of blocks that are shown; JSON has twenty.
const GROUPS_SHOWN: usize = 8;
const PLACES_SHOWN: usize = 3;

/// All that is known of it.
#[derive(Debug, Clone)]
pub struct Ended {
    pub file: String,
    pub pid: i32,
    pub command: String,
    /// Name of the signal that ended it; `None`: it was copied while it ran.
    pub signal: Option<String>,
    pub threads: usize,
    pub account: Account,
    pub in_use: Option<InUse>,
    pub verdict: CauseVerdict,
    /// What is missing, a sentence each.
    pub notes: Vec<String>,
}

/// The whole text, ending with a newline.
pub fn text(ended: &Ended) -> String {
    let mut out = String::new();
    let how = match &ended.signal {
        Some(signal) => format!("ended by {signal}"),
        None => "copied while it ran".to_owned(),
    };
    let command = visible(&shortened(&ended.command, 60)).into_owned();
    let _ = writeln!(
        out,
        "{command} (pid {}), {how}, {} {}\n",
        ended.pid,
        ended.threads,
        if ended.threads == 1 {
            "thread"
        } else {
            "threads"
        }
    );
    let verdict = &ended.verdict;
    let filled = |words: &str| textwrap::fill(words, COLUMNS);
    let sentence = format!(
        "{}: {} (confidence {:.2})",
        verdict.word().to_uppercase(),
        visible(&verdict.sentence),
        verdict.confidence
    );
    let _ = writeln!(out, "{}", filled(&sentence));
    let _ = writeln!(out, "{}\n", filled(&format!("Next: {}", verdict.next_step)));
    for limitation in &verdict.limitations {
        let _ = writeln!(
            out,
            "{}\n",
            filled(&format!("But: {}", visible(limitation)))
        );
    }
    account(&ended.account, &mut out);
    if let Some(blocks) = &ended.in_use {
        groups(blocks, &mut out);
    }
    for note in &ended.notes {
        let _ = writeln!(out, "\n{}", filled(&visible(note)));
    }
    out
}

fn account(account: &Account, out: &mut String) {
    let is_heap = |part: &Part| {
        matches!(
            part,
            Part::LiveHeap | Part::AllocatorHeld | Part::Fragmentation
        )
    };
    for part in Part::SUM
        .iter()
        .filter(|part| !matches!(part, Part::Probe | Part::Unexplained))
    {
        let name = part.word().replace('_', " ");
        let value = match account.live_by == LiveBy::Nobody && is_heap(part) {
            true => "not known".to_owned(),
            false => bytes(account.part(*part)),
        };
        let _ = writeln!(out, "  {name:<24}{value:>12}");
    }
    let _ = writeln!(
        out,
        "  {:<24}{:>12}",
        "in the core, not zero",
        bytes(account.rss_bytes)
    );
}

fn groups(blocks: &InUse, out: &mut String) {
    let _ = writeln!(
        out,
        "\nblocks in use: {}, {}; unreachable {}, {}",
        blocks.count,
        bytes(blocks.bytes as f64),
        blocks.lost_count,
        bytes(blocks.lost_bytes as f64)
    );
    for group in blocks.groups.iter().take(GROUPS_SHOWN) {
        let lost = match group.lost_count {
            0 => String::new(),
            lost => format!(
                "; {} unreachable",
                percent(lost as f64 / group.count.max(1) as f64)
            ),
        };
        let row = format!(
            "  {:>12}  {:>10} {}{lost}",
            bytes(group.bytes as f64),
            group.count,
            visible(&kind(group))
        );
        let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
        let reached = group.count - group.lost_count;
        for (place, count) in group.places.iter().take(PLACES_SHOWN) {
            let row = format!(
                "  {:>26}  held by {}",
                percent(*count as f64 / reached.max(1) as f64),
                visible(place)
            );
            let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
        }
    }
}

/// Bytes are whole numbers, shares 0 to 1.
pub fn json(ended: &Ended) -> Value {
    let verdict = &ended.verdict;
    let parts = Part::SUM.iter().chain(&Part::OF_WHICH);
    let parts =
        parts.map(|part| json!({"name": part.word(), "bytes": ended.account.part(*part).round()}));
    json!({
        "schema": SCHEMA,
        "verdict": {
            "cause": verdict.word(),
            "confidence": (verdict.confidence * 100.0).round() / 100.0,
            "sentence": verdict.sentence,
            "next_step": verdict.next_step,
            "limitations": verdict.limitations,
        },
        "file": ended.file,
        "pid": ended.pid,
        "command": ended.command,
        "signal": ended.signal,
        "threads": ended.threads,
        "resident_bytes": ended.account.rss_bytes.round(),
        "parts": parts.collect::<Vec<_>>(),
        "in_use": ended.in_use.as_ref().map(in_use_json),
        "notes": ended.notes,
    })
}

fn in_use_json(blocks: &InUse) -> Value {
    json!({
        "count": blocks.count,
        "bytes": blocks.bytes,
        "lost_count": blocks.lost_count,
        "lost_bytes": blocks.lost_bytes,
        "held_by": places_json(&blocks.places),
        "kinds": blocks.groups.iter().map(group_json).collect::<Vec<_>>(),
    })
}

fn group_json(group: &Group) -> Value {
    let (class, block_bytes) = match &group.kind {
        Kind::Class(name) => (Some(name), None),
        Kind::Bytes(bytes) => (None, Some(*bytes)),
    };
    json!({
        "class": class,
        "block_bytes": block_bytes,
        "count": group.count,
        "bytes": group.bytes,
        "lost_count": group.lost_count,
        "lost_bytes": group.lost_bytes,
        "held_by": places_json(&group.places),
    })
}

fn places_json(places: &[(String, u64)]) -> Vec<Value> {
    let place = |(place, amount): &(String, u64)| json!({"place": place, "amount": amount});
    places.iter().map(place).collect()
}

//! What the memory of a process was made of when it ended: one moment, of which nothing tells how it came about.
//!
//! The part that is largest decides. Blocks that the program could no longer reach are a *leak*: a fact, like free heap
//! (*retention*), stacks and files. What it could reach may be a leak in its data, a cache or what it needs: undecided,
//! with what holds it.

use super::{Cause, CauseVerdict};
use crate::cause::sentence::{retention_next, verdict};
use memory::account::{Account, LiveBy};
use memory::in_use::{Group, InUse, Kind};
use units::written::{bytes, percent};

/// Nothing but chance words that look like pointers, and pointers that are kept elsewhere than in memory, can make this
/// wrong. Of the cores in highwater/tests/explain/cores.rs all were right.
const OUT_OF_REACH: f64 = 0.9;
/// Counted pages.
const COUNTED: f64 = 0.9;
/// Of a growth one moment tells nothing.
const OPEN: f64 = 0.5;

/// The parts that decide, in bytes.
enum Largest {
    Lost,
    Held,
    Unsearched,
    Free,
    Stacks,
    Mappings,
    Files,
    Shared,
}

/// `in_use`: the blocks of glibc's heap, where they could be searched.
pub fn judge_ended(account: &Account, in_use: Option<&InUse>) -> CauseVerdict {
    let lost = in_use
        .map_or(0.0, |blocks| blocks.lost_bytes as f64)
        .min(account.live);
    let live = account.live - lost;
    let parts = [
        (lost, Largest::Lost),
        (
            live,
            if in_use.is_some() {
                Largest::Held
            } else {
                Largest::Unsearched
            },
        ),
        (account.held + account.fragmentation, Largest::Free),
        (account.stacks, Largest::Stacks),
        (account.anonymous, Largest::Mappings),
        (account.files, Largest::Files),
        (account.shared, Largest::Shared),
    ];
    let largest = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let (part, largest) = largest.unwrap_or((0.0, Largest::Unsearched));
    let share = format!("{} of {} in memory", bytes(part), bytes(account.rss_bytes));
    let mut judged = match (largest, in_use) {
        (Largest::Lost, Some(blocks)) => leak(&share, blocks),
        (Largest::Held, Some(blocks)) => held(&share, blocks),
        (Largest::Free, _) => verdict(
            Cause::Retention,
            COUNTED,
            format!("{share} were free heap that the allocator kept"),
            retention_next(account.fragmentation > account.held),
        ),
        (Largest::Stacks, _) => verdict(
            Cause::Stacks,
            COUNTED,
            format!("{share} were stacks of threads"),
            "look for who starts threads, and for what they wait; `gdb -c CORE` lists them",
        ),
        (Largest::Mappings, _) => mappings(account, &share),
        (Largest::Files, _) => verdict(
            Cause::Files,
            COUNTED,
            format!("{share} were the program's own files: its data and what it wrote to them"),
            "look at its large variables (`nm -S --size-sort`); a core has no page cache",
        ),
        (Largest::Shared, _) => verdict(
            Cause::Mapping,
            COUNTED,
            format!("{share} were shared memory"),
            "look at what is in /dev/shm and who else maps it",
        ),
        _ => undecided(
            format!("{share} were blocks in use; what held them was not searched"),
            "ask the running program with `highwater explain --pid PID`",
        ),
    };
    let share_lost = lost / account.live.max(1.0);
    if judged.cause != Cause::Leak && share_lost > 0.01 {
        judged.limitations.push(format!(
            "{} of the live heap ({}) was unreachable",
            percent(share_lost),
            bytes(lost)
        ));
    }
    judged
}

fn leak(share: &str, blocks: &InUse) -> CauseVerdict {
    let top = blocks.groups.iter().max_by_key(|group| group.lost_bytes);
    let most = top.map_or_else(String::new, |group| {
        let of_lost = group.lost_bytes as f64 / blocks.lost_bytes.max(1) as f64;
        format!(", {} of it in {}", percent(of_lost), kind(group))
    });
    let sentence = format!(
        "{} of the {} blocks in use are unreachable: {share}{most}",
        blocks.lost_count, blocks.count
    );
    let next = "start it with `highwater explain -- CMD`, or ask a running one with `highwater explain --pid PID` as \
        root: that names the function that allocates them";
    verdict(Cause::Leak, OUT_OF_REACH, sentence, next)
}

fn held(share: &str, blocks: &InUse) -> CauseVerdict {
    let reached = (blocks.bytes - blocks.lost_bytes).max(1) as f64;
    let holder = blocks.places.first().map(|(place, bytes)| {
        format!(
            "; {} of it is held by {place}",
            percent(*bytes as f64 / reached)
        )
    });
    let top = blocks.groups.first().map(|group| {
        let share = group.bytes as f64 / blocks.bytes.max(1) as f64;
        format!(", {} in {}", percent(share), kind(group))
    });
    let sentence = format!(
        "{share} were reachable blocks in use{}{}; one moment does not show whether they became \
         more",
        top.unwrap_or_default(),
        holder.unwrap_or_default()
    );
    undecided(
        sentence,
        "look at what bounds that; two moments of a running process show what grows (`highwater explain --pid PID`)",
    )
}

fn mappings(account: &Account, share: &str) -> CauseVerdict {
    let is_unknown =
        account.live_by == LiveBy::Nobody || account.undivided > 0.5 * account.anonymous;
    let words = match is_unknown {
        true => {
            "belonged to no heap of glibc's: another allocator's, a runtime's, or the program's own mappings"
        }
        false => "were mappings outside of the heap: the program's own, or a runtime's",
    };
    undecided(
        format!("{share} {words}"),
        "ask the running program with `highwater explain --pid PID` as root, or the runtime's own profiler",
    )
}

fn undecided(sentence: String, next_step: &str) -> CauseVerdict {
    CauseVerdict {
        undecided: true,
        ..verdict(Cause::Blind, OPEN, sentence, next_step)
    }
}

/// "objects of class Order", "blocks of 64 bytes".
pub fn kind(group: &Group) -> String {
    match &group.kind {
        Kind::Class(name) => format!("objects of class {name}"),
        Kind::Bytes(bytes) => format!("blocks of {bytes} bytes"),
    }
}

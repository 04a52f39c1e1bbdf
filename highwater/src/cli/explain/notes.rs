//! What limits an answer: said below it, in whole sentences.

use std::collections::BTreeMap;

use super::follow::Follower;
use super::launch::Launched;
use super::sight::{allocators, sight};
use super::tracked::{Tracked, words_of};
use heap::linked::place::On;
use observe::proc::open::Lost;
use units::written::bytes;
use verdict::cause::Sight;

/// On the process `chosen`, in the order in which they matter.
pub fn notes(follower: &Follower, launched: Option<&Launched>, chosen: i32) -> Vec<String> {
    let mut all = follower.tracked.values();
    let Some(tracked) = all.find(|tracked| tracked.reader.member.pid == chosen) else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    notes.extend(on_sight(tracked, launched, follower.reads_only));
    notes.extend(on_traps(tracked));
    notes.extend(on_memory(tracked));
    notes.extend(on_end(tracked, launched));
    notes.extend(on_search(tracked));
    notes.extend(on_names(tracked));
    notes.extend(on_limits(tracked));
    notes.extend(tracked.heaps.notes());
    notes.extend(on_unread(&follower.unread));
    notes
}

/// One sentence for those of other users, of which there may be many.
fn on_unread(unread: &BTreeMap<i32, Lost>) -> Vec<String> {
    let is_denied = |(_, why): &(&i32, &Lost)| **why == Lost::Denied;
    let (denied, odd): (Vec<_>, Vec<_>) = unread.iter().partition(is_denied);
    let pids: Vec<String> = denied.iter().map(|(pid, _)| pid.to_string()).collect();
    let denied =
        (!pids.is_empty()).then(|| format!("Not readable, left out: pid {}.", pids.join(", ")));
    let odd = odd
        .iter()
        .map(|(pid, why)| format!("Left out: pid {pid}: {}.", words_of(why)));
    denied.into_iter().chain(odd).collect()
}

fn on_sight(tracked: &Tracked, launched: Option<&Launched>, reads_only: bool) -> Option<String> {
    match sight(tracked, launched) {
        // Why there are no uprobes is said elsewhere.
        Sight::NotAsked if !reads_only && rustix::process::geteuid().is_root() => None,
        Sight::NotAsked => Some(format!(
            "Only /proc was read: no site has a name, and a leak cannot be distinguished from a cache. \
             Run explain as root without --read-only, or start the program with it: highwater explain -- {}",
            tracked.command
        )),
        Sight::Absent(why) => Some(format!("The probe is not used: {why}.")),
        Sight::Sees | Sight::SeesNothing => {
            let off = tracked.snapshot.probe.as_ref()?.off?;
            Some(format!("The probe is off since then: {off}."))
        }
    }
}

fn on_traps(tracked: &Tracked) -> Option<String> {
    let traps = tracked.snapshot.probe.as_ref()?.traps?;
    let cut = match traps.watched_share < 1.0 {
        true if !traps.sees_frees && traps.has_headers() => {
            ", and only for part of the time, for its allocator is called too often to watch every call; what was \
             freed unseen, glibc's headers tell"
        }
        true if !traps.sees_frees => {
            ", and only for part of the time, for its allocator is called too often to watch every call: what \
             lives longer than a tenth of a second is counted, and its end may go unseen"
        }
        _ if !traps.sees_all() => {
            ", and some of its blocks are freed past them (inlined, or by functions without names): what is live is \
             less than what is said"
        }
        true => {
            "; allocations are sampled for part of the time only, for its allocator is called too often to watch \
             every call, and the sampled blocks are followed until they are freed"
        }
        false => "",
    };
    let answering = allocators(tracked)
        .into_iter()
        .find(|(_, is_seen)| *is_seen);
    let name = answering.map_or_else(|| "malloc".to_owned(), |(allocator, _)| allocator.name);
    let whose = match traps.on {
        On::Program => "Its linked-in allocator".to_owned(),
        On::Library | On::Glibc => format!("Its allocator ({name})"),
    };
    Some(format!(
        "{whose} is seen by uprobes, from when they were put on{cut}; their cost is in its \
         own CPU time."
    ))
}

fn on_memory(tracked: &Tracked) -> Option<String> {
    if tracked.snapshot.memory_denied {
        let note = "Its memory may not be read (ptrace_scope, or another user), so its heap cannot be divided.";
        return Some(note.to_owned());
    }
    let walk = tracked.snapshot.walk.as_ref()?;
    (walk.unread_bytes > 0).then(|| {
        let unread = bytes(walk.unread_bytes as f64);
        format!("{unread} of heap were too much to walk and are estimated from samples.")
    })
}

fn on_end(tracked: &Tracked, launched: Option<&Launched>) -> Option<String> {
    match launched.and_then(|launched| launched.status) {
        Some(status) => Some(format!(
            "The program ended by itself ({status}); this is its last moment."
        )),
        None => tracked
            .ended
            .then(|| "The process has ended; this is its last moment.".to_owned()),
    }
}

/// What the search for pointers could not see.
fn on_search(tracked: &Tracked) -> Option<String> {
    if tracked.search_is_cut {
        let kept = match tracked.lost.is_empty() {
            true => "so it is not known whether what grows is still held",
            false => "so unreachable blocks may be those of half time",
        };
        return Some(format!(
            "The machine was too busy to search the program's memory for pointers in time, {kept}."
        ));
    }
    let lost: usize = tracked.lost.values().map(|(lost, _)| lost).sum();
    (lost > 0 && tracked.reader.has_uring()).then(|| {
        "It uses io_uring: a block that only a pending request points to (user_data) looks lost, \
         for that cannot be read."
            .to_owned()
    })
}

/// What was left out because the process has more of it than a real one.
fn on_limits(tracked: &Tracked) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(probe) = &tracked.snapshot.probe {
        if probe.unread_mappings > 0 {
            notes.push(format!(
                "{} mappings with the probe's name were not read: a process has one or two. It imitates the probe, \
                 or its memory is corrupt: do not rely on the sites.",
                probe.unread_mappings
            ));
        }
        if probe.unread_stacks > 0 {
            notes.push(format!(
                "{} stacks of the probe were not read: their frames overlap, so its memory is corrupt.",
                probe.unread_stacks
            ));
        }
    }
    if tracked.namer.left_out > 0 {
        notes.push(format!(
            "{} stacks were not named: more than the limit for one process.",
            tracked.namer.left_out
        ));
    }
    let ignored = tracked.namer.ignored_perf_map.iter();
    notes.extend(ignored.map(|ignored| format!("{ignored}.")));
    notes
}

fn on_names(tracked: &Tracked) -> Option<String> {
    let why = "could not be read in time (it is large, or the machine busy)";
    match tracked.unnamed {
        0 if tracked.namer.is_behind() => {
            return Some(format!(
                "Debug information {why}: functions are those of symbol tables, some without file and line."
            ));
        }
        0 => {}
        count => {
            return Some(format!(
                "What names the frames of {count} stacks {why}: module+offset instead."
            ));
        }
    }
    let without = &tracked.namer.without_symbols;
    (!without.is_empty()).then(|| {
        let modules = without.join(", ");
        format!("No symbols for some addresses in {modules}: module+offset instead.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::proc::fields::Malformed;

    #[test]
    fn what_could_not_be_read_is_said_with_its_reason() {
        let odd = Lost::Malformed(Malformed::new("/proc/PID/smaps", "not an area: \"x\""));
        let unread = [(7, Lost::Denied), (9, odd), (11, Lost::Denied)].into();
        let notes = on_unread(&unread);
        assert_eq!(notes[0], "Not readable, left out: pid 7, 11.");
        assert!(
            notes[1].contains("pid 9") && notes[1].contains("not an area"),
            "{notes:?}"
        );
        assert!(on_unread(&BTreeMap::new()).is_empty());
    }
}

//! What is seen of the process's allocators, and what would let more be seen.

use super::launch::Launched;
use super::tracked::Tracked;
use heap::Uprobes;
use heap::linked::place::On;
use heap::memory_managers::{Allocator, How, MemoryManagers};
use verdict::cause::Sight;

/// What would let uprobes see an allocator that is linked in.
pub fn no_uprobes(tracked: &Tracked) -> Option<String> {
    match &tracked.reader.uprobes {
        Uprobes::NotAsked | Uprobes::Wanted { .. } | Uprobes::On(_) => None,
        Uprobes::NoFunctions => Some(
            "explain as root puts uprobes on a linked-in allocator where the program's symbol table names its \
             functions (malloc and free, mi_*, _rjem_* ...): do not strip it"
                .to_owned(),
        ),
        Uprobes::Refused(why) => Some(format!(
            "run explain as root, or with CAP_BPF and CAP_PERFMON: it then puts uprobes on the allocator's functions \
             (refused now: {why})"
        )),
    }
}

/// Whether a probe sees the process's calls, or why none does.
pub fn sight(tracked: &Tracked, launched: Option<&Launched>) -> Sight {
    if let Some(probe) = &tracked.snapshot.probe {
        return if probe.allocs > 0 || probe.metered != 0 {
            Sight::Sees
        } else {
            Sight::SeesNothing
        };
    }
    if let Some(problem) = &tracked.snapshot.probe_problem {
        return Sight::Absent(problem.clone());
    }
    match launched {
        None => Sight::NotAsked,
        Some(Launched {
            without_probe: Some(why),
            ..
        }) => Sight::Absent(why.clone()),
        Some(_) => Sight::Absent("the dynamic linker did not load it".to_owned()),
    }
}

/// Allocators with whether the probe sees their calls. The C library's is left out where another one
/// answers malloc.
pub fn allocators(tracked: &Tracked) -> Vec<(Allocator, bool)> {
    let probe = tracked
        .snapshot
        .probe
        .as_ref()
        .filter(|probe| probe.allocs > 0);
    let file_of = |address: u64| {
        let area = tracked
            .snapshot
            .areas
            .iter()
            .find(|area| area.holds(address))?;
        Some(area.name.trim_end_matches(" (deleted)"))
    };
    let traps = probe.and_then(|probe| probe.traps);
    let answers = probe.and_then(|probe| file_of(probe.next_malloc));
    let metered = probe.and_then(|probe| file_of(probe.metered));
    let all = tracked.managers.allocators.iter();
    let used = all.filter(|allocator| {
        let answered = answers == Some(allocator.path.as_str());
        answers.is_none() || answered || allocator.how != How::Libc || allocator.inside_program
    });
    used.map(|allocator| {
        let by = if allocator.inside_program {
            metered
        } else {
            answers
        };
        let on_program = traps.is_some_and(|traps| traps.on == On::Program);
        let is_probed = on_program && allocator.inside_program;
        (
            allocator.clone(),
            is_probed || by == Some(allocator.path.as_str()),
        )
    })
    .collect()
}

/// Who lives in the process, less the allocators inside the program that a meter sees.
pub fn unseen(tracked: &Tracked) -> MemoryManagers {
    let mut managers = tracked.managers.clone();
    let seen = allocators(tracked).into_iter().filter(|(_, seen)| *seen);
    let seen: Vec<Allocator> = seen.map(|(allocator, _)| allocator).collect();
    managers
        .allocators
        .retain(|allocator| !seen.contains(allocator));
    managers
}

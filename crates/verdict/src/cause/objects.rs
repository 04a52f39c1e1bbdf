//! What the inside of a managed heap adds to the cause: the types, sites or tasks that grow, and what holds them.

mod finding;
mod findings;
mod frames;
mod parts;
mod tasks;

use super::sentence::verdict;
use super::{Case, Cause, CauseVerdict, GROWN_BYTES_MIN, GROWN_SHARE, Owner, Part, heap};
use ::heap::memory_managers::Runtime;
use finding::Finding;
use findings::finding;
use memory::managed::{ManagedGrowth, TypeGrowth};
use runtimes::{Frame, Language, is_of_the_language};
use symbols::frame::JAVA_MODULE;
use symbols::hotspot::is_jvm;
use units::written::{bytes, counted};

/// Share of the process's growth that the objects must explain to be its cause.
const MOST: f64 = 0.5;
/// Below this share they are no part of it.
const LITTLE: f64 = 0.2;
/// Share of RSS that objects must have grown by to be the cause while RSS itself does not rise evenly.
const BEFORE_SHARE: f64 = 0.03;
/// Snapshots from which a growth is chance in 1 of 20 cases ([`memory::managed`]).
const SNAPSHOTS_ENOUGH: usize = 9;
/// Snapshots below which nothing is decided.
const SNAPSHOTS_FEW: usize = 4;
/// New objects of a library's type that may own native memory.
const OBJECTS_MIN: f64 = 20.0;

/// The verdict with what is known of the managed heap in it.
pub fn refined(case: &Case, first: CauseVerdict) -> CauseVerdict {
    let Some(managed) = &case.managed else {
        return first;
    };
    let Some(finding) = finding(managed) else {
        return without_objects(case, managed, first);
    };
    let all = grown_bytes(case);
    let least = GROWN_BYTES_MIN.max(GROWN_SHARE * case.account.rss_bytes);
    // What is in use in the heap is known, and becomes more: what the runtime takes beyond it is room.
    let is_heap = managed.live.is_some() && first.cause == Cause::Managed && !first.undecided;
    let of_objects = !finding.by_part && !finding.by_task;
    let is_known = of_objects && (is_heap || outweighs(case, managed, &first));
    let is_clear = managed.live.is_some_and(|live| live.is_clear);
    let share = if is_known && is_clear { 0.0 } else { LITTLE };
    if finding.bytes < least.max(share * all) {
        return few_bytes(case, managed, first);
    }
    if all == 0.0 {
        return before_rss(case, first, finding);
    }
    // Each thread costs the JVM memory of its own, beside the stack.
    let is_jvms = case.sites.first().is_some_and(|site| is_jvms(&site.frames));
    let of_threads = finding.by_task && is_jvms && first.cause == Cause::Filling;
    if finding.bytes < MOST * all && !is_known && !of_threads {
        return beside(first, "beside it ", &finding);
    }
    if names_a_site(case, &first) && !hold_its_blocks(case, &first, &finding) {
        // What looks used from outside is lost, by the references that Python counts.
        let is_lost = finding.cause == Cause::Leak && finding.values >= SNAPSHOTS_FEW;
        return match first.cause == Cause::Filling && is_lost {
            true => lost_at_a_site(case, finding),
            false => beside(first, "", &finding),
        };
    }
    let confidence = match (finding.is_certain, finding.values) {
        (true, SNAPSHOTS_ENOUGH..) => 0.9,
        (false, SNAPSHOTS_ENOUGH..) => 0.75,
        (_, SNAPSHOTS_FEW..) => 0.7,
        _ if is_known => 0.6,
        _ => 0.5,
    };
    CauseVerdict {
        undecided: finding.values < SNAPSHOTS_FEW && !is_known,
        by_objects: true,
        ..verdict(finding.cause, confidence, finding.sentence, &finding.next)
    }
}

/// Objects that are in use become more, by more than the native blocks that the first answer is about.
fn outweighs(case: &Case, managed: &ManagedGrowth, first: &CauseVerdict) -> bool {
    let is_native = matches!(first.cause, Cause::Leak | Cause::Filling);
    let live = managed.live.filter(|live| live.is_clear);
    let native = case.part(Part::LiveHeap).bytes;
    is_native && !names_a_site(case, first) && live.is_some_and(|live| live.grown > native)
}

/// The runtime allocates the blocks for managed code, as the bytes of a Buffer, and objects that are known to grow as
/// much own them: what keeps those objects keeps the blocks, and references that the runtime counts tell more of that
/// than a search for pointers in memory that changes.
fn hold_its_blocks(case: &Case, first: &CauseVerdict, finding: &Finding) -> bool {
    let frame = case.sites.first().and_then(|site| site.frames.first());
    let is_for_managed = frame.is_some_and(Frame::is_managed);
    let is_as_much = finding.bytes >= MOST * case.part(Part::LiveHeap).bytes;
    let are_held = first.cause == Cause::Leak && finding.cause == Cause::Managed;
    (first.cause == Cause::Filling || are_held)
        && is_for_managed
        && is_as_much
        && finding.is_certain
        && finding.values >= SNAPSHOTS_FEW
}

/// References that native code lost, and the native site that makes the blocks.
fn lost_at_a_site(case: &Case, finding: Finding) -> CauseVerdict {
    let place = case.sites.first().map_or_else(String::new, heap::placed);
    let sentence = format!(
        "{}; their blocks are allocated at {place}",
        finding.sentence
    );
    CauseVerdict {
        by_objects: true,
        ..verdict(Cause::Leak, 0.9, sentence, &finding.next)
    }
}

/// Objects that are in use become more, and RSS does not rise evenly with them: a heap has room for some time and takes
/// more in steps. What is known of the objects is enough where nothing else grows.
fn before_rss(case: &Case, first: CauseVerdict, finding: Finding) -> CauseVerdict {
    let is_much = finding.bytes > BEFORE_SHARE * case.account.rss_bytes && !finding.by_part;
    let is_seen = case.rss.is_some() && finding.values >= SNAPSHOTS_FEW;
    if first.cause != Cause::Flat || !is_seen || !is_much {
        return beside(first, "RSS does not rise so far, and yet ", &finding);
    }
    let confidence = match (finding.is_certain, finding.values) {
        (true, SNAPSHOTS_ENOUGH..) => 0.75,
        (true, _) => 0.6,
        (false, _) => 0.5,
    };
    let sentence = format!("{}; RSS follows in steps", finding.sentence);
    CauseVerdict {
        by_objects: true,
        ..verdict(finding.cause, confidence, sentence, &finding.next)
    }
}

/// The objects are too few bytes to be the growth. Objects of libraries often own memory outside of the managed heap
/// (arrays, images, connections): those that become more are named all the same.
fn few_bytes(case: &Case, managed: &ManagedGrowth, first: CauseVerdict) -> CauseVerdict {
    let is_own = |of: &&TypeGrowth| !is_of_the_language(managed.language, &of.name);
    let is_more = |of: &&TypeGrowth| of.objects.is_clear && of.objects.grown >= OBJECTS_MIN;
    let own = managed.types.iter().filter(is_own).find(is_more);
    let mut verdict = without_objects(case, managed, first);
    if let Some(own) =
        own.filter(|own| grown_bytes(case) > 0.0 && own.objects.values >= SNAPSHOTS_FEW)
    {
        verdict.sentence.push_str(&format!(
            "; {:.0} more {} ({:.0} now) may own memory outside of the {} heap",
            own.objects.grown,
            own.name,
            own.objects.level,
            managed.language.word()
        ));
    }
    verdict
}

/// The objects do not grow, though the runtime was taken to own what does.
fn without_objects(case: &Case, managed: &ManagedGrowth, first: CauseVerdict) -> CauseVerdict {
    let is_guess =
        first.cause == Cause::Managed && matches!(case.owner, Owner::Runtime(Runtime::Python));
    if let Some(objects) = managed.objects.filter(|of| of.values < SNAPSHOTS_FEW)
        && first.cause == Cause::Managed
    {
        return read_too_rarely(managed, objects.values, first);
    }
    let all = grown_bytes(case);
    if let Some(verdict) = only_room(managed, all, &first) {
        return verdict;
    }
    let is_little = all < BEFORE_SHARE * case.account.rss_bytes;
    let is_uncollected = managed.collections == Some(0) && managed.objects.is_none();
    if first.cause == Cause::Managed && is_little && is_uncollected {
        return not_collected(first);
    }
    let objects = managed.objects.filter(|_| is_guess && !managed.is_partial);
    let Some(objects) = objects.filter(|objects| objects.grown < LITTLE * all) else {
        return first;
    };
    let sentence = format!(
        "memory outside of any known heap grows by {}, and Python's own objects ({}) do not: it is native memory, of \
         an extension module or of an allocator",
        bytes(all),
        bytes(objects.level)
    );
    let next = format!(
        "start it with the probe, which names the native site: {}",
        case.restart
    );
    verdict(Cause::Blind, 0.7, sentence, &next)
}

/// The heap takes more from the system, and what is in use does not become more.
fn only_room(managed: &ManagedGrowth, all: f64, first: &CauseVerdict) -> Option<CauseVerdict> {
    const CONFIDENCE: f64 = 0.6;
    let live = managed.live.filter(|live| live.values >= SNAPSHOTS_FEW)?;
    let is_little = live.grown < BEFORE_SHARE * live.level || !live.is_clear;
    let is_room = first.cause == Cause::Managed && is_little && live.grown < LITTLE * all;
    let sentence = format!(
        "the {} heap takes {} more from the system, and what is in use stays at {}: room that the runtime keeps",
        managed.language.word(),
        bytes(all),
        bytes(live.level)
    );
    let less = match managed.language {
        Language::Java => "-Xmx, or -XX:G1PeriodicGCInterval with G1,",
        _ => "--max-semi-space-size or --max-old-space-size",
    };
    let next = format!(
        "nothing to do if it levels off, which a longer --duration shows; a lower {less} makes the runtime keep less"
    );
    is_room.then(|| verdict(Cause::Flat, CONFIDENCE, sentence, &next))
}

/// Between two collections every heap fills, and this one by little.
fn not_collected(first: CauseVerdict) -> CauseVerdict {
    let sentence = format!(
        "{}; there was no collection in this time, before which dead objects look like any other",
        first.sentence
    );
    let next = "observe for longer than its collections are apart (--duration)";
    CauseVerdict {
        undecided: true,
        ..verdict(first.cause, 0.5, sentence, next)
    }
}

/// A large heap, or a busy machine: which types grow is not known yet, and more time would tell.
fn read_too_rarely(managed: &ManagedGrowth, times: usize, first: CauseVerdict) -> CauseVerdict {
    let next = format!(
        "observe longer (--duration): the heap of {} was read {} in this time, and {SNAPSHOTS_FEW} readings tell which \
         types grow",
        managed.language.word(),
        counted(times as u64, "time", "times")
    );
    CauseVerdict {
        undecided: true,
        ..verdict(first.cause, 0.5, first.sentence, &next)
    }
}

/// What the process grew by: RSS, or, where that is not clear, the part that grew most.
fn grown_bytes(case: &Case) -> f64 {
    let grows = |growth: &&memory::growth::Growth| case.grows(growth);
    let parts = case
        .growth
        .values()
        .filter(grows)
        .map(|growth| growth.bytes);
    match case.rss.as_ref().filter(grows) {
        Some(rss) => rss.bytes,
        None => parts.fold(0.0, f64::max),
    }
}

fn is_jvms(frames: &[Frame]) -> bool {
    let inner = frames.first().is_some_and(|frame| is_jvm(&frame.module));
    inner && frames.iter().all(|frame| frame.module != JAVA_MODULE)
}

/// Whether a verdict already names a function of native code with some confidence. What the JVM allocates, and no
/// method of Java asked for, is its own memory (the compiler's, the descriptions of classes): it names nothing of the
/// program.
fn names_a_site(case: &Case, first: &CauseVerdict) -> bool {
    let is_native = matches!(first.cause, Cause::Leak | Cause::Filling);
    let site = case.sites.first().filter(|site| !is_jvms(&site.frames));
    is_native && site.is_some() && !first.undecided && first.confidence > 0.6
}

/// `how`: words between what was found first and this, if any.
fn beside(mut first: CauseVerdict, how: &str, finding: &Finding) -> CauseVerdict {
    // Two values rise in half of all cases.
    if finding.values < SNAPSHOTS_FEW {
        return first;
    }
    for part in ["; ", how, &finding.sentence] {
        first.sentence.push_str(part);
    }
    first.next_step.push_str(&format!("; and {}", finding.next));
    first
}

#[cfg(test)]
mod tests;

//! What the inside of a managed heap adds to the cause: the types, sites or tasks that grow, and what holds them.

use super::sentence::verdict;
use super::{Case, Cause, CauseVerdict, GROWN_BYTES_MIN, GROWN_SHARE, Owner};
use ::heap::inhabitants::Runtime;
use memory::brief::brief;
use memory::managed::{ManagedGrowth, Rise, RootGrowth, SiteGrowth, TaskGrowth, TypeGrowth};
use runtimes::{Frame, Holder, Kept, Language, RootCount, is_of_the_standard_library};
use units::written::{bytes, bytes_per_hour};

/// Share of the process's growth that the objects must explain to be its cause.
const MOST: f64 = 0.5;
/// Below this share they are no part of it.
const LITTLE: f64 = 0.2;
/// Snapshots from which a growth is chance in 1 of 20 cases ([`memory::managed`]).
const SNAPSHOTS_ENOUGH: usize = 9;
/// Snapshots below which nothing is decided.
const SNAPSHOTS_FEW: usize = 4;
/// New objects of a library's type that may own native memory.
const OBJECTS_MIN: f64 = 20.0;
/// Tasks that must have become more, and by this share of those before, to be named.
const TASKS_MIN: f64 = 10.0;
const TASKS_SHARE: f64 = 0.05;

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
    if finding.bytes < least.max(LITTLE * all) {
        return few_bytes(case, managed, first, &finding);
    }
    if all == 0.0 {
        return beside(first, "RSS does not rise so far, and yet", &finding);
    }
    if finding.bytes < MOST * all {
        return beside(first, "beside it", &finding);
    }
    if names_a_site(case, &first) {
        return with_objects(first, &finding);
    }
    let enough = managed.snapshots >= SNAPSHOTS_ENOUGH;
    let confidence = match (finding.is_certain, enough) {
        (true, true) => 0.9,
        (false, true) => 0.75,
        _ if managed.snapshots >= SNAPSHOTS_FEW => 0.7,
        _ => 0.5,
    };
    CauseVerdict {
        undecided: managed.snapshots < SNAPSHOTS_FEW,
        ..verdict(finding.cause, confidence, finding.sentence, &finding.next)
    }
}

/// What grows in a managed heap, as a sentence.
struct Finding {
    cause: Cause,
    /// What it explains of the growth.
    bytes: f64,
    /// What keeps the objects is known, or who starts the tasks.
    is_certain: bool,
    sentence: String,
    /// The same as a clause behind another sentence.
    clause: String,
    next: String,
}

/// What explains most: objects, or the stacks of tasks.
fn finding(managed: &ManagedGrowth) -> Option<Finding> {
    let tasks = managed.tasks.iter().find(|tasks| is_many(tasks));
    let tasks = tasks.map(|tasks| by_task(managed, tasks));
    let objects = by_type(managed)
        .or_else(|| by_site(managed))
        .or_else(|| by_root(managed));
    match (tasks, objects) {
        // What the stacks of the tasks hold goes with the tasks.
        (Some(tasks), Some(objects)) if objects.bytes > tasks.bytes && !is_of_stacks(managed) => {
            Some(Finding {
                sentence: format!("{}; and {}", objects.sentence, tasks.clause),
                bytes: objects.bytes + tasks.bytes,
                ..objects
            })
        }
        (Some(tasks), objects) => Some(Finding {
            bytes: tasks.bytes + objects.map_or(0.0, |objects| objects.bytes),
            ..tasks
        }),
        (None, objects) => objects,
    }
}

/// Most of the objects that grow are held by stacks.
fn is_of_stacks(managed: &ManagedGrowth) -> bool {
    first_root(managed).is_some_and(|of| of.root.name.starts_with("stack of "))
}

/// More tasks of the same origin, not only other places at which the same ones stand.
fn is_many(tasks: &TaskGrowth) -> bool {
    let all = tasks.of_creator;
    let before = all.level - all.grown;
    let is_new = all.is_clear && all.grown >= MOST * tasks.tasks.grown;
    is_new && all.grown >= TASKS_MIN.max(TASKS_SHARE * before)
}

fn by_type(managed: &ManagedGrowth) -> Option<Finding> {
    let lead = lead(managed)?;
    let holder = managed.holder_of(&lead.name);
    let language = managed.language.word();
    let grown = |rise: &Rise| {
        let over_s = rise.grown / rise.per_hour * 3600.0;
        format!(
            "{} in {over_s:.0} s ({})",
            bytes(rise.grown),
            bytes_per_hour(rise.per_hour)
        )
    };
    let all = match managed.objects.filter(|all| all.is_clear) {
        Some(all) => format!("{language} objects grow by {}", grown(&all)),
        None => format!("{language} objects grow"),
    };
    let what = format!(
        "{:.0} more {} ({:.0} now, +{})",
        lead.objects.grown,
        lead.name,
        lead.objects.level,
        bytes(lead.bytes.grown)
    );
    let held = match holder {
        Some(holder) if holder.kept == Kept::Path => format!(", held by {}", holder.path.join(" ")),
        Some(holder) => format!("; {}", holder.path.join(" ")),
        None => String::new(),
    };
    let users: Vec<String> = holder
        .map_or(&[][..], |holder| &holder.users[..])
        .iter()
        .map(|user| short(user))
        .collect();
    let is_native = holder.is_some_and(|holder| holder.kept == Kept::Native);
    let used = match &users[..] {
        [] => String::new(),
        modules if is_native => {
            format!("; extension modules in the process: {}", modules.join(", "))
        }
        users => format!("; code that uses it: {}", users.join(", ")),
    };
    let makers: Vec<String> = holder
        .map_or(&[][..], |holder| &holder.makers[..])
        .iter()
        .map(|maker| short(maker))
        .collect();
    let used = match makers.split_first() {
        None => used,
        Some((first, _)) => format!("{used}; made by {first}"),
    };
    let is_leak = holder.is_some_and(|holder| matches!(holder.kept, Kept::Native | Kept::Cycle));
    Some(Finding {
        cause: if is_leak { Cause::Leak } else { Cause::Managed },
        bytes: managed.grown_bytes(),
        is_certain: holder.is_some(),
        sentence: format!("{all}: {what}{held}{used}"),
        clause: format!(
            "of its {language} objects those of {} grow: {what}{held}{used}",
            lead.name
        ),
        next: next_step(&lead.name, holder, users.first()),
    })
}

const NEVER_DROPPED: &str = "it takes a reference and never drops it";

fn next_step(type_name: &str, holder: Option<&Holder>, user: Option<&String>) -> String {
    match (holder.map(|holder| holder.kept), user) {
        (Some(Kept::Native), Some(module)) => {
            format!("read the code of {module} that makes {type_name} objects: {NEVER_DROPPED}")
        }
        (Some(Kept::Native), None) => {
            format!("read the native code that makes {type_name} objects: {NEVER_DROPPED}")
        }
        (Some(Kept::Cycle), _) => {
            "break the cycles where the objects are given up (weakref), or run the collector: gc.collect() frees them"
                .to_owned()
        }
        (Some(Kept::Garbage), _) => "observe for longer: the next collection may free them".to_owned(),
        (Some(Kept::Path), Some(user)) => format!("read {user}: what it adds is not taken out again"),
        (Some(Kept::Path), None) => "give that container a bound, or take out what is no longer needed".to_owned(),
        (None, _) => format!("find out what keeps {type_name} objects alive"),
    }
}

/// The type that tells most: of the program's or a library's own types that become more as fast as any, the one nearest
/// to what holds it (an order, not its lines); unless those are few beside the types of the language. Else the one with
/// most new bytes.
fn lead(managed: &ManagedGrowth) -> Option<&TypeGrowth> {
    /// Of the most new objects of any own type.
    const AS_FAST: f64 = 0.5;
    /// Of the new objects or bytes of any type.
    const FEW: f64 = 0.02;
    let first = managed.types.first()?;
    let most = |of: &[&TypeGrowth]| of.iter().map(|of| of.objects.grown).fold(0.0, f64::max);
    let is_own = |of: &&TypeGrowth| !runtimes::is_of_the_language(&of.name);
    let all: Vec<&TypeGrowth> = managed.types.iter().collect();
    let own: Vec<&TypeGrowth> = managed.types.iter().filter(is_own).collect();
    let (most_own, most_all) = (most(&own), most(&all));
    let tells = |of: &&TypeGrowth| {
        of.objects.grown >= FEW * most_all || of.bytes.grown >= FEW * first.bytes.grown
    };
    let fast = own
        .into_iter()
        .filter(|of| of.objects.grown >= AS_FAST * most_own)
        .filter(tells);
    let distance = |of: &&TypeGrowth| {
        managed
            .holder_of(&of.name)
            .map_or(usize::MAX, |holder| holder.path.len())
    };
    let nearest = |a: &&TypeGrowth, b: &&TypeGrowth| {
        let by_bytes = b.bytes.grown.total_cmp(&a.bytes.grown);
        distance(a).cmp(&distance(b)).then(by_bytes)
    };
    Some(fast.min_by(nearest).unwrap_or(first))
}

fn by_site(managed: &ManagedGrowth) -> Option<Finding> {
    let site = managed.sites.first()?;
    let language = managed.language.word();
    let place = place_of(&site.frames)?;
    let all: f64 = managed.sites.iter().map(|of| of.bytes.grown).sum();
    let rate = bytes_per_hour(site.bytes.per_hour);
    let what = format!(
        "{} of it ({rate}) allocated by {place}{}{}",
        bytes(site.bytes.grown),
        called_by(site),
        held_by_root(managed, site.bytes.grown)
    );
    Some(Finding {
        cause: Cause::Managed,
        bytes: managed.grown_bytes(),
        is_certain: true,
        sentence: format!(
            "live objects in the {language} heap grow by {}: {what}",
            bytes(all)
        ),
        clause: format!("of its {language} heap {what}"),
        next: format!("read {place}: find out what keeps its objects, and give that a bound"),
    })
}

/// ", held by main.store (map[string]*main.Profile)": the variable whose objects grow most, if they are half of what
/// the sites do.
fn held_by_root(managed: &ManagedGrowth, least: f64) -> String {
    let root = first_root(managed).filter(|of| of.bytes.grown >= MOST * least);
    root.map_or_else(String::new, |of| format!(", held by {}", name_of(&of.root)))
}

/// The variable of the program whose objects grow most.
fn first_root(managed: &ManagedGrowth) -> Option<&RootGrowth> {
    let is_own = |of: &&RootGrowth| {
        let name = of.root.name.trim_start_matches("stack of ");
        name != "the runtime" && !is_of_the_standard_library(name, Some(".go"))
    };
    managed.roots.iter().find(is_own)
}

fn name_of(root: &RootCount) -> String {
    match &root.type_name {
        Some(type_name) => format!("{} ({type_name})", root.name),
        None => root.name.clone(),
    }
}

fn by_root(managed: &ManagedGrowth) -> Option<Finding> {
    let of = first_root(managed)?;
    let language = managed.language.word();
    let name = name_of(&of.root);
    let holder = managed.holder_of(&of.root.name);
    let users: Vec<String> = holder
        .map_or(&[][..], |holder| &holder.users[..])
        .iter()
        .map(|user| short(user))
        .collect();
    let used = match &users[..] {
        [] => String::new(),
        users => format!("; code that uses it: {}", users.join(", ")),
    };
    let over_s = of.bytes.grown / of.bytes.per_hour * 3600.0;
    let what = format!(
        "{} by {} in {over_s:.0} s ({}), to {:.0} objects{used}",
        name,
        bytes(of.bytes.grown),
        bytes_per_hour(of.bytes.per_hour),
        of.objects.level
    );
    let next = match users.first() {
        Some(user) => format!("read {user}: what it adds is not taken out again"),
        None => format!("find what fills {}, and give it a bound", of.root.name),
    };
    Some(Finding {
        cause: Cause::Managed,
        bytes: managed.grown_bytes(),
        is_certain: true,
        sentence: format!("objects in the {language} heap grow, most of all those held by {what}"),
        clause: format!("of its {language} heap the objects held by {what} grow"),
        next,
    })
}

fn by_task(managed: &ManagedGrowth, tasks: &TaskGrowth) -> Finding {
    let group = &tasks.group;
    let noun = match managed.language {
        Language::Go => "goroutines",
        _ => "threads",
    };
    let all = tasks.of_creator;
    let waits = group
        .waits_for
        .as_ref()
        .map_or_else(String::new, |wait| format!(" that wait ({wait})"));
    let at = place_of(&group.frames).map_or_else(String::new, |place| format!(" in {place}"));
    let maker = group.created_by.as_ref().and_then(named);
    let by = maker
        .as_ref()
        .map_or_else(String::new, |maker| format!(", started by {maker}"));
    let each = group.bytes as f64 / group.tasks.max(1) as f64;
    let what = format!(
        "{noun}{waits}{at}{by} rise from {:.0} to {:.0}",
        all.level - all.grown,
        all.level
    );
    let next = match &maker {
        Some(maker) => {
            format!("read {maker}: what it starts does not end; give the wait a timeout or an end")
        }
        None => format!("find out who starts these {noun} and what should end them"),
    };
    Finding {
        cause: Cause::Leak,
        bytes: each * all.grown,
        is_certain: maker.is_some(),
        sentence: format!("a leak of {noun}: {what}"),
        clause: what,
        next,
    }
}

/// The objects are too few bytes to be the growth. Objects of libraries often own memory outside of the managed heap
/// (arrays, images, connections): those that become more are named all the same.
fn few_bytes(
    case: &Case,
    managed: &ManagedGrowth,
    first: CauseVerdict,
    finding: &Finding,
) -> CauseVerdict {
    let own = managed
        .types
        .iter()
        .find(|of| !runtimes::is_of_the_language(&of.name));
    match own.filter(|of| of.objects.is_clear && of.objects.grown >= OBJECTS_MIN) {
        Some(own) if grown_bytes(case) > 0.0 => {
            let outside = format!(
                "beside it, and maybe behind it ({} may own memory outside of its heap),",
                own.name
            );
            beside(without_objects(case, managed, first), &outside, finding)
        }
        _ => without_objects(case, managed, first),
    }
}

/// The objects do not grow, though the runtime was taken to own what does.
fn without_objects(case: &Case, managed: &ManagedGrowth, first: CauseVerdict) -> CauseVerdict {
    let is_guess =
        first.cause == Cause::Managed && matches!(case.owner, Owner::Runtime(Runtime::Python));
    let objects = managed.objects.filter(|_| is_guess && !managed.is_partial);
    let all = grown_bytes(case);
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

/// Whether a verdict already names a function of native code with some confidence.
fn names_a_site(case: &Case, first: &CauseVerdict) -> bool {
    let sites = matches!(first.cause, Cause::Leak | Cause::Filling) && !case.sites.is_empty();
    sites && !first.undecided && first.confidence > 0.6
}

fn with_objects(mut first: CauseVerdict, finding: &Finding) -> CauseVerdict {
    first.sentence.push_str(&format!("; {}", finding.clause));
    first.next_step.push_str(&format!("; and {}", finding.next));
    first
}

/// `how`: the words between what was found first and this.
fn beside(mut first: CauseVerdict, how: &str, finding: &Finding) -> CauseVerdict {
    first
        .sentence
        .push_str(&format!("; {how} {}", finding.clause));
    first.next_step.push_str(&format!("; and {}", finding.next));
    first
}

/// The first function that is not the runtime's or the standard library's; the innermost where all are.
fn place_of(frames: &[Frame]) -> Option<String> {
    let own = frames.iter().find(|frame| {
        let function = frame.function.as_deref();
        function.is_some_and(|name| !is_of_the_standard_library(name, frame.file.as_deref()))
    });
    own.or(frames.first()).and_then(named)
}

fn called_by(site: &SiteGrowth) -> String {
    let own = |frame: &&Frame| {
        let function = frame.function.as_deref();
        function.is_some_and(|name| !is_of_the_standard_library(name, frame.file.as_deref()))
    };
    let callers: Vec<String> = site
        .frames
        .iter()
        .filter(own)
        .skip(1)
        .take(2)
        .filter_map(named)
        .collect();
    match callers.is_empty() {
        true => String::new(),
        false => format!(" < {}", callers.join(" < ")),
    }
}

/// "handle (/srv/app.py:31)" without the folder.
fn short(user: &str) -> String {
    let Some((name, place)) = user.split_once(" (") else {
        return user.to_owned();
    };
    format!("{name} ({}", place.rsplit('/').next().unwrap_or(place))
}

/// "handle (app.py:31)".
fn named(frame: &Frame) -> Option<String> {
    let function = brief(frame.function.as_deref()?);
    let file = frame
        .file
        .as_deref()
        .map(|file| file.rsplit('/').next().unwrap_or(file));
    Some(match (file, frame.line) {
        (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
        _ => function,
    })
}

#[cfg(test)]
mod tests;

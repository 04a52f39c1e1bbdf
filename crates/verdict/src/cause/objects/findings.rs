//! What grows in a managed heap, as a sentence: by type, by allocation site, by variable, or by task.

use super::super::Cause;
use super::finding::Finding;
use super::frames::{is_own, named, short};
use super::parts::{by_part, leads};
use super::tasks::{by_task, is_held_by, is_many};
use super::{LITTLE, MOST};
use memory::managed::{ManagedGrowth, Rise, RootGrowth, SiteGrowth, TypeGrowth};
use runtimes::{Frame, Holder, Kept, is_of_the_language};
use units::written::{bytes, bytes_per_hour};

/// What explains most: objects, or the stacks of tasks.
pub fn finding(managed: &ManagedGrowth) -> Option<Finding> {
    let mut all = managed.tasks.iter().filter(|tasks| is_many(tasks));
    // Of several, those whose stacks hold what grows.
    let holding = all.clone().find(|tasks| is_held_by(managed, tasks));
    let many = holding.or(all.next());
    let tasks = many.map(|tasks| by_task(managed, tasks));
    let objects = by_type(managed)
        .or_else(|| by_site(managed))
        .or_else(|| by_root(managed));
    let objects = with_part(managed, objects);
    // What the stacks of the tasks hold goes with the tasks.
    let is_theirs = holding.is_some();
    match (tasks, objects) {
        (Some(tasks), Some(objects)) if is_theirs => Some(Finding {
            bytes: tasks.bytes + objects.bytes,
            ..tasks
        }),
        (Some(tasks), Some(objects)) if objects.bytes > tasks.bytes => Some(Finding {
            sentence: format!("{}; and {}", objects.sentence, tasks.sentence),
            bytes: objects.bytes + tasks.bytes,
            ..objects
        }),
        (tasks, objects) => tasks.or(objects),
    }
}

/// Objects, and another part of the runtime's memory that grows: what the process grows by comes first.
fn with_part(managed: &ManagedGrowth, objects: Option<Finding>) -> Option<Finding> {
    let Some(part) = by_part(managed) else {
        return objects;
    };
    let Some(objects) = objects else {
        return Some(part);
    };
    if part.bytes < LITTLE * objects.bytes {
        return Some(objects);
    }
    let part_leads = leads(managed, &part, objects.bytes);
    let (first, second) = if part_leads {
        (part, objects)
    } else {
        (objects, part)
    };
    let bytes = first.bytes + second.bytes;
    let sentence = format!("{}; and {}", first.sentence, second.sentence);
    // Who holds the objects holds their classes.
    let next = match part_leads && nearest_holder(managed).is_some() {
        true => second.next,
        false => first.next,
    };
    Some(Finding {
        bytes,
        sentence,
        next,
        ..first
    })
}

fn by_type(managed: &ManagedGrowth) -> Option<Finding> {
    let lead = lead(managed)?;
    let own = managed.holder_of(&lead.name);
    // Of few samples none may be of this type: what grows with it is held by the same, most likely.
    let holder = own.or_else(|| nearest_holder(managed));
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
    let what = become_more(lead);
    let (mut kept, user) = holder.map_or_else(Default::default, kept_by);
    if let (None, Some(holder)) = (own, holder) {
        kept = format!("; {} objects, which grow with them{kept}", holder.type_name);
    }
    let is_leak = holder.is_some_and(|holder| matches!(holder.kept, Kept::Native | Kept::Cycle));
    Some(Finding {
        cause: if is_leak { Cause::Leak } else { Cause::Managed },
        bytes: managed.grown_bytes(),
        values: lead.bytes.values,
        by_part: false,
        by_task: false,
        is_certain: own.is_some(),
        sentence: format!("{all}: {what}{kept}"),
        next: next_step(&lead.name, holder, user.as_ref()),
    })
}

/// Of the containers that hold objects of types that grow, the one that holds most of them; those of which some code is
/// known come first.
fn nearest_holder(managed: &ManagedGrowth) -> Option<&Holder> {
    let grow = |holder: &&Holder| managed.types.iter().any(|of| of.name == holder.type_name);
    let of_path = |holder: &&Holder| holder.kept == Kept::Path && holder.path.len() > 1;
    let all: Vec<&Holder> = (managed.holders.iter().filter(grow).filter(of_path)).collect();
    let held = |container: &[String]| {
        let inside = all.iter().filter(|of| of.path.starts_with(container));
        inside.map(|of| of.objects).sum::<u64>()
    };
    let weight = |of: &&Holder| {
        let is_known = !of.makers.is_empty() || !of.users.is_empty();
        (is_known, held(container(of)), of.objects)
    };
    all.iter().copied().max_by_key(weight)
}

/// The steps before the first item of a container.
fn container(of: &Holder) -> &[String] {
    let first = of.path.iter().position(|step| step.starts_with("[…]"));
    &of.path[..first.unwrap_or(of.path.len())]
}

/// "340 more orders.Order (6800 now, +1 MiB)".
fn become_more(of: &TypeGrowth) -> String {
    let (grown, level) = (of.objects.grown, of.objects.level);
    let more = bytes(of.bytes.grown);
    match of.objects.is_clear {
        true => format!("{grown:.0} more {} ({level:.0} now, +{more})", of.name),
        // Larger ones: a list that is filled.
        false => format!("{level:.0} {} have {more} more", of.name),
    }
}

/// What keeps them alive, and the code to read; the first function that uses what holds them.
fn kept_by(holder: &Holder) -> (String, Option<String>) {
    let path = holder.path.join(" ");
    let held = match holder.kept {
        Kept::Path => format!(", held by {path}"),
        _ => format!("; {path}"),
    };
    let maker = holder.makers.first();
    let made = maker.map_or_else(String::new, |maker| format!("; made by {}", short(maker)));
    let (used, user) = used_by(holder);
    (format!("{held}{used}{made}"), user)
}

fn used_by(holder: &Holder) -> (String, Option<String>) {
    let users: Vec<String> = holder.users.iter().map(|user| short(user)).collect();
    let who = match holder.kept {
        Kept::Native => "extension modules in the process",
        _ => "code that uses it",
    };
    let used = match users.is_empty() {
        true => String::new(),
        false => format!("; {who}: {}", users.join(", ")),
    };
    (used, users.into_iter().next())
}

const NEVER_DROPPED: &str = "it takes a reference and never drops it";

fn next_step(type_name: &str, holder: Option<&Holder>, user: Option<&String>) -> String {
    let maker = holder
        .and_then(|holder| holder.makers.first())
        .map(|maker| short(maker));
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
        (Some(Kept::Path), None) if maker.is_some() => {
            let maker = maker.unwrap_or_default();
            format!("read {maker}, which makes them: find what should take them out again")
        }
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
    if let Some(held) = first_new(managed, first) {
        return Some(held);
    }
    let most = |of: &[&TypeGrowth]| of.iter().map(|of| of.objects.grown).fold(0.0, f64::max);
    let is_own = |of: &&TypeGrowth| !is_of_the_language(managed.language, &of.name);
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
    let Some(own) = fast.min_by(nearest) else {
        return Some(first);
    };
    Some(more_than(managed, own).unwrap_or(own))
}

/// On the way to the objects with most new bytes, those that become more: the others are what each of them has. Where
/// they are of the language, a type of the program tells more.
fn first_new<'a>(managed: &'a ManagedGrowth, of: &TypeGrowth) -> Option<&'a TypeGrowth> {
    let name = managed.holder_of(&of.name)?.first_new.as_ref()?;
    let own = !is_of_the_language(managed.language, name);
    let mut grown = managed.types.iter().filter(|of| of.objects.is_clear);
    grown.find(|of| own && of.name == *name)
}

/// A type with far more new bytes whose objects are held, as is known, by a way that does not lead through `own`: they
/// are not what it owns.
fn more_than<'a>(managed: &'a ManagedGrowth, own: &TypeGrowth) -> Option<&'a TypeGrowth> {
    const FAR_MORE: f64 = 4.0;
    let class = own.name.rsplit('.').next().unwrap_or(&own.name);
    let is_apart = |of: &&TypeGrowth| {
        let holder = managed.holder_of(&of.name);
        let way = holder.filter(|holder| holder.kept == Kept::Path && holder.path.len() > 1);
        way.is_some_and(|holder| !holder.path.iter().any(|step| step.contains(class)))
    };
    // Not what a runtime makes for its own use: V8's `(system)`.
    let mut more = managed.types.iter().filter(|of| !of.name.starts_with('('));
    more.find(|of| of.bytes.grown >= FAR_MORE * own.bytes.grown && is_apart(of))
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
    let sentence = format!(
        "live objects in the {language} heap grow by {}: {what}",
        bytes(all)
    );
    Some(Finding {
        cause: Cause::Managed,
        bytes: managed.grown_bytes(),
        values: site.bytes.values,
        by_part: false,
        by_task: false,
        is_certain: true,
        sentence,
        next: format!("read {place}: find out what keeps its objects, and give that a bound"),
    })
}

/// ", held by main.store (map[string]*main.Profile)": the variable whose objects grow most, if they are half of what
/// the sites do.
fn held_by_root(managed: &ManagedGrowth, least: f64) -> String {
    let root = first_root(managed).filter(|of| of.bytes.grown >= MOST * least);
    root.map_or_else(String::new, |of| format!(", held by {}", of.root))
}

/// The variable of the program whose objects grow most.
fn first_root(managed: &ManagedGrowth) -> Option<&RootGrowth> {
    managed.roots.iter().find(|of| of.root.is_own())
}

fn by_root(managed: &ManagedGrowth) -> Option<Finding> {
    let of = first_root(managed)?;
    let language = managed.language.word();
    let name = &of.root;
    let holder = managed.holder_of(&of.root.name);
    let (used, user) = holder.map_or_else(Default::default, used_by);
    let over_s = of.bytes.grown / of.bytes.per_hour * 3600.0;
    let sentence = format!(
        "objects in the {language} heap grow; those held by {name} grow most, by {} in {over_s:.0} s ({}), and are \
         {:.0} now{used}",
        bytes(of.bytes.grown),
        bytes_per_hour(of.bytes.per_hour),
        of.objects.level
    );
    let next = match (user, of.root.stack_of()) {
        (Some(user), _) => format!("read {user}: what it adds is not taken out again"),
        (None, Some(function)) => {
            format!("read {function}: find which of its variables keeps what it adds")
        }
        (None, None) => format!("find what fills {}, and give it a bound", of.root.name),
    };
    Some(Finding {
        cause: Cause::Managed,
        bytes: managed.grown_bytes(),
        values: of.bytes.values,
        by_part: false,
        by_task: false,
        is_certain: true,
        sentence,
        next,
    })
}

/// The first function that is not the runtime's or the standard library's; the innermost where all are.
fn place_of(frames: &[Frame]) -> Option<String> {
    frames
        .iter()
        .find(is_own)
        .or(frames.first())
        .and_then(named)
}

fn called_by(site: &SiteGrowth) -> String {
    let own = site.frames.iter().filter(is_own);
    let callers: Vec<String> = own.skip(1).take(2).filter_map(named).collect();
    match callers.is_empty() {
        true => String::new(),
        false => format!(" < {}", callers.join(" < ")),
    }
}

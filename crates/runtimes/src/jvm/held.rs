//! From samples of live objects to what holds the types that grow, as users read it.

use std::collections::HashMap;

use symbols::hotspot::in_platform;

use super::sample::{Link, Sample, Via};
use super::threads::without_numbers;
use crate::{Frame, Holder, Kept, Language, is_of_the_language, is_of_the_standard_library};

/// Ways of one type that are listed, the one with most samples first.
const WAYS_MAX: usize = 3;
const MAKERS_MAX: usize = 3;
/// A longer way is cut in its middle.
const STEPS_MAX: usize = 8;
/// A sample so many objects below one of the type was most likely allocated with it: a body, the array of its list.
const NEAR: usize = 3;
/// In the name of the class of a lambda, which the JVM makes.
const LAMBDA: &str = "$$Lambda";
/// Fields of java.lang.Class itself (JDK 11 to 25), which are no static fields of the class that it describes.
const FIELDS_OF_CLASS: [&str; 16] = [
    "annotationData",
    "annotationType",
    "cachedConstructor",
    "classData",
    "classLoader",
    "classValueMap",
    "componentType",
    "enumConstantDirectory",
    "enumConstants",
    "genericInfo",
    "module",
    "name",
    "packageName",
    "protectionDomain",
    "reflectionData",
    "signers",
];

/// For each type the ways on which its objects are held, and the functions that allocated them.
pub(super) fn holders(samples: &[Sample], types: &[String]) -> Vec<Holder> {
    let groups = types.iter().flat_map(|name| groups(samples, name));
    groups.map(|(holder, _)| holder).collect()
}

/// A field of a class that is not of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnField {
    /// Of the object that has the field, or whose static field it is.
    pub(super) class: String,
    pub(super) name: String,
}

#[derive(Default)]
struct Group {
    objects: u64,
    makers: HashMap<Vec<String>, u64>,
    field: Option<OwnField>,
    first_new: Option<String>,
}

/// The ways on which objects of a type are held, with the program's field on each that is filled: the last one, or the
/// last in front of what becomes more.
pub(super) fn groups(samples: &[Sample], name: &str) -> Vec<(Holder, Option<OwnField>)> {
    let (mut groups, mut asked) = (HashMap::<Vec<String>, Group>::new(), 0);
    for sample in samples {
        let place = sample.way.iter().rposition(|link| link.type_name == name);
        // One object alone has no root: the search for it was cut off.
        let Some(place) = place.filter(|_| sample.way.len() > 1 || sample.root.is_some()) else {
            continue;
        };
        asked += sample.stands_for;
        let group = groups.entry(path(sample, place)).or_default();
        group.objects += sample.stands_for;
        let filled = sample.first_new.unwrap_or(place).min(place);
        let first_new = sample
            .first_new
            .and_then(|at| sample.way[..=place].get(at..));
        // Of several ways that read the same, that of most objects comes first.
        group.field = group
            .field
            .take()
            .or_else(|| own_field(&sample.way[..=filled]));
        group.first_new = group
            .first_new
            .take()
            .or_else(|| first_new.and_then(telling));
        if sample.way.len() - 1 - place <= NEAR {
            let makers = makers(&sample.frames, name);
            *group.makers.entry(makers).or_default() += sample.stands_for;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|one, other| {
        let by_objects = other.1.objects.cmp(&one.1.objects);
        by_objects.then_with(|| one.0.cmp(&other.0))
    });
    groups.truncate(WAYS_MAX);
    let holder = |(path, group): (Vec<String>, Group)| {
        let holder = Holder {
            type_name: name.to_owned(),
            path,
            objects: group.objects,
            asked,
            users: Vec::new(),
            makers: most(group.makers),
            first_new: group.first_new,
            kept: Kept::Path,
        };
        (holder, group.field)
    };
    groups.into_iter().map(holder).collect()
}

/// Of objects that come with each other, the type that tells most: the first of the program's.
fn telling(way: &[Link]) -> Option<String> {
    let is_own = |link: &&Link| {
        !is_of_the_language(Language::Java, &link.type_name) && !link.type_name.contains(LAMBDA)
    };
    let link = way.iter().find(is_own).or(way.first())?;
    Some(link.type_name.clone())
}

fn own_field(way: &[Link]) -> Option<OwnField> {
    let field = |(before, link): (&Link, &Link)| {
        let Via::Field(name) = &link.via else {
            return None;
        };
        let of_class = before.description.strip_prefix("Class Name: ");
        let class = match of_class.filter(|_| !FIELDS_OF_CLASS.contains(&name.as_str())) {
            Some(class) => class.replace('/', "."),
            None => before.type_name.clone(),
        };
        (!in_platform(&class)).then(|| OwnField {
            class,
            name: name.clone(),
        })
    };
    let pairs = way.iter().zip(way.iter().skip(1));
    pairs.rev().find_map(field)
}

fn most(makers: HashMap<Vec<String>, u64>) -> Vec<String> {
    let named = makers.into_iter().filter(|(makers, _)| !makers.is_empty());
    let most = named.max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.cmp(&one.0)));
    most.map(|(makers, _)| makers).unwrap_or_default()
}

/// The program's own functions of an allocation, innermost first, without the constructor of the type itself.
fn makers(frames: &[Frame], name: &str) -> Vec<String> {
    let constructor = format!("{name}.<init>");
    let maker = |frame: &Frame| {
        let function = frame.function.as_deref()?;
        let is_own = !is_of_the_standard_library(function, frame.file.as_deref());
        let is_maker = is_own && function != constructor;
        is_maker.then(|| written(frame))?
    };
    frames.iter().filter_map(maker).take(MAKERS_MAX).collect()
}

/// `App.open (App.java:36)`.
pub(super) fn written(frame: &Frame) -> Option<String> {
    let function = frame.function.as_deref()?;
    Some(match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
        _ => function.to_owned(),
    })
}

/// From the root to the object at `place`: `static App.SESSIONS (HashMap)`, `[…] (App$Session)`.
fn path(sample: &Sample, place: usize) -> Vec<String> {
    let way = &sample.way[..=place];
    let (mut steps, mut at) = start(sample, way);
    let mut is_inside = false;
    while at < way.len() {
        let (before, link) = (way.get(at.wrapping_sub(1)), &way[at]);
        let of_container = before.is_some_and(is_of_container);
        if of_container && is_inner(link) && at < place {
            is_inside = true;
        } else {
            let is_item = is_inside || of_container && is_collection(before);
            steps.push(step(link, is_item));
            is_inside = false;
        }
        at += 1;
    }
    cut(steps)
}

/// A static field: what leads to its class, as a class loader does, tells nothing more. With the place behind it.
fn static_field(way: &[Link]) -> Option<(String, usize)> {
    (1..way.len()).rev().find_map(|at| {
        let class = way[at - 1].description.strip_prefix("Class Name: ")?;
        let Via::Field(field) = &way[at].via else {
            return None;
        };
        if FIELDS_OF_CLASS.contains(&field.as_str()) {
            return None;
        }
        let (class, held) = (class.replace('/', "."), short(&way[at]));
        Some((format!("static {class}.{field} ({held})"), at + 1))
    })
}

/// The first step, and how many objects it stands for.
fn start(sample: &Sample, way: &[Link]) -> (Vec<String>, usize) {
    if let Some((field, behind)) = static_field(way) {
        return (vec![field], behind);
    }
    let Some(first) = way.first() else {
        return (Vec::new(), 0);
    };
    // Threads of a pool differ in their numbers alone.
    let of_thread = |text: &str| text.strip_prefix("Thread Name: ").map(without_numbers);
    let step = match (
        of_thread(&first.description),
        of_thread(&sample.root_description),
    ) {
        (Some(thread), _) => format!("thread {thread}"),
        (None, Some(thread)) => format!("local variable of thread {thread} ({})", short(first)),
        _ => match &sample.root {
            // JDK 11 names no root that compiled code has.
            Some(root) if root.contains("unknown") => {
                format!("a root that the JVM does not name ({})", short(first))
            }
            Some(root) => format!("{} ({})", root.to_lowercase(), short(first)),
            None => format!("… ({})", short(first)),
        },
    };
    (vec![step], 1)
}

fn step(link: &Link, is_item: bool) -> String {
    let name = short(link);
    match &link.via {
        _ if is_item => format!("[…] ({name})"),
        Via::Field(field) => format!(".{field} ({name})"),
        Via::Item => format!("[…] ({name})"),
        Via::Unknown => format!("… ({name})"),
    }
}

/// Classes of the language without their package.
fn short(link: &Link) -> &str {
    let name = &link.type_name;
    match is_of_the_language(Language::Java, name) {
        true => name.rsplit('.').next().unwrap_or(name),
        false => name,
    }
}

/// A collection of java.util, the map of a thread's locals, and what these are made of.
fn is_of_container(link: &Link) -> bool {
    let name = &link.type_name;
    name.starts_with("java.util.")
        || name.starts_with("java.lang.ThreadLocal$")
        || name == "java.lang.Object[]"
}

fn is_collection(link: Option<&Link>) -> bool {
    link.is_some_and(|link| !is_inner(link))
}

/// What only a container has: its nodes and tables.
fn is_inner(link: &Link) -> bool {
    let name = &link.type_name;
    is_of_container(link)
        && (name.contains('$') || name.ends_with("[]"))
        && name != "java.lang.ThreadLocal$ThreadLocalMap"
}

fn cut(mut steps: Vec<String>) -> Vec<String> {
    if steps.len() > STEPS_MAX {
        let end = steps.split_off(steps.len() - STEPS_MAX / 2);
        steps.truncate(STEPS_MAX / 2);
        steps.push("…".into());
        steps.extend(end);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(type_name: &str, description: &str, via: Via) -> Link {
        Link {
            type_name: type_name.into(),
            description: description.into(),
            via,
        }
    }

    fn field(name: &str) -> Via {
        Via::Field(name.into())
    }

    fn frame(function: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some("App.java".into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    fn sample() -> Sample {
        Sample {
            stands_for: 1,
            first_new: None,
            way: vec![
                link("java.lang.Class", "Class Name: App", Via::Unknown),
                link("java.util.HashMap", "Size: 9", field("SESSIONS")),
                link("java.util.HashMap$Node[]", "", field("table")),
                link("java.util.HashMap$Node", "", Via::Item),
                link("App$Session", "", field("value")),
                link("byte[]", "", field("body")),
            ],
            root: Some("Stack Variable".into()),
            root_description: "Thread Name: main".into(),
            frames: vec![
                frame("java.util.Arrays.copyOf", 3),
                frame("App$Session.<init>", 20),
                frame("App.open", 36),
                frame("App.main", 66),
            ],
        }
    }

    #[test]
    fn a_way_begins_at_the_last_static_field() {
        let class = |name: &str, via| link("java.lang.Class", &format!("Class Name: {name}"), via);
        let mut through_a_loader = sample();
        through_a_loader.way = vec![
            link("jdk.Loader", "", Via::Unknown),
            class("a/First", field("classes")),
            link("jdk.Loader", "", field("classLoader")),
            class("App$Holder", Via::Item),
            link("java.util.HashMap", "", field("CACHE")),
            link("java.util.HashMap$Node", "", field("table")),
            link("App$Session", "", field("value")),
        ];
        let found = holders(&[through_a_loader.clone()], &["App$Session".to_owned()]);
        assert_eq!(
            found[0].path,
            ["static App$Holder.CACHE (HashMap)", "[…] (App$Session)"]
        );
        // A field of java.lang.Class is no field of the program's class.
        through_a_loader.way.truncate(3);
        through_a_loader
            .way
            .push(link("App$Session", "", field("one")));
        let found = holders(&[through_a_loader], &["App$Session".to_owned()]);
        assert_eq!(
            found[0].path[0], "local variable of thread main (Loader)",
            "{found:?}"
        );
    }

    #[test]
    fn the_inside_of_a_collection_is_left_out() {
        let types = [
            "App$Session".to_owned(),
            "byte[]".to_owned(),
            "Other".to_owned(),
        ];
        let found = holders(&[sample(), sample()], &types);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0].path,
            ["static App.SESSIONS (HashMap)", "[…] (App$Session)"]
        );
        assert_eq!((found[0].objects, found[0].asked), (2, 2));
        assert_eq!(
            found[0].makers,
            ["App.open (App.java:36)", "App.main (App.java:66)"]
        );
        assert_eq!(found[1].path.last().unwrap(), ".body (byte[])");
    }

    #[test]
    fn a_local_variable_has_its_thread() {
        let mut of_stack = sample();
        of_stack.way.remove(0);
        let found = holders(&[of_stack], &["App$Session".into()]);
        assert_eq!(
            found[0].path,
            [
                "local variable of thread main (HashMap)",
                "[…] (App$Session)"
            ]
        );
    }

    #[test]
    fn an_object_whose_root_was_not_found_is_not_counted() {
        let mut alone = sample();
        alone.way.drain(..5);
        alone.root = None;
        assert!(holders(&[alone], &["byte[]".into()]).is_empty());
    }
}

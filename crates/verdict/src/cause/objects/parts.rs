//! Memory of a runtime beside its objects that grows: descriptions of classes, compiled code, what a JVM's native
//! memory tracking counts.

use super::super::Cause;
use super::MOST;
use super::finding::Finding;
use memory::managed::{ManagedGrowth, PartGrowth, Rise};
use runtimes::HeapSize;
use units::written::{bytes, bytes_per_hour};

/// What the JVM counts elsewhere too: with the classes, the code, the threads; and the recording that is ours.
const COUNTED_ELSEWHERE: [&str; 5] = [
    "native memory of Class",
    "native memory of Metaspace",
    "native memory of Code",
    "native memory of Thread",
    "native memory of Tracing",
];
const CODE_CACHE: &str = "code cache";

/// The part that grows most.
pub fn by_part(managed: &ManagedGrowth) -> Option<Finding> {
    let part = managed.parts.iter().find(|part| stands_alone(&part.name))?;
    let classes = part.name == HeapSize::METASPACE;
    let (what, next) = match classes {
        true => of_classes(managed, part),
        false => of_other(managed, part),
    };
    let rise = &part.bytes;
    let over_s = rise.grown / rise.per_hour * 3600.0;
    Some(Finding {
        cause: Cause::Managed,
        bytes: rise.grown,
        is_certain: true,
        values: rise.values,
        by_part: true,
        by_task: false,
        sentence: format!(
            "{what} grows by {} in {over_s:.0} s ({}){}",
            bytes(rise.grown),
            bytes_per_hour(rise.per_hour),
            if classes {
                more_classes(managed)
            } else {
                String::new()
            }
        ),
        next,
    })
}

fn stands_alone(name: &str) -> bool {
    let is_native = name.starts_with("native memory of ") && !COUNTED_ELSEWHERE.contains(&name);
    name == HeapSize::METASPACE || name == CODE_CACHE || is_native
}

/// The class loader of most classes that are new, and where to look for what keeps them.
fn of_classes(managed: &ManagedGrowth, part: &PartGrowth) -> (String, String) {
    let loaders = managed.parts.iter();
    let mut named = loaders.filter_map(|of| Some((HeapSize::loader_of(&of.name)?, of.bytes)));
    let most = |(_, rise): &(&str, Rise)| rise.grown >= MOST * part.bytes.grown;
    let loader = named.next().filter(most);
    let of = loader.map_or_else(String::new, |(name, _)| {
        format!(" of the classes of {name}")
    });
    let what = format!("the JVM's class metadata (metaspace){of}");
    let next = "find what makes these classes (compiled expressions, scripts, proxies, a deployment) and what keeps \
                them or their class loader: classes are freed only together with their loader";
    (what, next.to_owned())
}

/// ": 1230 more classes (9000 now)".
fn more_classes(managed: &ManagedGrowth) -> String {
    let class = managed.types.iter().find(|of| of.name == "java.lang.Class");
    class.map_or_else(String::new, |of| {
        let (grown, level) = (of.objects.grown, of.objects.level);
        format!(": {grown:.0} more classes ({level:.0} now)")
    })
}

fn of_other(managed: &ManagedGrowth, part: &PartGrowth) -> (String, String) {
    let runtime = managed.language.word();
    let next = match part.name == CODE_CACHE {
        true => {
            "bound it (-XX:ReservedCodeCacheSize), and find what keeps making new code".to_owned()
        }
        false => "jcmd PID VM.native_memory baseline, then detail.diff, names who allocates it"
            .to_owned(),
    };
    (format!("{} of the {runtime} runtime", part.name), next)
}

/// Whether the part is what the process grows by, and not the objects: where the heap keeps its size, objects fill what
/// it has already.
pub fn leads(managed: &ManagedGrowth, part: &Finding, objects_bytes: f64) -> bool {
    let keeps_size = managed
        .committed
        .is_some_and(|committed| committed.grown <= 0.0);
    keeps_size || part.bytes >= objects_bytes
}

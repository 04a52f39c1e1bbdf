//! The heap of a runtime grows, maybe beside a native one.

use super::sentence::{rate, verdict};
use super::{Case, Cause, CauseVerdict, heap};
use ::heap::memory_managers::Runtime;
use memory::growth::Growth;
use memory::managed::ManagedGrowth;

/// Of all growth, what a leak of native blocks must be to be named before the heap of a runtime that collects: how
/// much of that lasts is not known before its next collection, and a block that is out of reach is lost for good.
const NATIVE_SHARE: f64 = 0.2;

/// `growth`: of the runtime's heap. `live`: of the native one, if it grows too. `all`: of all parts that grow, bytes.
pub fn judge(
    case: &Case,
    runtime: Runtime,
    growth: &Growth,
    live: Option<Growth>,
    all: f64,
) -> CauseVerdict {
    let (word, managed) = (runtime.word(), rate(growth));
    let lost = live.zip(heap::losing(case));
    let is_named = |live: &Growth| runtime.collects() && live.bytes > NATIVE_SHARE * all;
    if let Some((live, _)) = lost.filter(|(live, _)| is_named(live)) {
        let mut leak = heap::judge(case, &live, "");
        leak.sentence.push_str(&format!(
            "; the {word} runtime's own heap grows by {managed}, of which its next collection may free much"
        ));
        leak.next_step
            .push_str(&format!("; for the {word} heap {}", next(case, runtime)));
        return leak;
    }
    let mut sentence = format!(
        "the {word} runtime's own heap grows by {managed}; the probe sees mappings and native \
         allocations, not the objects in it"
    );
    let mut next = next(case, runtime);
    if let Some((live, site)) = lost {
        let site = heap::named(site);
        let rate = rate(&live);
        sentence.push_str(&format!(
            "; beside it native blocks are lost at {site}, where the live heap grows by {rate}"
        ));
        next.push_str(&format!("; and read {site}"));
    }
    verdict(Cause::Managed, 0.9, sentence, &next)
}

/// Where the runtime names what grows if it may stop the program, that comes first.
fn next(case: &Case, runtime: Runtime) -> String {
    let of = |what: fn(&ManagedGrowth) -> bool| case.managed.as_ref().is_some_and(what);
    let was_stopped = of(|managed| managed.paused_s > 0.0);
    let names = match runtime {
        Runtime::Jvm if of(|managed| managed.objects.is_some()) => "the calls that allocate in it",
        Runtime::Jvm => "classes, what holds them and who makes them",
        Runtime::Node => "the functions that allocate it",
        _ => return by_other_tools(runtime).to_owned(),
    };
    match was_stopped {
        true => by_other_tools(runtime).to_owned(),
        false => format!(
            "explain it with --allow-pause 1s, which names {names}; or {}",
            by_other_tools(runtime)
        ),
    }
}

fn by_other_tools(runtime: Runtime) -> &'static str {
    use Runtime::*;
    match runtime {
        Go => "take two heap profiles with net/http/pprof and compare them: go tool pprof -base",
        Jvm => "jcmd PID GC.heap_info, then jcmd PID GC.class_histogram twice; NMT for the rest",
        Node => {
            "take two heap snapshots (node --inspect, or v8.writeHeapSnapshot) and compare them"
        }
        Python => {
            "tracemalloc in the program, or start it with PYTHONMALLOC=malloc under explain so \
            that every object is seen"
        }
        Dotnet => "dotnet-gcdump collect -p PID twice, and compare",
        Ruby => "ObjectSpace.dump_all twice, and compare",
        Php => {
            "memory_get_usage() beside memory_get_usage(true) says whether its values grow or only its chunks; log \
            both at each request or job, with count(get_declared_classes())"
        }
        Beam => {
            "erlang:memory() twice, then recon:proc_count(memory, 10) for processes and recon_alloc:memory(usage) for \
            carriers that are kept"
        }
    }
}

//! The cause when something grows.

use super::sentence::{rate, retention_next, survivors, verdict};
use super::{Case, Cause, CauseVerdict, Owner, Sight, heap, level, managed, overcounted};
use ::heap::memory_managers::{How, Runtime};
use memory::account::{LiveBy, Part};
use memory::brief::brief;
use memory::growth::Growth;
use memory::rank::Site;
use units::written::{bytes, percent};

/// Share of a growth that LazyFree or untouched huge pages must make up to be its cause.
const MOST: f64 = 0.5;

/// What grew, as far as causes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Live,
    /// The live heap under its traffic.
    Lasting,
    Retained,
    Stacks,
    Anonymous,
    Files,
    Shared,
}

/// `None` when nothing grows.
pub fn judge(case: &Case) -> Option<CauseVerdict> {
    let growing = growing(case);
    let largest = |a: &&(Group, Growth), b: &&(Group, Growth)| a.1.bytes.total_cmp(&b.1.bytes);
    let (group, growth) = *growing.iter().max_by(largest)?;
    Some(match group {
        Group::Live | Group::Lasting => live(case, &growth, group),
        Group::Retained => special(case, &growth)
            .or_else(|| freed_past(case, &growth))
            .or_else(|| past_the_probe(case, &growth))
            .unwrap_or_else(|| retention(case, &growth)),
        Group::Anonymous => {
            special(case, &growth).unwrap_or_else(|| anonymous(case, &growth, &growing))
        }
        Group::Stacks => stacks(case, &growth),
        Group::Files => files(case, &growth),
        Group::Shared if is_java_heap(case) => {
            managed::judge(case, Runtime::Jvm, &growth, None, growth.bytes)
        }
        Group::Shared => shared(case, &growth),
    })
}

fn growing(case: &Case) -> Vec<(Group, Growth)> {
    let groups = [
        (Group::Live, case.part(Part::LiveHeap)),
        (Group::Retained, case.retained()),
        (Group::Stacks, case.part(Part::ThreadStacks)),
        (Group::Anonymous, case.part(Part::AnonymousMappings)),
        (Group::Files, case.part(Part::FileMaps)),
        (Group::Shared, case.part(Part::SharedMemory)),
    ];
    let of_parts = groups.into_iter().filter(|(group, growth)| match group {
        Group::Live => {
            let grows = case.grows(growth) || case.fills(growth);
            grows && !case.fell(growth) && case.is_backed(growth)
        }
        // What is live is a guess where not every block's end is seen, and what is free is the rest.
        Group::Retained => {
            let is_known = case.is_followed() && case.is_backed(growth);
            (is_known || case.is_told_by_headers()) && case.grows(growth) && case.retains(growth)
        }
        _ => case.grows(growth),
    });
    let mut growing: Vec<(Group, Growth)> = of_parts.collect();
    if !growing.iter().any(|(group, _)| *group == Group::Live) {
        let lasting = case.under_traffic();
        growing.extend(lasting.map(|growth| (Group::Lasting, growth)));
    }
    growing
}

fn live(case: &Case, growth: &Growth, group: Group) -> CauseVerdict {
    let past = freed_past(case, growth).or_else(|| past_the_probe(case, growth));
    if let Some(verdict) = past {
        return verdict;
    }
    if case.account.live_by != LiveBy::Headers {
        let under = match group {
            Group::Lasting => "under fluctuating load, ",
            _ => "",
        };
        return heap::judge(case, growth, under);
    }
    let mut sentence = format!(
        "the live heap grows by {}, by glibc's own headers; without the probe or uprobes it is not known at \
         which site, nor whether it is a leak or a cache that fills",
        rate(growth)
    );
    if let Some(class) = case.classes.first() {
        let words = format!(
            "; of its objects, those of {} grow most, by {:.0} to {}",
            brief(&class.name),
            class.grown_count,
            class.count
        );
        sentence.push_str(&words);
    }
    if case.managers.is_static {
        sentence
            .push_str("; the program is static, so that no library can be put before its malloc");
        return verdict(Cause::Blind, 0.9, sentence, &static_next(case));
    }
    let next = match &case.sight {
        Sight::Absent(why) => format!(
            "remove what keeps the probe from it ({why}), and run it again: {}",
            case.restart
        ),
        _ => opened(
            case,
            &format!("restart it with the probe: {}", case.restart),
        ),
    };
    CauseVerdict {
        undecided: true,
        ..verdict(Cause::Filling, 0.5, sentence, &next)
    }
}

/// RSS rises and no part of it does for certain, while uprobes watched for a part of the time only.
pub fn unwatched(case: &Case) -> Option<CauseVerdict> {
    let traps = case.traps.filter(|traps| traps.watched_share < 1.0)?;
    let rss = case.rss.filter(|rss| case.grows(rss))?;
    let sentence = format!(
        "RSS grows by {}, by nothing that was seen: the allocator is called so often that uprobes could watch it for \
         {} of the time only",
        rate(&rss),
        percent(traps.watched_share)
    );
    let next = "observe longer (--duration), or meter its allocator from inside (the crate highwater-alloc for Rust; \
        its own statistics otherwise)";
    Some(verdict(Cause::Blind, 0.6, sentence, next))
}

const STATIC_NEXT: &str = "link the program dynamically for a test and explain that, or meter its \
    allocator from inside (the crate highwater-alloc for Rust)";

const MUSL_NEXT: &str = "build the program for glibc for a test and explain that, or meter its \
    allocator from inside (the crate highwater-alloc for Rust)";

fn static_next(case: &Case) -> String {
    let is_dynamic = !case.managers.is_static && case.managers.is_musl;
    opened(case, if is_dynamic { MUSL_NEXT } else { STATIC_NEXT })
}

/// What would open it without building anything anew comes first.
fn opened(case: &Case, next: &str) -> String {
    match &case.no_uprobes {
        Some(words) => format!("{words}; else {next}"),
        None => next.to_owned(),
    }
}

/// LazyFree and huge pages are shares of other parts: the cause when they are most of a growth.
fn special(case: &Case, growth: &Growth) -> Option<CauseVerdict> {
    let lazy = case.part(Part::LazyFree);
    if lazy.still && lazy.bytes > MOST * growth.bytes {
        return Some(level::lazy_free(case, 0.9));
    }
    let huge = case
        .huge_untouched
        .filter(|huge| huge.still && huge.bytes > MOST * growth.bytes)?;
    let sentence = format!(
        "transparent huge pages: RSS grows by {}, and {} of it lies in huge pages that the program \
         never wrote; what it asked for is smaller than what the kernel gave",
        rate(growth),
        percent((huge.bytes / growth.bytes).min(1.0))
    );
    Some(verdict(Cause::Hugepages, 0.85, sentence, level::HUGE_NEXT))
}

/// The heap grows, and the probe counts more than can be live: at which sites cannot be told.
fn freed_past(case: &Case, growth: &Growth) -> Option<CauseVerdict> {
    let over = case.overcount?;
    let sentence = format!(
        "the heap grows by {}, at sites that cannot be named: {}",
        rate(growth),
        overcounted(case, &over)
    );
    let next = match case.freed_past.as_slice() {
        [] => "leave dlopen with RTLD_DEEPBIND and dlmopen out for a test, and explain that"
            .to_owned(),
        libraries => {
            let names = libraries.join(", ");
            format!("open {names} without RTLD_DEEPBIND for a test, and explain that")
        }
    };
    let confidence = if case.freed_past.is_empty() {
        0.7
    } else {
        0.85
    };
    Some(verdict(Cause::Blind, confidence, sentence, &next))
}

/// What grows is in use, by the headers in front of each block, and the probe has not counted it.
fn past_the_probe(case: &Case, growth: &Growth) -> Option<CauseVerdict> {
    // Uprobes miss what happens while they are off.
    let counts_all = case.traps.is_none();
    let grows = |uncounted: &Growth| counts_all && case.grows(uncounted);
    let uncounted = case.uncounted.filter(grows)?;
    if uncounted.bytes < MOST * growth.bytes {
        return None;
    }
    let grown = format!(
        "the heap grows by {}, and by glibc's own headers {} of it is in use by blocks that never came by the probe",
        rate(growth),
        percent((uncounted.bytes / growth.bytes).min(1.0))
    );
    let (sentence, next) = match case.past_the_probe.as_slice() {
        [] => (
            format!("{grown}: a leak or a cache, in a library that is bound past it"),
            "leave dlopen with RTLD_DEEPBIND and dlmopen out for a test, and explain that"
                .to_owned(),
        ),
        libraries => {
            let names = libraries.join(", ");
            (
                format!(
                    "{grown}: a leak or a cache in {names}, which calls the C library's malloc past it"
                ),
                format!("open {names} without RTLD_DEEPBIND for a test, and explain that"),
            )
        }
    };
    let confidence = if case.past_the_probe.is_empty() {
        0.7
    } else {
        0.85
    };
    Some(verdict(Cause::Blind, confidence, sentence, &next))
}

fn retention(case: &Case, growth: &Growth) -> CauseVerdict {
    let (held, torn) = (
        case.part(Part::AllocatorHeld),
        case.part(Part::Fragmentation),
    );
    let is_torn = torn.bytes > held.bytes;
    let live = case.part(Part::LiveHeap);
    let which = if is_torn {
        "in pages that live blocks keep (fragmentation)"
    } else {
        "in free pages that the allocator keeps (allocator-held)"
    };
    let sentence = format!(
        "retention: free heap grows by {}, most of it {which}, while the live heap {}{}",
        rate(growth),
        moved(&live),
        survivors(case)
    );
    let confidence = if live.bytes < 0.2 * growth.bytes {
        0.9
    } else {
        0.7
    };
    verdict(
        Cause::Retention,
        confidence,
        sentence,
        retention_next(is_torn),
    )
}

fn moved(growth: &Growth) -> String {
    if growth.bytes.abs() < 0.05 * growth.level.max(1.0) {
        format!("stays at {}", bytes(growth.level))
    } else {
        format!(
            "moved by {} to {}",
            bytes(growth.bytes),
            bytes(growth.level)
        )
    }
}

fn anonymous(case: &Case, growth: &Growth, growing: &[(Group, Growth)]) -> CauseVerdict {
    let rate = rate(growth);
    match &case.owner {
        Owner::Runtime(runtime) => {
            let is_live = |(group, _): &&(Group, Growth)| *group == Group::Live;
            let live = growing.iter().find(is_live).map(|(_, growth)| *growth);
            let all: f64 = growing.iter().map(|(_, growth)| growth.bytes).sum();
            managed::judge(case, *runtime, growth, live, all)
        }
        Owner::Linked(name) => blind_linked(case, name, &rate),
        Owner::Program => {
            let site = case.mapping_sites.first();
            let name = site.map_or_else(String::new, |site| format!(" at {}", heap::placed(site)));
            let sentence = format!("memory that the program maps itself grows by {rate}{name}");
            let next = "unmap what is not needed any more, or give it back with \
                madvise(MADV_DONTNEED); another allocator cannot help";
            verdict(Cause::Mapping, 0.9, sentence, next)
        }
        Owner::Unknown => anonymous_unknown(case, &rate),
    }
}

fn anonymous_unknown(case: &Case, rate: &str) -> CauseVerdict {
    if let Some(sanitizer) = case.managers.sanitizer {
        let sentence = format!(
            "anonymous memory grows by {rate}: the heap and the shadow memory of {} lie there, and the probe cannot be \
             put before its malloc",
            sanitizer.word()
        );
        let next = format!(
            "build the program without -fsanitize={}, and explain that",
            sanitizer.flag()
        );
        return verdict(Cause::Blind, 0.85, sentence, &next);
    }
    if let Some(why) = out_of_sight(case) {
        let sentence = format!("anonymous memory grows by {rate}, and {why}");
        return verdict(Cause::Blind, 0.85, sentence, &static_next(case));
    }
    let outside = case
        .managers
        .allocators
        .iter()
        .find(|allocator| allocator.how != How::Libc);
    if let Some(allocator) = outside.filter(|_| case.sight != Sight::Sees) {
        let sentence = format!(
            "anonymous memory grows by {rate}; {} is in the process and may well hold it, and without \
             the probe nothing tells its heap from other mappings",
            allocator.name
        );
        let next = format!("restart it with the probe: {}", case.restart);
        return verdict(Cause::Blind, 0.8, sentence, &next);
    }
    let sentence =
        format!("anonymous mappings outside of any heap grow by {rate}; their caller is not known");
    let next = "trace the mmap calls (perf trace -e mmap -p PID), or restart it with the probe";
    verdict(Cause::Mapping, 0.6, sentence, next)
}

/// Why the probe cannot see the allocator of a program that has no runtime and no allocator of a known name in it.
fn out_of_sight(case: &Case) -> Option<&'static str> {
    let who = &case.managers;
    match case.sight {
        _ if who.is_static && who.is_musl => {
            Some("the program is static, on musl: no library can be put before its allocator")
        }
        _ if who.is_static => {
            Some("the program is static: no library can be put before its allocator")
        }
        Sight::Sees => None,
        _ if who.is_musl => Some(
            "the program runs on musl, whose malloc may well hold it, and without the probe nothing shows what is \
             in it",
        ),
        Sight::SeesNothing => {
            Some("no allocation of this program reaches the probe: its allocator is inside it")
        }
        _ => None,
    }
}

fn blind_linked(case: &Case, name: &str, rate: &str) -> CauseVerdict {
    let seen = if case.account.live > 0.0 && case.sight == Sight::Sees {
        format!(
            " (what goes through malloc, {}, is seen and does not explain it)",
            bytes(case.account.live)
        )
    } else {
        String::new()
    };
    let sentence = format!(
        "the memory that grows ({rate}) belongs to {name}, which is linked into the program: its \
         calls do not pass through malloc and the probe is blind to them{seen}"
    );
    let next = format!(
        "build once with the system allocator and explain that, or meter {name} from inside (the \
         crate highwater-alloc for Rust; its own statistics otherwise)"
    );
    verdict(Cause::Blind, 0.9, sentence, &opened(case, &next))
}

fn stacks(case: &Case, growth: &Growth) -> CauseVerdict {
    let threads = if case.threads_last > case.threads_first {
        format!(
            "; threads rose from {} to {}",
            case.threads_first, case.threads_last
        )
    } else {
        "; the number of threads is the same, so they go deeper, or ended ones were never joined"
            .into()
    };
    let starts_most = |site: &&Site| site.share_of_growth > MOST;
    let started = case.stack_sites.first().filter(starts_most);
    let started = started.map_or_else(String::new, |site| {
        format!("; most were started by {}", heap::placed(site))
    });
    let sentence = format!(
        "stacks of threads grow by {}{threads}{started}",
        rate(growth)
    );
    let next = "look at who starts threads and who joins them (pstack, /proc/PID/task); a pool, or \
        pthread_detach, bounds them";
    verdict(Cause::Stacks, 0.9, sentence, next)
}

fn files(case: &Case, growth: &Growth) -> CauseVerdict {
    let which = case.grown_files.first();
    let name = which.map_or_else(String::new, |(name, grown)| {
        format!(", {} of it {name}", bytes(*grown))
    });
    let written = case.files_written.unwrap_or_default();
    if written.bytes > MOST * growth.bytes {
        let sentence = format!(
            "data of the program and copies of file pages that it wrote to grow by {}{name}: no file \
             stands behind them any more, so the kernel cannot take them back",
            rate(growth)
        );
        let next = "look at who fills large static arrays, or writes to private file mappings";
        return verdict(Cause::Mapping, 0.85, sentence, next);
    }
    let sentence = format!(
        "resident pages of mapped files grow by {}{name}; the kernel takes clean ones back under pressure",
        rate(growth)
    );
    let next = "no leak: limit it with madvise(MADV_DONTNEED) or MADV_RANDOM on the mapping, or read \
        the file in pieces; watch RSS less file maps instead of RSS";
    verdict(Cause::Files, 0.9, sentence, next)
}

/// ZGC maps its heap several times, from a file in memory.
fn is_java_heap(case: &Case) -> bool {
    let is_jvm = case.managers.runtimes.contains(&Runtime::Jvm);
    let first = case.grown_files.first();
    is_jvm && first.is_some_and(|(name, _)| name.starts_with("/memfd:java_heap"))
}

fn shared(case: &Case, growth: &Growth) -> CauseVerdict {
    let which = case.grown_files.first();
    let name = which.map_or_else(String::new, |(name, grown)| {
        format!(", {} of it {name}", bytes(*grown))
    });
    let sentence = format!("shared memory grows by {}{name}", rate(growth));
    let next = "look at who writes to it: shared memory and memfd are freed only when the last \
        mapping and the file are gone";
    verdict(Cause::Mapping, 0.85, sentence, next)
}

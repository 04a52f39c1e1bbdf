//! Leak, or a cache that fills: the site that grew most decides, or one with a fifth of the growth whose blocks are
//! lost: what a cache beside it does is another matter.
//!
//! *Leak* when more of its older blocks are out of the program's reach than chance makes of a collection that is held
//! ([`memory::lost`]); or
//! when it has turned over (half as much again was freed there as is outstanding), what stays is older than what is
//! freed becomes, and it grows all the same.
//! Not so when its blocks become larger instead of more: that is a vector, a string or a table on its way up.
//! *Filling* otherwise: nothing, or too little, has been freed there to tell.

use super::sentence::{rate, verdict};
use super::{Case, Cause, CauseVerdict};
use memory::blame::is_start;
use memory::brief::brief;
use memory::growth::Growth;
use memory::libraries::first_of_each_package;
use memory::lost::chance_if_held;
use memory::rank::{Site, frame_name};
use memory::wrappers::is_wrapper;
use symbols::frame::{Frame, JAVASCRIPT_MODULE};
use symbols::hotspot::is_jvm;
use symbols::python::is_interpreter;
use symbols::v8::is_runtime;
use units::written::{bytes, bytes_per_hour, nanoseconds, percent};

/// The chance below which so many lost blocks are none of a collection that is held.
const LOST_CHANCE: f64 = 1e-3;
/// Of all growth, what a site that grew less than another one must have for its lost blocks to decide.
const LOST_SHARE: f64 = 0.2;
/// Freed share from which a site has turned over: half as much again was freed as is outstanding. A vector that doubles
/// frees as much as it keeps while it is filled (up to 55 %, for its first sizes are rounded up), and nothing of it has
/// turned over.
const TURNED_OVER: f64 = 0.6;
/// Freed samples that make the freed share believable.
const FREED_MIN: u64 = 8;
/// What a site must have lost to be named though its growth is small for the process.
const SLOW_BYTES_MIN: f64 = 65_536.0;

/// The next step where the samples name no site.
const MORE_SAMPLES: &str =
    "observe longer (--duration): the samples name the site as they become more";

/// Of the time: with uprobes on for less, a longer watch sees hardly more.
const RARELY: f64 = 0.1;

/// Callers that the sentence names.
const CALLERS: usize = 2;

/// Judges the growth of the live heap. `under`: what it grows under, in words.
pub fn judge(case: &Case, growth: &Growth, under: &str) -> CauseVerdict {
    let Some(site) = deciding(case) else {
        return nameless(case, growth);
    };
    let rate = rate(growth);
    let place = placed(site);
    let share = percent(site.share_of_growth.min(1.0));
    let others = others(case, site);
    if is_lost(site) {
        let (lost, asked) = site.lost.unwrap_or_default();
        let sentence = format!(
            "leak at {place}: {under}the live heap grows by {rate}, {share} of it there, and \
             {lost} of {asked} sampled older blocks are unreachable{others}"
        );
        return verdict(Cause::Leak, sure(site, 0.97), sentence, &leak_next(site));
    }
    let is_larger = has_turned_over(site) && site.growth.grows_in_size();
    let outlives = has_turned_over(site) && site.growth.outlives_its_turnover();
    if case.is_followed() && outlives && !is_larger {
        let sentence = format!(
            "leak at {place}: {under}the live heap grows by {rate}, {share} of it there; {} of what it \
             allocated was freed again, most of that within {}, and what stays still grows (half of it is \
             older than {:.0} s){others}",
            percent(site.growth.freed_share()),
            nanoseconds(1e9 * site.growth.turnover_s),
            site.growth.ages.median_s
        );
        return verdict(Cause::Leak, sure(site, 0.85), sentence, &leak_next(site));
    }
    if let Some(small) = losing_slowly(case) {
        return leak_beside(small, site, &rate);
    }
    if site.share_of_growth < LOST_SHARE {
        return unexplained(case, site, &rate);
    }
    let freed = freed(site, is_larger);
    let kept = kept(case, site);
    let collected = match case.runtime().filter(|runtime| runtime.collects()) {
        Some(runtime) => format!(
            " (what {} objects hold stays until their next collection)",
            runtime.word()
        ),
        None => String::new(),
    };
    let sentence = format!(
        "{place} fills: {under}the live heap grows by {rate}, {share} of it there, and {freed}; \
         {kept}{collected}{others}"
    );
    let next = format!(
        "look at what keeps the blocks of {}: a bound or an expiry means it will level off, and a \
         longer --duration shows that; without one it is a leak",
        brief(&site.name())
    );
    verdict(Cause::Filling, sure(site, 0.8), sentence, &next)
}

/// How much of what a site allocated was freed, in words.
fn freed(site: &Site, is_larger: bool) -> String {
    match site.growth.freed_samples {
        _ if is_larger => {
            "its blocks become larger and not more: an array or a table that grows".to_owned()
        }
        0 => "nothing from there has been freed yet".to_owned(),
        _ if has_turned_over(site) => format!(
            "{} of it was freed, most of that within {}, but half of what is live is no older",
            percent(site.growth.freed_share()),
            nanoseconds(1e9 * site.growth.turnover_s)
        ),
        _ => format!(
            "only {} of it has been freed",
            percent(site.growth.freed_share())
        ),
    }
}

/// Whether what a site allocated is still held, in words.
fn kept(case: &Case, site: &Site) -> &'static str {
    match site.lost {
        Some(_) if case.account.witness.is_some() => {
            "it is still referenced, so it is a cache or a collection that fills, or one that is never emptied"
        }
        // Blocks of other allocators than glibc cannot all be listed.
        Some(_) => {
            "what look like pointers to it are still there, so it is a cache or a collection that fills, or one that \
             is never emptied (a pointer left over in unused memory, or in a lost block, would look the same)"
        }
        None => "whether it is still referenced could not be asked: a leak, or a cache that fills",
    }
}

/// A leak too slow to stand out in the account, or in a process too large: a site from which nothing is freed,
/// which goes on allocating, and nearly all of whose older blocks are out of reach. Samples of such a site only
/// add up, so that traffic elsewhere does not blur it.
pub fn slow_leak(case: &Case) -> Option<CauseVerdict> {
    let site = losing_slowly(case)?;
    let (lost, asked) = site.lost.unwrap_or_default();
    let slope = site.growth.grown_bytes / case.observed_s.max(1.0) * 3600.0;
    let sentence = format!(
        "slow leak at {}: {} more are outstanding there after {:.0} s (about {}), and \
         {lost} of {asked} sampled older blocks are unreachable; RSS is {}",
        placed(site),
        bytes(site.growth.grown_bytes),
        case.observed_s,
        bytes_per_hour(slope),
        bytes(case.account.rss_bytes)
    );
    Some(verdict(
        Cause::Leak,
        sure(site, 0.9),
        sentence,
        &leak_next(site),
    ))
}

/// See [`slow_leak`]: whatever else grows.
fn losing_slowly(case: &Case) -> Option<&Site> {
    losing_of(case, |site| site.growth.stays())
}

/// The first of such sites nearly all of whose older blocks are lost, and which goes on allocating.
fn losing_of(case: &Case, is_one: fn(&Site) -> bool) -> Option<&Site> {
    // A block whose free was not seen would count as unreachable.
    if case.overcount.is_some() {
        return None;
    }
    // Each site that was asked after has a chance of its own to look lost.
    let asked_after = case.sites.iter().filter(|site| site.lost.is_some());
    let chance_max = LOST_CHANCE / asked_after.count().max(1) as f64;
    let is_slow_leak = |site: &&Site| {
        let (lost, asked) = site.lost.unwrap_or_default();
        let growth = &site.growth;
        is_one(site)
            && growth.grown_bytes > SLOW_BYTES_MIN
            && growth.goes_on(case.observed_s)
            && chance_if_held(lost, asked) < chance_max
    };
    case.sites.iter().find(is_slow_leak)
}

/// Nothing of what lives there is freed any more: nothing at all is, or all that is becomes less old.
fn lasts(site: &Site) -> bool {
    let is_told = site.growth.freed_samples >= FREED_MIN;
    site.growth.stays() || is_told && site.growth.outlives_its_turnover()
}

/// A leak beside what grows more and is still referenced: the first is certain to be wrong.
fn leak_beside(site: &Site, larger: &Site, rate: &str) -> CauseVerdict {
    let (lost, asked) = site.lost.unwrap_or_default();
    let sentence = format!(
        "leak at {}: {lost} of {asked} sampled older blocks are unreachable; the live heap grows by {rate}, {} of it \
         at {}, which is still referenced",
        placed(site),
        percent(larger.share_of_growth.min(1.0)),
        named(larger)
    );
    verdict(Cause::Leak, sure(site, 0.9), sentence, &leak_next(site))
}

/// What is sampled does not hold what grows.
fn unexplained(case: &Case, largest: &Site, rate: &str) -> CauseVerdict {
    let sentence = format!(
        "the live heap grows by {rate}, and the sampled sites explain little of it: the largest, {}, has {}",
        named(largest),
        percent(largest.share_of_growth)
    );
    let short = case.traps.filter(|traps| traps.watched_share < RARELY);
    let next = short.map_or_else(
        || MORE_SAMPLES.to_owned(),
        |traps| {
            format!(
                "uprobes were on for {} of the time, for the allocator is called so often: allow them more for once \
                 (--budget 25), or restart it with the probe, which sees all: {}",
                percent(traps.watched_share),
                case.restart
            )
        },
    );
    verdict(Cause::Filling, 0.4, sentence, &next)
}

/// The site that the verdict is about.
fn deciding(case: &Case) -> Option<&Site> {
    let growing = || case.sites.iter().filter(|site| site.share_of_growth > 0.0);
    let loses = |site: &&Site| site.share_of_growth >= LOST_SHARE && is_lost(site);
    growing().find(loses).or_else(|| growing().next())
}

/// The site that decides, where its blocks are lost.
pub fn losing(case: &Case) -> Option<&Site> {
    let is_counted = case.overcount.is_none();
    deciding(case).filter(|site| is_counted && is_lost(site))
}

/// Few blocks to ask after must all be lost, and there must have been no more.
fn is_lost(site: &Site) -> bool {
    let (lost, asked) = site.lost.unwrap_or_default();
    let all_of_few = asked > 0 && lost == asked && asked <= site.growth.now.samples;
    all_of_few || chance_if_held(lost, asked) < LOST_CHANCE
}

fn has_turned_over(site: &Site) -> bool {
    site.growth.freed_samples >= FREED_MIN && site.growth.freed_share() >= TURNED_OVER
}

/// The growth is certain; which site it is becomes so with samples.
fn sure(site: &Site, most: f64) -> f64 {
    let samples = site.growth.now.samples as f64;
    most * (1.0 - 1.0 / (1.0 + samples / 3.0)).max(0.4)
}

/// The largest but that one.
fn others(case: &Case, named_site: &Site) -> String {
    let others = || case.sites.iter().filter(|site| *site != named_site);
    let next = others().find(|site| site.share_of_growth > 0.05);
    next.map_or_else(String::new, |site| {
        let word = match site.share_of_growth > named_site.share_of_growth {
            true => "most of all grows",
            false => "next is",
        };
        format!(
            "; {word} {} with {}",
            named(site),
            percent(site.share_of_growth)
        )
    })
}

/// With two callers further out that are not wrappers themselves: which use of a function it is. Of a function of a
/// dependency, the first caller outside of that package, and the program's own.
pub fn placed(site: &Site) -> String {
    let mut names: Vec<String> = first_of_each_package(&site.frames)
        .into_iter()
        .filter_map(caller)
        .collect();
    if names.len() > CALLERS {
        names.drain(CALLERS - 1..names.len() - 1);
    }
    if names.is_empty() {
        names = next_callers(site);
    }
    let through: Vec<String> = site.through.iter().map(name_of).collect();
    let mut place = named(site);
    if !through.is_empty() {
        place.push_str(&format!(" by way of {}", through.join(", ")));
    }
    if !site.owns.is_empty() {
        let owns: Vec<String> = site.owns.iter().take(CALLERS).map(name_of).collect();
        place.push_str(&format!(
            ", with what its blocks hold from {}",
            owns.join(", ")
        ));
    }
    if !names.is_empty() {
        place.push_str(&format!(", called by {}", names.join(" < ")));
    }
    place
}

/// The nearest that are neither wrappers, nor an interpreter's, nor what every program begins with. Of a module without
/// symbols, its file.
fn next_callers(site: &Site) -> Vec<String> {
    let Some(own) = site.frames.first() else {
        return Vec::new();
    };
    let has_javascript = site
        .frames
        .iter()
        .any(|frame| frame.module == JAVASCRIPT_MODULE);
    let is_runtimes = |module: &str| {
        is_interpreter(module) || is_jvm(module) || has_javascript && is_runtime(module)
    };
    let is_caller = |frame: &&Frame| !is_wrapper(frame) && !is_runtimes(&frame.module);
    let mut module = own.module.as_str();
    let (mut names, mut last) = (Vec::new(), None);
    for frame in site.frames.iter().skip(1).filter(is_caller) {
        let is_other = frame.module != module;
        module = &frame.module;
        let name = match frame.function.as_deref() {
            Some(name) if name == "main" || is_start(name) => continue,
            None if !is_other => continue,
            Some(name) => name,
            None => module.rsplit('/').next().unwrap_or_default(),
        };
        let is_new = own.function.as_deref() != Some(name) && last != Some(name);
        if is_new && !name.is_empty() && names.len() < CALLERS {
            names.push(caller(frame).unwrap_or_else(|| name.to_owned()));
            last = Some(name);
        }
    }
    names
}

/// Of a function that a runtime runs, with the line that calls: it may call several functions of one extension.
fn caller(frame: &Frame) -> Option<String> {
    let name = brief(frame.function.as_deref()?);
    let place = file_of(frame).zip(frame.line);
    Some(match place.filter(|_| frame.is_managed()) {
        Some((file, line)) => format!("{name} ({file}:{line})"),
        None => name,
    })
}

/// Its source file without folders.
fn file_of(frame: &Frame) -> Option<&str> {
    let file = frame.file.as_deref()?;
    Some(file.rsplit('/').next().unwrap_or(file))
}

/// `leak (relay.zig:42)`, or `/srv/app+0x1f, which has no symbols`.
pub fn named(site: &Site) -> String {
    let Some(frame) = site.frames.first() else {
        return "an unknown site".to_owned();
    };
    match (&frame.function, file_of(frame), frame.line) {
        (None, ..) => format!("{}, which has no symbols", site.name()),
        (Some(name), Some(file), Some(line)) => format!("{} ({file}:{line})", brief(name)),
        (Some(name), ..) => brief(name),
    }
}

fn name_of(frame: &Frame) -> String {
    brief(&frame_name(frame))
}

fn leak_next(site: &Site) -> String {
    format!(
        "read {}: every block that it allocates needs an owner that frees it; another allocator \
         cannot help",
        named(site)
    )
}

/// Of no site alone is growth certain; the blocks of all of them together may still tell that they are lost.
fn nameless(case: &Case, growth: &Growth) -> CauseVerdict {
    let stay = case.sites.iter().filter(|site| site.growth.stays());
    let told = stay.filter_map(|site| site.lost);
    let (lost, asked) = told.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let spread = format!(
        "the live heap grows by {}, spread over sites none of which grows by more than chance yet",
        rate(growth)
    );
    if let Some(site) = losing_of(case, lasts) {
        let (lost, asked) = site.lost.unwrap_or_default();
        let sentence = format!(
            "leak at {}: {lost} of {asked} sampled older blocks are unreachable; the live heap grows by {}",
            placed(site),
            rate(growth)
        );
        return verdict(Cause::Leak, sure(site, 0.9), sentence, &leak_next(site));
    }
    if chance_if_held(lost, asked) < LOST_CHANCE {
        let sentence =
            format!("leak: {spread}, and {lost} of {asked} sampled older blocks are unreachable");
        return verdict(Cause::Leak, 0.6, sentence, MORE_SAMPLES);
    }
    verdict(Cause::Filling, 0.4, spread, MORE_SAMPLES)
}

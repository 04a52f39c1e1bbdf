//! From what was followed to an explanation of the one process that matters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::ExplainArgs;
use super::cost::overhead;
use super::follow::{Follower, SEARCH_MAX};
use super::launch::Launched;
use super::notes::notes;
use super::sight::{allocators, no_uprobes, sight, unseen};
use super::tracked::Tracked;
use memory::account::Part;
use memory::areas::Class;
use memory::blame::{Shared, shared_with_others};
use memory::brief::brief;
use memory::growth::{Growth, SAMPLES_MIN};
use memory::history::Window;
use memory::lasting::lasting;
use memory::lost::{Asked, tell_lost};
use memory::rank::{Named, Site, rank};
use memory::sites::SiteGrowth;
use memory::survivors::survivors;
use report::explain::{Diff, Explained, Other, ProbeFacts, StackBytes};
use verdict::cause::owner::owner;
use verdict::cause::{Case, Cause, CauseVerdict, Owner, judge};

/// An answer is due so long after the observation; names that have not come by then are left out.
const END_MAX: Duration = Duration::from_secs(25);

/// For a verdict during a run, and after what is left out: twice what a rate wants.
const JUDGED_SNAPSHOTS_MIN: usize = 2 * SAMPLES_MIN;

/// From one survey of the heap to the next, when there was none at half time.
const SURVEYS_APART: Duration = Duration::from_millis(2500);

/// Explains the process that grew most.
pub fn conclude(
    follower: &mut Follower,
    launched: Option<&Launched>,
    args: &ExplainArgs,
) -> anyhow::Result<Explained> {
    follower.say("observed; now asking for names, and for what is still held");
    // Before the time for everything else begins: a large heap takes seconds.
    follower.conclude_heaps();
    let begin = Instant::now();
    let searched = begin + SEARCH_MAX;
    follower.check_again(searched);
    let tracked = follower.grown_most().context("nothing was followed")?;
    tracked.ask_names();
    let surveyed_late = tracked.wants_survey();
    tracked.ask_after_blocks(searched);
    if surveyed_late && Instant::now() + SURVEYS_APART < searched {
        std::thread::sleep(SURVEYS_APART);
        tracked.ask_after_blocks(searched);
    }
    tracked.settle(begin + END_MAX);
    tracked.take_uprobes_off();
    let tracked = &*tracked;
    let chosen = tracked.reader.member.pid;
    let mut explained = explain(tracked, launched, args)?;
    explained.others = others(follower, chosen);
    explained.notes.extend(notes(follower, launched, chosen));
    Ok(explained)
}

/// Whether a verdict during a run has enough snapshots to go by.
pub fn has_snapshots(tracked: &Tracked) -> bool {
    tracked.history.moments.len() >= JUDGED_SNAPSHOTS_MIN
}

/// What lies before a moment of a process's life is not judged, once there are enough snapshots after it.
pub fn leave_out(tracked: &mut Tracked, until_s: f64) {
    tracked.history.forget_before(until_s, JUDGED_SNAPSHOTS_MIN);
}

/// The verdict on a process of an experiment, so far, and the function that it names; `None` before it can be judged.
pub fn verdict_of(tracked: &Tracked) -> Option<(CauseVerdict, Option<String>)> {
    let window = tracked
        .history
        .window()
        .filter(|_| has_snapshots(tracked))?;
    let case = case_of(tracked, window, None);
    let verdict = judge(&case);
    let sites = match verdict.cause {
        Cause::Leak | Cause::Filling => &case.sites[..],
        Cause::Mapping => &case.mapping_sites,
        Cause::Stacks => &case.stack_sites,
        _ => &[],
    };
    let place = sites.first().map(|site| brief(&site.name()));
    Some((verdict, place))
}

fn explain(
    tracked: &Tracked,
    launched: Option<&Launched>,
    args: &ExplainArgs,
) -> anyhow::Result<Explained> {
    let window = tracked.history.window().context("no sample succeeded")?;
    let case = case_of(tracked, window, launched);
    let verdict = judge(&case);
    let probe = tracked.snapshot.probe.as_ref();
    let preloaded = probe.filter(|probe| !probe.own.is_empty());
    Ok(Explained {
        pid: tracked.reader.member.pid,
        command: tracked.command.clone(),
        verdict,
        allocators: allocators(tracked),
        probe: preloaded.map(|probe| ProbeFacts {
            metadata_bytes: case.account.probe as u64,
            samples: probe.samples,
            dropped: probe.dropped,
        }),
        overhead: overhead(
            tracked,
            launched,
            case.observed_s,
            args.budget,
            case.account.probe as u64,
        ),
        diff: args.diff.and_then(|(from, to)| diff(tracked, from, to)),
        stacks: stacks(tracked, window),
        others: Vec::new(),
        notes: Vec::new(),
        case,
    })
}

fn case_of(tracked: &Tracked, window: Window, launched: Option<&Launched>) -> Case {
    let history = &tracked.history;
    let moments = &history.moments;
    let account = history
        .last()
        .map(|moment| moment.account.clone())
        .unwrap_or_default();
    let growth = history.part_growths();
    let growths = history.heap_sites(window, &tracked.snapshot);
    let named = Named {
        frames: Some(&tracked.frames),
        shared: shared(tracked, &growths),
    };
    let mut sites = rank(&growths, &named, history.live_growth(window));
    let overcount = history.overcount();
    let probe = tracked.snapshot.probe.as_ref();
    let traps = probe.and_then(|probe| probe.traps);
    let asked = Asked {
        lost: &tracked.lost,
        pointed: &tracked.pointed,
        // What was freed while nobody looked would look lost.
        are_live: traps.is_none_or(|traps| traps.tells_live()),
    };
    tell_lost(&mut sites, &growths, &asked, overcount.is_some());
    let anonymous = growth
        .get(&Part::AnonymousMappings)
        .map_or(0.0, |growth| growth.bytes);
    let (mapping_sites, owner) = mappings(tracked, window, anonymous);
    let uncounted = history.uncounted_growth().filter(|growth| growth.still);
    Case {
        observed_s: moments
            .last()
            .map_or(0.0, |last| last.at_s - moments[0].at_s),
        snapshots: moments.len(),
        has_ended: tracked.ended,
        is_stopped: tracked.is_stopped(),
        growth,
        rss: history.growth(|account| account.rss_bytes),
        heap: history.growth(|account| account.live + account.held + account.fragmentation),
        free: history.growth(|account| account.held + account.fragmentation),
        live_at_most: history.live_at_most(window),
        lasting: lasting_of(tracked, window),
        files_written: history.growth(|account| account.files_written),
        past_the_probe: uncounted.map_or(Vec::new(), |_| tracked.reader.allocates_past()),
        freed_past: overcount.map_or(Vec::new(), |_| tracked.reader.frees_past()),
        overcount,
        uncounted,
        huge_untouched: history.growth(|account| account.huge_untouched),
        owner,
        sites,
        grown_files: history.grown_files(window),
        outside: history.outside_growths(),
        opened: history.opened_growth(),
        threads_first: moments[window.from].threads,
        threads_last: moments[window.to].threads,
        managers: tracked.managers.clone(),
        sight: sight(tracked, launched),
        survivors: tracked.snapshot.probe.as_ref().and_then(survivors),
        restart: format!("highwater explain -- {}", tracked.command),
        traps,
        no_uprobes: no_uprobes(tracked),
        mapping_sites,
        stack_sites: thread_starts(tracked, window),
        managed: tracked.managed.clone(),
        classes: history.growing_classes(|table| tracked.class(table)),
        account,
    }
}

fn lasting_of(tracked: &Tracked, window: Window) -> Option<Growth> {
    let moments = &tracked.history.moments;
    let window_s = moments[window.to].at_s - moments[window.from].at_s;
    lasting(moments, window_s, tracked.snapshot.probe.as_ref()?)
}

/// The sites of the program's own mappings, and who owns those that grow. `anonymous`: growth of all of them.
fn mappings(tracked: &Tracked, window: Window, anonymous: f64) -> (Vec<Site>, Owner) {
    let probe = tracked.snapshot.probe.as_ref();
    let is_full = probe.is_some_and(|probe| probe.regions_dropped > 0);
    let growths = tracked.history.mapping_sites(window, Class::Anonymous);
    let known: f64 = growths.iter().map(|site| site.grown_bytes.max(0.0)).sum();
    let named = Named {
        frames: Some(&tracked.frames),
        ..Named::default()
    };
    let sites = rank(&growths, &named, anonymous);
    let top = sites
        .first()
        .filter(|site| site.growth.grown_bytes > 0.0 || is_full);
    let raw = top.and_then(|site| tracked.frames.get(&site.growth.stack));
    let known_share = match is_full {
        true => 1.0,
        false if anonymous > 0.0 => known / anonymous,
        false => 0.0,
    };
    let raw = raw.map_or(&[][..], Vec::as_slice);
    let owner = owner(top, raw, known_share, &unseen(tracked));
    (sites, owner)
}

/// Who started the threads whose stacks grew.
fn thread_starts(tracked: &Tracked, window: Window) -> Vec<Site> {
    let stacks = tracked
        .history
        .growth(|account| account.part(Part::ThreadStacks));
    let grown = stacks.map_or(0.0, |growth| growth.bytes);
    let growths = tracked.history.mapping_sites(window, Class::Stack);
    let named = Named {
        frames: Some(&tracked.frames),
        ..Named::default()
    };
    rank(&growths, &named, grown)
}

fn stacks(tracked: &Tracked, window: Window) -> Vec<StackBytes> {
    let Some(probe) = &tracked.snapshot.probe else {
        return Vec::new();
    };
    let growths = tracked.history.heap_sites(window, &tracked.snapshot);
    let stack = |site: &SiteGrowth| StackBytes {
        frames: tracked.frames.get(&site.stack).cloned().unwrap_or_default(),
        addresses: probe
            .stacks
            .get(&site.stack)
            .map(|s| s.addresses.clone())
            .unwrap_or_default(),
        bytes: site.now.bytes,
        blocks: site.now.blocks,
        grown_bytes: site.grown_bytes,
    };
    growths.iter().map(stack).collect()
}

fn diff(tracked: &Tracked, from_s: f64, to_s: f64) -> Option<Diff> {
    let window = tracked.history.between(from_s, to_s)?;
    let moments = &tracked.history.moments;
    let (before, after) = (&moments[window.from], &moments[window.to]);
    let parts = Part::SUM.iter().chain(&Part::OF_WHICH);
    let grown = after.account.live - before.account.live;
    let growths = tracked.history.heap_sites_between(window);
    let named = Named {
        frames: Some(&tracked.frames),
        shared: shared(tracked, &growths),
    };
    Some(Diff {
        from_s: before.at_s,
        to_s: after.at_s,
        parts: parts
            .map(|part| {
                (
                    part.word(),
                    before.account.part(*part),
                    after.account.part(*part),
                )
            })
            .collect(),
        sites: rank(&growths, &named, grown),
    })
}

/// See [`shared_with_others`].
fn shared(tracked: &Tracked, growths: &[SiteGrowth]) -> BTreeMap<u64, Shared> {
    let probe = tracked.snapshot.probe.as_ref();
    probe.map_or_else(BTreeMap::new, |probe| {
        shared_with_others(growths, &probe.stacks, &tracked.frames)
    })
}

fn others(follower: &Follower, chosen: i32) -> Vec<Other> {
    let mut others: Vec<Other> = follower
        .tracked
        .values()
        .filter(|tracked| tracked.reader.member.pid != chosen)
        .map(|tracked| {
            let moments = &tracked.history.moments;
            let rss = |index: usize| moments.get(index).map_or(0.0, |m| m.account.rss_bytes);
            let last = rss(moments.len().saturating_sub(1));
            Other {
                pid: tracked.reader.member.pid,
                command: tracked.command.clone(),
                rss_bytes: last,
                grown_bytes: last - rss(0),
                ended: tracked.ended,
            }
        })
        .collect();
    others.sort_by(|a, b| b.rss_bytes.total_cmp(&a.rss_bytes));
    others
}

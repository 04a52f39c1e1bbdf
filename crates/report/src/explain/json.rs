//! `highwater.explain/2`.

use serde_json::{Value, json};

use super::frame::frame_json;
use super::{Diff, Explained, Other};
use crate::overhead;
use heap::linked::traps::Traps;
use heap::memory_managers::How;
use heap::outside::Holder;
use memory::account::{LiveBy, Part};
use memory::rank::{Site, frame_name};
use memory::types::Class;
use verdict::cause::Sight;

pub const SCHEMA: &str = "highwater.explain/2";

/// Sites that are listed.
const SITES_MAX: usize = 20;

/// Bytes are whole numbers, shares and coverage 0 to 1, slopes bytes per hour.
pub fn json(explained: &Explained) -> Value {
    let (case, verdict) = (&explained.case, &explained.verdict);
    let parts = Part::SUM.iter().map(|part| part_json(explained, *part));
    let of_which = Part::OF_WHICH.iter().map(|part| {
        let mut row = part_json(explained, *part);
        row["of_which"] = true.into();
        row
    });
    let allocators = explained.allocators.iter().map(|(allocator, seen)| {
        let how = match allocator.how {
            How::Preloaded => "preloaded",
            How::Linked => "linked",
            How::Libc => "libc",
        };
        json!({"name": allocator.name, "version": allocator.version, "how": how, "seen": seen,
            "path": allocator.path})
    });
    let probe = explained.probe.map(|probe| {
        json!({"metadata_bytes": probe.metadata_bytes, "samples": probe.samples,
            "dropped": probe.dropped})
    });
    let sites = shown_sites(explained);
    let outside = case.outside.iter().flat_map(|one| &one.grown);
    let runtimes: Vec<_> = case.managers.runtimes.iter().map(|r| r.word()).collect();
    json!({
        "schema": SCHEMA,
        "verdict": {
            "cause": verdict.cause.word(),
            "confidence": round(verdict.confidence, 2),
            "sentence": verdict.sentence,
            "next_step": verdict.next_step,
            "limitations": verdict.limitations,
        },
        "pid": explained.pid,
        "command": explained.command,
        "observed_s": round(case.observed_s, 1),
        "snapshots": case.snapshots,
        "rss_bytes": whole(case.account.rss_bytes),
        "rss_slope_bytes_per_hour": case.rss.map(|rss| whole(rss.slope_per_hour)),
        "parts": parts.chain(of_which).collect::<Vec<_>>(),
        "outside": outside.take(SITES_MAX).map(outside_json).collect::<Vec<_>>(),
        "coverage": round(case.account.coverage, 3),
        "live_by": live_by(case.account.live_by),
        "witness_live_bytes": case.account.witness.map(whole),
        "sites": sites.iter().take(SITES_MAX).map(site_json).collect::<Vec<_>>(),
        "classes": case.classes.iter().map(class_json).collect::<Vec<_>>(),
        "managed": case.managed.as_ref().map(super::managed::json),
        "allocators": allocators.collect::<Vec<_>>(),
        "runtimes": runtimes,
        "probe": probe,
        "uprobes": case.traps.map(traps_json),
        "overhead": overhead::json(&explained.overhead),
        "probe_absent": match &case.sight { Sight::Absent(why) => Some(why), _ => None },
        "diff": explained.diff.as_ref().map(diff_json),
        "processes": explained.others.iter().map(other_json).collect::<Vec<_>>(),
        "notes": explained.notes,
        "remedies": explained.candidates(),
    })
}

/// What grew outside of the mappings.
fn outside_json((holder, grown): &(Holder, f64)) -> Value {
    json!({
        "kind": holder.word(),
        "name": holder.to_string(),
        "grown_bytes": whole(*grown),
    })
}

fn class_json(class: &Class) -> Value {
    json!({
        "name": class.name,
        "objects": class.count,
        "bytes": class.bytes,
        "grown_objects": whole(class.grown_count),
        "grown_bytes": whole(class.grown_bytes),
    })
}

fn traps_json(traps: Traps) -> Value {
    json!({
        "functions": traps.functions,
        "hits": traps.hits,
        "hits_per_second": round(traps.hits_per_second, 0),
        "samples": traps.samples,
        "samples_without_result": traps.without_result,
        "ns_per_hit": round(traps.hit_ns(), 0),
        "ns_per_sample": round(traps.cost.sample_ns, 0),
        "at_start": traps.at_start,
        "core_share": round(traps.core_share, 4),
        "watched_share": round(traps.watched_share, 3),
        "sees_all_frees": traps.sees_all(),
        "unseen_share": round(traps.unseen_share, 4),
    })
}

/// Sites of what grows: of mappings or of thread stacks when those are the cause, else of the live heap.
fn shown_sites(explained: &Explained) -> &[Site] {
    use verdict::cause::Cause;
    let case = &explained.case;
    let own = match explained.verdict.cause {
        Cause::Mapping | Cause::Hugepages | Cause::Lazyfree => &case.mapping_sites[..],
        Cause::Stacks => &case.stack_sites,
        _ => &[],
    };
    if own.is_empty() { &case.sites } else { own }
}

fn part_json(explained: &Explained, part: Part) -> Value {
    let case = &explained.case;
    json!({
        "name": part.word(),
        "bytes": whole(case.account.part(part)),
        "slope_bytes_per_hour": case.growth.get(&part).map(|growth| whole(growth.slope_per_hour)),
    })
}

fn site_json(site: &Site) -> Value {
    let (lo, hi) = site.growth.interval();
    json!({
        "share_of_growth": round(site.share_of_growth, 4),
        "outstanding_bytes": whole(site.growth.now.bytes),
        "outstanding_bytes_lo": whole(lo),
        "outstanding_bytes_hi": whole(hi),
        "grown_bytes": whole(site.growth.grown_bytes),
        "samples": site.growth.now.samples,
        "freed_share": round(site.growth.freed_share(), 4),
        "age_s": {"median": round(site.growth.ages.median_s, 1), "p90": round(site.growth.ages.p90_s, 1),
            "max": round(site.growth.ages.max_s, 1)},
        "lost_blocks": site.lost.map(|(lost, asked)| json!({"lost": lost, "asked": asked})),
        "through": site.through.iter().map(frame_name).collect::<Vec<_>>(),
        "owns": site.owns.iter().map(frame_name).collect::<Vec<_>>(),
        "frames": site.frames.iter().map(frame_json).collect::<Vec<_>>(),
    })
}

fn diff_json(diff: &Diff) -> Value {
    let parts = diff.parts.iter().map(|(name, before, after)| {
        json!({"name": name, "before_bytes": whole(*before), "after_bytes": whole(*after),
            "grown_bytes": whole(after - before)})
    });
    json!({
        "from_s": round(diff.from_s, 1),
        "to_s": round(diff.to_s, 1),
        "parts": parts.collect::<Vec<_>>(),
        "sites": diff.sites.iter().take(SITES_MAX).map(site_json).collect::<Vec<_>>(),
    })
}

fn other_json(other: &Other) -> Value {
    json!({"pid": other.pid, "command": other.command, "rss_bytes": whole(other.rss_bytes),
        "grown_bytes": whole(other.grown_bytes), "ended": other.ended})
}

fn live_by(by: LiveBy) -> &'static str {
    match by {
        LiveBy::ProbeExact => "probe_exact",
        LiveBy::ProbeSampled => "probe_sampled",
        LiveBy::SinceAttached => "sampled_since_attached",
        LiveBy::Headers | LiveBy::HeadersBesideProbe => "glibc_headers",
        LiveBy::ResidentHeap => "resident_heap",
        LiveBy::Nobody => "nobody",
    }
}

fn whole(bytes: f64) -> i64 {
    bytes.round() as i64
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

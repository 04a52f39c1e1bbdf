//! `highwater.stalls/1`.

use serde_json::{Value, json};

use super::SelfChecks;
use stalls::naming::NamedFinding;

pub const SCHEMA: &str = "highwater.stalls/1";

pub fn render(rows: &[NamedFinding], mode: &str, pid: u32, checks: &SelfChecks) -> Value {
    json!({
        "schema": SCHEMA,
        "pid": pid,
        "mode": mode,
        "findings": rows.iter().map(row).collect::<Vec<_>>(),
        "self_checks": self_checks(checks),
    })
}

fn row(row: &NamedFinding) -> Value {
    json!({
        "cause": row.cause.word(),
        "count": row.count,
        "threads": row.threads,
        "longest_ns": row.longest_ns,
        "total_ns": row.total_ns,
        "period_ns": row.period_ns,
        "episodes": row.episodes,
        "agreeing_episodes": row.agreeing,
        "open": row.open,
        "culprit": {
            "thread": row.culprit.thread,
            "tid": row.culprit.tid,
            "function": row.culprit.function,
            "callers": row.culprit.callers,
            "doing": row.culprit.activity,
            "stack": row.culprit.stack,
        },
        "chain": row.chain.iter().map(|hop| json!({
            "thread": hop.thread,
            "waited_for": hop.waited_for,
            "ns": hop.ns,
        })).collect::<Vec<_>>(),
        "ran_instead": row.ran_instead.iter().map(|(name, ns)| json!({
            "name": name,
            "ns": ns,
        })).collect::<Vec<_>>(),
        "inferred": row.inferred,
        "waiters": row.waiters.iter().map(|(stack, ns)| json!({
            "stack": stack,
            "ns": ns,
        })).collect::<Vec<_>>(),
        "stalled_threads": row.stalled,
    })
}

fn self_checks(checks: &SelfChecks) -> Value {
    json!({
        "watched_ns": checks.watched_ns,
        "threads": checks.threads,
        "lost_records": checks.lost_records,
        "lost_samples": checks.lost_samples,
        "missed_switches": checks.missed_switches,
        "run_delay_difference": checks.run_delay_difference,
        "stolen_share": checks.stolen_share,
        "unresolved_stacks": checks.unresolved_stacks,
        "dropped_segments": checks.dropped_segments,
        "dropped_stalls": checks.dropped_stalls,
        "unwatched_threads": checks.unwatched_threads,
        "left_out_below_ns": checks.left_out_below_ns,
        "below_the_rule": checks.below_the_rule,
        "own_cpu_ns": checks.cpu_ns,
        "missing": checks.missing,
    })
}

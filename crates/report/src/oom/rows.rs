//! The evidence of a finding: a row each.

use oom::kill::{By, Constraint, Counter, Kill, Request, Victim};
use oom::now::CgroupNow;
use units::written::{bytes, bytes_per_hour, counted, percent, seconds};
use verdict::oom::{Growth, OomFinding, Part, parts};

/// Parts below this share of the whole are one part in the text; JSON has all.
const SHOWN_SHARE: f64 = 0.01;

/// Name and text.
pub fn rows(finding: &OomFinding) -> Vec<(&'static str, String)> {
    let last = finding.last();
    let rows = [
        ("when", Some(when(finding))),
        ("limit", limit(last)),
        ("asked", last.request.as_ref().map(asked)),
        ("killed", killed(last)),
        ("it held", last.victim().and_then(held)),
        ("memory", memory(last)),
        ("growth", finding.growth.as_ref().map(growth)),
        ("now", finding.now.as_ref().map(now)),
    ];
    rows.into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
        .collect()
}

fn when(finding: &OomFinding) -> String {
    let (first, last) = (&finding.kills[0], finding.last());
    let at = super::when(last.at);
    match finding.kills.len() {
        1 => at,
        count => format!(
            "{at}, the last of {count} kills since {}",
            super::when(first.at)
        ),
    }
}

fn limit(kill: &Kill) -> Option<String> {
    if matches!(kill.by, By::SystemdOomd(_)) {
        return kill
            .task_cgroup
            .as_ref()
            .map(|path| format!("systemd-oomd's, on {path}"));
    }
    if kill.constraint != Constraint::Cgroup {
        return kill
            .task_cgroup
            .as_ref()
            .map(|path| format!("not a cgroup's; the process was in {path}"));
    }
    let path = kill.limit_cgroup.as_deref().unwrap_or("a cgroup");
    let below = kill.task_cgroup.as_deref().filter(|task| *task != path);
    let below = below.map_or_else(String::new, |task| {
        format!("; the process was below it, in {task}")
    });
    let cgroup = kill.cgroup.as_ref();
    let counters = cgroup.map_or_else(Vec::new, |cgroup| {
        let all = [
            ("memory", cgroup.memory),
            ("swap", cgroup.swap),
            ("memory and swap", cgroup.memory_and_swap),
            (
                "kernel memory",
                cgroup.kernel.filter(|kernel| kernel.limit_bytes.is_some()),
            ),
        ];
        all.into_iter()
            .filter_map(|(name, counter)| Some(counted_to(name, &counter?)))
            .collect()
    });
    let counters = match counters.is_empty() {
        true => String::new(),
        false => format!(": {}", counters.join("; ")),
    };
    Some(format!("{path}{counters}{below}"))
}

fn counted_to(name: &str, counter: &Counter) -> String {
    let used = bytes(counter.usage_bytes as f64);
    match counter.limit_bytes {
        Some(limit) => format!("{name} {used} of {}", bytes(limit as f64)),
        None => format!("{name} {used}, no limit"),
    }
}

fn asked(request: &Request) -> String {
    let pid = request
        .pid
        .map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let pages = match request
        .order
        .map(|order| 1_u64.checked_shl(order).unwrap_or(0))
    {
        Some(1) => "one page".to_owned(),
        Some(pages) => format!("{pages} contiguous pages"),
        None => "memory".to_owned(),
    };
    format!("{}{pid}, for {pages} ({})", request.command, request.gfp)
}

fn killed(kill: &Kill) -> Option<String> {
    let names: Vec<String> = kill.victims.iter().take(8).map(one_killed).collect();
    let more = match kill.victims.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

fn one_killed(victim: &Victim) -> String {
    let uid = victim.uid.map(|uid| format!("uid {uid}"));
    let adj = victim
        .oom_score_adj
        .map(|adj| format!("oom_score_adj {adj}"));
    let facts = [Some(format!("pid {}", victim.pid)), uid, adj];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    format!("{} ({})", victim.command, facts.join(", "))
}

fn held(victim: &Victim) -> Option<String> {
    let parts = [
        ("anonymous", victim.anon_bytes),
        ("files", victim.file_bytes),
        ("shared", victim.shmem_bytes),
        ("page tables", victim.page_table_bytes),
        ("swap", victim.swap_bytes),
    ];
    let known = parts
        .iter()
        .filter_map(|(name, size)| Some(format!("{name} {}", bytes((*size)? as f64))));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Of the cgroup or the machine; the parts add up to the whole.
fn memory(kill: &Kill) -> Option<String> {
    let (parts, whole) = parts(kill)?;
    let is_shown =
        |part: &Part| part.bytes.abs() >= SHOWN_SHARE * whole || part.word == "unexplained";
    let (shown, small): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_shown);
    let rest: f64 = small.iter().map(|part| part.bytes).sum();
    let mut shown: Vec<String> = shown
        .iter()
        .map(|part| {
            let share = percent(part.bytes / whole.max(1.0));
            format!(
                "{} {} ({share})",
                part.word.replace('_', " "),
                bytes(part.bytes)
            )
        })
        .collect();
    if rest > 0.0 {
        let last = shown.len().saturating_sub(1);
        shown.insert(last, format!("smaller parts {}", bytes(rest)));
    }
    Some(format!("{}: {}", bytes(whole), shown.join(", ")))
}

fn growth(growth: &Growth) -> String {
    let spread = match growth.shortest_s < growth.longest_s {
        true => format!(
            " ({} to {})",
            seconds(growth.shortest_s),
            seconds(growth.longest_s)
        ),
        false => String::new(),
    };
    let apart = format!("kills {} apart{spread}", seconds(growth.interval_s));
    match (growth.bytes, growth.bytes_per_hour()) {
        (Some(size), Some(rate)) => format!(
            "at least {}: {} of its own memory at each kill, {apart}; its restart took part of that time",
            bytes_per_hour(rate),
            bytes(size)
        ),
        _ => format!(
            "{apart}; how fast one grows is not known, for several ran at once, or the log has no table of tasks"
        ),
    }
}

fn now(now: &CgroupNow) -> String {
    let memory = &now.memory;
    let limit = memory
        .memory_limit_bytes
        .map_or("no limit".to_owned(), |limit| {
            format!("limit {}", bytes(limit as f64))
        });
    let used = memory
        .memory_bytes
        .map(|used| format!("{} used", bytes(used as f64)));
    let kills = memory
        .oom_kills
        .map(|kills| counted(kills, "OOM kill counted", "OOM kills counted"));
    let hits = now
        .max_events
        .map(|hits| format!("limit hit {}", counted(hits, "time", "times")));
    let slowed = now.high_events.zip(now.high_bytes).map(|(events, high)| {
        format!(
            "slowed down {} at memory.high, {}",
            counted(events, "time", "times"),
            bytes(high as f64)
        )
    });
    let group = now.is_group.then(|| "memory.oom.group is set".to_owned());
    let off = now
        .is_killing_off
        .then(|| "the OOM killer is off: what asks for memory waits".to_owned());
    let all = [Some(limit), used, kills, hits, slowed, group, off];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join(", ")
}

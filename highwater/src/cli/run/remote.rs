//! Before a run with remote arms begins: does the store hold samples of every arm, and how often?

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::cli::gather::store::Store;
use experiment::file::{Experiment, Remote};
use import::prometheus::answer::Raw;
use import::prometheus::assemble::{Assembled, Grid, assemble};
use units::written;

/// Samples of this much time before now say what there is.
const WINDOW_MS: i64 = 300_000;
/// Samples older than this, beyond the usual gap between them, are not fresh.
const STALE_S: f64 = 60.0;

/// Asks the store. The value are warnings.
///
/// # Errors
/// The store does not answer, or an arm has no process in it; with what to do.
pub fn check(experiment: &Experiment, remote: &Remote) -> Result<Vec<String>> {
    let store = Store::open(remote, &experiment.base)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let now_ms = (now_s * 1000.0) as i64;
    let answers = store
        .ask(now_ms - WINDOW_MS, now_ms)
        .with_context(|| format!("nothing was started: asking {} for the arms", remote.url))?;
    let grid = Grid {
        begun_ns: 0,
        interval_ns: experiment.interval.as_nanos() as i64,
    };
    let mut seen: Vec<(&String, Vec<Assembled>)> = Vec::new();
    for (arm, raw) in &answers {
        let found = assemble(raw, &store.names, grid);
        check_twice(arm, &found, &seen)?;
        seen.push((arm, found));
    }
    for arm in &experiment.arms {
        let count: usize = seen
            .iter()
            .filter(|(a, _)| **a == arm.name)
            .map(|(_, f)| f.len())
            .sum();
        if count == 0 {
            bail!(
                "nothing was started: {}",
                nothing(&store, remote, &arm.name)
            );
        }
    }
    let all: Vec<&Raw> = answers.iter().flat_map(|(_, raw)| raw).collect();
    Ok(warnings(experiment, &all, now_s))
}

fn check_twice(arm: &str, found: &[Assembled], seen: &[(&String, Vec<Assembled>)]) -> Result<()> {
    for (other, processes) in seen.iter().filter(|(other, _)| other.as_str() != arm) {
        let both = found
            .iter()
            .find(|f| processes.iter().any(|p| p.who.is_same(&f.who)));
        if let Some(both) = both {
            let labels = &both.who.labels;
            bail!(
                "nothing was started: a process is in arm {arm} and in arm {other}, it can only be in one: {labels:?}"
            );
        }
    }
    Ok(())
}

fn nothing(store: &Store, remote: &Remote, arm: &str) -> String {
    let metric = remote.metric.as_deref().unwrap_or("highwater_rss_bytes");
    let others = [
        "process_resident_memory_bytes",
        "namedprocess_namegroup_memory_bytes",
        "container_memory_rss",
    ];
    let why = match store.knows(metric) {
        true => {
            "the store knows the metric: do the labels match, and is it scraped now?".to_owned()
        }
        false => match others.iter().find(|name| store.knows(name)) {
            Some(name) => format!("the store has no {metric}, but {name}: set metric = \"{name}\""),
            None => format!("the store has no {metric}: is `highwater observe` scraped?"),
        },
    };
    format!(
        "arm {arm} has no samples of the last 5 minutes in {}; {why}",
        remote.url
    )
}

/// Scrapes that are further apart than the snapshots, and samples that are old.
fn warnings(experiment: &Experiment, all: &[&Raw], now_s: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut gaps: Vec<f64> = all
        .iter()
        .flat_map(|raw| raw.readings.windows(2).map(|pair| pair[1].0 - pair[0].0))
        .collect();
    gaps.sort_by(f64::total_cmp);
    let usual_s = gaps.get(gaps.len() / 2).copied();
    let interval_s = experiment.interval.as_secs_f64();
    if let Some(usual_s) = usual_s.filter(|usual_s| *usual_s > 1.5 * interval_s) {
        warnings.push(format!(
            "the hosts are scraped every {}, but `interval` asks for {}: snapshots are as far apart as scrapes",
            written::seconds(usual_s),
            written::seconds(interval_s)
        ));
    }
    let last = all.iter().filter_map(|raw| raw.readings.last());
    let age_s = now_s - last.map(|reading| reading.0).fold(0.0, f64::max);
    if age_s > STALE_S + usual_s.unwrap_or(0.0) || age_s < -STALE_S {
        warnings.push(format!(
            "the newest sample is {} old: are the hosts scraped now, and do the clocks agree?",
            written::seconds(age_s)
        ));
    }
    warnings
}

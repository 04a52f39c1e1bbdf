//! Series out of a Prometheus: what is asked, and what comes back as processes with arms.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;

use super::answer::{self, Answer};
use super::given::Given;
use super::held::Held;
use super::known;
use crate::cli::exit::Usage;
use crate::cli::out::say;
use import::prometheus;
use import::prometheus::client::Client;
use import::prometheus::selector::{Selector, parse_match, parse_selector};
use import::prometheus::{Asked, FleetSeries, Found, names};
use import::time::parse_instant;
use series::series::Point;
use units::parse_seconds;
use units::wording::nearest;

/// Metrics of resident memory, tried in this order when none is named: of `highwater observe`, of client
/// libraries, of process-exporter, of cAdvisor.
const METRICS: &[&str] = &[
    "highwater_rss_bytes",
    "process_resident_memory_bytes",
    "namedprocess_namegroup_memory_bytes",
    "container_memory_rss",
    "container_memory_working_set_bytes",
];

/// At the newest end of a range query VictoriaMetrics repeats the last value for half a minute, in case more
/// comes: that stretch is left out.
const UNSETTLED_S: f64 = 30.0;

/// What to ask a Prometheus for.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Read series from this server: http://HOST:9090
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
    /// PromQL, instead of --metric and --match; a plain selector is read sample by sample
    #[arg(long, value_name = "PROMQL", requires = "prometheus", conflicts_with_all = ["metric", "matching"])]
    pub query: Option<String>,
    /// Metric [default: the first found of highwater_rss_bytes, process_resident_memory_bytes, ...]
    #[arg(long, value_name = "NAME", requires = "prometheus")]
    pub metric: Option<String>,
    /// Only series with this label: job=api, pod=~api-.*; may be repeated
    #[arg(
        long = "match",
        id = "matching",
        value_name = "LABEL=VALUE",
        requires = "prometheus"
    )]
    pub matching: Vec<String>,
    /// Label whose value is the arm
    #[arg(long, value_name = "LABEL", requires = "prometheus")]
    pub arm_label: Option<String>,
    /// Start of the window: an instant, or -9d [default: one day before --end]
    #[arg(
        long,
        value_name = "T",
        requires = "prometheus",
        allow_hyphen_values = true
    )]
    pub start: Option<String>,
    /// End of the window: an instant, -1h, or now [default: now]
    #[arg(
        long,
        value_name = "T",
        requires = "prometheus",
        allow_hyphen_values = true
    )]
    pub end: Option<String>,
    /// Read at most one sample per step, such as 60s [default: every sample]
    #[arg(long, value_name = "TIME", requires = "prometheus")]
    pub step: Option<String>,
    /// Time limit for one answer of the server
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_seconds)]
    pub timeout: Duration,
    /// HTTP header for every request, such as 'Authorization: Bearer TOKEN'; may be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "prometheus")]
    pub header: Vec<String>,
}

/// Reads and judges the series of a server.
///
/// # Errors
/// The call, the server, or that nothing matches; each with what to do next.
pub fn judge(given: &Given, url: &str) -> Result<Answer> {
    let args = &given.args.fleet;
    let client = Client::new(url, &args.header, args.timeout)
        .map_err(|words| Usage(format!("--prometheus {url}: {words}")))?;
    let window = window(args)?;
    let found = find(&client, args, &window).with_context(|| format!("asking {url} for series"))?;
    for note in &found.notes {
        say!("highwater: {note}");
    }
    let held = held_of(given, found)?;
    answer::of_held(given, held)
}

/// Begin, end and step, milliseconds.
struct Window {
    start_ms: i64,
    end_ms: i64,
    step_ms: Option<i64>,
}

fn window(args: &FleetArgs) -> Result<Window> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let at = |flag: &str, text: &str| {
        let told = || {
            Usage(format!(
                "{flag} {text}: write an instant (ISO 8601, epoch seconds), -9d, or now"
            ))
        };
        parse_when(text, now_s).ok_or_else(told)
    };
    let end_s = args.end.as_deref().map_or(Ok(now_s), |t| at("--end", t))?;
    let start_s = match &args.start {
        Some(text) => at("--start", text)?,
        None => end_s - 86_400.0,
    };
    if start_s >= end_s {
        let words = "--start lies after --end; times are on the clock of the server, in UTC unless an offset says so";
        return Err(Usage(words.to_owned()).into());
    }
    let step_ms = args.step.as_deref().map(step_of).transpose()?;
    let is_raw = step_ms.is_none() && args.query.as_deref().is_none_or(is_selector);
    let latest_s = if is_raw { now_s } else { now_s - UNSETTLED_S };
    Ok(Window {
        start_ms: (start_s * 1000.0) as i64,
        end_ms: (end_s.min(latest_s.max(start_s + 1.0)) * 1000.0) as i64,
        step_ms,
    })
}

/// An instant, "now", or a time before now.
fn parse_when(text: &str, now_s: f64) -> Option<f64> {
    let text = text.trim();
    let ago = text.strip_prefix("now").unwrap_or(text).trim();
    if ago.is_empty() {
        return text.starts_with("now").then_some(now_s);
    }
    if let Some(ago) = ago.strip_prefix('-').map(str::trim)
        && let Ok(ago) = parse_seconds(ago)
    {
        return Some(now_s - ago.as_secs_f64());
    }
    parse_instant(text)
}

fn is_selector(query: &str) -> bool {
    parse_selector(query).is_some()
}

fn step_of(text: &str) -> Result<i64> {
    let step = parse_seconds(text).ok();
    let ms = step
        .map(|step| step.as_millis() as i64)
        .filter(|ms| *ms >= 1);
    ms.ok_or_else(|| Usage(format!("--step {text}: write seconds, or 30s, 5m")).into())
}

/// The series of the query, or of the first usual metric that there is.
fn find(client: &Client, args: &FleetArgs, window: &Window) -> Result<Found> {
    let queries = queries(args)?;
    for query in &queries {
        let found = prometheus::read(
            client,
            &Asked {
                query: query.clone(),
                start_ms: window.start_ms,
                end_ms: window.end_ms,
                step_ms: window.step_ms,
            },
        )?;
        if !found.series.is_empty() {
            return Ok(found);
        }
    }
    Err(nothing(client, &queries))
}

fn queries(args: &FleetArgs) -> Result<Vec<String>> {
    if let Some(query) = &args.query {
        return Ok(vec![query.clone()]);
    }
    let parse = |text: &String| {
        parse_match(text).map_err(|words| Usage(format!("--match {text}: {words}")))
    };
    let matchers = args.matching.iter().map(parse);
    let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
    let of = |name: &str| {
        let selector = Selector {
            name: Some(name.to_owned()),
            matchers: matchers.clone(),
        };
        selector.to_string()
    };
    Ok(match &args.metric {
        Some(name) => vec![of(name)],
        None => METRICS.iter().map(|name| of(name)).collect(),
    })
}

/// Nothing matched: is the metric unknown, or did only the labels or the window miss?
fn nothing(client: &Client, queries: &[String]) -> anyhow::Error {
    let asked = queries.join(", ");
    let mut words = format!("no series with samples in this window matches {asked}");
    let known = client.names().unwrap_or_default();
    let name = |query: &String| parse_selector(query).and_then(|s| s.name);
    let names: Vec<String> = queries.iter().filter_map(name).collect();
    let exist: Vec<&str> = names
        .iter()
        .filter(|n| known.contains(n))
        .map(String::as_str)
        .collect();
    words += &match (names.is_empty() || known.is_empty(), exist.is_empty()) {
        (true, _) => "; try it in the server's own page".to_owned(),
        (_, false) => format!(
            "; the server knows {}: do the labels match, and were there samples between --start and --end?",
            exist.join(", ")
        ),
        (_, true) => {
            let near = names
                .iter()
                .find_map(|n| nearest(n, known.iter().map(String::as_str)));
            let near = near.map_or_else(String::new, |n| format!(" (is it {n}?)"));
            format!("; the server has no metric of that name{near}: give --metric or --query")
        }
    };
    anyhow::anyhow!(words)
}

/// Processes with arms by a label.
fn held_of(given: &Given, found: Found) -> Result<Vec<Held>> {
    let arm_label = given.args.fleet.arm_label.as_deref();
    if let Some(label) = arm_label
        && !found.series.iter().any(|s| s.labels.contains_key(label))
    {
        return Err(no_label(label, &found.series));
    }
    let labels: Vec<_> = found.series.iter().map(|s| &s.labels).collect();
    let ids = names::ids(&labels, arm_label);
    let held = found.series.into_iter().zip(ids);
    let held: Vec<Held> = held.map(|(s, id)| held_series(s, id, arm_label)).collect();
    let known = |id: &str| held.iter().any(|h| h.id == id || h.process == id);
    known::check(given, held.iter().map(|h| h.id.as_str()), known)?;
    let times = held.iter().flat_map(|h| &h.points).map(|p| p.t_s);
    known::check_until(given, times.fold(f64::INFINITY, f64::min))?;
    Ok(held
        .into_iter()
        .filter(|h| given.wants(&h.id, &h.process))
        .collect())
}

fn no_label(label: &str, series: &[FleetSeries]) -> anyhow::Error {
    let counted = series.iter().flat_map(|s| s.labels.keys());
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for name in counted.filter(|name| *name != "__name__") {
        *all.entry(name).or_default() += 1;
    }
    let all: Vec<&str> = all.into_keys().collect();
    Usage(format!(
        "--arm-label {label}: no series has this label; they have {}",
        all.join(", ")
    ))
    .into()
}

fn held_series(series: FleetSeries, id: String, arm_label: Option<&str>) -> Held {
    let arm = arm_label.and_then(|label| series.labels.get(label).cloned());
    let first_s = series.readings.first().map_or(0.0, |r| r.0);
    let points = |readings: &[(f64, f64)]| -> Vec<Point> {
        let point = |(t_s, value): &(f64, f64)| Point {
            t_s: *t_s,
            value: *value,
        };
        readings.iter().map(point).collect()
    };
    Held {
        process: id.clone(),
        id,
        arms: arm.into_iter().map(|arm| (first_s, arm)).collect(),
        points: points(&series.readings),
        cpu_s: points(&series.cpu_s),
        starts_s: series.starts_s,
        limit: series.limit_bytes,
        labels: series.labels,
        ..Held::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let now = 1_795_000_000.0;
        for (text, seconds) in [
            ("now", now),
            ("-1h", now - 3600.0),
            ("now-9d", now - 9.0 * 86_400.0),
            ("1794999000", 1_794_999_000.0),
            ("1794999000500", 1_794_999_000.5),
            ("1970-01-01T00:01:00Z", 60.0),
        ] {
            assert_eq!(parse_when(text, now), Some(seconds), "{text}");
        }
        for bad in ["", "soon", "-", "9d", "now+1h"] {
            assert_eq!(parse_when(bad, now), None, "{bad}");
        }
        assert_eq!(
            (step_of("60").unwrap(), step_of("5m").unwrap()),
            (60_000, 300_000)
        );
        assert!(step_of("0").is_err() && step_of("x").is_err());
    }
}

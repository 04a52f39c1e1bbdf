//! Load for the search subject: a fixed mix of its pages at a rate; `highwater.load/1` lines.

mod client;
mod mix;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use client::{Client, Seen};
use hdrhistogram::Histogram;
use highwater_load::arrivals::RATE_PER_S;
use highwater_load::{Plan, Spacing, Totals, drive};
use mix::Mix;

#[derive(Parser)]
#[command(
    version,
    about = "Asks a search service as its readers do, a connection for each request. Prints one JSON line per interval \
    (highwater.load/1), and at the end one line of figures on stderr. Exit code 1 when an answer was wrong."
)]
struct Arguments {
    /// The service
    #[arg(long)]
    server: SocketAddr,
    /// Requests per second
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// How long; without it, until SIGTERM or Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Requests in flight at most
    #[arg(long, default_value_t = 256)]
    connections: usize,
    /// One line of output per this time
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// A request that takes longer is an error
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// The part of clients that are far away: they take 8 KiB at a time
    #[arg(long, default_value_t = 0.1)]
    far: f64,
    /// From one such piece to the next
    #[arg(long, default_value = "10ms", value_parser = humantime::parse_duration)]
    round_trip: Duration,
    /// Equal gaps between requests instead of random ones
    #[arg(long)]
    even: bool,
    /// A CSV of start_ns and end_ns (CLOCK_MONOTONIC) of each answered request, for `highwater stalls --requests`
    #[arg(long)]
    requests: Option<PathBuf>,
    /// Of the service's corpus
    #[arg(long, default_value_t = 1)]
    corpus_seed: u64,
    /// How many documents and publications it has
    #[arg(long, default_value_t = 6_000)]
    documents: usize,
    #[arg(long, default_value_t = 300)]
    publications: usize,
    /// Of the gaps and the questions
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        RATE_PER_S.contains(&arguments.rate),
        "--rate must be {} to {} requests a second",
        RATE_PER_S.start(),
        RATE_PER_S.end()
    );
    ensure!((0.0..=1.0).contains(&arguments.far), "--far must be 0 to 1");
    let stop = highwater_load::until_told()?;
    let seen = Arc::new(Mutex::new(Seen::new(open(arguments.requests.as_deref())?)));
    let totals = ask(&arguments, &seen, &stop)?;
    let mut seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    seen.flush().context("writing the requests")?;
    eprintln!("{}", figures(&seen, &totals));
    ensure!(
        seen.wrong == 0,
        "{} answers were wrong, the first: {}",
        seen.wrong,
        seen.first_wrong
    );
    Ok(())
}

fn open(requests: Option<&std::path::Path>) -> Result<Option<BufWriter<File>>> {
    let Some(path) = requests else {
        return Ok(None);
    };
    let file = File::create(path).with_context(|| format!("making {path:?}"))?;
    let mut file = BufWriter::new(file);
    writeln!(file, "start_ns,end_ns").with_context(|| format!("writing {path:?}"))?;
    Ok(Some(file))
}

fn ask(arguments: &Arguments, seen: &Arc<Mutex<Seen>>, stop: &Arc<AtomicBool>) -> Result<Totals> {
    let corpus = search::corpus::Corpus::new(
        arguments.corpus_seed,
        arguments.documents,
        arguments.publications,
    );
    let mix = Arc::new(Mix::new(corpus, arguments.far, arguments.seed));
    let plan = Plan {
        rate_per_s: arguments.rate,
        spacing: Spacing::of_flag(arguments.even),
        seed: arguments.seed,
        duration: arguments.duration,
        connections: arguments.connections,
        backlog: 100_000,
        interval: arguments.interval,
    };
    let connect = || Client {
        server: arguments.server,
        timeout: arguments.timeout,
        round_trip: arguments.round_trip,
        mix: mix.clone(),
        seen: seen.clone(),
    };
    drive::run(&plan, connect, &mut io::stdout().lock(), stop).context("printing")
}

/// The last line: sums, latencies from the time of sending, and the sizes of the two kinds of answers.
fn figures(seen: &Seen, totals: &Totals) -> serde_json::Value {
    let latency = &seen.latency;
    let sizes = |of: &Histogram<u64>| serde_json::json!({ "p50": of.value_at_quantile(0.5), "max": of.max() });
    serde_json::json!({
        "schema": "search.load/1",
        "requests": totals.requests, "errors": totals.errors, "dropped": totals.dropped,
        "wrong": seen.wrong,
        "sent_to_answered_ns": {
            "p50": latency.value_at_quantile(0.5), "p99": latency.value_at_quantile(0.99),
            "p999": latency.value_at_quantile(0.999), "max": latency.max(),
            "over_150ms": latency.count_between(150_000_000, u64::MAX),
        },
        "narrow_bytes": sizes(&seen.narrow), "broad_bytes": sizes(&seen.broad),
    })
}

//! The search service: fills its database, answers, and ends in order on SIGTERM.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use search::fault::{Fault, Faults};
use search::service::{self, Plan, Service};
use search::{corpus, quota};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Parser)]
#[command(
    version,
    about = "A search service over a corpus made from a seed, with the faults of its history to be switched on"
)]
struct Arguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Folder for the database, which is made anew
    #[arg(long, required_unless_present = "hog")]
    data: Option<PathBuf>,
    /// What is broken, separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    fault: Vec<Fault>,
    /// Makes no spans, whatever --collector says: the step that settled it
    #[arg(long)]
    tracing_off: bool,
    /// HOST:PORT of the collector of spans; without it none are made
    #[arg(long, requires = "collector_ca")]
    collector: Option<String>,
    /// The certificate that signed the collector's
    #[arg(long)]
    collector_ca: Option<PathBuf>,
    #[arg(long, default_value_t = 6_000)]
    documents: usize,
    #[arg(long, default_value_t = 300)]
    publications: usize,
    #[arg(long, default_value_t = 16)]
    workers: usize,
    /// Edits of documents per second
    #[arg(long, default_value_t = 50.0)]
    events: f64,
    /// From one batch of edits to the next
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    sync: Duration,
    /// What a client may take to send its request, and again to take its answer
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// What the end may take after SIGTERM; then it is cut short, with exit code 1
    #[arg(long, default_value = "9s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Percent of one CPU that --fault cpu-quota leaves
    #[arg(long, default_value_t = 60)]
    quota: u64,
    /// Of the corpus and of the edits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, hide = true)]
    hog: Option<u32>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(parent) = arguments.hog {
        return quota::hog(parent);
    }
    let plan = plan(&arguments)?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("waiting for signals")?;
    // Before any thread, so that all of them are in it.
    let _starved = match plan.faults.has(Fault::CpuQuota) {
        true => Some(quota::starve(arguments.quota)?),
        false => None,
    };
    let service = Service::start(&plan)?;
    println!("ready {}", service.address);
    signals.forever().next();
    end_in_time(arguments.grace, signals);
    service.end()
}

fn plan(arguments: &Arguments) -> Result<Plan> {
    ensure!(
        (1..=1_000_000).contains(&arguments.documents)
            && (1..=100_000).contains(&arguments.publications),
        "--documents must be 1 to 1000000, --publications 1 to 100000 (the corpus has {} words)",
        corpus::WORDS
    );
    ensure!(
        (1..=1_024).contains(&arguments.workers),
        "--workers must be 1 to 1024"
    );
    ensure!(
        (1..=10_000).contains(&arguments.quota),
        "--quota must be 1 to 10000 percent"
    );
    let collector = match (&arguments.collector, &arguments.collector_ca) {
        (Some(address), Some(authority)) if !arguments.tracing_off => {
            Some(service::collector(address, authority)?)
        }
        _ => None,
    };
    Ok(Plan {
        listen: arguments.listen,
        data: arguments.data.clone().context("--data is needed")?,
        documents: arguments.documents,
        publications: arguments.publications,
        workers: arguments.workers,
        events: arguments.events,
        sync: arguments.sync,
        patience: arguments.patience,
        collector,
        faults: Faults(arguments.fault.clone()),
        seed: arguments.seed,
    })
}

/// Ends the process when the grace is over, or at the second signal.
fn end_in_time(grace: Duration, mut signals: Signals) {
    let cut_short = |why: &str| {
        eprintln!("search: {why}: what was left is lost");
        std::process::exit(1);
    };
    std::thread::spawn(move || {
        std::thread::sleep(grace);
        cut_short("the end took too long");
    });
    std::thread::spawn(move || {
        signals.forever().next();
        cut_short("a second signal");
    });
}

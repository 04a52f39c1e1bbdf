//! Open-loop HTTP load: GET one URL at a rate, print `highwater.load/1` lines.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use highwater_load::arrivals::RATE_PER_S;
use highwater_load::{Connection, Outcome, Plan, Spacing, Totals, drive};

#[derive(Parser)]
#[command(
    version,
    about = "Sends HTTP GET requests at a fixed rate and prints one JSON line per \
    interval (highwater.load/1). Latency runs from the time a request was due."
)]
struct Arguments {
    /// What to get: plain http
    #[arg(long)]
    url: String,
    /// Requests per second
    #[arg(long)]
    rate: f64,
    /// How long; without it, until SIGTERM or Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Requests in flight at most
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Requests that may wait for a connection; further ones are dropped and counted
    #[arg(long, default_value_t = 100_000)]
    backlog: usize,
    /// One line of output per this time
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// A request that takes longer is an error
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Equal gaps between requests instead of random ones
    #[arg(long)]
    even: bool,
    /// Of the random gaps
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

struct Client {
    agent: ureq::Agent,
    url: String,
}

impl Connection for Client {
    fn request(&mut self, _number: u64) -> Outcome {
        let answer = self.agent.get(&self.url).call();
        let drained = answer.map(|mut answer| {
            io::copy(&mut answer.body_mut().as_reader(), &mut io::sink()).map_err(ureq::Error::Io)
        });
        match drained {
            Ok(Ok(_)) => Outcome::Answered,
            Ok(Err(ureq::Error::Timeout(_))) | Err(ureq::Error::Timeout(_)) => Outcome::TimedOut,
            Ok(Err(ureq::Error::Io(error))) if error.kind() == io::ErrorKind::TimedOut => {
                Outcome::TimedOut
            }
            _ => Outcome::Failed,
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        RATE_PER_S.contains(&arguments.rate),
        "--rate {} is not between {} and {} requests per second",
        arguments.rate,
        RATE_PER_S.start(),
        RATE_PER_S.end()
    );
    ensure!(
        !arguments.interval.is_zero(),
        "--interval must be longer than 0"
    );
    let url: ureq::http::Uri = arguments
        .url
        .parse()
        .with_context(|| format!("--url {}", arguments.url))?;
    ensure!(
        url.scheme_str() == Some("http"),
        "--url {url} is not plain http://"
    );

    let stop = highwater_load::until_told()?;
    let plan = Plan {
        rate_per_s: arguments.rate,
        spacing: Spacing::of_flag(arguments.even),
        seed: arguments.seed,
        duration: arguments.duration,
        connections: arguments.connections,
        backlog: arguments.backlog,
        interval: arguments.interval,
    };
    let connect = || Client {
        agent: agent(arguments.timeout),
        url: arguments.url.clone(),
    };
    let totals = drive::run(&plan, connect, &mut io::stdout().lock(), &stop)
        .context("cannot write the results")?;
    let Totals {
        requests,
        errors,
        dropped,
    } = totals;
    eprintln!("{requests} answered, {errors} errors, {dropped} dropped");
    Ok(())
}

/// One agent per connection: it keeps a single idle connection and so reuses it.
fn agent(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_idle_connections(1)
        .build()
        .into()
}

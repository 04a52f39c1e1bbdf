//! Load for the treasure subject: players that tap, drop out and come back; `highwater.load/1` lines.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use highwater_load::arrivals::RATE_PER_S;
use highwater_load::clock::now_ns;
use highwater_load::{Output, Spacing, Totals};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use treasure_load::crowd::{Crowd, Plan, Seen, Shared};
use treasure_load::fill;
use treasure_load::player::Player;
use treasure_load::ramp::Ramp;
use treasure_load::tokens;

#[derive(Parser, Clone)]
#[command(
    version,
    about = "Plays the players of a treasure server. Prints one JSON line per interval (highwater.load/1), and at \
    the end one line of figures on stderr. Exit code 1 when a session's account was wrong."
)]
struct Arguments {
    /// The server
    #[arg(long)]
    server: SocketAddr,
    /// Live connections, each with a session of its own
    #[arg(long, default_value_t = 100)]
    players: usize,
    /// Taps per second, over all players
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Sessions opened first, without a connection that stays
    #[arg(long, default_value_t = 0)]
    sessions: usize,
    /// File that keeps their tokens: sessions in it are resumed instead of opened, by a load that goes on
    #[arg(long)]
    tokens: Option<PathBuf>,
    /// Resume and tap each of those that were opened once, before the players tap
    #[arg(long)]
    cover: bool,
    /// The rate rises evenly for so long
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration)]
    ramp: Duration,
    /// Players that hang up and come back, per second; others tap meanwhile
    #[arg(long, default_value_t = 0.0)]
    dropouts: f64,
    /// How long, ramp included; without it, until SIGTERM or Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// One line of output per this time
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// A tap without an answer for so long is given up
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Answers slower than this count as a pause, those that overlap as one
    #[arg(long, default_value = "3ms", value_parser = humantime::parse_duration)]
    pause_over: Duration,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Equal gaps between taps instead of random ones
    #[arg(long)]
    even: bool,
    /// Of the gaps, the players and the drop-outs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.players > 0, "--players must be at least 1");
    ensure!(
        (1..=64).contains(&arguments.threads),
        "--threads must be 1 to 64"
    );
    ensure!(
        RATE_PER_S.contains(&arguments.rate),
        "--rate must be {} to {} taps a second",
        RATE_PER_S.start(),
        RATE_PER_S.end()
    );
    raise_descriptors(arguments.players)?;
    let stop = highwater_load::until_told()?;
    fill_sessions(&arguments)?;
    play(&arguments, &stop)
}

fn fill_sessions(arguments: &Arguments) -> Result<()> {
    if arguments.sessions == 0 {
        return Ok(());
    }
    let server = arguments.server;
    let mut tokens = match &arguments.tokens {
        Some(path) => tokens::read(path).context("reading --tokens")?,
        None => Vec::new(),
    };
    tokens.truncate(arguments.sessions);
    let mut tokens = fill::known(server, &tokens).context("resuming sessions")?;
    if !tokens.is_empty() {
        eprintln!("treasure-load: {} sessions resumed", tokens.len());
    }
    let begun = now_ns();
    let fresh =
        fill::open(server, arguments.sessions - tokens.len()).context("opening sessions")?;
    let seconds = |since: u64| (now_ns() - since) as f64 / 1e9;
    eprintln!(
        "treasure-load: {} sessions opened in {:.1} s",
        fresh.len(),
        seconds(begun)
    );
    if arguments.cover {
        let begun = now_ns();
        fill::tap_each(server, &fresh, 0).context("tapping each session")?;
        eprintln!(
            "treasure-load: each resumed and tapped in {:.1} s",
            seconds(begun)
        );
    }
    tokens.extend(fresh);
    match &arguments.tokens {
        Some(path) => tokens::write(path, &tokens).context("writing --tokens"),
        None => Ok(()),
    }
}

fn play(arguments: &Arguments, stop: &AtomicBool) -> Result<()> {
    let start_ns = now_ns();
    let shared = Shared::new(start_ns);
    let length_ns = arguments
        .duration
        .map_or(u64::MAX / 2, |duration| duration.as_nanos() as u64);
    let end_ns = start_ns.saturating_add(length_ns);
    let mut stdout = io::stdout().lock();
    let (seen, totals) = std::thread::scope(|scope| -> Result<_> {
        let mut threads = Vec::new();
        let mut first = 0;
        for thread in 0..arguments.threads {
            let count = share(arguments.players, arguments.threads, thread);
            let plan = plan(arguments, thread, first, start_ns, end_ns);
            first += count;
            let players = (0..count).map(|_| Player::default()).collect();
            let crowd = Crowd::new(plan, players, &shared).context("starting a crowd")?;
            threads.push(scope.spawn(move || crowd.run()));
        }
        let mut output = Output::new(&shared.recorder, &mut stdout);
        let printed = output.until(start_ns, end_ns, arguments.interval, stop);
        // Players that have no tap due any more see the end by this.
        if now_ns() < end_ns {
            shared.stop.store(true, Relaxed);
        }
        let mut seen = Seen::new(arguments.pause_over);
        for thread in threads {
            let of_thread = thread.join().map_err(|_| anyhow!("a crowd panicked"))?;
            seen.add(of_thread.context("playing")?)
                .context("adding up")?;
        }
        printed.context("printing")?;
        output.write_line().context("printing")?;
        Ok((seen, output.totals()))
    })?;
    eprintln!("{}", figures(&shared, &seen, &totals));
    let wrong = shared.wrong.load(Relaxed);
    ensure!(
        wrong == 0,
        "{wrong} sessions came back with another number of coins than their players were told"
    );
    Ok(())
}

/// The last line: sums, the latency of all answers, how late the load itself was, and the pauses.
fn figures(shared: &Shared, seen: &Seen, totals: &Totals) -> serde_json::Value {
    let quantiles = |of: &hdrhistogram::Histogram<u64>| {
        serde_json::json!({
            "p50": of.value_at_quantile(0.5), "p99": of.value_at_quantile(0.99),
            "p999": of.value_at_quantile(0.999), "p9999": of.value_at_quantile(0.9999),
            "max": of.max(), "over_1ms": of.count_between(1_000_000, u64::MAX),
        })
    };
    let pauses = seen.pauses.summary().map(|found| {
        serde_json::json!({
            "count": found.count, "length_ns": found.length_ns, "gap_ns": found.gap_ns,
        })
    });
    let figure = |of: &std::sync::atomic::AtomicU64| of.load(Relaxed);
    serde_json::json!({
        "schema": "treasure.load/1",
        "requests": totals.requests, "errors": totals.errors, "dropped": totals.dropped,
        "latency_ns": quantiles(&seen.latency), "late_ns": quantiles(&seen.late), "pauses": pauses,
        "reconnects": figure(&shared.reconnects), "resumed": figure(&shared.resumed),
        "refused": figure(&shared.refused), "wrong": figure(&shared.wrong),
    })
}

fn plan(arguments: &Arguments, thread: usize, first: usize, start_ns: u64, end_ns: u64) -> Plan {
    let seed = arguments
        .seed
        .wrapping_mul(1_000_003)
        .wrapping_add(thread as u64);
    let spacing = Spacing::of_flag(arguments.even);
    let threads = arguments.threads as f64;
    Plan {
        server: arguments.server,
        ramp: Ramp::new(arguments.rate / threads, arguments.ramp, spacing, seed),
        start_ns,
        end_ns,
        dropouts_per_s: arguments.dropouts / threads,
        timeout: arguments.timeout,
        pause_over: arguments.pause_over,
        seed,
        first,
    }
}

/// The part of `whole` that falls to `thread`.
fn share(whole: usize, threads: usize, thread: usize) -> usize {
    whole / threads + usize::from(thread < whole % threads)
}

fn raise_descriptors(players: usize) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        },
    )
    .context("raising the limit of descriptors")?;
    ensure!(
        (players as u64) + 32 <= most,
        "{players} players need more than the {most} descriptors that this process may have (ulimit -Hn): \
         start several loads"
    );
    Ok(())
}

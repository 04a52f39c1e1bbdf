//! Real tor in a private network: see subjects/tor/README.md.

mod check;
mod consensus;
mod control;
mod link;
mod load;
mod namespace;
mod network;
mod page;
mod program;
mod relay;
mod torrc;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use highwater_load::arrivals::RATE_PER_S;
use highwater_load::{Plan, Spacing, drive, until_told};

use self::load::{Client, Mix, Pulls};
use self::network::Network;

#[derive(Parser)]
#[command(
    version,
    about = "Real tor relays in a private network that nothing can leave"
)]
struct Words {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Finds tor, or fetches Debian's package into the cache, and says which one it is
    Install,
    /// Makes the network (authorities, a client, a page) and holds it until SIGTERM
    Network {
        /// Where the network keeps everything
        #[arg(long)]
        folder: PathBuf,
        /// From one vote of the authorities to the next; 10 s at least
        #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
        votes: Duration,
    },
    /// Joins the network and becomes tor
    Relay {
        #[command(flatten)]
        home: Home,
        /// Where it listens, inside the network
        #[arg(long)]
        port: u16,
        /// Read the GeoIP database, as a relay in production does; 36 MB in every arm
        #[arg(long)]
        geoip: bool,
        /// A line for its torrc, such as "DirCache 0"; may be repeated
        #[arg(long)]
        torrc: Vec<String>,
    },
    /// Gives one relay its work; prints a JSON line per interval (highwater.load/1)
    Load(LoadWords),
    /// Whether a relay is isolated, listed, and the end of a circuit that works
    Check {
        #[command(flatten)]
        home: Home,
        /// The relay's process
        #[arg(long)]
        pid: i32,
    },
}

/// Of one relay.
#[derive(Args)]
struct Home {
    /// The folder of the network
    #[arg(long)]
    network: PathBuf,
    /// The relay's own folder
    #[arg(long)]
    data: PathBuf,
}

#[derive(Args)]
struct LoadWords {
    #[command(flatten)]
    home: Home,
    /// Where the relay listens, inside the network
    #[arg(long)]
    port: u16,
    /// Requests per second
    #[arg(long, default_value_t = 4.0)]
    rate: f64,
    /// Links at the same time
    #[arg(long, default_value_t = 12)]
    links: usize,
    /// Circuits only, no requests to the directory: for relays without one
    #[arg(long)]
    no_documents: bool,
    /// One request in so many is a page through a circuit that ends in the relay; 0 for none
    #[arg(long, default_value_t = 0)]
    pull_every: u64,
    /// Bytes of that page
    #[arg(long, default_value_t = 1 << 20)]
    pull_bytes: u64,
    /// How long; without it, until SIGTERM or Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// One line of output per this time
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Of the gaps, the links and the documents
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(Words::parse().mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tor-network: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> Result<()> {
    match mode {
        Mode::Install => {
            let tor = program::find_or_fetch()?;
            println!("{}: {}", tor.version()?, tor.tor.display());
            Ok(())
        }
        Mode::Network { folder, votes } => {
            let votes = torrc::Votes::every(votes)?;
            let folder = std::path::absolute(folder)?;
            network::make_folder(&folder)?;
            network::hold(&folder, votes, &until_told()?)
        }
        Mode::Relay {
            home,
            port,
            geoip,
            torrc,
        } => {
            let words = relay::Words {
                or_port: port,
                torrc,
                geoip,
            };
            relay::become_tor(&home.network, &std::path::absolute(home.data)?, &words)
        }
        Mode::Load(words) => drive_load(&words),
        Mode::Check { home, pid } => check::check(&home.network, &home.data, pid),
    }
}

fn drive_load(words: &LoadWords) -> Result<()> {
    ensure!(
        RATE_PER_S.contains(&words.rate),
        "--rate {} is not between {} and {} requests per second",
        words.rate,
        RATE_PER_S.start(),
        RATE_PER_S.end()
    );
    let network = Arc::new(Network::read(&words.home.network)?);
    // Before there is any other thread.
    namespace::join(network.pid)?;
    let pulls = (words.pull_every > 0).then(|| Pulls {
        every: words.pull_every,
        bytes: words.pull_bytes,
        network,
        data: words.home.data.clone(),
    });
    let mix = Mix {
        relay: SocketAddr::from((Ipv4Addr::LOCALHOST, words.port)),
        seed: words.seed,
        documents: !words.no_documents,
        pulls,
    };
    let plan = Plan {
        rate_per_s: words.rate,
        spacing: Spacing::Poisson,
        seed: words.seed,
        duration: words.duration,
        connections: words.links,
        backlog: 1000,
        interval: words.interval,
    };
    let clients = std::cell::Cell::new(0);
    let client = || {
        clients.set(clients.get() + 1);
        Client::new(mix.clone(), clients.get())
    };
    let totals = drive::run(&plan, client, &mut io::stdout().lock(), &until_told()?)
        .context("cannot write the results")?;
    eprintln!(
        "{} answered, {} errors, {} dropped",
        totals.requests, totals.errors, totals.dropped
    );
    Ok(())
}

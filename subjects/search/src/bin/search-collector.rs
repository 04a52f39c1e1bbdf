//! The collector of the search subject's spans: prints a JSON line for each POST.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use search::collector::{Collector, Delay};

#[derive(Parser)]
#[command(
    version,
    about = "Takes spans (OTLP over HTTP and TLS) and answers late"
)]
struct Arguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Folder for ca.pem, the certificate to trust
    #[arg(long)]
    folder: PathBuf,
    /// What an answer takes at least
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    delay: Duration,
    /// And at most; unless given, as at least
    #[arg(long, value_parser = humantime::parse_duration)]
    delay_max: Option<Duration>,
    /// Of the delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let delay = Delay {
        least: arguments.delay,
        most: arguments.delay_max.unwrap_or(arguments.delay),
    };
    let collector = Collector::new(arguments.listen, &arguments.folder, delay, arguments.seed)?;
    println!("ready {}", collector.address()?);
    collector.run(|told| println!("{}", serde_json::json!({ "spans": told })));
    Ok(())
}

//! `highwater observe`: the samples of a run's looks as an OpenMetrics endpoint, for a fleet's Prometheus.

mod chosen;
pub mod page;
mod sampler;
mod serve;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use self::chosen::Source;
use self::sampler::Sampler;
use super::exit::{self, Usage};
use super::out::{print, say};
use report::openmetrics;
use report::openmetrics::Form;
use units::parse_seconds;

/// Where it listens unless it is told: this machine only.
const LISTEN: &str = "127.0.0.1:9842";

/// Serve memory, CPU and allocator of chosen processes as an OpenMetrics endpoint for Prometheus
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = EXAMPLES, after_help = EXIT_CODES)]
pub struct ObserveArgs {
    /// HOST:PORT, or PORT on 127.0.0.1; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    pub listen: String,
    /// Watch this process; may be repeated
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub pid: Vec<i32>,
    /// Watch processes whose executable path matches; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub exe: Vec<String>,
    /// Watch processes whose arguments, joined by spaces, match; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub args: Vec<String>,
    /// Watch the main process of these systemd units, such as 'tor@*'; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub unit: Vec<String>,
    /// Watch these processes and label them with an arm: NAME=unit:GLOB, exe:REGEX, args:REGEX or pid:N; may be
    /// repeated
    #[arg(long, value_name = "NAME=SELECTOR")]
    pub arm: Vec<String>,
    /// Watch the processes of a run in progress: its folder or its name
    #[arg(long, value_name = "RUN", conflicts_with_all = ["pid", "exe", "args", "unit", "arm"])]
    pub run: Option<PathBuf>,
    /// Read the processes at most once in this time, however often the endpoint is scraped
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_seconds)]
    pub interval: Duration,
    /// Value of the label `host` [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Print one page and exit, as for a textfile collector
    #[arg(long)]
    pub once: bool,
    /// Print the address as JSON (highwater.observe/1)
    #[arg(long, conflicts_with = "once")]
    pub json: bool,
    /// Folder of the run folders
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  highwater observe --pid 4242 --once                       print one page and exit
  highwater observe --unit 'tor@*'                          serve on 127.0.0.1:9842
  highwater observe --unit 'tor@*' --listen 10.0.0.7:9842   for the Prometheus of the network
  highwater observe --arm glibc='unit:tor@a*' --arm mimalloc='unit:tor@b*'
  highwater observe --run latest                            the processes of a run in progress";

const EXIT_CODES: &str = "\
Exit codes: 0 ended by SIGTERM or Ctrl-C, 2 usage, 4 could not listen.";

/// The verb. Returns when a signal ends it.
pub fn run(args: &ObserveArgs) -> anyhow::Result<u8> {
    if args.interval.is_zero() {
        return Err(Usage("--interval 0s: write at least 1ms".into()).into());
    }
    let host = args.host.clone().unwrap_or_else(host_name);
    let mut sampler = Sampler::new(Source::of(args)?, host, args.interval);
    let first = sampler.sample_first();
    let count = sampler.count();
    if count == 0 {
        nothing_yet(args, sampler.hidden())?;
    }
    if args.once {
        print(&openmetrics::page(&first, Form::OpenMetrics))?;
        return Ok(exit::DONE);
    }
    let address = address(&args.listen)?;
    let told = |bound: SocketAddr| tell(args, bound, count);
    serve::serve(address, sampler, first, told)
        .with_context(|| format!("listening on {}", args.listen))?;
    Ok(exit::DONE)
}

/// A pid that is not there will not come; what an expression names may still start.
fn nothing_yet(args: &ObserveArgs, hidden: usize) -> anyhow::Result<()> {
    let by_name = !(args.exe.is_empty() && args.args.is_empty() && args.unit.is_empty());
    if args.run.is_none() && !by_name && args.arm.iter().all(|arm| arm.contains("=pid:")) {
        anyhow::bail!("none of these processes is there; see `ps -e`");
    }
    let why = match hidden {
        0 => String::new(),
        n => format!(
            " (of {n} others the executable cannot be read: run as root or as their user, or choose by \
             --args or --unit)"
        ),
    };
    say!("highwater: no process matches yet{why}; those that start are found within seconds");
    Ok(())
}

fn tell(args: &ObserveArgs, bound: SocketAddr, count: usize) {
    let url = format!("http://{bound}/metrics");
    if args.json {
        let line = json!({
            "schema": "highwater.observe/1",
            "url": url,
            "processes": count,
            "interval_s": args.interval.as_secs_f64(),
        });
        // Whoever started this may have stopped reading; the endpoint is there all the same.
        let _ = writeln!(std::io::stdout(), "{line}");
    } else {
        say!("highwater: {count} processes at {url}");
    }
    if !bound.ip().is_loopback() {
        say!(
            "highwater: everyone who can reach {bound} can read names, pids and paths of these processes; it \
             asks for no password"
        );
    }
}

/// `PORT`, `:PORT` or `HOST:PORT`; a bare port is this machine's only.
fn address(text: &str) -> anyhow::Result<SocketAddr> {
    use std::net::ToSocketAddrs;
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let told = |why: String| Usage(format!("--listen {text}: {why}; write HOST:PORT, or PORT"));
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| told(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| told("no such host".into()).into())
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_is_of_this_machine_only() {
        for (text, wanted) in [
            ("9842", "127.0.0.1:9842"),
            (":9842", "127.0.0.1:9842"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), wanted);
        }
        for bad in ["", "x", "1.2.3.4", "99999", "/tmp/socket"] {
            let error = address(bad).unwrap_err();
            assert_eq!(exit::of(&error), exit::USAGE, "{bad}");
        }
    }
}

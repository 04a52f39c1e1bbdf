//! `highwater init --pid N`: an experiment file for a service that already runs.

use super::exit;
use super::out::print;
use experiment::file::draft::draft;
use experiment::file::facts::read_facts;

/// Write an experiment file for a service that already runs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  highwater init --pid 4242 > mine.toml
  highwater run mine.toml --dry-run

Exit codes: 0 written, 2 usage, 4 no such process, or it may not be read.")]
pub struct InitArgs {
    /// The service's process
    #[arg(long, value_name = "PID")]
    pub pid: i32,
    /// Do not ask its ports for /metrics and /healthz
    #[arg(long)]
    pub ask_nothing: bool,
}

pub fn run(args: &InitArgs) -> anyhow::Result<u8> {
    print(&draft(&read_facts(args.pid, !args.ask_nothing)?))?;
    Ok(exit::DONE)
}

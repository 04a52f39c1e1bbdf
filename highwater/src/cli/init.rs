//! `highwater init --pid N`: an experiment file for a service that already runs.

use super::exit;
use super::out::print;
use experiment::file::draft::draft;
use experiment::file::facts::read_facts;

/// Write an experiment file for a running service
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater init --pid 4242 > mine.toml
  highwater run mine.toml --dry-run", after_help = "\
Exit codes: 0 written, 2 usage, 4 no such process, or no permission to read it.")]
pub struct InitArgs {
    /// Process of the service
    #[arg(long, value_name = "PID")]
    pub pid: i32,
    /// Send no requests to its ports; otherwise /metrics and the usual health paths are tried
    #[arg(long)]
    pub ask_nothing: bool,
}

pub fn run(args: &InitArgs) -> anyhow::Result<u8> {
    print(&draft(&read_facts(args.pid, !args.ask_nothing)?))?;
    Ok(exit::DONE)
}

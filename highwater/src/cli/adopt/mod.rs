//! `highwater adopt ARM`: puts the arm that won into service, instance by instance, and judges it there.

pub mod choice;
pub mod enter;
pub mod put;
pub mod show;
pub mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use super::exit::Usage;
use rollout::health::Health;
use rollout::plan::Timing;
use rollout::shelf::Shelf;
use rollout::systemd::Host;
use units::parse_seconds;

/// Schema of everything that `--json` prints.
pub const SCHEMA: &str = "highwater.adopt/2";

/// Put the winning arm into service with systemd: drop-ins and a rolling restart, undone at the first failure
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater adopt jemalloc --unit 'tor@*.service'          print the plan; nothing is changed
  highwater adopt jemalloc --unit 'tor@*.service' --health 'tcp:127.0.0.1:{instance}' --yes
  highwater adopt jemalloc --unit relay --health http://127.0.0.1:8080/_health --yes
  highwater adopt jemalloc --unit relay --script > adopt.sh    for a host without highwater
  highwater adopt --status                                 holding, regressed, or too early to say
  highwater adopt --resume --yes                           continue after an interruption
  highwater revert --yes                                   undo it", after_help = "\
Exit codes: 0 adopted, or the plan can be carried out, 1 rolled back, 2 usage, 3 interrupted, 4 not possible.
With --status: 0 holding, 1 regressed, 3 too early to say.")]
pub struct AdoptArgs {
    /// The arm's name in the run
    #[arg(value_name = "ARM", required_unless_present_any = ["resume", "status"])]
    pub arm: Option<String>,
    /// A unit, a pattern for running instances ('tor@*.service'), or a template (tor@.service); may be repeated
    #[arg(long, value_name = "UNIT", required_unless_present_any = ["resume", "status"])]
    pub unit: Vec<String>,
    /// The run that measured the arm: its folder, or its name under --runs
    #[arg(long, value_name = "RUN", default_value = "latest")]
    pub run: PathBuf,
    /// Folder of the run folders
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    /// Health check of each instance, besides being active: none, http://..., tcp:HOST:PORT, 'command:PROGRAM ...';
    /// {instance}, {unit} and {pid} are filled in
    #[arg(long, value_name = "CHECK", default_value = "none")]
    pub health: String,
    /// Time in which an instance must become healthy
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub timeout: String,
    /// Time for which it must stay healthy
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub settle: String,
    /// Pause between two instances
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub pause: String,
    /// Value of a variable that the run's record has redacted; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A copy of the library that the run measured, if it has moved since
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Folder from which services load the library; only root may write to it
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/usr/local/lib/highwater"
    )]
    pub library_folder: PathBuf,
    /// Adopt even an arm that failed its conditions or was stopped
    #[arg(long)]
    pub against_verdict: bool,
    /// Carry out the plan; without this it is only printed
    #[arg(long)]
    pub yes: bool,
    /// Print the plan as a shell script for another host
    #[arg(long, conflicts_with_all = ["yes", "json", "resume", "status"])]
    pub script: bool,
    /// Continue a rollout that was interrupted
    #[arg(long, conflicts_with_all = ["arm", "unit", "status"])]
    pub resume: bool,
    /// Sample the instances and compare them with what the run predicted
    #[arg(long, conflicts_with_all = ["arm", "unit", "yes"])]
    pub status: bool,
    /// Print one JSON object (highwater.adopt/2) instead of text
    #[arg(long)]
    pub json: bool,
    /// Another root of the file system, for tests
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    pub root: PathBuf,
}

/// The value is the exit code.
///
/// # Errors
/// A mistake in the call; a machine on which nothing could be done.
pub fn run(args: &AdoptArgs) -> anyhow::Result<ExitCode> {
    let host = Host::at(&args.root);
    let shelf = Shelf::of(&host);
    let code = if args.status {
        status::run(&host, &shelf, args.json)
    } else if args.resume {
        put::resume(args, &host, &shelf)
    } else {
        put::adopt(args, &host, &shelf)
    };
    code.map(ExitCode::from)
}

impl AdoptArgs {
    fn timing(&self) -> anyhow::Result<Timing> {
        let seconds = |name: &str, text: &str| {
            let parsed = parse_seconds(text).map(|duration| duration.as_secs_f64());
            parsed.map_err(|why| Usage(format!("--{name}: {why}")))
        };
        Ok(Timing {
            health_s: seconds("timeout", &self.timeout)?,
            settle_s: seconds("settle", &self.settle)?,
            pause_s: seconds("pause", &self.pause)?,
        })
    }

    fn health(&self) -> anyhow::Result<Health> {
        Ok(Health::parse(&self.health).map_err(|why| Usage(why.to_string()))?)
    }

    fn library_folder(&self) -> anyhow::Result<&PathBuf> {
        let text = self.library_folder.to_string_lossy();
        if !self.library_folder.is_absolute()
            || text.contains([' ', ':', '\t', '\n'])
            || text.contains("..")
        {
            bail!(Usage(
                "--library-folder must be an absolute path without spaces and colons: LD_PRELOAD cannot hold others"
                    .into()
            ));
        }
        Ok(&self.library_folder)
    }
}

//! `highwater doctor`: what this machine and user allow, what is lost without, how to get it.

mod commands;
mod machine;
mod reach;

use serde_json::json;

use super::exit;
use super::out::print;
use bpf::allowed::{Allowed, Mode};
use observe::container::Container;
use report::stall::doctor::{Finding, Level, render, render_ways};

/// Check what this user and this machine allow, what is lost otherwise, and how to get it
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater doctor              as the user who will attach
  sudo highwater doctor         what root would add
  highwater doctor --json", after_help = "\
Exit codes: 0 whatever was found, 2 usage.")]
pub struct DoctorArgs {
    /// Print one JSON object (highwater.doctor/1) instead of text
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &DoctorArgs) -> anyhow::Result<u8> {
    let allowed = Allowed::try_all();
    let found = Found {
        mode: allowed.mode(),
        container: Container::own(),
        commands: commands::findings(&allowed),
        machine: machine::findings(&allowed),
        allowed,
    };
    let words = match args.json {
        true => format!("{}\n", found.as_json()),
        false => found.text(super::conclude::terminal_width()),
    };
    print(&words)?;
    Ok(exit::DONE)
}

/// All that the doctor found.
struct Found {
    allowed: Allowed,
    mode: Mode,
    container: Option<Container>,
    /// A line for each command.
    commands: Vec<Finding>,
    /// A line for each thing that was tried.
    machine: Vec<Finding>,
}

impl Found {
    fn text(&self, width: usize) -> String {
        let place = reach::place(self.container.as_ref(), &self.allowed);
        let mut text = render(&place, &self.commands, width);
        let ways = reach::ways(self.container.as_ref(), &self.allowed);
        if !ways.is_empty() {
            text.push('\n');
            text.push_str(&render_ways("To see more:", &ways));
        }
        text.push('\n');
        text.push_str(&render(&headline(self.mode), &self.machine, width));
        text
    }

    fn as_json(&self) -> serde_json::Value {
        let ways = reach::ways(self.container.as_ref(), &self.allowed);
        let container = self
            .container
            .as_ref()
            .map(|container| json!({ "runtime": container.runtime.words(), "id": container.id }));
        json!({
            "schema": "highwater.doctor/1",
            "uid": self.allowed.uid,
            "container": container,
            "stalls_mode": self.mode.word(),
            "commands": rows(&self.commands),
            "findings": rows(&self.machine),
            "ways": ways.iter().map(|(what, line)| json!({ "what": what, "line": line })).collect::<Vec<_>>(),
        })
    }
}

fn headline(mode: Mode) -> String {
    let says = match mode {
        Mode::Ebpf => {
            "ebpf: every switch and wake of the process, with who woke whom; durations are exact"
        }
        Mode::Tracepoints => {
            "tracepoints: this kernel has no eBPF for us; who woke whom comes from perf's samples, what each wait was \
             for from samples of /proc"
        }
        Mode::Rootless => {
            "rootless: own processes only; switches are exact, who holds a lock comes from the \
             lock's own word or is inferred, and is then labelled so"
        }
        Mode::None => "none: this user may not watch switches here",
    };
    format!("stalls would run in mode {says}.")
}

fn rows(findings: &[Finding]) -> Vec<serde_json::Value> {
    let row = |finding: &Finding| {
        json!({
            "what": finding.what,
            "allowed": finding.level == Level::Good,
            "state": finding.state,
            "lost": finding.lost,
            "how": finding.how,
        })
    };
    findings.iter().map(row).collect()
}

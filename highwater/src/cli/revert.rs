//! `highwater revert`: takes an adopted arm back as a unit, byte for byte.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::json;

use super::adopt::enter::enter;
use super::adopt::put::{held, stop_flag};
use super::adopt::status::shares_a_file;
use super::adopt::{SCHEMA, show};
use super::exit::{self, Usage};
use super::out::{print, say};
use report::visible::visible;
use rollout::act::Means;
use rollout::back;
use rollout::back::Pace;
use rollout::journal::Stage;
use rollout::plan::{Plan, PlannedFile};
use rollout::proof::Witness;
use rollout::shelf::{Rollout, Shelf};
use rollout::survey::obstacles;
use rollout::systemd::Host;

/// Undo an adoption: restore every file, restart every instance
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater revert                                   print what would be undone; nothing is changed
  highwater revert --yes                             undo it, also after an interruption
  highwater revert 1-2026-11-21-jemalloc --yes       when several are adopted", after_help = "\
Exit codes: 0 undone, or it can be, 1 an instance is not healthy, 2 usage, 4 not possible.")]
pub struct RevertArgs {
    /// The rollout, as `highwater adopt --status` names it [default: the only one]
    #[arg(value_name = "ROLLOUT")]
    pub rollout: Option<String>,
    /// Carry it out; without this it is only printed
    #[arg(long)]
    pub yes: bool,
    /// Discard edits that were made to the drop-ins since
    #[arg(long)]
    pub force: bool,
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
/// There is nothing to revert, or it is not clear what; nothing was changed then.
pub fn run(args: &RevertArgs) -> anyhow::Result<u8> {
    let host = Host::at(&args.root);
    let shelf = Shelf::of(&host);
    let lock = args.yes.then(|| held(&host, &shelf)).transpose()?;
    let mut rollout = pick(args, shelf.list()?)?;
    let mut problems: Vec<String> = back::edited(&host, &rollout.plan)
        .into_iter()
        .filter(|_| !args.force)
        .map(|path| {
            format!(
                "{path} was edited since highwater wrote it: save the edit elsewhere, then --force"
            )
        })
        .collect();
    let folders: Vec<PathBuf> = rollout
        .plan
        .files
        .iter()
        .filter_map(|f| Some(f.path.parent()?.to_path_buf()))
        .collect();
    problems.extend(obstacles(&host, &folders));
    problems.sort();
    problems.dedup();
    if !args.yes || !problems.is_empty() {
        return shown(args, &rollout.plan, &problems);
    }
    if args.force {
        back::discard_edits(&host, &rollout.plan).map_err(anyhow::Error::msg)?;
    }
    let code = take_back(args, &host, &mut rollout);
    drop(lock);
    code
}

/// The one that is meant: by its name, or the only one; an interrupted one before all others.
fn pick(args: &RevertArgs, all: Vec<Rollout>) -> anyhow::Result<Rollout> {
    let open: Vec<Rollout> = all
        .into_iter()
        .filter(|rollout| rollout.stage().is_open())
        .collect();
    let names: Vec<String> = open.iter().map(|rollout| rollout.plan.id.clone()).collect();
    let wanted = match &args.rollout {
        Some(id) => {
            let at = open.iter().position(|rollout| rollout.plan.id == *id);
            at.ok_or_else(|| unknown(id, &names))?
        }
        None => newest(&open, &names)?,
    };
    let later = open[wanted + 1..]
        .iter()
        .find(|later| shares_a_file(later, &open[wanted]));
    if let Some(later) = later {
        bail!(
            "rollout {} came after {} and wrote the same files: revert it first",
            later.plan.id,
            names[wanted]
        );
    }
    open.into_iter()
        .nth(wanted)
        .context("a rollout that was just there is gone")
}

fn unknown(id: &str, names: &[String]) -> Usage {
    let known = match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    Usage(format!(
        "no rollout {} is in force here; in force: {known}",
        units::wording::quoted(id)
    ))
}

fn newest(open: &[Rollout], names: &[String]) -> anyhow::Result<usize> {
    let interrupted = open
        .iter()
        .rposition(|rollout| rollout.stage() != Stage::Adopted);
    let Some(last) = open.len().checked_sub(1) else {
        bail!("nothing is adopted here: there is nothing to revert");
    };
    // Rollouts that build on each other are taken back one by one, the last first.
    let alone = open[..last]
        .iter()
        .all(|earlier| shares_a_file(&open[last], earlier));
    match interrupted {
        Some(at) => Ok(at),
        None if alone => Ok(last),
        None => bail!(Usage(format!(
            "several are adopted: name one of {}",
            names.join(", ")
        ))),
    }
}

fn shown(args: &RevertArgs, plan: &Plan, problems: &[String]) -> anyhow::Result<u8> {
    let code = if problems.is_empty() {
        exit::DONE
    } else {
        exit::COULD_NOT_RUN
    };
    if args.json {
        let file =
            |file: &PlannedFile| json!({"path": file.path, "restores": file.before.is_some()});
        let answer = json!({
            "schema": SCHEMA,
            "action": "revert-plan",
            "rollout": plan.id,
            "files": plan.files.iter().map(file).collect::<Vec<_>>(),
            "instances": plan.instances.iter().map(|instance| &instance.unit).collect::<Vec<_>>(),
            "problems": problems,
        });
        print(&format!("{answer:#}\n"))?;
        return Ok(code);
    }
    let mut out = format!("Revert {}: arm {} of run {}\n", plan.id, plan.arm, plan.run);
    for file in plan.files.iter().rev() {
        let word = if file.before.is_some() {
            "restore"
        } else {
            "remove"
        };
        out += &format!("  {word:<8} {}\n", file.path.display());
    }
    for folder in plan.folders.iter().rev() {
        out += &format!("  remove   {} (if empty)\n", folder.display());
    }
    out += "  systemctl daemon-reload\n";
    out += &format!(
        "  restart  {}, one after the other\n",
        show::instances(plan.instances.len())
    );
    for problem in problems {
        out += &format!("problem: {}\n", visible(problem));
    }
    out += match problems.is_empty() {
        true => "Nothing was changed; --yes does it.\n",
        false => "Nothing was changed, and --yes would be refused.\n",
    };
    print(&out)?;
    Ok(code)
}

fn take_back(args: &RevertArgs, host: &Host, rollout: &mut Rollout) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    let mut say = |words: &str| say!("{}", visible(words));
    let mut means = Means {
        host,
        witness: Witness::default(),
        stop: &stop,
        say: &mut say,
    };
    let left = back::revert(rollout, &mut means, "asked for", Pace::Planned).map_err(|why| {
        anyhow::anyhow!(
            "{why}; not everything is undone: `highwater revert --yes` goes on from here"
        )
    })?;
    let plan = &rollout.plan;
    let words = match left.is_empty() {
        true => format!(
            "Reverted {}: everything is as it was before arm {}.",
            plan.id, plan.arm
        ),
        false => format!(
            "Reverted {}: every file is as it was; not well: {left}.",
            plan.id
        ),
    };
    enter(plan, &words, true);
    if args.json {
        let answer = json!({
            "schema": SCHEMA,
            "action": "revert",
            "rollout": plan.id,
            "outcome": "reverted",
            "left": left,
            "words": words,
        });
        print(&format!("{answer:#}\n"))?;
    } else {
        print(&format!("{}\n", visible(&words)))?;
    }
    Ok(if left.is_empty() {
        exit::DONE
    } else {
        exit::FAILED
    })
}

//! The plan shown, carried out, or taken up again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::choice::{Choice, choose};
use super::enter::enter;
use super::show;
use super::{AdoptArgs, SCHEMA};
use crate::cli::exit;
use crate::cli::out::{print, say};
use crate::cli::signals;
use rollout::act::Means;
use rollout::adopt;
use rollout::adopt::Ended;
use rollout::journal::Stage;
use rollout::plan::{Plan, Proposal};
use rollout::proof::Witness;
use rollout::propose::propose;
use rollout::script;
use rollout::shelf::{Rollout, Shelf};
use rollout::survey::{obstacles, survey};
use rollout::systemd::Host;

/// The plan, and with `--yes` its execution.
///
/// # Errors
/// Nothing was changed.
pub fn adopt(args: &AdoptArgs, host: &Host, shelf: &Shelf) -> anyhow::Result<u8> {
    let choice = choose(args)?;
    let date = jiff::Zoned::now().date().to_string();
    if args.script {
        let id = format!("{date}-{}", choice.request.arm);
        let text = script::render(&choice.request, &id)
            .map_err(|why| anyhow!(exit::Usage(why.to_string())))?;
        print(&text)?;
        return Ok(exit::DONE);
    }
    let lock = args.yes.then(|| held(host, shelf)).transpose()?;
    let rollouts = shelf.list().or_else(|error| match args.yes {
        true => Err(error),
        // A plan may be shown to anybody; that it is only root who can see earlier rollouts stands below it.
        false => Ok(Vec::new()),
    })?;
    let id = match shelf.next_id(&date, &choice.request.arm) {
        Ok(id) => id,
        Err(_) => format!("{date}-{}", choice.request.arm),
    };
    let proposal = propose_here(args, host, &choice, &rollouts, &id)?;
    let may = proposal.problems.is_empty();
    if !args.yes || !may {
        return shown(args, &proposal, &choice);
    }
    if !args.json {
        print(&show::plan(&proposal, &choice.headline, &choice.said))?;
    }
    let mut rollout = shelf.create(&proposal.plan)?;
    enter(&rollout.plan, &begun_words(&rollout.plan), false);
    let code = carry_out(args, host, &mut rollout);
    drop(lock);
    code
}

/// The lock, once it is clear that this user may act at all.
pub fn held(host: &Host, shelf: &Shelf) -> anyhow::Result<rollout::shelf::Lock> {
    let obstacles = obstacles(host, &[]);
    if !obstacles.is_empty() {
        bail!("nothing was changed: {}", obstacles.join("; "));
    }
    shelf.lock()
}

fn propose_here(
    args: &AdoptArgs,
    host: &Host,
    choice: &Choice,
    rollouts: &[Rollout],
    id: &str,
) -> anyhow::Result<Proposal> {
    let found = survey(host, &choice.request, rollouts).map_err(anyhow::Error::msg)?;
    let mut proposal = propose(&choice.request, &found, id);
    let unfinished = rollouts
        .iter()
        .filter(|rollout| matches!(rollout.stage(), Stage::Adopting | Stage::Reverting { .. }));
    for rollout in unfinished {
        proposal.problems.push(format!(
            "rollout {} was interrupted ({}): `highwater adopt --resume --yes` or `highwater revert --yes` first",
            rollout.plan.id,
            rollout.stage().word()
        ));
    }
    if !args.against_verdict {
        let refused = choice.against.iter();
        let words = |why: &String| {
            format!("the run speaks against it: {why} (--against-verdict adopts it all the same)")
        };
        proposal.problems.extend(refused.map(words));
    }
    let parents = proposal
        .plan
        .files
        .iter()
        .filter_map(|file| file.path.parent());
    let mut folders: Vec<_> = parents.map(std::path::Path::to_path_buf).collect();
    folders.push(rollout::shelf::FOLDER.into());
    let obstacles = obstacles(host, &folders);
    let known: std::collections::BTreeSet<String> = obstacles.into_iter().collect();
    proposal.problems.extend(known);
    if proposal.plan.health == rollout::health::Health::None {
        proposal.notes.push(
            "no --health: an instance counts as well when it is active and stays so; a service that hangs would pass"
                .to_owned(),
        );
    }
    Ok(proposal)
}

fn shown(args: &AdoptArgs, proposal: &Proposal, choice: &Choice) -> anyhow::Result<u8> {
    let may = proposal.problems.is_empty();
    if args.json {
        print(&format!("{:#}\n", show::plan_json(proposal, "plan")))?;
    } else {
        print(&show::plan(proposal, &choice.headline, &choice.said))?;
        print(match may {
            true => "Nothing was changed; --yes does it.\n",
            false => "Nothing was changed, and --yes would be refused.\n",
        })?;
    }
    Ok(if may { exit::DONE } else { exit::COULD_NOT_RUN })
}

/// Goes on with the rollout that was interrupted.
///
/// # Errors
/// There is none, or it is on its way back.
pub fn resume(args: &AdoptArgs, host: &Host, shelf: &Shelf) -> anyhow::Result<u8> {
    let lock = args.yes.then(|| held(host, shelf)).transpose()?;
    let rollouts = shelf.list()?;
    let found = rollouts
        .into_iter()
        .rev()
        .find(|rollout| matches!(rollout.stage(), Stage::Adopting | Stage::Reverting { .. }));
    let mut rollout =
        found.context("no rollout was interrupted here: there is nothing to go on with")?;
    let id = rollout.plan.id.clone();
    if let Stage::Reverting { why } = rollout.stage() {
        bail!(
            "rollout {id} is on its way back ({why}): `highwater revert --yes` goes on with that"
        );
    }
    if !args.yes {
        print(&format!(
            "Rollout {id} was interrupted on the way to arm {}; --resume --yes goes on, `highwater revert --yes` takes \
             it back.\n",
            rollout.plan.arm
        ))?;
        return Ok(exit::DONE);
    }
    let code = carry_out(args, host, &mut rollout);
    drop(lock);
    code
}

fn carry_out(args: &AdoptArgs, host: &Host, rollout: &mut Rollout) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    let mut say = |words: &str| say!("{}", report::visible::visible(words));
    let mut means = Means {
        host,
        witness: Witness::default(),
        stop: &stop,
        say: &mut say,
    };
    let ended = adopt::adopt(rollout, &mut means).map_err(anyhow::Error::msg)?;
    let (word, words) = show::ended(&rollout.plan, &ended);
    enter(
        &rollout.plan,
        &words,
        matches!(ended, Ended::RolledBack { .. }),
    );
    if args.json {
        let proof: Vec<_> = proofs(rollout);
        let answer = json!({
            "schema": SCHEMA,
            "action": "adopt",
            "rollout": rollout.plan.id,
            "outcome": word,
            "words": words,
            "proofs": proof,
            "prediction": rollout.plan.prediction.as_ref().map(show::prediction_json),
        });
        print(&format!("{answer:#}\n"))?;
    } else {
        print(&format!("{}\n", report::visible::visible(&words)))?;
    }
    Ok(match ended {
        Ended::Adopted => exit::DONE,
        Ended::RolledBack { .. } => exit::FAILED,
        Ended::Stuck { .. } => exit::COULD_NOT_RUN,
        Ended::Stopped { .. } => exit::UNDECIDED,
    })
}

/// What each instance was proved to run, as the journal has it.
fn proofs(rollout: &Rollout) -> Vec<serde_json::Value> {
    use rollout::journal::{Step, What};
    let restarted = rollout
        .records
        .iter()
        .filter_map(|record| match &record.what {
            What::Done {
                step: Step::Restart(unit),
                words,
            } => Some(json!({"unit": unit, "words": words})),
            _ => None,
        });
    restarted.collect()
}

/// Set by Ctrl-C, a TERM, or a lost terminal.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    signals::flag(&[SIGINT, SIGTERM, SIGHUP])
}

fn begun_words(plan: &Plan) -> String {
    let expected = plan
        .prediction
        .as_ref()
        .map(|p| format!("; predicted {}", show::predicted(p)));
    format!(
        "adopting {} on {} of {} (rollout {}){}",
        plan.arm,
        show::instances(plan.instances.len()),
        plan.patterns.join(", "),
        plan.id,
        expected.unwrap_or_default()
    )
}

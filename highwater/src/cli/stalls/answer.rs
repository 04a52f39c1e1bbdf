//! What a watch comes to, live or recorded: the rows, what is written beside them, and what the watch says of itself.

use anyhow::{Context, Result};
use serde_json::Value;

use super::extras::with_gains;
use super::{StallsArgs, saturated_ns};
use crate::cli::conclude;
use crate::cli::out::say;
use report::stall::{SelfChecks, json, requests, text};
use report::visible::visible_lines;
use sched::recording::{Closing, Facts};
use stalls::analyser::Analyser;
use stalls::cause::Cause;
use stalls::finding::summarise;
use stalls::naming::{NamedFinding, Names, named};
use verdict::stall::{is_beside_requests, is_no_shortage, worth_a_row};

pub struct Answer {
    words: String,
    /// A file beside it could not be read or written; the words are printed before that is said.
    written: Result<()>,
}

impl Answer {
    /// A file of requests that cannot be read, or says none, costs no finding: the rest is answered, and that is said
    /// behind it.
    ///
    /// # Errors
    /// What the watch cost is not what was written down.
    pub fn of(
        args: &StallsArgs,
        analyser: &mut Analyser,
        names: &impl Names,
        facts: &Facts,
        closing: &Closing,
    ) -> Result<Answer> {
        let findings = summarise(
            &analyser.stalls,
            &analyser.groups,
            &analyser.connections.felt(),
            &closing.requesters,
        );
        let watched_ns = closing.ended_ns.saturating_sub(facts.started_ns);
        let all = findings.len();
        let threshold_ns = args.threshold.map(saturated_ns);
        let asked = args.extras.requests(threshold_ns, analyser, facts, closing);
        let (slow, unread) = match asked {
            Ok(slow) => (slow, Ok(())),
            Err(why) => (None, Err(why)),
        };
        let mut findings = worth_a_row(findings, watched_ns, threshold_ns.is_some());
        if threshold_ns.is_none() {
            let share = slow
                .as_ref()
                .and_then(|slow| slow.share_of(Cause::CpuStarvation));
            let connections = &analyser.connections;
            let served = |tid| share.map(|_| connections.ran_for_one(tid));
            findings.retain(|finding| {
                !is_no_shortage(finding, share)
                    && !is_beside_requests(finding, served(finding.culprit.tid))
            });
        }
        let rows: Vec<NamedFinding> = findings
            .iter()
            .map(|finding| named(finding, names, &closing.others))
            .collect();
        let checks = checks(analyser, closing, watched_ns, all - rows.len());
        let slow = slow.map(|slow| with_gains(slow, analyser, names, (&findings, &rows)));
        let words = match args.json {
            true => {
                let mut value = json::render(&rows, &facts.mode, facts.pid, &checks);
                value["overhead"] = cost(closing)?;
                if let Some(slow) = slow {
                    value["requests"] = requests::json(&slow, &rows);
                }
                format!("{value}\n")
            }
            false => {
                let width = conclude::terminal_width();
                let mut words = text::summary(&rows, &facts.mode, &checks, slow.as_ref(), width);
                words.push_str(&closing.cost_text);
                if let Some(slow) = slow {
                    words.push_str(&requests::text(&slow, &rows, width));
                }
                visible_lines(&words).into_owned()
            }
        };
        let written = args.extras.write(analyser, names, facts.pid);
        Ok(Answer {
            words,
            written: unread.and(written),
        })
    }

    /// What else was to be written.
    pub fn and(mut self, recorded: Result<()>) -> Answer {
        match (&self.written, recorded) {
            (Err(_), Err(also)) => say!("highwater: {also}"),
            (Ok(()), recorded) => self.written = recorded,
            (Err(_), Ok(())) => {}
        }
        self
    }

    /// # Errors
    /// Nobody reads it, or a file beside it could not be read or written.
    pub fn print(self) -> Result<()> {
        conclude::print(&self.words)?;
        self.written
    }
}

/// What the watch cost, as it was written down; none in a recording that was cut off.
fn cost(closing: &Closing) -> Result<Value> {
    match closing.cost_json.as_str() {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).context("reading what the watch cost"),
    }
}

fn checks(
    analyser: &Analyser,
    closing: &Closing,
    watched_ns: u64,
    below_the_rule: usize,
) -> SelfChecks {
    let losses = closing.losses;
    SelfChecks {
        watched_ns,
        threads: closing.threads as usize,
        lost_records: losses.lost_records,
        lost_samples: losses.lost_samples,
        missed_switches: losses.missed_switches,
        unresolved_stacks: losses.unresolved_stacks,
        dropped_segments: analyser.lines.dropped,
        dropped_stalls: analyser.dropped_stalls,
        unwatched_threads: losses.unwatched_threads,
        left_out_below_ns: losses.left_out_below_ns,
        below_the_rule,
        run_delay_difference: super::start::difference(
            closing.run_delay_ns,
            analyser.lines.runnable_ns,
        ),
        stolen_share: closing.stolen_share,
        cpu_ns: closing.own_cpu_ns,
        missing: closing.missing.clone(),
    }
}

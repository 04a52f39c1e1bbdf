//! `stalls --replay`: a recorded watch, analysed again.

use std::path::Path;

use anyhow::Result;

use super::answer::Answer;
use super::{StallsArgs, saturated_ns};
use crate::cli::exit;
use crate::cli::out::say;
use sched::recording::{Closing, Next, Recording};
use sched::requests::Unseen;
use sched::watch::Turn;
use stalls::analyser::Analyser;
use stalls::event::{GOROUTINES, Tid};

pub fn run(args: &StallsArgs, path: &Path) -> Result<u8> {
    let mut recording = Recording::open(path)?;
    args.extras.spare(path)?;
    args.extras.check()?;
    let mut analyser = Analyser::of(&recording.facts);
    analyser.pieces.keep = args.extras.pieces();
    analyser.groups.fixed_ns = args.threshold.map(saturated_ns);
    analyser.connections.asked_ns = analyser.groups.fixed_ns;
    let closing = follow(&mut recording, &mut analyser);
    analyser.finish();
    let answer = Answer::of(
        args,
        &mut analyser,
        &recording.names,
        &recording.facts,
        &closing,
    )?;
    answer.print()?;
    Ok(exit::DONE)
}

/// All turns. The last one of a whole recording is the rest of the watch, after whose end nothing is judged in between.
fn follow(recording: &mut Recording, analyser: &mut Analyser) -> Closing {
    let mut last: Option<(Turn, u64)> = None;
    loop {
        match (recording.read_next(), last.take()) {
            (Next::Turn(turn, at_ns), before) => {
                if let Some((turn, at_ns)) = before {
                    analyser.follow(turn, at_ns);
                }
                last = Some((turn, at_ns));
            }
            (Next::End(Ok(closing)), rest) => {
                if let Some((rest, _)) = rest {
                    analyser.take_turn(rest);
                }
                return *closing;
            }
            (Next::End(Err(words)), before) => {
                if let Some((turn, at_ns)) = before {
                    analyser.follow(turn, at_ns);
                }
                say!("highwater: the recording is not whole: {words}");
                return cut_off(recording, analyser, words);
            }
        }
    }
}

/// Of a recording that has no closing: what its events say.
fn cut_off(recording: &Recording, analyser: &Analyser, words: String) -> Closing {
    let goroutines: Vec<Tid> = analyser
        .lines
        .tids()
        .filter(|tid| *tid >= GOROUTINES)
        .collect();
    let threads: Vec<Tid> = recording.names.threads().collect();
    Closing {
        ended_ns: analyser.lines.newest_ns.max(recording.facts.started_ns),
        threads: threads.len() as u64,
        requesters: if goroutines.is_empty() {
            threads
        } else {
            goroutines
        },
        missing: vec![format!("the end of the recording: {words}")],
        // How many were not told stands at the end.
        unseen_requests: (!analyser.connections.all.is_empty()).then(Unseen::default),
        ..Closing::default()
    }
}

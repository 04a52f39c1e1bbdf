//! What a journal says: the steps that were begun and done, and where the rollout stands. Pure.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One step, as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", content = "of", rename_all = "kebab-case")]
pub enum Step {
    Folder(PathBuf),
    File(PathBuf),
    Reload,
    Restart(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// From here on towards the arm.
    Forward,
    /// From here on back to what was before.
    Backward {
        why: String,
    },
    Begin(Step),
    Done {
        #[serde(flatten)]
        step: Step,
        /// What was seen: the proof of an instance.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
    /// Every instance runs the arm.
    Adopted,
    /// Everything is as it was; what could not be made so is in the words.
    Reverted {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Seconds since the Unix epoch.
    pub at_s: f64,
    #[serde(flatten)]
    pub what: What,
}

/// Where a rollout stands, told from its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// On the way to the arm; whoever worked on it may be gone.
    Adopting,
    Adopted,
    /// On the way back.
    Reverting {
        why: String,
    },
    Reverted {
        why: String,
        words: String,
    },
}

impl Stage {
    pub fn word(&self) -> &'static str {
        match self {
            Stage::Adopting => "adopting",
            Stage::Adopted => "adopted",
            Stage::Reverting { .. } => "reverting",
            Stage::Reverted { .. } => "reverted",
        }
    }

    /// Whether its files may be in place.
    pub fn is_open(&self) -> bool {
        !matches!(self, Stage::Reverted { .. })
    }
}

/// Where the records say that a rollout stands.
pub fn stage(records: &[Record]) -> Stage {
    let mut stage = Stage::Adopting;
    for record in records {
        stage = match (&record.what, stage) {
            (What::Forward, _) => Stage::Adopting,
            (What::Adopted, _) => Stage::Adopted,
            (What::Backward { why }, _) => Stage::Reverting { why: why.clone() },
            (What::Reverted { words }, Stage::Reverting { why }) => Stage::Reverted {
                why,
                words: words.clone(),
            },
            (_, same) => same,
        };
    }
    stage
}

/// Steps done since the direction last changed.
pub fn done(records: &[Record]) -> Vec<&Step> {
    let turned = |record: &Record| matches!(record.what, What::Forward | What::Backward { .. });
    // Taken up again in the same direction is no turn.
    let direction = |record: &Record| matches!(record.what, What::Forward);
    let mut from = 0;
    let mut forward = None;
    for (at, record) in records
        .iter()
        .enumerate()
        .filter(|(_, record)| turned(record))
    {
        if forward != Some(direction(record)) {
            (from, forward) = (at, Some(direction(record)));
        }
    }
    let steps = records[from..]
        .iter()
        .filter_map(|record| match &record.what {
            What::Done { step, .. } => Some(step),
            _ => None,
        });
    steps.collect()
}

/// Steps that were done on the way forward, before the last way back began.
pub fn brought_up(records: &[Record]) -> Vec<Step> {
    let forward = records
        .iter()
        .rposition(|record| record.what == What::Forward);
    let after = &records[forward.unwrap_or(0)..];
    let back = after
        .iter()
        .position(|record| matches!(record.what, What::Backward { .. }));
    let forwards = forward.unwrap_or(0) + back.unwrap_or(after.len());
    done(&records[..forwards]).into_iter().cloned().collect()
}

/// Lines of a journal; a last one that was cut off is left out.
pub fn parse_journal(text: &str) -> Result<Vec<Record>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate();
    let parsed = lines.map(|(at, line)| {
        serde_json::from_str(line).with_context(|| format!("line {} of its journal", at + 1))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(what: &[What]) -> Vec<Record> {
        let record = |what: &What| Record {
            at_s: 1.5,
            what: what.clone(),
        };
        what.iter().map(record).collect()
    }

    fn restarted(unit: &str) -> What {
        What::Done {
            step: Step::Restart(unit.to_owned()),
            words: "pid 1".to_owned(),
        }
    }

    #[test]
    fn a_journal_reads_back_and_a_torn_line_counts_for_nothing() {
        let all = records(&[
            What::Forward,
            What::Begin(Step::File("/a b".into())),
            What::Done {
                step: Step::Reload,
                words: String::new(),
            },
            restarted("a.service"),
            What::Backward {
                why: "no \"health\"".to_owned(),
            },
            What::Reverted {
                words: String::new(),
            },
        ]);
        let text: String = all
            .iter()
            .map(|r| serde_json::to_string(r).unwrap() + "\n")
            .collect();
        assert_eq!(parse_journal(&text).unwrap(), all);
        for cut in 0..text.len() {
            let read = parse_journal(&text[..cut]).unwrap();
            assert_eq!(read[..], all[..read.len()]);
        }
        assert!(parse_journal("{}\n{}\n").is_err());
    }

    #[test]
    fn the_stage_follows_the_last_direction() {
        let back = || What::Backward {
            why: "x".to_owned(),
        };
        let at = |what: &[What]| stage(&records(what)).word();
        assert_eq!(at(&[]), "adopting");
        assert_eq!(at(&[What::Forward, What::Adopted]), "adopted");
        assert_eq!(at(&[What::Forward, back()]), "reverting");
        let gone = What::Reverted {
            words: String::new(),
        };
        assert_eq!(
            at(&[What::Forward, What::Adopted, back(), gone]),
            "reverted"
        );
    }

    #[test]
    fn what_was_done_counts_in_its_own_direction() {
        let back = || What::Backward {
            why: "x".to_owned(),
        };
        let all = records(&[What::Forward, restarted("a"), What::Forward, restarted("b")]);
        assert_eq!(done(&all).len(), 2, "taken up again");
        let all = records(&[
            What::Forward,
            restarted("a"),
            back(),
            restarted("b"),
            back(),
        ]);
        assert_eq!(done(&all), [&Step::Restart("b".to_owned())]);
    }
}

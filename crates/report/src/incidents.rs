//! Events that deserve a mark on a chart, numbered in the order in which they happened.

use super::plot::over_time::Mark;
use super::{Report, is_incident};
use observe::snapshot::EventKind;

/// Incidents in the list of a document; events.csv has all.
pub const LISTED_MAX: usize = 60;
/// Marks nearer to each other than this share of the run become one.
const NEAR_SHARE: f64 = 0.015;

/// Within so many seconds, both of ours have noticed that a process is gone.
const TWINS_S: f64 = 5.0;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// From 1.
    pub number: usize,
    pub t_s: f64,
    pub arm: String,
    pub process: String,
    pub kind: EventKind,
    /// The first line.
    pub words: String,
}

/// In order of time.
pub fn incidents(report: &Report) -> Vec<Incident> {
    let events = report
        .events
        .iter()
        .filter(|event| is_incident(&event.kind));
    let mut all: Vec<Incident> = events
        .map(|event| Incident {
            number: 0,
            t_s: event.t_s,
            arm: event.arm.clone(),
            process: event.process.clone(),
            kind: event.kind.clone(),
            words: event.words.lines().next().unwrap_or("").to_owned(),
        })
        .collect();
    all.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    let mut all = once_each(all);
    for (at, one) in all.iter_mut().enumerate() {
        one.number = at + 1;
    }
    all
}

/// A process that is gone is told by the collector and by the supervisor: the one with more words stays.
fn once_each(all: Vec<Incident>) -> Vec<Incident> {
    let mut kept: Vec<Incident> = Vec::new();
    for one in all {
        let is_twin = |other: &&mut Incident| {
            one.kind == EventKind::Vanished
                && other.kind == one.kind
                && other.process == one.process
                && one.t_s - other.t_s <= TWINS_S
        };
        match kept.iter_mut().rev().find(is_twin) {
            Some(twin) if twin.words.len() >= one.words.len() => {}
            Some(twin) => twin.words = one.words,
            None => kept.push(one),
        }
    }
    kept
}

/// Marks for a chart, those that would stand on each other put together.
pub fn marks(report: &Report) -> Vec<Mark> {
    let near = NEAR_SHARE * report.charts.took_s;
    let mut marks: Vec<(f64, usize, usize, Option<usize>)> = Vec::new();
    for one in incidents(report) {
        let arm = report.charts.arms.iter().position(|arm| *arm == one.arm);
        match marks.last_mut() {
            Some((t_s, _, last, known)) if one.t_s - *t_s <= near => {
                *last = one.number;
                if *known != arm {
                    *known = None;
                }
            }
            _ => marks.push((one.t_s, one.number, one.number, arm)),
        }
    }
    let mark = |(t_s, first, last, arm): (f64, usize, usize, Option<usize>)| Mark {
        t_s,
        number: match first == last {
            true => first.to_string(),
            false => format!("{first}\u{2013}{last}"),
        },
        arm,
    };
    marks.into_iter().map(mark).collect()
}

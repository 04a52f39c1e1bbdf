//! The requests of a watch, wherever they are known from, and what the slow ones' time went to.

use std::collections::HashMap;

use super::analyser::Analyser;
use super::answered::{Answered, Slow};
use super::cause::Cause;
use super::event::Tid;
use super::ordinary::Ordinary;
use super::pieces::Label;
use super::request::{Attributed, Request, Went, attribute, slow_from_ns};
use sched::requests::Unseen;

/// Fewer slow requests do not say what makes a service slow.
const SLOW_MIN: usize = 20;

/// Where the requests are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// A file: a client's own measurements, or spans.
    #[default]
    File,
    /// Calls of a function.
    Calls,
    /// The process's own connections, from the arrival of the first bytes to the first byte of the answer.
    Connections,
}

impl Source {
    /// As it stands in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Calls => "calls",
            Source::Connections => "connections",
        }
    }
}

/// Requests, and what the slow ones' time went to.
pub struct Accounted {
    pub source: Source,
    /// Within the watch.
    pub count: usize,
    /// Of these; the longest are looked into.
    pub slow_count: usize,
    /// Some were counted alone: percentiles are of the others.
    pub left_out: bool,
    /// Of the watch, in which none were told.
    pub unseen_share: f64,
    pub all: Vec<Request>,
    pub slow: Vec<Attributed>,
    pub slow_from_ns: u64,
    /// The median, and what the time of those goes to that are not slow: on its connections alone.
    pub usual: Option<(u64, Ordinary)>,
    /// In which what threads were in is known.
    pub span: (u64, u64),
}

impl Accounted {
    /// Those that somebody else knows of; slow from `asked_ns` on, or from three times the median.
    pub fn of(
        source: Source,
        all: Vec<Request>,
        asked_ns: Option<u64>,
        analyser: &Analyser,
        watched: (u64, u64),
    ) -> Accounted {
        let slow_from_ns = slow_from_ns(&all, asked_ns);
        Accounted {
            source,
            count: inside(&all, watched).count(),
            slow_count: inside(&all, watched)
                .filter(|r| r.end_ns - r.start_ns >= slow_from_ns)
                .count(),
            left_out: false,
            unseen_share: 0.0,
            slow: attribute(&analyser.pieces, &all, slow_from_ns, watched),
            slow_from_ns,
            usual: None,
            span: (watched.0.max(analyser.pieces.from_ns), watched.1),
            all,
        }
    }

    /// Those that were seen on the process's own connections, but for `unseen`; `None` with too few to say what is
    /// slow.
    pub fn of_connections(
        unseen: Unseen,
        analyser: &mut Analyser,
        watched: (u64, u64),
    ) -> Option<Accounted> {
        let connections = &mut analyser.connections;
        let slow_from_ns = connections.slow_from_ns()?;
        let slow_count = connections.count_slow(slow_from_ns, watched);
        let ordinary = std::mem::take(&mut connections.ordinary);
        let usual = connections.usual_ns().zip(Some(ordinary));
        let left_out = unseen.uncounted.saturating_add(connections.left_out);
        let slow = connections.slow(slow_from_ns, watched.0);
        let slow: Vec<Attributed> = slow.iter().map(Slow::attributed).collect();
        let all = with_threads(&connections.all, &slow);
        let count = inside(&all, watched).count();
        Some(Accounted {
            source: Source::Connections,
            count: count.saturating_add(usize::try_from(left_out).unwrap_or(usize::MAX)),
            slow_count,
            left_out: left_out > 0,
            unseen_share: unseen.share,
            all,
            slow,
            slow_from_ns,
            // With a lower limit it is not those about the median that are left.
            usual: usual.filter(|(usual_ns, of)| of.count > 0 && slow_from_ns > *usual_ns),
            span: (watched.0.max(analyser.pieces.from_ns), watched.1),
        })
    }

    /// Of the time that slow requests on its connections were with threads, the share that these were in this; `None`
    /// with few, or where most of their time was not with a thread.
    pub fn share_of(&self, cause: Cause) -> Option<f64> {
        let sum = |counts: &dyn Fn(Went) -> bool| -> f64 {
            let all = self.slow.iter().flat_map(|slow| &slow.ns);
            all.filter(|(went, _)| counts(**went))
                .map(|(_, ns)| *ns as f64)
                .sum()
        };
        let all = sum(&|_| true);
        let known = sum(&|went| matches!(went, Went::Thread(_)));
        let of = sum(&|went| went == Went::Thread(Label::Held(cause)));
        let enough = self.slow.len() >= SLOW_MIN && self.source == Source::Connections;
        (enough && known > 0.0 && known * 2.0 >= all).then(|| of / known)
    }
}

fn inside(all: &[Request], watched: (u64, u64)) -> impl Iterator<Item = &Request> {
    let inside = move |r: &&Request| r.start_ns >= watched.0 && r.end_ns <= watched.1;
    all.iter().filter(inside)
}

/// Each with the thread that most of it was with: of one that was not slow, the sender.
fn with_threads(all: &[Answered], slow: &[Attributed]) -> Vec<Request> {
    let times = |of: &Attributed| (of.request.start_ns, of.request.end_ns);
    let with: HashMap<(u64, u64), Option<Tid>> =
        slow.iter().map(|of| (times(of), of.tid)).collect();
    let request = |of: &Answered| Request {
        name: String::new(),
        start_ns: of.start_ns,
        end_ns: of.end_ns,
        tid: with
            .get(&(of.start_ns, of.end_ns))
            .copied()
            .flatten()
            .or(Some(of.sender)),
    };
    all.iter().map(request).collect()
}

//! Every judged stretch of every thread, kept for pictures and for requests known from outside.

use std::collections::HashMap;

use super::cause::{Cause, Judged};
use super::event::{StackId, TextId, Tid, WaitKind};
use super::segment::{Segment, State};

/// Pieces of all threads together; 56 bytes each, some 17 MiB. Later ones are counted.
pub const PIECES_MAX: usize = 300_000;

/// What a thread was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    OnCpu,
    /// It waited for work, or for a time that it chose.
    Idle,
    Held(Cause),
}

impl Label {
    /// As it stands in tables, in JSON and in pictures.
    pub fn word(self) -> &'static str {
        match self {
            Label::OnCpu => "running",
            Label::Idle => "idle",
            Label::Held(cause) => cause.word(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    pub start_ns: u64,
    pub end_ns: u64,
    pub label: Label,
    pub waited_for: WaitKind,
    /// What the culprit was doing, or the thread's own wait.
    pub activity: TextId,
    /// The waiter's own stack.
    pub stack: StackId,
    /// Who ended the wait.
    pub by: Option<Tid>,
    /// Who filled it.
    pub culprit: Tid,
}

impl Piece {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Nanoseconds of it within `[start_ns, end_ns]`.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> u64 {
        let end = self.end_ns.min(end_ns);
        end.saturating_sub(self.start_ns.max(start_ns))
    }
}

#[derive(Debug, Default)]
pub struct Pieces {
    /// Nothing is kept unless somebody asked.
    pub wanted: bool,
    /// Of each thread, by time.
    pub of: HashMap<Tid, Vec<Piece>>,
    count: usize,
    /// Pieces past [`PIECES_MAX`].
    pub dropped: u64,
}

impl Pieces {
    pub fn keep(&mut self, tid: Tid, segment: &Segment, judged: &Judged) {
        if !self.wanted {
            return;
        }
        if self.count == PIECES_MAX {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        self.of.entry(tid).or_default().push(piece(segment, judged));
    }
}

fn piece(segment: &Segment, judged: &Judged) -> Piece {
    let (wait, by) = match segment.state {
        State::Blocked { wait, by, .. } => (Some(wait), by.and_then(|waker| waker.tid())),
        _ => (None, None),
    };
    let (label, activity, culprit) = match judged {
        Judged::OnCpu => (Label::OnCpu, 0, 0),
        Judged::Idle { .. } => (Label::Idle, wait.map_or(0, |w| w.activity), 0),
        Judged::Part(part) => (Label::Held(part.cause), part.leaf.activity, part.leaf.tid),
    };
    Piece {
        start_ns: segment.start_ns,
        end_ns: segment.end_ns,
        label,
        waited_for: wait.map_or(WaitKind::Other, |w| w.kind),
        activity,
        stack: wait.map_or(0, |w| w.stack),
        by,
        culprit,
    }
}

//! Every judged stretch of every thread, kept for pictures and for requests known from outside.

use std::collections::HashMap;

use super::cause::{Cause, Judged};
use super::event::{StackId, TextId, Tid, WaitKind};
use super::quota::Quota;
use super::segment::{Segment, State};
use super::unpolled::Unpolled;

/// Pieces of all threads together; 64 bytes each, some 19 MiB.
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
    /// A wait at a place where its thread rarely waits.
    pub is_rare: bool,
    /// Its thread waits for its one client's next request at least as often as here.
    pub is_in_request: bool,
    /// A wait for the next request of one client.
    pub is_for_one: bool,
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

/// Which pieces are kept when there are more than fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    #[default]
    None,
    /// For pictures, and requests that are read at the end. Later ones are counted.
    First,
    /// For requests that are followed as they come.
    Newest,
}

#[derive(Debug, Default)]
pub struct Pieces {
    pub keep: Keep,
    /// They are whole from then on.
    pub from_ns: u64,
    /// Of each thread, by time.
    pub of: HashMap<Tid, Vec<Piece>>,
    /// When nothing ran.
    pub quota: Quota,
    /// Of a Go program, when its other threads waited for a CPU.
    pub unpolled: Unpolled,
    count: usize,
    /// Pieces past [`PIECES_MAX`].
    pub dropped: u64,
}

impl Pieces {
    /// `whole`: the wait that this is the last part of, where it was broken off and taken up again.
    pub fn keep(
        &mut self,
        tid: Tid,
        segment: &Segment,
        judged: &Judged,
        (is_rare, is_in_request): (bool, bool),
        whole: Option<&Segment>,
    ) {
        match self.keep {
            Keep::None => return,
            Keep::First if self.count == PIECES_MAX => {
                self.dropped += 1;
                return;
            }
            Keep::Newest if self.count >= PIECES_MAX => {
                self.forget_the_older();
                // Of times that go back nothing is older.
                if self.count >= PIECES_MAX {
                    self.dropped += self.count as u64;
                    self.of.clear();
                    self.count = 0;
                }
            }
            Keep::First | Keep::Newest => {}
        }
        self.count += 1;
        let piece = Piece {
            is_rare,
            is_in_request,
            ..piece(segment, judged)
        };
        let of = self.of.entry(tid).or_default();
        if let Some(whole) = whole.filter(|_| matches!(judged, Judged::Part(_))) {
            one_wait(of, &piece, whole.start_ns);
        }
        of.push(piece);
    }

    /// Half of the time, and half of the rest, until there is room.
    fn forget_the_older(&mut self) {
        let starts = self.of.values().filter_map(|of| of.first());
        let oldest_ns = starts.map(|piece| piece.start_ns).min().unwrap_or(0);
        let ends = self.of.values().filter_map(|of| of.last());
        let newest_ns = ends.map(|piece| piece.end_ns).max().unwrap_or(0);
        self.from_ns = self.from_ns.max(oldest_ns);
        while self.count > PIECES_MAX * 3 / 4 && self.from_ns < newest_ns {
            self.from_ns += (newest_ns - self.from_ns).div_ceil(2);
            for of in self.of.values_mut() {
                let old = of.partition_point(|piece| piece.end_ns <= self.from_ns);
                of.drain(..old);
                self.count -= old;
            }
        }
        self.of.retain(|_, of| !of.is_empty());
    }
}

/// The parts of a wait are in what its last one is in.
fn one_wait(of: &mut [Piece], last: &Piece, since_ns: u64) {
    let parts = of.iter_mut().rev();
    let parts = parts.take_while(|part| part.start_ns >= since_ns);
    for part in parts.filter(|part| part.label == Label::Idle) {
        *part = Piece {
            start_ns: part.start_ns,
            end_ns: part.end_ns,
            ..*last
        };
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
        is_rare: false,
        is_in_request: false,
        is_for_one: wait.is_some_and(|wait| wait.one_client),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cause::{Leaf, Part};
    use super::super::event::Wait;
    use super::super::walk::LeafKind;
    use super::*;

    fn kept(keep: Keep) -> Pieces {
        let mut pieces = Pieces {
            keep,
            ..Pieces::default()
        };
        for at in 0..PIECES_MAX as u64 * 2 {
            let segment = Segment {
                start_ns: at * 10,
                end_ns: at * 10 + 10,
                state: State::Running,
            };
            pieces.keep(1 + at % 3, &segment, &Judged::OnCpu, (false, false), None);
        }
        pieces
    }

    #[test]
    fn memory_is_bounded_whichever_are_kept() {
        let first = kept(Keep::First);
        assert_eq!(first.dropped, PIECES_MAX as u64);
        assert_eq!(first.of[&1][0].start_ns, 0);
        let newest = kept(Keep::Newest);
        let count: usize = newest.of.values().map(Vec::len).sum();
        assert!((PIECES_MAX / 4..=PIECES_MAX).contains(&count), "{count}");
        let last = newest.of.values().filter_map(|of| of.last());
        let last_ns = last.map(|piece| piece.end_ns).max();
        assert_eq!(last_ns, Some(PIECES_MAX as u64 * 20));
        let first = newest.of.values().map(|of| of[0].end_ns).min().unwrap();
        assert!(first > newest.from_ns && newest.from_ns > 0);
        assert!(kept(Keep::None).of.is_empty());
    }

    #[test]
    fn a_wait_that_is_broken_off_and_taken_up_again_is_one() {
        let wait = Wait::of(WaitKind::Queue, 0);
        let blocked = |start_ns, end_ns| Segment {
            start_ns,
            end_ns,
            state: State::Blocked {
                wait,
                by: None,
                release: 0,
            },
        };
        let idle = Judged::Idle {
            timed: true,
            behind: false,
        };
        let held = Judged::Part(Part {
            start_ns: 10,
            end_ns: 20,
            cause: Cause::Lock,
            waited_for: WaitKind::Queue,
            object: 0,
            leaf: Leaf::of(2, LeafKind::OnCpu),
            hops: Vec::new(),
            waiter_stack: 0,
            inferred: false,
        });
        let mut pieces = Pieces {
            keep: Keep::Newest,
            ..Pieces::default()
        };
        let ran = Segment {
            start_ns: 15,
            end_ns: 16,
            state: State::Running,
        };
        pieces.keep(1, &blocked(0, 10), &idle, (false, false), None);
        pieces.keep(1, &blocked(10, 15), &idle, (false, false), None);
        pieces.keep(1, &ran, &Judged::OnCpu, (false, false), None);
        pieces.keep(
            1,
            &blocked(16, 20),
            &held,
            (false, false),
            Some(&blocked(10, 20)),
        );
        let labels: Vec<Label> = pieces.of[&1].iter().map(|piece| piece.label).collect();
        let lock = Label::Held(Cause::Lock);
        assert_eq!(labels, [Label::Idle, lock, Label::OnCpu, lock]);
        assert_eq!(
            (pieces.of[&1][1].start_ns, pieces.of[&1][1].end_ns),
            (10, 15)
        );
    }

    /// As a recording that was made up may have them.
    #[test]
    fn pieces_that_go_back_in_time_are_bounded_too() {
        let mut pieces = Pieces {
            keep: Keep::Newest,
            ..Pieces::default()
        };
        for at in (0..PIECES_MAX as u64 * 2).rev() {
            let segment = Segment {
                start_ns: at,
                end_ns: at + 1,
                state: State::Running,
            };
            pieces.keep(1, &segment, &Judged::OnCpu, (false, false), None);
        }
        assert!(pieces.of.values().map(Vec::len).sum::<usize>() <= PIECES_MAX);
    }
}

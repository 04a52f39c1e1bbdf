//! The stalls of what one fix would end, and what of a request they take.

use std::collections::{HashMap, HashSet};

use crate::cause::Cause;
use crate::event::{TextId, Tid};
use crate::finding::Member;
use crate::pieces::{Label, Piece, Pieces};
use crate::recurrence::joined;
use crate::request::Request;

/// From when to when, nanoseconds; sorted, and none overlaps with another.
type Stretches = Vec<(u64, u64)>;

/// The waits that the stalls are made of.
#[derive(Default)]
pub(super) struct Row {
    /// By thread: all, and those that end whatever the fix is.
    all: HashMap<Tid, Stretches>,
    least: HashMap<Tid, Stretches>,
    /// By culprit, while others waited for it.
    held: HashMap<Tid, Stretches>,
    /// Of all threads together.
    stalled: Stretches,
    /// Who was waited for, and what was done meanwhile.
    culprits: HashSet<(Cause, Tid)>,
    activities: HashSet<(Cause, TextId)>,
}

impl Row {
    pub(super) fn of(members: &[Member], pieces: &Pieces) -> Row {
        let mut row = Row::default();
        // Where some wait for a lock, a fix may leave what is done under it to the thread that does it.
        let locks = members.iter().any(|member| member.cause == Cause::Lock);
        for member in members {
            let ends_anyway = !locks || member.cause == Cause::Lock;
            for piece in waits_of(member, pieces) {
                row.add(member, piece, ends_anyway);
            }
        }
        for of in [&mut row.all, &mut row.least, &mut row.held] {
            of.values_mut()
                .for_each(|own| *own = joined(own.drain(..), 0));
        }
        row.stalled = joined(row.stalled, 0);
        row
    }

    fn add(&mut self, member: &Member, piece: &Piece, ends_anyway: bool) {
        let stretch = (piece.start_ns, piece.end_ns);
        self.all.entry(member.tid).or_default().push(stretch);
        self.stalled.push(stretch);
        if ends_anyway {
            self.least.entry(member.tid).or_default().push(stretch);
        }
        if member.culprit != member.tid {
            self.held.entry(member.culprit).or_default().push(stretch);
        }
        self.culprits.insert((member.cause, piece.culprit));
        self.activities.insert((member.cause, piece.activity));
    }

    /// At least and at most what it takes of a request that `tid` served, in these pieces; nanoseconds.
    pub(super) fn takes(
        &self,
        request: &Request,
        tid: Option<Tid>,
        pieces: &[Piece],
    ) -> (u64, u64) {
        let span = (request.start_ns, request.end_ns);
        let Some(tid) = tid else {
            return (0, within(&self.stalled, span));
        };
        let of = |threads: &HashMap<Tid, Stretches>| -> Stretches {
            let own = threads.get(&tid).map_or(&[][..], Vec::as_slice);
            parts(own, span).collect()
        };
        let mut most = of(&self.all);
        most.extend(of(&self.held));
        let alike = pieces.iter().filter(|piece| self.is_alike(piece));
        most.extend(alike.filter_map(|piece| clipped(piece, span)));
        if request.tid.is_none() {
            let outside = not_at_work(pieces, span).into_iter();
            most.extend(outside.flat_map(|gap| parts(&self.stalled, gap)));
        }
        let sum = |of: &[(u64, u64)]| of.iter().map(|(start, end)| end - start).sum();
        (sum(&of(&self.least)), sum(&joined(most, 0)))
    }

    /// A wait for the same, too short for a stall.
    fn is_alike(&self, piece: &Piece) -> bool {
        let Label::Held(cause) = piece.label else {
            return false;
        };
        let same_culprit = piece.culprit != 0 && self.culprits.contains(&(cause, piece.culprit));
        let same_activity =
            piece.activity != 0 && self.activities.contains(&(cause, piece.activity));
        same_culprit || same_activity
    }
}

/// Of the stall's thread, while it was stalled, what was for the stall's cause.
fn waits_of<'a>(member: &'a Member, pieces: &'a Pieces) -> impl Iterator<Item = &'a Piece> {
    let of = pieces.of.get(&member.tid).map_or(&[][..], Vec::as_slice);
    let first = of.partition_point(|piece| piece.start_ns < member.start_ns);
    let inside = of[first..]
        .iter()
        .take_while(|piece| piece.end_ns <= member.end_ns);
    inside.filter(|piece| match piece.label {
        Label::Held(cause) => member.cause == cause,
        Label::OnCpu => member.on_cpu,
        Label::Idle => false,
    })
}

fn clipped(piece: &Piece, (from_ns, to_ns): (u64, u64)) -> Option<(u64, u64)> {
    let (start, end) = (piece.start_ns.max(from_ns), piece.end_ns.min(to_ns));
    (start < end).then_some((start, end))
}

/// Of stretches that are sorted and do not overlap, what lies in the span.
fn parts(of: &[(u64, u64)], (from_ns, to_ns): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
    let first = of.partition_point(|(_, end)| *end <= from_ns);
    let inside = of[first..]
        .iter()
        .take_while(move |(start, _)| *start < to_ns);
    inside.map(move |(start, end)| ((*start).max(from_ns), (*end).min(to_ns)))
}

fn within(of: &[(u64, u64)], span: (u64, u64)) -> u64 {
    parts(of, span).map(|(start, end)| end - start).sum()
}

/// The stretches of the span in which the thread was idle, or not seen.
fn not_at_work(pieces: &[Piece], span: (u64, u64)) -> Vec<(u64, u64)> {
    let busy = pieces.iter().filter(|piece| piece.label != Label::Idle);
    let mut gaps = Vec::new();
    let mut from_ns = span.0;
    for (start, end) in busy.filter_map(|piece| clipped(piece, span)) {
        if start > from_ns {
            gaps.push((from_ns, start));
        }
        from_ns = from_ns.max(end);
    }
    if from_ns < span.1 {
        gaps.push((from_ns, span.1));
    }
    gaps
}

//! The stalls of one finding, and what of a request they take.

use std::collections::{HashMap, HashSet};

use crate::cause::Cause;
use crate::event::Tid;
use crate::finding::Member;
use crate::pieces::{Label, Piece};
use crate::recurrence::joined;
use crate::request::Request;

/// A finding's stalls, by thread.
pub(super) struct Row {
    of: HashMap<Tid, Vec<Member>>,
    /// What each culprit did while others waited for it, as stretches that do not overlap.
    held: HashMap<Tid, Vec<(u64, u64)>>,
    /// All of them, as stretches that do not overlap.
    stalled: Vec<(u64, u64)>,
    causes: HashSet<Cause>,
}

impl Row {
    pub(super) fn of(members: &[Member]) -> Row {
        let mut of: HashMap<Tid, Vec<Member>> = HashMap::new();
        let mut held: HashMap<Tid, Vec<(u64, u64)>> = HashMap::new();
        for member in members {
            of.entry(member.tid).or_default().push(*member);
            let span = (member.start_ns, member.end_ns);
            if member.culprit != member.tid {
                held.entry(member.culprit).or_default().push(span);
            }
        }
        of.values_mut()
            .for_each(|all| all.sort_by_key(|m| m.start_ns));
        let merged = |(tid, spans): (Tid, Vec<(u64, u64)>)| (tid, joined(spans, 0));
        Row {
            of,
            held: held.into_iter().map(merged).collect(),
            stalled: joined(members.iter().map(|m| (m.start_ns, m.end_ns)), 0),
            causes: members.iter().map(|m| m.cause).collect(),
        }
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
        let sum = |of: &[(u64, u64)]| of.iter().map(|(start, end)| end - start).sum();
        let (mut least, mut most) = (Vec::new(), Vec::new());
        for piece in pieces {
            let member = self.member(tid, piece);
            let ends_anyway = member.is_some_and(|member| self.ends_anyway(member));
            least.extend(clipped(piece, span).filter(|_| ends_anyway));
            let may_end = member.is_some() || self.is_alike(piece);
            most.extend(clipped(piece, span).filter(|_| may_end));
        }
        most.extend(parts(
            self.held.get(&tid).map_or(&[][..], Vec::as_slice),
            span,
        ));
        if request.tid.is_none() {
            let outside = not_at_work(pieces, span);
            most.extend(
                outside
                    .into_iter()
                    .flat_map(|gap| parts(&self.stalled, gap)),
            );
        }
        (sum(&joined(least, 0)), sum(&joined(most, 0)))
    }

    /// The stall that the piece is part of.
    fn member(&self, tid: Tid, piece: &Piece) -> Option<&Member> {
        let members = self.of.get(&tid)?;
        let until = members.partition_point(|m| m.start_ns <= piece.start_ns);
        let mut near = members[..until].iter().rev().take(NEAR);
        near.find(|member| {
            let label = match piece.label {
                Label::Held(cause) => member.cause == cause,
                Label::OnCpu => member.on_cpu,
                Label::Idle => false,
            };
            label && piece.end_ns <= member.end_ns
        })
    }

    /// Where some wait for a lock, a fix may leave what is done under it to whoever does it.
    fn ends_anyway(&self, member: &Member) -> bool {
        !self.causes.contains(&Cause::Lock) || member.cause == Cause::Lock
    }

    /// A wait of the same cause, a stall or not.
    fn is_alike(&self, piece: &Piece) -> bool {
        matches!(piece.label, Label::Held(cause) if self.causes.contains(&cause))
    }
}

/// Stalls of one thread and row overlap at most so many deep: one for each lock of a busy period.
const NEAR: usize = 8;

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

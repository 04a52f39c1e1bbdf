//! What slow requests were with: whatever else a thread seems to be, somebody waits for it then.

use std::collections::HashSet;

use super::event::Tid;
use super::pieces::Label;
use super::stalled::Stall;
use super::walk::LeafKind;

/// Threads, and what they were in while slow requests were with them.
#[derive(Debug, Default, Clone)]
pub struct Felt {
    with: HashSet<(Tid, Label)>,
}

impl Felt {
    pub fn of(with: impl IntoIterator<Item = (Tid, Label)>) -> Felt {
        Felt {
            with: with.into_iter().collect(),
        }
    }

    /// Slow requests were with the stall's thread in what it was in.
    pub fn by(&self, stall: &Stall) -> bool {
        let label = match stall.leaf.kind {
            LeafKind::OnCpu if stall.leaf.tid == stall.tid => Label::OnCpu,
            _ => Label::Held(stall.cause),
        };
        self.with.contains(&(stall.tid, label))
    }
}

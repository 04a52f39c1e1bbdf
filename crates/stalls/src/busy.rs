//! Busy periods: from leaving an idle wait to returning to one. The unit of a stall is not the
//! single wait: many short ones within a request add up.

use super::cause::{Cause, Judged, Part};
use super::event::Tid;
use super::walk::LeafKind;

/// Parts kept of one busy period; past it the shortest are merged away, and their time stays.
const PARTS_MAX: usize = 20_000;
/// A thread that never idles is looked at in stretches of this length.
pub const ENDLESS_NS: u64 = 2_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Busy {
    pub tid: Tid,
    pub start_ns: u64,
    pub end_ns: u64,
    pub on_cpu_ns: u64,
    pub parts: Vec<Part>,
    /// It lasts still.
    pub open: bool,
    /// It began with the thread, or before anybody watched.
    pub first: bool,
    /// Cut off for its length, not at an idle wait.
    pub endless: bool,
}

/// Cuts one thread's judged segments.
#[derive(Debug)]
pub struct Cutter {
    busy: Option<Busy>,
    tid: Tid,
    idled: bool,
    /// Wakes are seen, and where a wait ended is known.
    wakes_seen: bool,
}

impl Cutter {
    pub fn new(tid: Tid, wakes_seen: bool) -> Cutter {
        Cutter {
            busy: None,
            tid,
            idled: false,
            wakes_seen,
        }
    }

    /// Takes the next segment; gives the busy period that it ends.
    pub fn push(&mut self, start_ns: u64, end_ns: u64, judged: Judged) -> Option<Busy> {
        if let Judged::Idle { .. } = judged {
            self.idled = true;
            return self.busy.take();
        }
        let too_long = |busy: &Busy| start_ns.saturating_sub(busy.start_ns) > ENDLESS_NS;
        let cut = self.busy.take_if(|busy| too_long(busy)).map(|busy| Busy {
            endless: true,
            ..busy
        });
        let first = !self.idled && cut.is_none();
        let busy = self.busy.get_or_insert_with(|| Busy {
            tid: self.tid,
            start_ns,
            end_ns,
            on_cpu_ns: 0,
            parts: Vec::new(),
            open: false,
            first,
            endless: cut.is_some(),
        });
        busy.end_ns = end_ns;
        match judged {
            Judged::OnCpu => busy.on_cpu_ns += end_ns.saturating_sub(start_ns),
            Judged::Part(part) if self.wakes_seen && is_tail(busy.parts.last(), &part) => {
                lengthen(&mut busy.parts, &part)
            }
            Judged::Part(part) if busy.parts.len() < PARTS_MAX => busy.parts.push(part),
            Judged::Part(part) => widen(&mut busy.parts, &part),
            Judged::Idle { .. } => {}
        }
        cut
    }

    /// The thread ended, and with it its last busy period: of one that never idled, all of its life.
    pub fn end(&mut self) -> Option<Busy> {
        self.busy.take()
    }

    pub fn started_ns(&self) -> Option<u64> {
        self.busy.as_ref().map(|busy| busy.start_ns)
    }

    /// The busy period that lasts still.
    pub fn open(&self) -> Option<Busy> {
        self.busy.clone().map(|busy| Busy { open: true, ..busy })
    }
}

/// The way from being woken to a CPU belongs to the wait before it, as long as that was longer: until then nothing
/// went on.
fn is_tail(before: Option<&Part>, part: &Part) -> bool {
    let wanted = |part: &Part| part.leaf.kind == LeafKind::Runnable;
    let own = |of: &Part| of.cause != Cause::CpuStarvation && !wanted(of);
    part.cause == Cause::CpuStarvation
        && wanted(part)
        && before.is_some_and(|of| own(of) && of.end_ns == part.start_ns && of.ns() > part.ns())
}

fn lengthen(parts: &mut [Part], part: &Part) {
    if let Some(last) = parts.last_mut() {
        last.end_ns = part.end_ns;
    }
}

/// Past the limit, time is added to the newest part of the same cause.
fn widen(parts: &mut [Part], part: &Part) {
    if let Some(last) = parts.iter_mut().rev().find(|p| p.cause == part.cause) {
        last.end_ns += part.ns();
    }
}

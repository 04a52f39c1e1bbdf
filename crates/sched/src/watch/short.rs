//! Short absences: with too many of them, those that no stall can be made of are left out; as root by the kernel
//! ([`super::super::ebpf`]), else here.

use std::mem::take;

use super::super::pace::OF_DEVICES_NS;
use super::Watch;
use super::threads::Known;
use crate::event::{WaitKind, What};
use observe::table::Table;

/// A thread that was away for more than this part of a stretch did not run all of it.
pub(super) const AWAY_PART: u64 = 5;

/// A switch record of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Switch {
    pub at_ns: u64,
    pub tid: u32,
    /// On leaving: whether it was taken off its CPU.
    pub out: Option<bool>,
    /// On leaving: how long it was away since it came, in absences that were left out.
    pub away_ns: u64,
}

/// One thread's absences while its records are read.
#[derive(Debug, Default)]
struct Absences {
    limit_ns: u64,
    /// The record of its leaving, until it comes back.
    left: Option<usize>,
    /// Of those left out since the last one that was not.
    away_ns: u64,
}

impl Known {
    /// Absences below this are left out. Many waits for a device of 100 us each are a stall: only of a thread that was
    /// seen to wait for something else as much may go as `all_ns`.
    pub fn limit_ns(&self, all_ns: u64) -> u64 {
        match self.waits_for {
            Some(kind) if is_no_device(kind) => all_ns,
            _ => all_ns.min(OF_DEVICES_NS),
        }
    }
}

fn is_no_device(kind: WaitKind) -> bool {
    use WaitKind::{Disk, Fault, Memory, Unknown};
    !matches!(kind, Disk | Fault | Memory | Unknown)
}

impl Watch {
    /// `switches`, sorted by time, without the short absences in them.
    pub(super) fn without_short(&mut self, mut switches: Vec<Switch>) -> Vec<Switch> {
        let all_ns = self.pace.limit_ns();
        if all_ns == 0 {
            return switches;
        }
        let mut threads: Table<u32, Absences> = Table::default();
        leave_out(&mut switches, &mut threads, |tid| {
            let known = self.threads.at(tid);
            Absences {
                limit_ns: known.limit_ns(all_ns),
                left: None,
                away_ns: known.away_ns,
            }
        });
        for (tid, thread) in threads {
            self.threads.at(tid).away_ns = thread.away_ns;
        }
        switches
    }

    /// Of a thread that leaves at `at_ns`, and was away for `short_ns` since it came, in absences that were left out:
    /// with many of them it did not run all the time.
    pub(super) fn was_away(&mut self, at_ns: u64, tid: u32, short_ns: u64) {
        let known = self.threads.at(tid);
        let came_ns = known.came_ns;
        let ran = known.running_since_ns.is_some();
        if ran && short_ns * AWAY_PART > at_ns.saturating_sub(came_ns) {
            self.tell(came_ns + 1, tid, What::Unsure);
        }
    }
}

fn leave_out(
    switches: &mut Vec<Switch>,
    threads: &mut Table<u32, Absences>,
    mut begin: impl FnMut(u32) -> Absences,
) {
    let mut kept = vec![true; switches.len()];
    for at in 0..switches.len() {
        let Switch {
            at_ns, tid, out, ..
        } = switches[at];
        let thread = threads.entry(tid).or_insert_with(|| begin(tid));
        let left = take(&mut thread.left);
        if out.is_some() {
            thread.left = Some(at);
        } else if let Some(left) = left {
            let absence_ns = at_ns - switches[left].at_ns;
            if absence_ns < thread.limit_ns {
                (kept[left], kept[at]) = (false, false);
                thread.away_ns += absence_ns;
            } else {
                switches[left].away_ns = take(&mut thread.away_ns);
            }
        }
    }
    // Who has not come back yet: its leaving is told.
    for thread in threads.values_mut() {
        if let Some(left) = thread.left {
            switches[left].away_ns = take(&mut thread.away_ns);
        }
    }
    let mut kept = kept.into_iter();
    switches.retain(|_| kept.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(at_ns: u64, tid: u32, out: Option<bool>) -> Switch {
        Switch {
            at_ns,
            tid,
            out,
            away_ns: 0,
        }
    }

    fn left_out(switches: &[Switch], limit_ns: u64) -> (Vec<Switch>, u64) {
        let (mut kept, mut threads) = (switches.to_vec(), Table::default());
        leave_out(&mut kept, &mut threads, |_| Absences {
            limit_ns,
            ..Absences::default()
        });
        (kept, threads.values().map(|thread| thread.away_ns).sum())
    }

    #[test]
    fn short_absences_go_and_long_ones_stay() {
        let switches = [
            switch(100, 1, Some(false)),
            switch(110, 2, Some(true)),
            switch(130, 1, None),
            switch(140, 1, Some(false)),
            switch(400, 2, None),
        ];
        assert_eq!(left_out(&switches, 10), (switches.to_vec(), 0));
        let told = Switch {
            away_ns: 30,
            ..switches[3]
        };
        let kept = vec![switches[1], told, switches[4]];
        assert_eq!(left_out(&switches, 50), (kept, 0));
    }

    #[test]
    fn what_a_thread_was_away_is_told_with_the_next_leaving() {
        let switches = [
            switch(100, 1, Some(false)),
            switch(130, 1, None),
            switch(140, 1, Some(false)),
            switch(160, 1, None),
        ];
        assert_eq!(left_out(&switches, 50), (Vec::new(), 50));
    }

    #[test]
    fn more_is_left_out_of_a_thread_that_waits_for_no_device() {
        let waits_for = |kind| Known {
            waits_for: Some(kind),
            ..Known::default()
        };
        let all_ns = 160_000;
        assert_eq!(waits_for(WaitKind::Lock).limit_ns(all_ns), all_ns);
        for unsure in [waits_for(WaitKind::Disk), Known::default()] {
            assert_eq!(unsure.limit_ns(all_ns), OF_DEVICES_NS);
        }
        assert_eq!(waits_for(WaitKind::Lock).limit_ns(0), 0);
    }
}

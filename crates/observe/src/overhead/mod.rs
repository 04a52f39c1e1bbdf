//! What an observation adds to its subject, and what highwater takes itself: one value for `explain` and `stalls`.
//!
//! Every number says what it rests on: measured where it arises, or estimated from a count and what one event cost
//! when it was tried at the start.

pub mod bucket;
pub mod own;
pub mod pair;

use std::ops::AddAssign;
use std::time::Duration;

/// Share of the subject's CPU time (or of one core, where that is more) that observing it may take. An HTTP service
/// that allocates some hundred times a request loses 3.7 % to the probe (bench/results/2026-11-26-cost.md): at 2 % the
/// probe would switch itself off in the services that it is made for.
pub const BUDGET_SHARE: f64 = 0.05;

/// Most kernel memory that the observation of one process may take: rings, maps and programs of eBPF. The largest watch
/// takes 32 MiB of rings for samples, 9 of rings for switches and hits, and 8 for 32,768 threads.
pub const KERNEL_BYTES_MAX: u64 = 64 << 20;

/// What a number rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Measured where it arises.
    Measured,
    /// A count, times what one cost when it was tried at the start.
    Estimated,
    /// Measured of all processes together: the subject's part is less.
    AtMost,
}

impl Basis {
    pub fn word(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Estimated => "estimated",
            Basis::AtMost => "at most",
        }
    }
}

/// One way in which the subject lost CPU time.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// "counting", "samples", "uprobes", "scheduler programs".
    pub name: &'static str,
    pub cpu_s: f64,
    /// Of an estimate whose error is known: the least and the most that it stands for.
    pub cpu_s_between: Option<(f64, f64)>,
    pub basis: Basis,
    pub events: u64,
    /// What the events are: "calls of malloc and free", "hits", "runs".
    pub of: &'static str,
    /// How it is known.
    pub how: String,
}

impl Item {
    /// The least and the most that it stands for. Of an upper bound the least is nothing.
    pub fn between_s(&self) -> (f64, f64) {
        let least_s = match self.basis {
            Basis::AtMost => 0.0,
            _ => self.cpu_s,
        };
        self.cpu_s_between.unwrap_or((least_s, self.cpu_s))
    }
}

/// Why a mechanism stopped before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    OverBudget,
    /// Somebody ended a process of highwater's that held breakpoints.
    HoldersEnded,
}

/// The observation, or one mechanism of it, that ended early.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    pub mechanism: &'static str,
    pub cause: StopCause,
    pub after_s: f64,
    /// Of the subject's CPU time, or of a core, up to then.
    pub cost_share: f64,
    /// The name of the item that is most of it.
    pub mostly: &'static str,
}

/// How often something was done, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

impl Times {
    /// It was done once, and took this time.
    pub fn of(time: Duration) -> Times {
        let mut times = Times::default();
        times.add(time.as_nanos() as u64);
        times
    }

    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, more: Times) {
        self.count += more.count;
        self.total_ns += more.total_ns;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overhead {
    pub observed_s: f64,
    /// CPU time of the subject meanwhile, with what was added to it.
    pub subject_cpu_s: f64,
    pub items: Vec<Item>,
    /// Resident in the subject: the probe's mapping and library.
    pub subject_bytes: u64,
    /// Most that its mapping may take; none where nothing of ours is in the subject.
    pub subject_bytes_max: Option<u64>,
    /// What else ran in the subject or trapped it, whose cost nobody measured.
    pub unmeasured: Vec<&'static str>,
    /// Kernel memory: eBPF maps and programs, rings of events.
    pub kernel_bytes: u64,
    /// Instructions of the subject that were breakpoints; all are restored when their descriptors close.
    pub breakpoints: u64,
    /// Readings of its memory map: while the kernel walks it, an mmap of the process may wait.
    pub map_readings: Times,
    /// Calls that put breakpoints into it or took them out: in a part of each, an mmap, a page fault or a fork may
    /// wait.
    pub breakpoint_changes: Times,
    /// Its runtime stopped it for what it was asked (`--allow-pause`).
    pub pauses: Times,
    pub own_cpu_s: f64,
    pub own_rss_peak_bytes: u64,
    pub budget_share: f64,
    /// In the order in which they stopped.
    pub stopped: Vec<Stopped>,
}

impl Overhead {
    /// CPU time added to the subject, seconds.
    pub fn added_s(&self) -> f64 {
        // `sum` of nothing is -0.0.
        self.items
            .iter()
            .map(|item| item.cpu_s)
            .fold(0.0, |sum, cpu_s| sum + cpu_s)
    }

    /// The least and the most that it stands for; the same where no item has an interval.
    pub fn added_between_s(&self) -> (f64, f64) {
        let all = self.items.iter().map(Item::between_s);
        all.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// The item that costs most.
    pub fn dearest(&self) -> &'static str {
        let dearest = self.items.iter().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
        dearest.map_or("", |item| item.name)
    }

    /// The weakest basis among the items.
    pub fn basis(&self) -> Basis {
        let is = |basis: Basis| self.items.iter().any(|item| item.basis == basis);
        match (is(Basis::AtMost), is(Basis::Estimated)) {
            (true, _) => Basis::AtMost,
            (_, true) => Basis::Estimated,
            _ => Basis::Measured,
        }
    }

    /// Added, of all that the subject used.
    pub fn added_share(&self) -> f64 {
        self.added_s() / self.subject_cpu_s.max(1e-2)
    }
}

/// What a cost is held against, as a share: the subject's own CPU time, or one core, where that is more.
pub fn share_of(cost_s: f64, own_s: f64, over_s: f64) -> f64 {
    cost_s / own_s.max(over_s).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weakest_basis_speaks_for_the_sum() {
        let item = |basis, cpu_s| Item {
            name: "samples",
            cpu_s,
            cpu_s_between: None,
            basis,
            events: 1,
            of: "runs",
            how: String::new(),
        };
        let mut overhead = Overhead {
            subject_cpu_s: 1.0,
            items: vec![item(Basis::Measured, 0.2), item(Basis::Estimated, 0.3)],
            ..Overhead::default()
        };
        assert_eq!(overhead.basis(), Basis::Estimated);
        assert!((overhead.added_s() - 0.5).abs() < 1e-9);
        assert!((overhead.added_share() - 0.5).abs() < 1e-9);
        overhead.items.push(item(Basis::AtMost, 0.0));
        assert_eq!(overhead.basis(), Basis::AtMost);
        let nothing = Overhead::default();
        assert_eq!(nothing.basis(), Basis::Measured);
        assert!(nothing.added_s().is_sign_positive(), "printed as -0.00 %");
    }

    #[test]
    fn an_idle_subject_is_held_against_one_core() {
        assert!((share_of(0.01, 0.0, 1.0) - 0.01).abs() < 1e-9);
        assert!((share_of(0.01, 4.0, 1.0) - 0.0025).abs() < 1e-9);
    }
}

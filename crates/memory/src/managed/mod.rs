//! What grows inside a managed heap (types, allocation sites, tasks), by the snapshots of a [`runtimes::ManagedHeap`].
//!
//! In: snapshots with their times. Out: one [`ManagedGrowth`]. A quantity grows when every value of the last third of
//! the snapshots is above every value of the first third, and it still rises: of `n` exchangeable values the former
//! happens by chance in 1 of C(2n/3, n/3) cases, 1 in 20 with nine snapshots and 1 in 252 with fifteen.

mod history;

pub use history::HeapHistory;

use runtimes::{Frame, HeapSize, Holder, Language, RootCount, TaskGroup};

/// Rows of each kind that are kept, the most bytes (or tasks) first.
const ROWS_MAX: usize = 50;

/// What grows inside one managed heap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManagedGrowth {
    /// With its version: "CPython 3.11.2".
    pub runtime: String,
    pub language: Language,
    pub snapshots: usize,
    /// From the first snapshot to the last, seconds.
    pub over_s: f64,
    /// All objects, whether or not their type grows. `None`: types are not known.
    pub objects: Option<Rise>,
    /// Objects in use by the runtime's own count, dead ones that are not collected yet included.
    pub used: Option<Rise>,
    /// The same in snapshots that a full collection came just before.
    pub live: Option<Rise>,
    /// Collections between the first snapshot and the last; `None`: the runtime does not count them.
    pub collections: Option<u64>,
    /// What the runtime has from the system for the objects.
    pub committed: Option<Rise>,
    /// Other memory of the runtime's own that grows (class metadata, compiled code), the largest growth first.
    pub parts: Vec<PartGrowth>,
    /// Types, sites and tasks that grow, the largest growth first.
    pub types: Vec<TypeGrowth>,
    pub sites: Vec<SiteGrowth>,
    pub roots: Vec<RootGrowth>,
    pub tasks: Vec<TaskGrowth>,
    /// As the runtime counts it, in the last snapshot.
    pub heap: Option<HeapSize>,
    pub holders: Vec<Holder>,
    /// The last snapshot is not whole: its sums are too low.
    pub is_partial: bool,
    /// What limits the snapshots, a sentence each.
    pub missing: Vec<String>,
    /// All snapshots together, seconds: of highwater's own time, and of the time that the process was stopped.
    pub reading_s: f64,
    pub paused_s: f64,
    /// Resident memory that the process took because it was read, and keeps.
    pub memory_bytes: u64,
    /// CPU time of the process while it was asked, its own work meanwhile included, seconds.
    pub cpu_s: f64,
}

/// How a quantity moved between the first third of the snapshots and the last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rise {
    /// Median of the last third.
    pub level: f64,
    /// Level less the median of the first third.
    pub grown: f64,
    pub per_hour: f64,
    /// Every value of the last third is above every value of the first, and it still rises.
    pub is_clear: bool,
    /// Snapshots that it is from.
    pub values: usize,
}

/// A part of the runtime's own memory beside the objects ([`HeapSize::others`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartGrowth {
    pub name: String,
    pub bytes: Rise,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TypeGrowth {
    pub name: String,
    pub objects: Rise,
    pub bytes: Rise,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteGrowth {
    /// Innermost first.
    pub frames: Vec<Frame>,
    pub bytes: Rise,
    pub objects: f64,
}

/// What one variable holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RootGrowth {
    pub root: RootCount,
    pub objects: Rise,
    pub bytes: Rise,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskGrowth {
    pub group: TaskGroup,
    pub tasks: Rise,
    /// All tasks that were started at the same place, wherever they stand.
    pub of_creator: Rise,
}

impl ManagedGrowth {
    /// Bytes that clearly grew: of the types that grow, but no more than all objects did (one type may take the place
    /// of another); where no types are known, of the sites, or of the variables that hold them.
    pub fn grown_bytes(&self) -> f64 {
        let of_types: f64 = self.types.iter().map(|of| of.bytes.grown).sum();
        let of_sites: f64 = self.sites.iter().map(|of| of.bytes.grown).sum();
        match &self.objects {
            Some(objects) if objects.is_clear => of_types.min(objects.grown).max(0.0),
            Some(_) => 0.0,
            None => of_sites.max(self.roots.iter().map(|of| of.bytes.grown).sum()),
        }
    }

    /// The holder that keeps most objects of a type alive.
    pub fn holder_of(&self, type_name: &str) -> Option<&Holder> {
        let of_type = self
            .holders
            .iter()
            .filter(|holder| holder.type_name == type_name);
        of_type.max_by_key(|holder| holder.objects)
    }
}

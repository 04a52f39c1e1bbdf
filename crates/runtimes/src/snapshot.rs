//! What is in a managed heap at one moment.

use std::fmt;
use std::time::Duration;

pub use symbols::frame::Frame;

use crate::names::is_of_the_standard_library;

/// What is in a managed heap at one moment. Bytes are those of the objects alone unless a field says more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Objects by type, the most bytes first.
    pub types: Vec<TypeCount>,
    /// Live objects by the place that allocated them, the most bytes first.
    pub sites: Vec<SiteCount>,
    /// Sites count what was allocated after this snapshot: it has none.
    pub starts_sampling: bool,
    /// Objects by the variable that reaches them first, the most bytes first.
    pub roots: Vec<RootCount>,
    /// Goroutines or threads, grouped.
    pub tasks: Vec<TaskGroup>,
    pub heap: Option<HeapSize>,
    /// A limit ended the reading, or a part of the heap could not be read: sums are too low.
    pub is_partial: bool,
    /// What limits this snapshot, a sentence each: a limit that was met, a part of the heap that could not be read.
    pub missing: Vec<String>,
    pub cost: Cost,
}

/// All objects of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeCount {
    /// As users of the language write it, with its module or package: `orders.Order`, `java.util.HashMap$Node`.
    pub name: String,
    pub objects: u64,
    /// With the buffers that such an object owns alone (a list's items, a dict's table).
    pub bytes: u64,
}

/// Live objects of one allocation site. A sampling runtime's figures are scaled to all objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteCount {
    /// Innermost first.
    pub frames: Vec<Frame>,
    pub objects: f64,
    pub bytes: f64,
    /// Since the start of the process, freed ones too.
    pub allocated_bytes: f64,
}

/// The objects that one root (a global variable, a function's frames on the stacks) reaches before any other does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootCount {
    /// `main.store`, `main.bank.ledger` (a field), `stack of main.worker`, `the runtime`.
    pub name: String,
    /// Of the variable or field, where it is known: `map[string]*main.Profile`.
    pub type_name: Option<String>,
    pub objects: u64,
    pub bytes: u64,
}

impl RootCount {
    /// Name of the root that is the runtime's own variables.
    pub const RUNTIME: &str = "the runtime";
    const STACK: &str = "stack of ";

    /// Name of the root that is a function's frames.
    pub fn name_of_stack(function: &str) -> String {
        format!("{}{function}", RootCount::STACK)
    }

    /// The function whose frames it is.
    pub fn stack_of(&self) -> Option<&str> {
        self.name.strip_prefix(RootCount::STACK)
    }

    /// Neither of the runtime nor of the standard library.
    pub fn is_own(&self) -> bool {
        let name = self.stack_of().unwrap_or(&self.name);
        name != RootCount::RUNTIME && !is_of_the_standard_library(name, Some(".go"))
    }
}

/// With its type: `main.store (map[string]*main.Profile)`.
impl fmt::Display for RootCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.type_name
            .as_ref()
            .map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// Tasks (goroutines, threads) that stand at the same place and were started at the same place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskGroup {
    pub tasks: u64,
    /// What they wait for, in the runtime's words: `chan receive`; `None`: they run.
    pub waits_for: Option<String>,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// The function that started them.
    pub created_by: Option<Frame>,
    /// Of their stacks.
    pub bytes: u64,
}

/// Sizes of the heap as the runtime counts them, bytes. `None`: the runtime does not keep this figure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapSize {
    /// Live objects, and dead ones that were not collected yet.
    pub used_bytes: u64,
    /// Taken from the system.
    pub committed_bytes: Option<u64>,
    /// The most that it may take (`-Xmx`, GOMEMLIMIT).
    pub limit_bytes: Option<u64>,
    /// Free inside what is committed, and not given back.
    pub idle_bytes: Option<u64>,
    /// Other memory of the runtime's own, by name: metaspace, code cache, stacks.
    pub others: Vec<(String, u64)>,
    /// Collections since the start.
    pub collections: Option<u64>,
    /// A full collection came just before: nothing of the used bytes is dead.
    pub is_collected: bool,
}

impl HeapSize {
    /// Name of what the descriptions of classes take, in all ([`HeapSize::others`]).
    pub const METASPACE: &str = "metaspace used";
    const METASPACE_OF: &str = "metaspace of ";

    /// Name of what the classes of one type of class loader take.
    pub fn name_of_loader(loader: &str) -> String {
        format!("{}{loader}", HeapSize::METASPACE_OF)
    }

    /// The type of class loader whose classes such a part describes.
    pub fn loader_of(part: &str) -> Option<&str> {
        part.strip_prefix(HeapSize::METASPACE_OF)
    }
}

/// What keeps objects of a type alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// As in [`TypeCount::name`].
    pub type_name: String,
    /// From a root to the object, as a user would write it: `module orders`, `.CACHE (dict)`, `[…] (list)`.
    pub path: Vec<String>,
    /// Of the objects that were asked about, those held this way; and all of them.
    pub objects: u64,
    pub asked: u64,
    /// Functions that use the last named thing on the path (a module global, an attribute), with file and line:
    /// candidates for what fills it. Of Go those that call the first of them follow. For [`Kept::Native`] the native
    /// modules that do not come with the runtime.
    pub users: Vec<String>,
    /// Functions whose code names the type: candidates for what makes the objects. Not of types of the language.
    pub makers: Vec<String>,
    /// Type of the first object on the path that is of a kind that became more: what is filled holds these. `None`: not
    /// known.
    pub first_new: Option<String>,
    pub kept: Kept,
}

/// By what kind of reference objects are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The path leads to them.
    #[default]
    Path,
    /// Nothing in the managed heap refers to them, and they are not freed: native code holds a reference, or lost one.
    /// The path is a sentence.
    Native,
    /// They refer to each other alone, and the collector is off. The path is a sentence.
    Cycle,
    /// They refer to each other alone until the next collection. The path is a sentence.
    Garbage,
}

/// What a search for holders took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The process was stopped for so long.
    pub paused: Duration,
    /// Why holders are not known, a sentence.
    pub missing: Option<String>,
}

/// What a call took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of ours.
    pub reading: Duration,
    /// The process was stopped for so long; zero for what only reads.
    pub paused: Duration,
    /// Resident memory that the process took for it and keeps: a recording's buffers.
    pub memory_bytes: u64,
    /// CPU time of the process while it was asked, its own work meanwhile included.
    pub cpu: Duration,
}

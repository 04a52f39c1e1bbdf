//! Inside the heaps of managed runtimes: which types there are, what keeps them alive, which function allocated them.
//!
//! In: a pid. Out: for each runtime in the process a [`ManagedHeap`], which takes [`Snapshot`]s and finds [`Holder`]s.
//! Called by: `highwater explain`; `memory` compares the snapshots.
//!
//! ```text
//! open(pid) --> ManagedHeap -- snapshot --> Snapshot { types, sites, tasks, heap }   several in one observation
//!                           -- holders  --> Holder { path, users }                   once, for the types that grow
//! ```
//!
//! What a reader does to the process is part of its contract: see [`Touch`]. A reader of [`Touch::Reads`] only reads
//! memory (`/proc/PID/mem`), and the process never notices. What it reads may change at any moment, so every pointer is
//! checked before it is followed, and every walk has an end.

pub mod cpython;
mod error;
pub mod go;
pub mod jvm;
mod memory;
mod names;
pub mod node;
mod snapshot;

pub use error::Error;
pub use names::{Language, is_of_the_language, is_of_the_standard_library};
pub use snapshot::{
    Cost, Frame, HeapSize, Holder, Kept, RootCount, Search, SiteCount, Snapshot, TaskGroup,
    TypeCount,
};

use std::time::Duration;

/// What a reader does to the process that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Reads its memory from outside; the process goes on meanwhile.
    Reads,
    /// Asks the runtime, which stops the program for a while at each snapshot.
    Pauses,
}

/// Bounds of one call of a reader. A reader that meets one ends, and names it in [`Snapshot::missing`].
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of our own time.
    pub time: Duration,
    /// Of our own memory.
    pub bytes: usize,
    /// Of the time that the process may be stopped at once; zero: not at all.
    pub pause: Duration,
}

/// The heap of one runtime in one process.
pub trait ManagedHeap {
    /// With its version: "CPython 3.11.2".
    fn runtime(&self) -> &str;

    fn language(&self) -> Language;

    fn touch(&self) -> Touch;

    /// One sentence for the user, before the first snapshot, of what it will do to the process; `None` for
    /// [`Touch::Reads`].
    fn warning(&self) -> Option<String> {
        None
    }

    /// All that is in the heap now.
    ///
    /// # Errors
    /// The process is gone or may not be read, the runtime is of a version or build that is not known, or a pause would
    /// be longer than allowed.
    fn snapshot(&mut self, limits: &Limits) -> Result<Snapshot, Error>;

    /// What keeps objects of these types alive (names as in [`TypeCount::name`]), the largest group of each first.
    fn holders(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        let _ = (types, limits);
        Vec::new()
    }

    /// What the last call of [`ManagedHeap::holders`] did to the process, and why it found less than it could.
    fn last_search(&self) -> Search {
        Search::default()
    }

    /// Gives back what was opened in the process. An error names what stayed open.
    ///
    /// # Errors
    /// Something that was opened could not be closed.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Readers for the runtimes in a process; empty where there is none that is known. Opening only reads. An error names a
/// runtime that is there and cannot be read.
pub fn open(pid: u32) -> Vec<Result<Box<dyn ManagedHeap>, Error>> {
    fn boxed<H: ManagedHeap + 'static>(
        opened: Result<H, Error>,
    ) -> Result<Box<dyn ManagedHeap>, Error> {
        opened.map(|heap| Box::new(heap) as Box<dyn ManagedHeap>)
    }
    let opened = [
        cpython::open(pid).map(boxed),
        go::open(pid).map(boxed),
        jvm::open(pid).map(boxed),
        node::open(pid).map(boxed),
    ];
    opened.into_iter().flatten().collect()
}

//! Searches for pointers in the memory of the process.

use crate::kernel::{Searched, read_kernel_held};
use crate::smaps::Area;
use crate::{HeapReader, HeapSnapshot, glibc, graph, reach, slabs};

/// Of shared memory, what is searched for pointers.
const SHARED_BYTES_MAX: u64 = 512 << 20;

impl HeapReader {
    /// For each block (address, bytes): whether anything in writable memory points into it.
    pub fn find_referenced(
        &self,
        snapshot: &HeapSnapshot,
        blocks: &[(u64, u64)],
    ) -> Option<Vec<bool>> {
        let (memory, runs) = self.searched(snapshot)?;
        reach::find_referenced(&memory, &runs, blocks, &self.scan_time())
    }

    /// For each address, in ascending order: whether a word that is not aligned holds it.
    pub fn find_unaligned(&self, snapshot: &HeapSnapshot, addresses: &[u64]) -> Option<Vec<bool>> {
        let (memory, runs) = self.searched(snapshot)?;
        reach::find_unaligned(&memory, &runs, addresses, &self.scan_time())
    }

    /// The blocks of the heap, as far as they can be told, with their contents, to compare with some seconds later.
    pub fn survey(&self, snapshot: &HeapSnapshot) -> Option<graph::Survey> {
        let (memory, runs) = self.searched(snapshot)?;
        let scope = scope(&memory, runs, snapshot)?;
        graph::survey(&memory, scope, &self.scan_time())
    }

    /// Which of them the program can reach. `before`: a survey some seconds ago.
    pub fn find_reached(
        &self,
        snapshot: &HeapSnapshot,
        before: &graph::Survey,
    ) -> Option<graph::Reached> {
        let (memory, runs) = self.searched(snapshot)?;
        let scope = scope(&memory, runs, snapshot)?;
        graph::reached(&memory, scope, before, &self.scan_time())
    }

    fn scan_time(&self) -> reach::ScanTime {
        reach::ScanTime::begin(self.search_until)
    }

    /// Whatever may hold a pointer: the runs of memory that was written, and what the kernel holds.
    fn searched(&self, snapshot: &HeapSnapshot) -> Option<(Searched, Vec<(u64, u64)>)> {
        let memory = Searched::new(self.open_memory()?, &read_kernel_held(&self.path));
        let mut runs = self.writable_runs(snapshot);
        runs.extend(memory.run());
        Some((memory, runs))
    }

    /// Present pages of memory that was written, the probe's own left out. Much that is shared belongs to several
    /// processes, each of which has it elsewhere: no pointers in it.
    fn writable_runs(&self, snapshot: &HeapSnapshot) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        let shared = |area: &&Area| area.shared && area.writable;
        let shared_bytes: u64 = snapshot
            .areas
            .iter()
            .filter(shared)
            .map(|a| a.rss_bytes)
            .sum();
        let is_written = |area: &&Area| match area.shared {
            true => area.writable && area.rss_bytes > 0 && shared_bytes <= SHARED_BYTES_MAX,
            // It may have been made read-only since.
            false => area.readable && area.anonymous_bytes > 0,
        };
        for area in snapshot.areas.iter().filter(is_written) {
            let own = snapshot
                .probe
                .as_ref()
                .is_some_and(|p| p.own.iter().any(|own| (own.0..own.1).contains(&area.start)));
            match snapshot.present.get(&area.start) {
                _ if own || area.name.contains("libhighwater_probe") => {}
                Some(bits) => runs.extend(without_probe(bits.runs(), snapshot)),
                None => runs.extend(self.present_runs(area)),
            }
        }
        runs
    }
}

/// The blocks of all heaps, and where to look for pointers to them.
fn scope(
    memory: &Searched,
    runs: Vec<(u64, u64)>,
    snapshot: &HeapSnapshot,
) -> Option<graph::Scope> {
    let listed = glibc::list(memory, &snapshot.areas, &snapshot.present);
    let (walk, chunks) = listed.unwrap_or_default();
    let samples = snapshot
        .probe
        .as_ref()
        .map_or(&[][..], |probe| &probe.blocks);
    let is_listed = |at: u64| {
        walk.spans
            .iter()
            .any(|span| span.start <= at && at < span.end)
    };
    let others = slabs::blocks(samples, is_listed);
    (!chunks.is_empty() || !others.is_empty())
        .then(|| graph::Scope::new(runs, &walk, chunks, others))
}

/// Runs less the probe's own memory, whose table of samples points to every block.
fn without_probe(mut runs: Vec<(u64, u64)>, snapshot: &HeapSnapshot) -> Vec<(u64, u64)> {
    for own in snapshot.probe.iter().flat_map(|probe| &probe.own) {
        let around = |(from, to): (u64, u64)| [(from, to.min(own.0)), (from.max(own.1), to)];
        runs = runs
            .into_iter()
            .flat_map(around)
            .filter(|(from, to)| from < to)
            .collect();
    }
    runs
}

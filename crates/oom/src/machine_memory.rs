//! What the machine's memory was made of: the lines from "Mem-Info:" on, of mm/show_mem.c (mm/page_alloc.c before 6.6).

use std::collections::BTreeMap;

use crate::kill::{MachineMemory, Zone};
use crate::message::{kilobytes, leading};

/// Zones: five or so of each node.
const ZONES_MAX: usize = 128;
const SLAB_CACHES_MAX: usize = 8;
/// Counters in pages: 25 on Linux 7.2.
const COUNTERS_MAX: usize = 128;

#[derive(Debug, Default)]
pub struct MachineReader {
    memory: MachineMemory,
    /// Of the whole machine, in pages.
    pages: BTreeMap<String, u64>,
    ram_pages: Option<u64>,
    reserved_pages: u64,
    is_in_slab: bool,
}

impl MachineReader {
    /// Takes a line; `None` where it says nothing of memory.
    pub fn take(&mut self, text: &str) -> Option<()> {
        if text == "Unreclaimable slab info:" {
            self.is_in_slab = true;
            return Some(());
        }
        if self.is_in_slab && self.slab(text).is_some() {
            return Some(());
        }
        if let Some((_, rest)) = text
            .strip_prefix("Node ")
            .and_then(|node| node.split_once(' '))
        {
            self.node(text, rest);
            return Some(());
        }
        self.total(text).or_else(|| self.counters(text))
    }

    /// `dentry  52KB  52KB`: name, used, total.
    fn slab(&mut self, text: &str) -> Option<()> {
        let mut parts = text.split_whitespace();
        let (name, _, total) = (parts.next()?, parts.next()?, parts.next()?);
        let kb = total.strip_suffix("KB")?.parse::<u64>().ok()?;
        let caches = &mut self.memory.slab_caches;
        caches.push((name.to_owned(), kb.saturating_mul(1024)));
        caches.sort_by_key(|cache| std::cmp::Reverse(cache.1));
        caches.truncate(SLAB_CACHES_MAX);
        Some(())
    }

    /// Of a node as a whole, or of one of its zones.
    fn node(&mut self, text: &str, rest: &str) {
        let memory = &mut self.memory;
        if let Some(count) = rest.strip_prefix("hugepages_total=").and_then(leading) {
            let size = kilobytes(rest, "hugepages_size=").unwrap_or(0);
            let bytes = count.saturating_mul(size);
            memory.huge_page_bytes = memory.huge_page_bytes.saturating_add(bytes);
            return;
        }
        // Since 4.8 of the node, before of each of its zones.
        if let Some(bytes) = kilobytes(text, " kernel_stack:") {
            memory.kernel_stack_bytes = memory.kernel_stack_bytes.saturating_add(bytes);
        }
        let zone = text.split_once(" free:").zip(kilobytes(text, " min:"));
        if let Some(((name, free), min_bytes)) = zone
            && memory.zones.len() < ZONES_MAX
        {
            memory.zones.push(Zone {
                name: name.to_owned(),
                free_bytes: leading(free).unwrap_or(0).saturating_mul(1024),
                min_bytes,
            });
        }
    }

    fn total(&mut self, text: &str) -> Option<()> {
        if let Some(pages) = text.strip_suffix(" pages RAM") {
            self.ram_pages = pages.parse().ok();
        } else if let Some(pages) = text.strip_suffix(" pages reserved") {
            self.reserved_pages = pages.parse().ok()?;
        } else if let Some(rest) = text.strip_prefix("Free swap") {
            self.memory.swap_free_bytes = kilobytes(rest, "= ");
        } else if let Some(rest) = text.strip_prefix("Total swap") {
            self.memory.swap_total_bytes = kilobytes(rest, "= ");
        } else {
            return None;
        }
        Some(())
    }

    /// `active_anon:57241 inactive_anon:0 isolated_anon:0`, in pages. All pairs of a line must be such.
    fn counters(&mut self, text: &str) -> Option<()> {
        let pairs = text.split_whitespace().map(|pair| {
            let (key, value) = pair.split_once(':')?;
            Some((key, value.parse::<u64>().ok()?))
        });
        let pairs: Vec<(&str, u64)> = pairs.collect::<Option<_>>()?;
        for (key, pages) in pairs {
            if self.pages.len() < COUNTERS_MAX {
                self.pages.insert(key.to_owned(), pages);
            }
        }
        Some(())
    }

    pub fn finish(self, page_bytes: u64) -> MachineMemory {
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let sum = |keys: &[&str]| {
            let pages = keys.iter().filter_map(|key| self.pages.get(*key));
            bytes(pages.fold(0, |sum: u64, pages| sum.saturating_add(*pages)))
        };
        let managed = self
            .ram_pages
            .map(|ram| bytes(ram.saturating_sub(self.reserved_pages)));
        let shmem_bytes = sum(&["shmem"]);
        let anon = sum(&["active_anon", "inactive_anon", "isolated_anon"]);
        MachineMemory {
            managed_bytes: managed,
            free_bytes: sum(&["free", "free_pcp"]),
            // Pages of shared memory stand on the lists of anonymous ones, for they go to swap.
            anon_bytes: anon.saturating_sub(shmem_bytes),
            file_bytes: sum(&["active_file", "inactive_file", "isolated_file"]),
            shmem_bytes,
            unevictable_bytes: sum(&["unevictable"]),
            slab_reclaimable_bytes: sum(&["slab_reclaimable"]),
            slab_unreclaimable_bytes: sum(&["slab_unreclaimable"]),
            page_table_bytes: sum(&["pagetables", "sec_pagetables"]),
            ..self.memory
        }
    }
}

//! What a cgroup's memory was made of: its counters and the statistics behind "Memory cgroup stats for".
//!
//! Until 5.2 they stand in one line, `cache:0KB rss:8KB`, one for each cgroup below the limit; since then one in a
//! line, `anon 8`, in bytes and of all below. On cgroup v1 since 6.4 they are those of v1 again, with the sums as
//! `total_rss`.

use std::collections::BTreeMap;

use crate::kill::CgroupMemory;
use crate::message::{counter, leading};

/// Statistics of a cgroup: 60 on Linux 7.2.
const STATS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct CgroupReader {
    memory: CgroupMemory,
    stats: BTreeMap<String, u64>,
    /// Lines `key value` belong to it.
    pub is_open: bool,
    is_filled: bool,
}

impl CgroupReader {
    /// Takes a message that is about a cgroup's memory; `None` where it is not.
    pub fn take(&mut self, text: &str) -> Option<()> {
        let memory = &mut self.memory;
        let counters = [
            ("memory", &mut memory.memory),
            ("swap", &mut memory.swap),
            ("memory+swap", &mut memory.memory_and_swap),
            ("kmem", &mut memory.kernel),
        ];
        for (name, into) in counters {
            if let Some(found) = counter(text, name) {
                *into = Some(found);
                self.is_filled = true;
                return Some(());
            }
        }
        if let Some(rest) = text.strip_prefix("Memory cgroup stats for ") {
            self.stats_of(rest);
            return Some(());
        }
        if !self.is_open {
            return None;
        }
        let (key, value) = text.split_once(' ')?;
        let is_key = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'(' || b == b')';
        if !key.bytes().all(is_key) {
            return None;
        }
        self.add(key, value.parse().ok()?);
        Some(())
    }

    /// `/path:` or `/path: cache:0KB rss:8KB ...`.
    fn stats_of(&mut self, rest: &str) {
        self.is_open = true;
        self.is_filled = true;
        let (path, values) = rest
            .rsplit_once(": ")
            .unwrap_or((rest.trim_end_matches(':'), ""));
        if self.memory.path.is_empty() {
            self.memory.path = path.to_owned();
        }
        for (key, value) in values
            .split_whitespace()
            .filter_map(|pair| pair.split_once(':'))
        {
            if let Some(kb) = leading(value) {
                self.add(key, kb.saturating_mul(1024));
            }
        }
    }

    fn add(&mut self, key: &str, bytes: u64) {
        if self.stats.contains_key(key) || self.stats.len() < STATS_MAX {
            let sum = self.stats.entry(key.to_owned()).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// `None`: nothing of it was in the log.
    pub fn finish(self) -> Option<CgroupMemory> {
        if !self.is_filled {
            return None;
        }
        let stats = &self.stats;
        let get = |key: &str| stats.get(key).copied();
        let v1 = |key: &str| get(&format!("total_{key}")).or_else(|| get(key));
        let mut memory = self.memory;
        memory.shmem_bytes = v1("shmem");
        memory.anon_bytes = get("anon").or_else(|| v1("rss"));
        let cache = get("file").or_else(|| v1("cache"));
        memory.file_bytes =
            cache.map(|cache| cache.saturating_sub(memory.shmem_bytes.unwrap_or(0)));
        memory.kernel_stack_bytes = get("kernel_stack");
        memory.slab_bytes = get("slab");
        memory.page_table_bytes = get("pagetables");
        memory.socket_bytes = get("sock");
        let parts = ["kernel_stack", "slab", "pagetables", "percpu", "vmalloc"];
        let sum = || {
            parts
                .iter()
                .filter_map(|part| get(part))
                .reduce(u64::saturating_add)
        };
        let counted = memory.kernel.map(|kernel| kernel.usage_bytes);
        memory.kernel_bytes = get("kernel").or(counted).or_else(sum);
        Some(memory)
    }
}

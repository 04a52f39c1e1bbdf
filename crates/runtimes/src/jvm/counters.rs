//! The counters that a JVM keeps in a mapped file (`/tmp/hsperfdata_USER/PID`), which may be read at any time.
//!
//! Source: HotSpot's `perfMemory.hpp` (PerfDataPrologue) and `perfData.hpp` (PerfDataEntry), version 2.0.
//!
//! ```text
//! header, 32 bytes: magic, byte order, version, ..., offset of the first entry (24), number of entries (28)
//! entry: length, offset of its name, elements (0: one value), type, flags, unit, variability, offset of its data
//! ```

use std::collections::HashMap;

use crate::HeapSize;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const VERSION: u8 = 2;
const ENTRY_HEADER_BYTES: usize = 20;

/// A JVM has about 300.
const ENTRIES_MAX: u32 = 10_000;

/// Generations and spaces of one; HotSpot has 3 at most.
const PARTS_MAX: usize = 8;

/// Among [`HeapSize::others`].
pub(super) const METASPACE_USED: &str = "metaspace used";

/// Values by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counters {
    numbers: HashMap<String, i64>,
    texts: HashMap<String, String>,
}

/// Integers of the file, in its byte order.
struct Bytes<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl<'a> Bytes<'a> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.array(at)?;
        Some(if self.is_little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    fn offset(&self, at: usize) -> Option<usize> {
        usize::try_from(self.u32(at)?).ok()
    }

    fn i64(&self, at: usize) -> Option<i64> {
        let bytes = self.array(at)?;
        Some(if self.is_little {
            i64::from_le_bytes(bytes)
        } else {
            i64::from_be_bytes(bytes)
        })
    }

    /// Up to the first zero byte.
    fn text(&self, from: usize, to: usize) -> Option<String> {
        let bytes = self.bytes.get(from..to)?;
        let bytes = bytes.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// `None` for what is not such a file. An entry that points outside of it ends the list.
pub(super) fn parse_counters(bytes: &[u8]) -> Option<Counters> {
    let is_little = bytes.get(4)? == &1;
    let accessible = bytes.get(7)? == &1;
    if bytes.get(..4)? != MAGIC || bytes.get(5)? != &VERSION || !accessible {
        return None;
    }
    let file = Bytes { bytes, is_little };
    let mut at = file.offset(24)?;
    let mut counters = Counters::default();
    for _ in 0..file.u32(28)?.min(ENTRIES_MAX) {
        let length = file
            .offset(at)
            .filter(|&length| length >= ENTRY_HEADER_BYTES);
        let Some(end) = length.and_then(|length| at.checked_add(length)) else {
            break;
        };
        if counters.add(&file, at, end).is_none() {
            break;
        }
        at = end;
    }
    Some(counters)
}

impl Counters {
    fn add(&mut self, file: &Bytes, at: usize, end: usize) -> Option<()> {
        let data = at.checked_add(file.offset(at + 16)?)?;
        let elements = file.offset(at + 8)?;
        let name = file.text(at.checked_add(file.offset(at + 4)?)?, end)?;
        match (file.bytes.get(at + 12)?, elements) {
            (b'J', 0) => drop(self.numbers.insert(name, file.i64(data)?)),
            (b'B', 1..) => drop(
                self.texts
                    .insert(name, file.text(data, data.checked_add(elements)?.min(end))?),
            ),
            _ => {}
        }
        Some(())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        u64::try_from(*self.numbers.get(name)?).ok()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// False with `-XX:+DisableAttachMechanism`: SIGQUIT would then print a thread dump.
    pub(super) fn allows_attach(&self) -> bool {
        let capabilities = self.text("sun.rt.jvmCapabilities");
        capabilities.is_some_and(|capabilities| capabilities.starts_with('1'))
    }

    /// `17.0.15+6`
    pub(super) fn version(&self) -> Option<&str> {
        self.text("java.property.java.vm.version")
    }

    /// `G1`: the first word of the first collector's name.
    pub(super) fn collector(&self) -> Option<&str> {
        let names = (0..PARTS_MAX).map(|number| format!("sun.gc.collector.{number}.name"));
        let name = names.filter_map(|name| self.text(&name)).next()?;
        name.split(' ').next()
    }

    /// All time in which the program was stopped, for whatever reason, nanoseconds.
    pub(super) fn stopped_ns(&self) -> Option<u64> {
        let ticks = u128::from(self.number("sun.rt.safepointTime")?);
        let per_second = u128::from(self.number("sun.os.hrt.frequency")?);
        u64::try_from((ticks * 1_000_000_000).checked_div(per_second)?).ok()
    }

    pub(super) fn threads(&self) -> Option<u64> {
        self.number("java.threads.live")
    }

    /// Sizes as of the last collection; Serial and Parallel update the young generation more often.
    pub(super) fn heap(&self) -> HeapSize {
        let generations = (0..PARTS_MAX).map(|number| format!("sun.gc.generation.{number}"));
        let mut heap = HeapSize::default();
        let mut committed = 0u64;
        for generation in generations {
            committed = committed
                .saturating_add(self.number(&format!("{generation}.capacity")).unwrap_or(0));
            let spaces = (0..PARTS_MAX).map(|space| format!("{generation}.space.{space}.used"));
            let used = spaces.filter_map(|name| self.number(&name));
            heap.used_bytes = used.fold(heap.used_bytes, u64::saturating_add);
        }
        heap.committed_bytes = (committed > 0).then_some(committed);
        heap.idle_bytes = heap
            .committed_bytes
            .map(|committed| committed.saturating_sub(heap.used_bytes));
        heap.limit_bytes = self.limit();
        heap.collections = self.collections();
        heap.others = self.others();
        heap
    }

    /// Serial and Parallel divide the heap between their generations; with the others each may grow to all of it.
    fn limit(&self) -> Option<u64> {
        let names = (0..PARTS_MAX).map(|number| format!("sun.gc.generation.{number}.maxCapacity"));
        let limits = names.filter_map(|name| self.number(&name));
        let limit = match self.collector() {
            Some("Serial" | "Parallel" | "PSParallelCompact" | "Copy") => {
                limits.fold(0, u64::saturating_add)
            }
            _ => limits.max()?,
        };
        (limit > 0).then_some(limit)
    }

    fn collections(&self) -> Option<u64> {
        let names = (0..PARTS_MAX).map(|number| format!("sun.gc.collector.{number}.invocations"));
        names
            .filter_map(|name| self.number(&name))
            .reduce(u64::saturating_add)
    }

    fn others(&self) -> Vec<(String, u64)> {
        let named = [
            (METASPACE_USED, self.number("sun.gc.metaspace.used")),
            (
                "metaspace committed",
                self.number("sun.gc.metaspace.capacity"),
            ),
        ];
        // Zero until the first collection.
        let known = named
            .into_iter()
            .filter(|(_, bytes)| bytes.is_some_and(|bytes| bytes > 0));
        known
            .filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A JVM 17 with G1 and -Xmx256m, before its first collection; a JVM 25 with the same.
    const JVM_17: &[u8] = include_bytes!("captured/counters_17.bin");
    const JVM_25: &[u8] = include_bytes!("captured/counters_25.bin");

    #[test]
    fn the_counters_of_two_versions() {
        for (bytes, version) in [
            (JVM_17, "17.0.15+6-Debian-1deb12u1"),
            (JVM_25, "25.0.3+9-LTS"),
        ] {
            let counters = parse_counters(bytes).unwrap();
            assert_eq!(counters.version(), Some(version));
            assert_eq!(counters.collector(), Some("G1"));
            assert_eq!(counters.text("sun.rt.javaCommand"), Some("App"));
            assert_eq!(counters.threads(), Some(13));
            assert!(counters.allows_attach());
            assert!(counters.stopped_ns().is_some());
        }
    }

    #[test]
    fn the_sizes_of_a_heap() {
        let heap = parse_counters(JVM_25).unwrap().heap();
        assert_eq!(heap.used_bytes, 3 << 20);
        assert_eq!(heap.committed_bytes, Some(256 << 20));
        assert_eq!(heap.limit_bytes, Some(256 << 20));
        assert_eq!(heap.idle_bytes, Some(253 << 20));
        assert_eq!(heap.collections, Some(0));
    }

    #[test]
    fn what_is_cut_or_changed_has_an_end() {
        for length in 0..1024 {
            let _ = parse_counters(&JVM_17[..length]);
        }
        for at in (0..64).chain((64..4096).step_by(7)) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = JVM_17.to_vec();
                bytes[at] = value;
                let _ = parse_counters(&bytes).map(|counters| counters.heap());
            }
        }
        assert_eq!(parse_counters(b""), None);
        assert_eq!(parse_counters(&[0; 64]), None);
    }

    #[test]
    fn no_capabilities_means_no_attach() {
        assert!(!Counters::default().allows_attach());
        assert_eq!(Counters::default().heap(), HeapSize::default());
    }
}

//! The counters that a JVM keeps in a mapped file (`/tmp/hsperfdata_USER/PID`), which may be read at any time.
//!
//! Source: HotSpot's `perfMemory.hpp` (PerfDataPrologue) and `perfData.hpp` (PerfDataEntry), version 2.0.
//!
//! ```text
//! header, 32 bytes: magic, byte order, version, ..., offset of the first entry (24), number of entries (28)
//! entry: length, offset of its name, elements (0: one value), type, flags, unit, variability, offset of its data
//! ```

use std::collections::HashMap;

use super::text::bounded;
use crate::HeapSize;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const VERSION: u8 = 2;
const ENTRY_HEADER_BYTES: usize = 20;

/// A JVM has about 300.
const ENTRIES_MAX: u32 = 10_000;

/// Generations and spaces of one; HotSpot has 3 at most.
const PARTS_MAX: usize = 8;

/// Among [`HeapSize::others`]: what the last collection left in the old generation. Dead objects of the young one are
/// not in it, so its growth is real.
pub(super) const OLD_GENERATION: &str = "old generation";

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
            (b'B', 1..) => {
                let text = file.text(data, data.checked_add(elements)?.min(end))?;
                self.texts.insert(name, bounded(text));
            }
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

    /// `G1`: the first word of the first collector's name, as JDK 17 has it.
    pub(super) fn collector(&self) -> Option<&str> {
        let names = (0..PARTS_MAX).map(|number| format!("sun.gc.collector.{number}.name"));
        let name = names.filter_map(|name| self.text(&name)).next()?;
        match name.split(' ').next()? {
            // JDK 11.
            "PSScavenge" | "PSParallelCompact" => Some("Parallel"),
            "Copy" | "MSC" => Some("Serial"),
            name => Some(name),
        }
    }

    /// ZGC and Shenandoah list reachable objects; the others everything that lies in the heap, dead or not.
    pub(super) fn counts_garbage(&self) -> Option<bool> {
        let is_by_reference = |name: &str| name.starts_with('Z') || name == "Shenandoah";
        self.collector().map(|name| !is_by_reference(name))
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

    /// Classes that were loaded, those of the shared archive too.
    pub(super) fn classes(&self) -> Option<u64> {
        let shared = self.number("java.cls.sharedLoadedClasses").unwrap_or(0);
        Some(
            self.number("java.cls.loadedClasses")?
                .saturating_add(shared),
        )
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
            Some("Serial" | "Parallel") => limits.fold(0, u64::saturating_add),
            _ => limits.max()?,
        };
        (limit > 0).then_some(limit)
    }

    /// Young and full ones. G1 counts the pauses of its concurrent marking as a collector too: they free no dead object
    /// of the young generation.
    pub(super) fn collections(&self) -> Option<u64> {
        let collectors = (0..PARTS_MAX).map(|number| format!("sun.gc.collector.{number}"));
        let is_marking = |collector: &str| {
            let name = self.text(&format!("{collector}.name"));
            // The second name is that of JDK 11.
            name.is_some_and(|name| {
                name.starts_with("G1 concurrent") || name == "G1 stop-the-world phases"
            })
        };
        collectors
            .filter(|collector| !is_marking(collector))
            .filter_map(|collector| self.number(&format!("{collector}.invocations")))
            .reduce(u64::saturating_add)
    }

    /// Bytes used in it as of the last collection. Without generations (Shenandoah, ZGC in JDK 17) all of the heap is
    /// in the second one.
    fn old_generation(&self) -> Option<u64> {
        if self.counts_garbage() != Some(true) {
            return None;
        }
        let spaces = (0..PARTS_MAX).map(|space| format!("sun.gc.generation.1.space.{space}.used"));
        spaces
            .filter_map(|name| self.number(&name))
            .reduce(u64::saturating_add)
    }

    fn others(&self) -> Vec<(String, u64)> {
        let named = [
            (HeapSize::METASPACE, self.number("sun.gc.metaspace.used")),
            (
                "metaspace committed",
                self.number("sun.gc.metaspace.capacity"),
            ),
        ];
        // Zero until the first collection.
        let known = named
            .into_iter()
            .filter(|(_, bytes)| bytes.is_some_and(|bytes| bytes > 0));
        let old = self
            .old_generation()
            .map(|bytes| (OLD_GENERATION.to_owned(), bytes));
        let known = known.filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)));
        known.chain(old).collect()
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

    fn counters(numbers: &[(&str, i64)], texts: &[(&str, &str)]) -> Counters {
        let numbers = numbers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        let texts = texts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Counters {
            numbers: numbers.collect(),
            texts: texts.collect(),
        }
    }

    /// The values of a JVM 17 each, after `System.gc()`.
    #[test]
    fn collections_and_the_old_generation() {
        let numbers = [
            ("sun.gc.collector.0.invocations", 4),
            ("sun.gc.collector.1.invocations", 1),
            ("sun.gc.collector.2.invocations", 6),
            ("sun.gc.generation.0.space.0.used", 1_432_640),
            ("sun.gc.generation.1.space.0.used", 459_448),
        ];
        for (name, marking, collections, garbage) in [
            ("Serial young collection pauses", "", 11, true),
            (
                "G1 young collection pauses",
                "G1 concurrent cycle pauses",
                5,
                true,
            ),
            ("Z concurrent cycle pauses", "", 11, false),
            (
                "ZGC minor collection pauses",
                "ZGC major collection pauses",
                11,
                false,
            ),
            ("Shenandoah partial", "", 11, false),
        ] {
            let texts = [
                ("sun.gc.collector.0.name", name),
                ("sun.gc.collector.2.name", marking),
            ];
            let counters = counters(&numbers, &texts);
            let heap = counters.heap();
            assert_eq!(heap.collections, Some(collections), "{name}");
            assert_eq!(counters.counts_garbage(), Some(garbage));
            let old = garbage.then(|| (OLD_GENERATION.to_owned(), 459_448));
            assert_eq!(heap.others, Vec::from_iter(old));
        }
        assert_eq!(Counters::default().counts_garbage(), None);
        assert_eq!(Counters::default().classes(), None);
        assert_eq!(
            counters(&[("java.cls.loadedClasses", 7)], &[]).classes(),
            Some(7)
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let (name, text) = (b"java.property.java.vm.version\0", [b'x'; 4096]);
        let data = ENTRY_HEADER_BYTES + name.len();
        let mut bytes = [
            &MAGIC[..],
            &[1, VERSION, 0, 1],
            &[0; 16],
            &32u32.to_le_bytes(),
            &1u32.to_le_bytes(),
        ]
        .concat();
        for number in [data + text.len(), ENTRY_HEADER_BYTES, text.len()] {
            bytes.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        bytes.extend(*b"B\0\0\0");
        bytes.extend(u32::try_from(data).unwrap().to_le_bytes());
        bytes.extend(name);
        bytes.extend(text);
        assert_eq!(
            parse_counters(&bytes).unwrap().version().unwrap().len(),
            300
        );
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

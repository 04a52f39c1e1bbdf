//! Sizes that a JVM prints on request: its heap, and the memory of its own beside it.
//!
//! Sources: the diagnostic commands GC.heap_info, VM.native_memory, VM.classloader_stats and Compiler.codecache.

use std::collections::BTreeMap;

use super::text::bounded;
use crate::HeapSize;

/// Types of class loaders that are named, the largest first.
const LOADERS_MAX: usize = 20;

const WORD_BYTES: u64 = 8;

/// Bytes used in the heap, from GC.heap_info. The wording differs between collectors and versions:
///
/// ```text
///  def new generation   total 78656K, used 16788K [0x...        one line for each generation: Serial, Parallel
///  garbage-first heap   total reserved 262144K, committed 262144K, used 5836K [0x...
///  ZHeap           used 16M, capacity 256M, max capacity 256M
///  256M max, 256M soft max, 256M committed, 4608K used          Shenandoah
/// ```
pub(super) fn parse_heap_info(text: &str) -> Option<u64> {
    // Spaces of a generation have `24% used`, which is no size.
    let of_heap = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("Metaspace") && !line.starts_with("class space")
    };
    text.lines()
        .filter(of_heap)
        .filter_map(used_in)
        .reduce(u64::saturating_add)
}

/// Bytes committed by ZGC, whose counters show them only after a collection.
pub(super) fn parse_capacity(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("ZHeap"))?;
    size(line.split_once(" capacity ")?.1.split([',', ' ']).next()?)
}

/// Of the collectors whose class histogram has reachable objects only.
pub(super) fn is_traced_by_reference(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| line.starts_with("ZHeap") || line.starts_with("Shenandoah"))
}

fn used_in(line: &str) -> Option<u64> {
    let words: Vec<&str> = line
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.iter().position(|word| *word == "used")?;
    let after = words.get(at + 1).and_then(|word| size(word));
    after.or_else(|| size(words.get(at.checked_sub(1)?)?))
}

/// `16788K` in bytes; `None` without a unit.
fn size(word: &str) -> Option<u64> {
    let unit = match word.as_bytes().last()? {
        b'B' => 0,
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return None,
    };
    word[..word.len() - 1]
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << unit)
}

/// Committed bytes of each category of native memory tracking; empty where it is off. The heap is left out.
///
/// ```text
/// -                    Thread (reserved=26695KB, committed=1611KB)
/// ```
pub(super) fn parse_native_memory(text: &str) -> Vec<(String, u64)> {
    let categories = text.lines().filter_map(|line| {
        let (name, sizes) = line.strip_prefix('-')?.split_once(" (reserved=")?;
        let committed = sizes.split_once("committed=")?.1.split_once(')')?.0;
        let bytes = size(committed.strip_suffix('B')?)?;
        Some((name.trim().to_owned(), bytes))
    });
    let others = categories.filter(|(name, _)| name != "Java Heap");
    others
        .map(|(name, bytes)| (bounded(format!("native memory of {name}")), bytes))
        .collect()
}

/// Bytes used in metaspace as of now, from GC.heap_info; JDK 25 does not print it.
///
/// ```text
///  Metaspace       used 279K, committed 448K, reserved 1114112K
/// ```
pub(super) fn parse_metaspace(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("Metaspace"))?;
    used_in(line)
}

/// Bytes used in metaspace, in all and by type of class loader, the most first.
///
/// ```text
/// ClassLoader         Parent              CLD*               Classes   ChunkSz   BlockSz  Type
/// 0x00000000811c9698  0x00000000811c9bb8  0x00007f4d3c0f02e0       3     10240      6792  com.example.Loader
///                                                                  1       384       211   + hidden classes
/// ```
///
/// JDK 17 prints words of 8 bytes, JDK 25 bytes. The unit follows from what is known to be used in all (0: unknown).
pub(super) fn parse_class_loaders(text: &str, metaspace_bytes: u64) -> Vec<(String, u64)> {
    let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = String::new();
    for (size, kind) in text.lines().filter_map(class_loader) {
        // The row of hidden classes belongs to the loader above it.
        current = if kind.starts_with('+') { current } else { kind };
        let sum = by_type.entry(current.clone()).or_default();
        *sum = sum.saturating_add(size);
    }
    let total = by_type.values().copied().fold(0, u64::saturating_add);
    let unit = if metaspace_bytes > total.saturating_mul(3) {
        WORD_BYTES
    } else {
        1
    };
    let mut loaders: Vec<_> = by_type.into_iter().filter(|(_, size)| *size > 0).collect();
    loaders.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    loaders.truncate(LOADERS_MAX);
    let named = loaders.into_iter().map(|(kind, size)| {
        let name = HeapSize::name_of_loader(kind.trim_matches(['<', '>']));
        (bounded(name), size)
    });
    let all = (total > 0).then(|| (HeapSize::METASPACE.to_owned(), total));
    all.into_iter()
        .chain(named)
        .map(|(name, size)| (name, size.saturating_mul(unit)))
        .collect()
}

/// The column BlockSz: ChunkSz has memory that is only reserved in it.
fn class_loader(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let classes = if first.starts_with("0x") {
        words.nth(2)?
    } else {
        first
    };
    classes.parse::<u64>().ok()?;
    let blocks = words.nth(1)?;
    let kind: Vec<&str> = words.collect();
    Some((blocks.parse().ok()?, kind.join(" ")))
}

/// Bytes of compiled code, from Compiler.codecache.
///
/// ```text
/// CodeHeap 'non-nmethods': size=5692Kb used=1085Kb max_used=1085Kb free=4606Kb
/// ```
pub(super) fn parse_code_cache(text: &str) -> Option<u64> {
    let heaps = text.lines().filter(|line| line.starts_with("CodeHeap "));
    let single = text.lines().filter(|line| line.starts_with("CodeCache: "));
    heaps
        .filter_map(code_used)
        .reduce(u64::saturating_add)
        .or_else(|| single.filter_map(code_used).next())
}

fn code_used(line: &str) -> Option<u64> {
    let used = line.split_once(" used=")?.1.split_once("Kb")?.0;
    used.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_of_all_collectors() {
        for (text, kib) in [
            (
                " def new generation   total 78656K, used 16788K [0x0, 0x0)\n  eden space 69952K,  24% used [0x0)\n\
                 tenured generation   total 174784K, used 12K [0x0)\n Metaspace       used 327K, committed 512K\n  \
                 class space    used 20K, committed 128K\n",
                16_800,
            ),
            (
                " PSYoungGen      total 76288K, used 15793K [0x0)\n ParOldGen       total 175104K, used 7K [0x0)\n",
                15_800,
            ),
            (
                " garbage-first heap   total 262144K, used 4511K [0x0)\n  region size 1024K, 4 young (4096K)\n",
                4511,
            ),
            (
                "garbage-first heap   total reserved 262144K, committed 262144K, used 5836K [0x0)\n",
                5836,
            ),
            (
                " ZHeap           used 16M, capacity 256M, max capacity 256M\n Metaspace       used 323K\n",
                16_384,
            ),
            (
                "Shenandoah Heap\n 256M max, 256M soft max, 256M committed, 4608K used\n 1024 x 256K regions\n",
                4608,
            ),
        ] {
            assert_eq!(parse_heap_info(text), Some(kib << 10), "{text}");
            let by_reference = text.contains("ZHeap") || text.contains("Shenandoah");
            assert_eq!(is_traced_by_reference(text), by_reference, "{text}");
        }
        let capacity = parse_capacity(" ZHeap    used 16M, capacity 256M, max capacity 512M\n");
        assert_eq!(capacity, Some(256 << 20));
        assert_eq!(
            parse_capacity(" garbage-first heap   total 262144K, used 4511K"),
            None
        );
        for garbage in [
            "",
            "used",
            "used used",
            "x used yK",
            "used 99999999999999999999K",
            "used 18446744073709551615G",
        ] {
            assert_eq!(parse_heap_info(garbage), None);
        }
    }

    #[test]
    fn categories_of_native_memory() {
        let text = "Total: reserved=1KB, committed=1KB\n-                 Java Heap (reserved=9KB, committed=9KB)\n\
            -     Class (reserved=1048660KB, committed=212KB)\n                (malloc=42KB #160) (peak=51KB #168)\n";
        assert_eq!(
            parse_native_memory(text),
            [("native memory of Class".to_owned(), 212 << 10)]
        );
        assert_eq!(
            parse_native_memory("Native memory tracking is not enabled\n"),
            []
        );
    }

    #[test]
    fn metaspace_by_type_of_class_loader() {
        let text = "ClassLoader         Parent              CLD*               Classes   ChunkSz   BlockSz  Type\n\
            0x00007f30b707af08  0x00007f30b707d1e8  0x00007f3124151520       3      1280       850  com.a.Loader\n\
            0x00007f30b707af08  0x00007f30b707d1e8  0x00007f3124151520       3      1000       850  com.a.Loader\n\
            0x0000000000000000  0x0000000000000000  0x00007f3124117ba0     648  557056   34702  <boot class loader>\n\
                                                                   1       384       211   + hidden classes\n\
            Total = 3                                                      652    558720     35763  \n\
            ChunkSz: Total size of all allocated metaspace chunks\n";
        let named = |all, boot, loader| {
            [
                ("metaspace used", all),
                ("metaspace of boot class loader", boot),
                ("metaspace of com.a.Loader", loader),
            ]
            .map(|(name, bytes)| (name.to_owned(), bytes))
        };
        assert_eq!(parse_class_loaders(text, 0), named(36_613, 34_913, 1700));
        assert_eq!(
            parse_class_loaders(text, 36_700),
            named(36_613, 34_913, 1700)
        );
        assert_eq!(
            parse_class_loaders(text, 290_000),
            named(292_904, 279_304, 13_600)
        );
        let long = format!("0x0 0x0 0x0 1 2 3 {}\n", "L".repeat(60_000));
        assert_eq!(parse_class_loaders(&long, 0)[1].0.len(), 300);
        assert_eq!(
            parse_class_loaders("0x0 0x0 0x0 1 2\nnothing\n0x0\n", 0),
            []
        );
        assert_eq!(
            parse_metaspace(" a used 1K\n Metaspace       used 279K, committed 448K\n"),
            Some(279 << 10)
        );
        assert_eq!(parse_metaspace(" a used 1K\n"), None);
    }

    #[test]
    fn compiled_code() {
        let segments = "CodeHeap 'a': size=120036Kb used=26Kb max_used=26Kb free=120009Kb\n bounds [0x0]\n\
            CodeHeap 'b': size=5692Kb used=1085Kb max_used=1085Kb free=4606Kb\nCodeCache: size=1Kb, used=9Kb, max\n";
        assert_eq!(parse_code_cache(segments), Some(1111 << 10));
        assert_eq!(
            parse_code_cache("CodeCache: size=49152Kb used=1085Kb max_used=1085Kb\n"),
            Some(1085 << 10)
        );
        assert_eq!(parse_code_cache("used=1Kb\n"), None);
    }
}

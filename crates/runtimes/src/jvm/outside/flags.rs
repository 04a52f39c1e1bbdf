//! What decides how a JVM lays its heap out.

use observe::fact::memory::Memory;

use super::super::flags::read_flags;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    Serial,
    Parallel,
    G1,
    Shenandoah,
}

/// What the JVM was started with, or decided at its start.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    pub collector: Collector,
    pub has_narrow_oops: bool,
    pub has_narrow_classes: bool,
    pub has_compact_headers: bool,
}

impl Flags {
    /// An error says in words why the heap cannot be read.
    pub fn read(memory: &dyn Memory, libjvm: u64) -> Result<Flags, String> {
        const NAMES: [&str; 8] = [
            "UseSerialGC",
            "UseParallelGC",
            "UseG1GC",
            "UseShenandoahGC",
            "UseZGC",
            "UseCompressedOops",
            "UseCompressedClassPointers",
            "UseCompactObjectHeaders",
        ];
        let flags = read_flags(memory, libjvm, NAMES);
        let [serial, parallel, g1, shenandoah, z, oops, classes, compact] =
            flags.map(|flag| flag == Some(true));
        let collector = match (serial, parallel, g1, shenandoah) {
            (true, ..) => Collector::Serial,
            (_, true, ..) => Collector::Parallel,
            (_, _, true, _) => Collector::G1,
            (.., true) => Collector::Shenandoah,
            _ if z => return Err("ZGC moves objects while the program goes on".to_owned()),
            _ => return Err("its collector is not known".to_owned()),
        };
        Ok(Flags {
            collector,
            has_narrow_oops: oops,
            has_narrow_classes: classes,
            has_compact_headers: compact,
        })
    }
}

//! Pressure stall information: /proc/pressure for the machine, `*.pressure` for a cgroup (v2).

use std::path::Path;

use super::metric;
use super::proc::fields::{Malformed, number};
use super::snapshot_writer::SnapshotWriter;

/// Total stall times since boot, or since the cgroup was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited.
    pub some_ns: Option<u64>,
    /// All of them did.
    pub full_ns: Option<u64>,
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12` lines; the kernel counts microseconds.
pub fn parse_pressure(text: &[u8]) -> Result<Pressure, Malformed> {
    let mut pressure = Pressure::default();
    for line in text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let mut words = line.split(|&byte| byte == b' ');
        let kind = words.next();
        let total = words
            .find_map(|word| word.strip_prefix(b"total="))
            .and_then(number)
            .ok_or_else(|| Malformed::new("pressure", "a line without a total"))?;
        let total_ns = Some(total.saturating_mul(1_000));
        match kind {
            Some(b"some") => pressure.some_ns = total_ns,
            Some(b"full") => pressure.full_ns = total_ns,
            _ => {}
        }
    }
    Ok(pressure)
}

/// The files of one level; those that are missing (kernel without PSI, cgroup v1) are left out.
pub fn sample_pressure(folder: &Path, suffix: &str, writer: &mut SnapshotWriter<'_>) {
    let read = |name: &str| {
        let text = std::fs::read(folder.join(format!("{name}{suffix}"))).ok()?;
        parse_pressure(&text).ok()
    };
    if let Some(memory) = read("memory") {
        writer.maybe(metric::PRESSURE_MEMORY_SOME, memory.some_ns);
        writer.maybe(metric::PRESSURE_MEMORY_FULL, memory.full_ns);
    }
    writer.maybe(
        metric::PRESSURE_CPU_SOME,
        read("cpu").and_then(|cpu| cpu.some_ns),
    );
    writer.maybe(
        metric::PRESSURE_IO_SOME,
        read("io").and_then(|io| io.some_ns),
    );
}

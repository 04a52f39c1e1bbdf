//! The machine: what it is, and how it is doing.

use std::path::{Path, PathBuf};

use super::metric;
use super::pressure::sample_pressure;
use super::proc::ProcRoot;
use super::proc::fields::{Malformed, kib_in_bytes, lines, number};
use super::proc::stat::tick_ns;
use super::snapshot_writer::SnapshotWriter;

/// What the reader of a report wants to know of the machine. The same fields as the record's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// `6.18.44 (#1 SMP ...)` without the build: the release.
    pub kernel: String,
    pub cpu: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// PRETTY_NAME of /etc/os-release.
    pub distribution: String,
    /// `always`, `madvise` or `never`; empty when the kernel has no huge pages.
    pub transparent_huge_pages: String,
}

/// Where /etc and /sys are: `/`, or another folder in tests.
#[derive(Debug, Clone)]
pub struct SystemRoot(pub PathBuf);

impl Default for SystemRoot {
    fn default() -> Self {
        SystemRoot(PathBuf::from("/"))
    }
}

/// Describes the machine. What cannot be read stays empty: a description is no reason to fail.
pub fn read_machine(proc: &ProcRoot, system: &SystemRoot) -> Machine {
    let text = |path: &Path| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    };
    let cpuinfo = proc.read("cpuinfo").unwrap_or_default();
    let memory = proc
        .read("meminfo")
        .ok()
        .and_then(|text| parse_meminfo(&text).ok());
    let huge = system.0.join("sys/kernel/mm/transparent_hugepage/enabled");
    Machine {
        kernel: text(&proc.path().join("sys/kernel/osrelease"))
            .trim()
            .to_owned(),
        cpu: parse_cpu_name(&cpuinfo),
        cpus: parse_cpu_count(&cpuinfo),
        memory_bytes: memory.map_or(0, |memory| memory.total_bytes),
        distribution: parse_os_release(&text(&system.0.join("etc/os-release"))).unwrap_or_default(),
        transparent_huge_pages: parse_choice(&text(&huge)).unwrap_or_default().to_owned(),
    }
}

impl Machine {
    /// As facts of the host: (key, value).
    pub fn facts(&self) -> [(&'static str, String); 6] {
        [
            ("machine.kernel", self.kernel.clone()),
            ("machine.cpu", self.cpu.clone()),
            ("machine.cpus", self.cpus.to_string()),
            ("machine.memory_bytes", self.memory_bytes.to_string()),
            ("machine.distribution", self.distribution.clone()),
            (
                "machine.transparent_huge_pages",
                self.transparent_huge_pages.clone(),
            ),
        ]
    }
}

/// Reads how the machine is doing. `Err` says which file failed.
pub fn sample_host(proc: &ProcRoot, writer: &mut SnapshotWriter<'_>) -> Result<(), String> {
    sample_pressure(&proc.path().join("pressure"), "", writer);
    let read = |name: &str| {
        proc.read(name)
            .map_err(|error| format!("/proc/{name}: {error}"))
    };
    let memory = parse_meminfo(&read("meminfo")?).map_err(|malformed| malformed.to_string())?;
    writer.value(metric::HOST_MEMORY_TOTAL, memory.total_bytes);
    writer.maybe(metric::HOST_MEMORY_AVAILABLE, memory.available_bytes);
    let load = parse_load(&read("loadavg")?).map_err(|malformed| malformed.to_string())?;
    writer.float(metric::HOST_LOAD, load);
    if let Some(cpu) = read_cpu(proc) {
        writer.value(metric::HOST_CPU_BUSY, cpu.busy_ns);
        writer.value(metric::HOST_CPU_STOLEN, cpu.stolen_ns);
    }
    Ok(())
}

/// Sums over all CPUs since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    pub busy_ns: u64,
    pub stolen_ns: u64,
}

impl Cpu {
    /// Of the time that was wanted since `before`, the share that went to other guests; `None` for less than a second.
    pub fn stolen_share_since(&self, before: &Cpu) -> Option<f64> {
        const LEAST_NS: u64 = 1_000_000_000;
        let stolen = self.stolen_ns.saturating_sub(before.stolen_ns);
        let wanted = stolen + self.busy_ns.saturating_sub(before.busy_ns);
        (wanted >= LEAST_NS).then(|| stolen as f64 / wanted as f64)
    }
}

/// `None` where /proc/stat cannot be read or says less.
pub fn read_cpu(proc: &ProcRoot) -> Option<Cpu> {
    parse_cpu(&proc.read("stat").ok()?, tick_ns())
}

/// The first line of /proc/stat, proc_stat(5): `cpu user nice system idle iowait irq softirq steal ...`. The time of
/// own guests is in user already. `None` without the eighth field, which kernels have since 2.6.11.
pub fn parse_cpu(text: &[u8], tick_ns: u64) -> Option<Cpu> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let words = line
        .strip_prefix(b"cpu ")?
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let ticks: Vec<u64> = words.map_while(number).take(8).collect();
    let &[user, nice, system, _idle, _iowait, irq, softirq, stolen] = ticks.as_slice() else {
        return None;
    };
    let busy = [user, nice, system, irq, softirq].iter().sum::<u64>();
    Some(Cpu {
        busy_ns: busy.saturating_mul(tick_ns),
        stolen_ns: stolen.saturating_mul(tick_ns),
    })
}

/// What is used of /proc/meminfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: u64,
    pub available_bytes: Option<u64>,
}

pub fn parse_meminfo(text: &[u8]) -> Result<Memory, Malformed> {
    let find = |key: &[u8]| {
        lines(text)
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    };
    let total_bytes = find(b"MemTotal")
        .and_then(kib_in_bytes)
        .ok_or_else(|| Malformed::new("/proc/meminfo", "no MemTotal"))?;
    Ok(Memory {
        total_bytes,
        available_bytes: find(b"MemAvailable").and_then(kib_in_bytes),
    })
}

/// The average over one minute: the first number of /proc/loadavg.
pub fn parse_load(text: &[u8]) -> Result<f64, Malformed> {
    let text = String::from_utf8_lossy(text);
    let first = text
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    first
        .filter(|load| load.is_finite() && *load >= 0.0)
        .ok_or_else(|| Malformed::new("/proc/loadavg", "no number"))
}

fn parse_cpu_name(cpuinfo: &[u8]) -> String {
    // x86 tells a name; arm only numbers, of which the implementer and part are a name of sorts.
    let find = |key: &[u8]| {
        let mut found = lines(cpuinfo).filter(|(name, _)| name.trim_ascii_end() == key);
        found
            .next()
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    find(b"model name")
        .or_else(|| {
            Some(format!(
                "ARM {} part {}",
                find(b"CPU implementer")?,
                find(b"CPU part")?
            ))
        })
        .unwrap_or_default()
}

fn parse_cpu_count(cpuinfo: &[u8]) -> u32 {
    lines(cpuinfo)
        .filter(|(name, _)| name.trim_ascii_end() == b"processor")
        .count() as u32
}

fn parse_os_release(text: &str) -> Option<String> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// The word in brackets: `always [madvise] never`.
fn parse_choice(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

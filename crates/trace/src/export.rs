//! A trace as text that other tools read.
//!
//! `memory-replay` is the form of Android's memory_replay and its recordings: `TID: malloc ADDRESS BYTES`, one line per
//! call, with `thread_done` where a thread ends. `mtrace` is the form of glibc's mtrace(3), which the script `mtrace`
//! reads: `@ CALLER + ADDRESS BYTES`, `- ADDRESS`, `<` and `>` for a realloc; it knows no threads.

use std::io::{self, Write};

use crate::chunks::Trace;
use crate::damage::Damage;
use crate::merge::Merged;
use crate::steps::{Allocated, Step, StepKind, Steps};

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    MemoryReplay,
    Mtrace,
}

/// Writes all events of a trace; what was missing of them.
///
/// # Errors
/// `out` cannot be written.
pub fn export(trace: &Trace, format: Format, out: &mut impl Write) -> io::Result<Damage> {
    let mut steps = Steps::new(Merged::new(trace));
    if format == Format::Mtrace {
        writeln!(out, "= Start")?;
    }
    for step in steps.by_ref() {
        let thread = &trace.threads[step.thread as usize];
        match format {
            Format::MemoryReplay => memory_replay(out, thread.tid, &step)?,
            Format::Mtrace => mtrace(out, &step)?,
        }
    }
    match format {
        Format::MemoryReplay => {
            for thread in trace.threads.iter().filter(|thread| !thread.is_alive) {
                writeln!(out, "{}: thread_done 0x0", thread.tid)?;
            }
        }
        Format::Mtrace => writeln!(out, "= End")?,
    }
    Ok(steps.source().damage())
}

fn memory_replay(out: &mut impl Write, tid: u32, step: &Step) -> io::Result<()> {
    let address = step.address;
    match step.kind {
        StepKind::Allocate { how, bytes } => match how {
            Allocated::Malloc => writeln!(out, "{tid}: malloc {address:#x} {bytes}"),
            Allocated::Calloc => writeln!(out, "{tid}: calloc {address:#x} 1 {bytes}"),
            Allocated::Aligned(log2) => {
                writeln!(out, "{tid}: memalign {address:#x} {} {bytes}", 1u64 << log2)
            }
        },
        StepKind::Free { .. } => writeln!(out, "{tid}: free {address:#x}"),
        StepKind::Resize { bytes, .. } => {
            writeln!(
                out,
                "{tid}: realloc {address:#x} {:#x} {bytes}",
                step.old_address
            )
        }
        StepKind::Fresh { .. } => Ok(()),
    }
}

fn mtrace(out: &mut impl Write, step: &Step) -> io::Result<()> {
    // The callers are not in a trace; the script wants a place.
    const CALLER: &str = "@ highwater:[0x0]";
    let address = step.address;
    match step.kind {
        StepKind::Allocate { bytes, .. } => writeln!(out, "{CALLER} + {address:#x} {bytes:#x}"),
        StepKind::Free { .. } => writeln!(out, "{CALLER} - {address:#x}"),
        StepKind::Resize { bytes, .. } => {
            writeln!(out, "{CALLER} < {:#x}", step.old_address)?;
            writeln!(out, "{CALLER} > {address:#x} {bytes:#x}")
        }
        StepKind::Fresh { .. } => Ok(()),
    }
}

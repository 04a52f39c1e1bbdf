//! The tracepoint of wakings, for perf.

use std::io;

use super::layout::woken_at;
use bpf::kernel::Tracing;

/// The number of the tracepoint `sched_waking`, and where its record has the thread.
pub fn waking_tracepoint() -> io::Result<(u64, i16)> {
    let tracing = Tracing::open()?;
    let number = tracing.read("events/sched/sched_waking/id")?;
    let number = number.trim().parse().map_err(io::Error::other)?;
    let woken_at = woken_at(&tracing.read("events/sched/sched_waking/format")?)?;
    Ok((number, woken_at))
}

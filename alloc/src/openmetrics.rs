//! The figures as OpenMetrics text.

use core::fmt::{self, Write};

/// Writes the allocator's name, its own account and, with `meter`, the meter's figures as OpenMetrics text, without
/// the closing `# EOF`: it goes in among a program's other metrics.
///
/// # Errors
/// When `out` fails.
pub fn openmetrics(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# TYPE highwater_alloc info")?;
    writeln!(
        out,
        "highwater_alloc_info{{allocator=\"{}\",version=\"{}\"}} 1",
        crate::NAME,
        crate::VERSION
    )?;
    for (name, bytes) in crate::statistics().known() {
        writeln!(out, "# TYPE highwater_alloc_{name}_bytes gauge")?;
        writeln!(out, "# UNIT highwater_alloc_{name}_bytes bytes")?;
        writeln!(out, "highwater_alloc_{name}_bytes {bytes}")?;
    }
    #[cfg(feature = "meter")]
    crate::meter::openmetrics(out)?;
    Ok(())
}

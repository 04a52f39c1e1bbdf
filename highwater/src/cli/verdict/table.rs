//! The verdicts for people.

use std::io::Write;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::Job;
use crate::verdict::Estimate;
use crate::verdict::arm::{ArmVerdict, PairVerdict};
use crate::verdict::audit::Finding;

impl Job<'_> {
    /// Findings, then one row for each series and arm, then the pairs in words.
    pub fn write_table(
        &self,
        found: &[Finding],
        arms: &[ArmVerdict],
        pairs: &[PairVerdict],
        out: &mut impl Write,
    ) -> Result<()> {
        if self.args.json {
            return Ok(());
        }
        for f in found {
            writeln!(out, "audit: {}\n  {}; {}", f.what, f.effect, f.still)?;
        }
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_header(["", "label", "sure", "level", "per hour", "why"]);
        let each = self.table.iter().chain(
            arms.iter()
                .filter(|_| !self.args.arms)
                .flat_map(|a| &a.processes),
        );
        for v in each {
            let why = v
                .needs
                .as_ref()
                .map_or_else(|| v.rule.clone(), |n| format!("{}; needs {n}", v.rule));
            let (level, slope) = (size_of(v.level), slope_of(v.slope_per_hour));
            table.add_row([
                v.id.clone(),
                v.label.word().to_owned(),
                sure(v.confidence),
                level,
                slope,
                why,
            ]);
        }
        for a in arms {
            let (level, slope) = (size_of(a.level), slope_of(a.slope_per_hour));
            table.add_row([
                a.arm.clone(),
                a.label.word().to_owned(),
                sure(a.confidence),
                level,
                slope,
                a.rule.clone(),
            ]);
        }
        writeln!(out, "{table}")?;
        for p in pairs {
            writeln!(out, "{}", p.words)?;
        }
        Ok(())
    }
}

fn sure(confidence: f64) -> String {
    format!("{confidence:.2}")
}

fn size_of(e: Option<Estimate>) -> String {
    e.map_or_else(String::new, |e| format!("{:.1} MiB", e.value / 1_048_576.0))
}

fn slope_of(e: Option<Estimate>) -> String {
    let mib = |v: f64| v / 1_048_576.0;
    e.map_or_else(String::new, |e| {
        format!(
            "{:+.3} MiB ({:+.3} to {:+.3})",
            mib(e.value),
            mib(e.lo),
            mib(e.hi)
        )
    })
}

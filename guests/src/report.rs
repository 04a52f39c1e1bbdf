//! What is printed, and what is kept of a failing program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::catalogue;
use crate::compare::{Difference, Ran};
use crate::program::Program;
use crate::run::Outcome;
use crate::workshop;

#[derive(Default)]
pub struct Counts {
    pub programs: u64,
    pub differences: u64,
    pub skipped: u64,
    arms: BTreeMap<String, ArmCounts>,
}

#[derive(Default)]
struct ArmCounts {
    programs: u64,
    differences: u64,
    /// Of attached arms: in how many runs highwater was attached, and had breakpoints in the code.
    attached: u64,
    with_breakpoints: u64,
    is_attached: bool,
}

impl Counts {
    pub fn add(&mut self, ran: Vec<Ran>) {
        for run in ran {
            let arm = self.arms.entry(run.arm).or_default();
            arm.programs += 1;
            arm.differences += u64::from(run.is_different);
            if let Some(seen) = run.seen {
                arm.is_attached = true;
                arm.attached += u64::from(seen.is_attached);
                arm.with_breakpoints += u64::from(seen.has_breakpoints);
            }
        }
    }

    /// A line for each arm, then the closing lines; the last is for programs that count tests.
    pub fn print(&self, seconds: f64) {
        for (name, arm) in &self.arms {
            print!(
                "{name}: {} programs, {} differences",
                arm.programs, arm.differences
            );
            if arm.is_attached {
                let (attached, breakpoints) = (arm.attached, arm.with_breakpoints);
                print!(", attached {attached} times, {breakpoints} with breakpoints");
            }
            println!();
        }
        let passed = self.programs - self.differences - self.skipped;
        println!(
            "{} programs, {} differences, {} skipped ({:.1} programs a second)",
            self.programs,
            self.differences,
            self.skipped,
            self.programs as f64 / seconds.max(0.001)
        );
        println!("{passed} passed, {} failed", self.differences);
    }
}

/// Writes a failing program with all that its build needs, and both outcomes.
pub fn keep(folder: &Path, program: &Program, difference: &Difference) -> Result<PathBuf> {
    let case = folder.join(format!("seed{}", program.seed));
    std::fs::create_dir_all(&case).with_context(|| format!("making {}", case.display()))?;
    let write = |name: &str, text: &[u8]| {
        std::fs::write(case.join(name), text).with_context(|| format!("writing {name}"))
    };
    write("program.c", program.source().as_bytes())?;
    let used = program.files();
    for (file, text) in workshop::all_files() {
        let is_used = used.contains(file)
            || ["guest.h", "trace.c", "plugin.c", "chain.c"].contains(&file)
            || catalogue::LIBRARIES.iter().any(|each| each.0 == file)
            || (program.has_own_operators && file == "own_operators.cpp");
        if is_used {
            write(file, text.as_bytes())?;
        }
    }
    write(
        "build.sh",
        workshop::build_script(program, &difference.link).as_bytes(),
    )?;
    write("plain.txt", outcome(&difference.plain).as_bytes())?;
    write("watched.txt", outcome(&difference.watched).as_bytes())?;
    let text = format!(
        "{}\n\nArm: {}\nDifference: {}\nSeed: {}\nPreloaded beside the probe: {:?}\n\n\
         Build: sh build.sh\nRun: GUEST_PLUGINS=$PWD LD_PRELOAD=libhighwater_probe.so ./program\n\
         In the arm of every block with HIGHWATER_PROBE_MEAN=1; GUEST_GATES is for attached arms.\n",
        program.outline(),
        difference.arm.name,
        difference.text,
        program.seed,
        program.chain
    );
    write("README", text.as_bytes())?;
    Ok(case)
}

fn outcome(outcome: &Outcome) -> String {
    format!(
        "{}{}--- standard error\n{}--- {}\n",
        String::from_utf8_lossy(&outcome.stdout),
        if outcome.has_left_processes {
            "processes left\n"
        } else {
            ""
        },
        String::from_utf8_lossy(&outcome.stderr),
        outcome.end
    )
}

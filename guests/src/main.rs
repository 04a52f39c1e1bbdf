//! Differential testing of guests: generated C and C++ programs run plain and with the probe. Any difference in
//! output, exit status, signal, descriptors, mappings or children is a fault.

mod arms;
mod catalogue;
mod compare;
mod program;
mod report;
mod shrink;
mod workshop;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;

use crate::compare::{Verdict, compare, still_differs};
use crate::report::Counts;
use crate::workshop::Workshop;

/// Runs generated programs plain and with the probe, and reports every difference.
#[derive(Parser)]
struct Arguments {
    /// Seed of the first program; each further one has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this many programs
    #[arg(long, default_value_t = u64::MAX)]
    programs: u64,
    /// Stop after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Run over this preloaded allocator too (may be given several times)
    #[arg(long, value_name = "PATH")]
    allocator: Vec<PathBuf>,
    /// The probe's library
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/libhighwater_probe.so"
    )]
    probe: PathBuf,
    /// Where failing programs are kept, shrunk
    #[arg(long, value_name = "FOLDER", default_value = "target/guests")]
    keep: PathBuf,
    /// Keep failing programs as they are
    #[arg(long)]
    no_shrink: bool,
    /// Leave this fragment out of every program, or `chain`: for a fault that is known (may be given several times)
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Print the program of the first seed and run nothing
    #[arg(long)]
    print: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let fragments = catalogue::read()?;
    if arguments.print {
        let mut program = program::generate(&fragments, arguments.seed);
        program.leave_out(&arguments.without);
        print!("{}", program.source());
        return Ok(ExitCode::SUCCESS);
    }
    let probe = arguments.probe.canonicalize().with_context(|| {
        format!(
            "no probe at {}: build it, or name it by --probe",
            arguments.probe.display()
        )
    })?;
    let mut groups = vec![arms::all(&probe, None)];
    for allocator in &arguments.allocator {
        groups.push(arms::all(&probe, Some(&allocator.canonicalize()?)));
    }
    arms::adopt_orphans();
    let workshop = Workshop::open()?;
    let counts = run(&arguments, &workshop, &fragments, &groups)?;
    Ok(if counts.differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(
    arguments: &Arguments,
    workshop: &Workshop,
    fragments: &[catalogue::Fragment],
    groups: &[arms::Group],
) -> Result<Counts> {
    let started = Instant::now();
    let seconds_max = arguments.seconds.map(Duration::from_secs);
    let mut counts = Counts::default();
    while counts.programs < arguments.programs
        && seconds_max.is_none_or(|max| started.elapsed() < max)
    {
        let seed = arguments.seed + counts.programs;
        let mut program = program::generate(fragments, seed);
        program.leave_out(&arguments.without);
        counts.programs += 1;
        // One difference of a program is enough: the next allocator shows the same mostly.
        for group in groups {
            match compare(workshop, &program, group)? {
                Verdict::Same => continue,
                Verdict::Skipped(why) => {
                    counts.skipped += 1;
                    println!("skipped: seed {seed}, {}: {why}", group.control.name);
                }
                Verdict::Different(difference) => {
                    counts.differences += 1;
                    report_difference(arguments, workshop, &program, group, *difference)?;
                }
            }
            break;
        }
    }
    counts.print(started.elapsed().as_secs_f64());
    Ok(counts)
}

fn report_difference(
    arguments: &Arguments,
    workshop: &Workshop,
    program: &program::Program,
    group: &arms::Group,
    first: compare::Difference,
) -> Result<()> {
    let arm = first.arm.clone();
    let mut difference = first;
    let mut small = program.clone();
    if !arguments.no_shrink {
        small = shrink::shrink(program, |candidate| {
            let found = still_differs(workshop, candidate, &group.control, &arm)?;
            Ok(found.map(|found| difference = found).is_some())
        })?;
    }
    let case = report::keep(&arguments.keep, &small, &difference)?;
    println!(
        "different: seed {}, {}: {}\n    {}\n    kept in {}",
        program.seed,
        arm.name,
        difference.plain.difference(&difference.watched),
        small.outline(),
        case.display()
    );
    Ok(())
}

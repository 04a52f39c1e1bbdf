//! Differential testing of guests: generated C and C++ programs run plain and with the probe. Any difference in
//! output, exit status, signal, descriptors, mappings or children is a fault.

mod arms;
mod catalogue;
mod compare;
mod outline;
mod program;
mod report;
mod shrink;
mod workshop;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Run the programs of this file, one a line, instead of generated ones
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
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
    /// Programs at the same time, each in a folder of its own
    #[arg(long, default_value_t = 1)]
    jobs: usize,
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
    let counts = run(&arguments, &fragments, &groups)?;
    Ok(if counts.differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(
    arguments: &Arguments,
    fragments: &[catalogue::Fragment],
    groups: &[arms::Group],
) -> Result<Counts> {
    let started = Instant::now();
    let deadline = arguments
        .seconds
        .map(|seconds| started + Duration::from_secs(seconds));
    let cases = match &arguments.cases {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("reading {}", file.display()))?;
            Some(outline::read_all(fragments, &text)?)
        }
        None => None,
    };
    let program = |index: u64| match &cases {
        Some(cases) => cases.get(index as usize).cloned(),
        None => Some(program::generate(fragments, arguments.seed + index)),
    };
    let next = AtomicU64::new(0);
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| -> Result<()> {
        let work = || work(arguments, &program, groups, deadline, &next, &counts);
        let workers: Vec<_> = (0..arguments.jobs.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        for worker in workers {
            worker.join().expect("a worker does not panic")?;
        }
        Ok(())
    })?;
    let counts = counts.into_inner().expect("no worker panicked");
    counts.print(started.elapsed().as_secs_f64());
    Ok(counts)
}

/// Takes programs until there are no more, or the time is over.
fn work<'a>(
    arguments: &Arguments,
    program: &impl Fn(u64) -> Option<program::Program<'a>>,
    groups: &[arms::Group],
    deadline: Option<Instant>,
    next: &AtomicU64,
    counts: &Mutex<Counts>,
) -> Result<()> {
    let workshop = Workshop::open()?;
    while deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= arguments.programs {
            break;
        }
        let Some(mut program) = program(index) else {
            break;
        };
        program.leave_out(&arguments.without);
        let (is_skipped, is_different) = one(arguments, &workshop, &program, groups)?;
        let mut counts = counts.lock().expect("no worker panicked");
        counts.programs += 1;
        counts.skipped += u64::from(is_skipped);
        counts.differences += u64::from(is_different);
    }
    Ok(())
}

/// One program over every allocator: whether it was skipped, and whether it differed. One difference of a program is
/// enough: the next allocator shows the same mostly.
fn one(
    arguments: &Arguments,
    workshop: &Workshop,
    program: &program::Program,
    groups: &[arms::Group],
) -> Result<(bool, bool)> {
    for group in groups {
        match compare(workshop, program, group)? {
            Verdict::Same => {}
            Verdict::Skipped(why) => {
                println!(
                    "skipped: seed {}, {}: {why}",
                    program.seed, group.control.name
                );
                return Ok((true, false));
            }
            Verdict::Different(difference) => {
                report_difference(arguments, workshop, program, group, *difference)?;
                return Ok((false, true));
            }
        }
    }
    Ok((false, false))
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

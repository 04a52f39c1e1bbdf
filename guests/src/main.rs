//! Differential testing of guests: generated C and C++ programs run plain, with the probe, and while `explain --pid`
//! or `stalls --pid` is attached to them and detached again. Any difference in output, exit status, signal,
//! descriptors, mappings or children is a fault.

mod arms;
mod attach;
mod catalogue;
mod compare;
mod gates;
mod leftover;
mod links;
mod outline;
mod program;
mod report;
mod run;
mod shrink;
mod stop;
mod workshop;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;

use crate::arms::{Arm, Group, Means};
use crate::compare::{Ran, Verdict, compare, still_differs};
use crate::links::Link;
use crate::report::Counts;
use crate::workshop::Workshop;

/// Runs generated programs plain, with the probe and under attachments, and reports every difference.
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
    /// Run over the allocators in this folder too, which `guests/fetch` fills: preloaded, linked in, musl
    #[arg(long, value_name = "FOLDER")]
    fetched: Option<PathBuf>,
    /// Attach this highwater to programs; each in one of the attached arms, by its seed
    #[arg(long, value_name = "PATH")]
    highwater: Option<PathBuf>,
    /// Only arms with this in their names (may be given several times)
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
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
    /// The probe over one of the preloaded allocators for each program, by its seed, instead of over all of them: more
    /// programs in the same time
    #[arg(long)]
    spread: bool,
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
    let means = means(&arguments)?;
    let fetched = arguments.fetched.as_ref();
    let fetched = fetched.map(|path| path.canonicalize()).transpose()?;
    // Nothing is preloaded to other builds, so that there is nothing but attachments to run.
    let links = match means.highwater {
        Some(_) => Link::others(fetched.as_deref())?,
        None => Vec::new(),
    };
    let workshop = Workshop::open(&links)?;
    let groups = groups(&arguments, &means, (&fragments, links), &workshop)?;
    run::adopt_orphans();
    stop::listen();
    let counts = run_all(&arguments, &fragments, &groups, &workshop)?;
    Ok(if counts.differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn means(arguments: &Arguments) -> Result<Means> {
    let there = |path: &PathBuf, what: &str| {
        path.canonicalize()
            .with_context(|| format!("no {} here: build it, or name it by {what}", path.display()))
    };
    let highwater = arguments.highwater.as_ref();
    Ok(Means {
        probe: there(&arguments.probe, "--probe")?,
        highwater: highwater
            .map(|path| there(path, "--highwater"))
            .transpose()?,
        only: arguments.only.clone(),
    })
}

/// Every build over every allocator, without those in which no arm runs.
fn groups(
    arguments: &Arguments,
    means: &Means,
    (fragments, links): (&[catalogue::Fragment], Vec<Link>),
    workshop: &Workshop,
) -> Result<Vec<Group>> {
    let dynamic = Link::dynamic();
    let fetched = arguments
        .fetched
        .as_ref()
        .map(|path| path.canonicalize())
        .transpose()?;
    let mut groups = vec![arms::group(means, &dynamic, None)];
    let mut preloaded = Vec::new();
    for allocator in &arguments.allocator {
        preloaded.push(allocator.canonicalize()?);
    }
    if let Some(folder) = &fetched {
        preloaded.extend(links::preloaded(folder)?);
    }
    groups.extend(
        preloaded
            .iter()
            .map(|file| arms::group(means, &dynamic, Some(file))),
    );
    for mut link in links {
        if let Some(line) =
            link.try_fragments(fragments, |link, fragment| workshop.builds(fragment, link))
        {
            println!("{line}");
        }
        groups.push(arms::group(means, &link, None));
    }
    groups.retain(|group| !group.arms.is_empty() || !group.attached.is_empty());
    Ok(groups)
}

fn run_all(
    arguments: &Arguments,
    fragments: &[catalogue::Fragment],
    groups: &[Group],
    workshop: &Workshop,
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
        let (program, next, counts) = (&program, &next, &counts);
        let mut workers = Vec::new();
        for _ in 0..arguments.jobs.max(1) {
            let own = workshop.copy()?;
            let work = move || work(arguments, program, groups, &own, deadline, next, counts);
            workers.push(scope.spawn(work));
        }
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
    groups: &[Group],
    workshop: &Workshop,
    deadline: Option<Instant>,
    next: &AtomicU64,
    counts: &Mutex<Counts>,
) -> Result<()> {
    while deadline.is_none_or(|deadline| Instant::now() < deadline) && !stop::is_wanted() {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= arguments.programs {
            break;
        }
        let Some(mut program) = program(index) else {
            break;
        };
        program.leave_out(&arguments.without);
        let mut ran = Vec::new();
        let (is_skipped, is_different) = one(arguments, workshop, &program, groups, &mut ran)?;
        let mut counts = counts.lock().expect("no worker panicked");
        counts.add(ran);
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
    groups: &[Group],
    ran: &mut Vec<Ran>,
) -> Result<(bool, bool)> {
    let chosen = attached(groups, program.seed);
    let only = arguments.spread.then(|| preloaded(groups, program.seed));
    let mut is_skipped = false;
    for (index, group) in groups.iter().enumerate() {
        let mut arms: Vec<&Arm> = Vec::new();
        if only.is_none_or(|only| only == Some(index)) {
            arms.extend(&group.arms);
        }
        let is_here = |(place, _): &(usize, &Arm)| *place == index;
        arms.extend(chosen.filter(is_here).map(|(_, arm)| arm));
        let program = &group.link.fit(program);
        match compare(workshop, program, group, &arms, ran)? {
            Verdict::Same => {}
            Verdict::Skipped { why, is_everywhere } => {
                println!(
                    "skipped: seed {}, {}: {why}",
                    program.seed, group.control.name
                );
                is_skipped = true;
                if is_everywhere {
                    break;
                }
            }
            Verdict::Different(difference) => {
                report_difference(arguments, workshop, program, group, *difference)?;
                return Ok((false, true));
            }
        }
    }
    Ok((is_skipped, false))
}

/// The attached arm of a seed, and the group that it is in.
fn attached(groups: &[Group], seed: u64) -> Option<(usize, &Arm)> {
    let all: Vec<(usize, &Arm)> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, group)| group.attached.iter().map(move |arm| (index, arm)))
        .collect();
    let index = seed.checked_rem(all.len() as u64)?;
    Some(all[index as usize])
}

/// The group of a seed whose arms have the probe; drawn apart from the attached arm, so that every pair comes.
fn preloaded(groups: &[Group], seed: u64) -> Option<usize> {
    let with_probe = groups.iter().enumerate();
    let with_probe = with_probe.filter(|(_, group)| !group.arms.is_empty());
    let places: Vec<usize> = with_probe.map(|(index, _)| index).collect();
    (!places.is_empty()).then(|| places[fastrand::Rng::with_seed(seed).usize(..places.len())])
}

fn report_difference(
    arguments: &Arguments,
    workshop: &Workshop,
    program: &program::Program,
    group: &Group,
    first: compare::Difference,
) -> Result<()> {
    let arm = first.arm.clone();
    let mut difference = first;
    let mut small = program.clone();
    if !arguments.no_shrink {
        small = shrink::shrink(program, |candidate| {
            let found = still_differs(workshop, candidate, group, &arm)?;
            Ok(found.map(|found| difference = found).is_some())
        })?;
    }
    let case = report::keep(&arguments.keep, &small, &difference)?;
    println!(
        "different: seed {}, {}: {}\n    {}\n    kept in {}",
        program.seed,
        arm.name,
        difference.text,
        small.outline(),
        case.display()
    );
    Ok(())
}

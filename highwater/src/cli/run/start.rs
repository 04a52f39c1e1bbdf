//! The beginning of a run: its folder and record, its subject by kind, its collector; and the same for a run that
//! is taken up again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use super::conduct::{Conduct, Ended};
use super::decide::Deciding;
use super::journal::{ArmFacts, Journal};
use super::prepare::{self, Prepared};
use super::progress::Progress;
use super::simulate::Simulated;
use super::watch::{ChildCollector, Watch};
use super::{RunArgs, clock_of, close, is_fake};
use crate::cli::out::say;
use crate::cli::signals;
use allocators::Library;
use experiment::attach::{Attached, Known};
use experiment::fake::Fake;
use experiment::file::{Experiment, SubjectKind};
use experiment::preflight;
use experiment::remote::RemoteArms;
use experiment::service::cgroup::Hierarchy;
use experiment::service::{Service, Setup};
use experiment::{Subject, Who};
use observe::clock::{Clock, FakeClock, RealClock};
use observe::fact::program::{preload_problem, read_program};
use observe::host::{SystemRoot, read_machine};
use observe::member;
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, Expected, LAST_SNAPSHOT_MAX, ProcessId, Role, TimeNs};
use record::{Folder, ReadOptions, Reader, Recorder};
use verdict::run::heap::LAST_WORDS_MAX;
use verdict::run::{DEFECTS_FACT, PROTECTIONS_FACT};

/// Prepares, makes the run folder, runs to the end.
///
/// # Errors
/// Nothing has been started when the plan, an allocator, the preflight or the run folder fails.
pub fn begin(experiment: Experiment, args: &RunArgs) -> anyhow::Result<(Folder, Ended)> {
    let prepared = prepare::prepare(experiment, args.quiet)?;
    let warnings = [prepared.warnings.clone(), preflight(&prepared)?].concat();
    // Until here a signal just ends highwater: an allocator that is being built would keep it for minutes.
    let interrupted = signals::flag(signals::ENDING)?;
    let date = jiff::Zoned::now().date().to_string();
    let folder = Folder::create(&args.runs, &date, &prepared.experiment).context(
        "nothing was started: the run's folder cannot be made (--runs names another place)",
    )?;
    let _held = folder.hold()?;
    let clock = RealClock::start();
    let machine = read_machine(&ProcRoot::default(), &SystemRoot::default());
    let recorder = Recorder::create(&folder, &prepared.experiment, &machine, clock.anchor())
        .context("nothing was started: the record cannot be made")?;
    let begun = TimeNs(clock.anchor().wall_ns);
    let mut journal = Journal::new(recorder, begun);
    for warning in &warnings {
        say!("highwater: {warning}");
        journal.say(begun, None, EventKind::Note, warning.clone())?;
    }
    let ended = if is_fake(&prepared.experiment) {
        simulate(&prepared, &folder, journal, begun, args, interrupted)?
    } else {
        let mut subject = subject_of(&prepared, &folder)?;
        let libraries = facts_of(&prepared);
        let mut run = Run {
            folder: &folder,
            clock: &clock,
            begun,
            already: Duration::ZERO,
            until_decided: args.until_decided,
        };
        run.conduct(
            &prepared.experiment,
            &mut *subject,
            journal,
            libraries,
            args.quiet,
            interrupted,
        )?
    };
    Ok((folder, ended))
}

/// Goes on with a run whose supervisor was killed.
///
/// # Errors
/// The run is over or still supervised; what is gone is said.
pub fn resume(folder: &Folder, args: &RunArgs) -> anyhow::Result<(Folder, Ended)> {
    let reader = Reader::open(folder)?;
    let experiment = reader.experiment()?;
    if is_fake(&experiment) {
        bail!(
            "run {} is simulated: it takes no time, run it again",
            folder.id()
        );
    }
    let (clock, begun) = clock_of(&reader)?;
    let last = reader.last_snapshot()?.map_or(begun, |(_, time)| time);
    let already = Duration::from_nanos((last.0 - begun.0).max(0) as u64);
    if already >= experiment.duration && reader.end()?.is_some() {
        bail!(
            "run {} is over; `highwater report {}` shows its verdict",
            folder.id(),
            folder.path().display()
        );
    }
    let until_decided = args.until_decided || Deciding::is_recorded(&reader)?;
    let prepared = prepare::prepare(experiment, args.quiet)?;
    let interrupted = signals::flag(signals::ENDING)?;
    let _held = folder.hold()?;
    let setup = setup_of(&prepared, folder);
    let since = Duration::from_nanos((clock.now().0 - begun.0).max(0) as u64);
    let mut subject: Box<dyn Subject> = match prepared.experiment.subject.kind {
        SubjectKind::Attach => {
            let (plan, known) = (&prepared.experiment, known_processes(&reader)?);
            Box::new(Attached::resume(plan, &folder.id(), known).map_err(anyhow::Error::msg)?)
        }
        SubjectKind::Remote => subject_of(&prepared, folder)?,
        _ => Box::new(service_that_lives(
            &prepared.experiment,
            folder,
            setup,
            since,
        )?),
    };
    let mut recorder = Recorder::open(folder)?;
    recorder.resumed()?;
    let mut journal = Journal::new(recorder, begun);
    remember(&mut journal, &reader, clock.now())?;
    journal.say(
        clock.now(),
        None,
        EventKind::Resumed,
        "the run was taken up again".into(),
    )?;
    let libraries = facts_of(&prepared);
    let mut run = Run {
        folder,
        clock: &clock,
        begun,
        already,
        until_decided,
    };
    let ended = run.conduct(
        &prepared.experiment,
        &mut *subject,
        journal,
        libraries,
        args.quiet,
        interrupted,
    )?;
    Ok((folder.clone(), ended))
}

/// # Errors
/// Nothing of it runs any more; the record stays as it is.
fn service_that_lives(
    experiment: &Experiment,
    folder: &Folder,
    setup: Setup,
    since: Duration,
) -> anyhow::Result<Service> {
    let path = folder.path().display();
    let service = Service::resume(experiment.clone(), setup, since)
        .with_context(|| format!("taking up the run in {path} again"))?;
    anyhow::ensure!(
        service.lives(),
        "run {} cannot go on: none of its processes lives any more (they end with highwater, unless [subject] has \
         keep = true). `highwater report {path}` judges what was recorded, `highwater run {path}/experiment.toml` \
         runs it again",
        folder.id()
    );
    Ok(service)
}

/// Processes that the record knows go on under their rows; those of highwater and the machine begin anew.
fn remember(journal: &mut Journal, reader: &Reader, now: TimeNs) -> anyhow::Result<()> {
    for process in reader
        .processes()?
        .into_iter()
        .filter(|process| process.ended.is_none())
    {
        let role = match process.role {
            Role::Subject => experiment::Role::Subject,
            Role::Load => experiment::Role::Load,
            Role::Highwater | Role::Host => {
                journal.ended(process.id, now)?;
                continue;
            }
        };
        let (replica, incarnation) = (process.replica, process.incarnation);
        journal.remember(
            Who {
                arm: process.arm,
                replica,
                incarnation,
                role,
            },
            process.id,
        );
    }
    Ok(())
}

/// Processes that were watched, for a run over processes that highwater did not start.
fn known_processes(reader: &Reader) -> anyhow::Result<Vec<Known>> {
    let none: [&str; 0] = [];
    let run = reader.run(&ReadOptions::metrics(none))?;
    let subjects = run
        .processes
        .into_iter()
        .filter(|p| p.role == Role::Subject);
    let known = subjects.map(|process| {
        let fact = |key| member::latest(&process.facts, key).map(str::to_owned);
        Known {
            name: fact(member::NAME),
            unit: fact(member::UNIT),
            arm: process.arm,
            replica: process.replica,
            incarnation: process.incarnation,
            pid: process.pid,
            start_ticks: process.start_ticks,
            command: process.command,
            ended: process.ended.is_some(),
        }
    });
    Ok(known.collect())
}

/// What stays the same while a run goes on.
struct Run<'a> {
    folder: &'a Folder,
    clock: &'a RealClock,
    begun: TimeNs,
    already: Duration,
    until_decided: bool,
}

impl Run<'_> {
    fn conduct(
        &mut self,
        experiment: &Experiment,
        subject: &mut dyn Subject,
        mut journal: Journal,
        libraries: BTreeMap<String, ArmFacts>,
        quiet: bool,
        interrupted: Arc<AtomicBool>,
    ) -> anyhow::Result<Ended> {
        journal.describe_arms(libraries);
        let own = record_ourselves(&mut journal, self.clock.now())?;
        let reader = Reader::open(self.folder)?;
        let deciding = self
            .until_decided
            .then(|| begin_deciding(experiment, &reader, own, &mut journal, self.clock.now()))
            .transpose()?;
        let mut watch = ChildCollector::start(self.folder.path(), ending_max(experiment))
            .context("starting the collector")?;
        journal.collector(watch.pid(), self.clock.now())?;
        let mut progress = Progress::new(quiet);
        let ended = Conduct {
            experiment,
            subject,
            watch: &mut watch,
            journal: &mut journal,
            reader: &reader,
            clock: self.clock,
            progress: &mut progress,
            interrupted,
            begun: self.begun,
            already: self.already,
            deciding,
        }
        .run()?;
        close(self.folder, &ended, self.clock)?;
        Ok(ended)
    }
}

/// What the collector has left to do at the end: its last snapshot, and where there is a probe the last words on the
/// heaps.
fn ending_max(experiment: &Experiment) -> Duration {
    match experiment.probe {
        true => LAST_SNAPSHOT_MAX + LAST_WORDS_MAX,
        false => LAST_SNAPSHOT_MAX,
    }
}

/// The whole pipeline on a simulated clock, in this process.
fn simulate(
    prepared: &Prepared,
    folder: &Folder,
    mut journal: Journal,
    begun: TimeNs,
    args: &RunArgs,
    interrupted: Arc<AtomicBool>,
) -> anyhow::Result<Ended> {
    let experiment = &prepared.experiment;
    let mut fake = Fake::new(experiment, &folder.id()).map_err(super::Usage)?;
    let clock = FakeClock::at(begun);
    let recorder = Recorder::open(folder)?;
    let collector = Reader::open(folder)?;
    let mut watch = Simulated::new(
        fake.clone(),
        recorder,
        collector,
        begun,
        experiment.interval,
    );
    let reader = Reader::open(folder)?;
    let deciding = match args.until_decided {
        true => {
            let own = record_ourselves(&mut journal, begun)?;
            Some(begin_deciding(
                experiment,
                &reader,
                own,
                &mut journal,
                begun,
            )?)
        }
        false => None,
    };
    let mut progress = Progress::new(args.quiet);
    let ended = Conduct {
        experiment,
        subject: &mut fake,
        watch: &mut watch,
        journal: &mut journal,
        reader: &reader,
        clock: &clock,
        progress: &mut progress,
        interrupted,
        begun,
        already: Duration::ZERO,
        deciding,
    }
    .run()?;
    close(folder, &ended, &clock)?;
    Ok(ended)
}

fn subject_of(prepared: &Prepared, folder: &Folder) -> anyhow::Result<Box<dyn Subject>> {
    let experiment = prepared.experiment.clone();
    Ok(match experiment.subject.kind {
        SubjectKind::Service => Box::new(Service::new(experiment, setup_of(prepared, folder))?),
        SubjectKind::Attach => {
            Box::new(Attached::new(&experiment, &folder.id()).map_err(anyhow::Error::msg)?)
        }
        SubjectKind::Remote => Box::new(RemoteArms::new(&experiment)),
        SubjectKind::Fake => Box::new(Fake::new(&experiment, &folder.id()).map_err(super::Usage)?),
    })
}

fn setup_of(prepared: &Prepared, folder: &Folder) -> Setup {
    Setup {
        run: folder.id(),
        folder: folder.path().to_path_buf(),
        preloads: prepared.preloads(),
        hierarchy: Hierarchy::find(),
    }
}

/// What is known of each arm's library before it runs, as facts of each of its processes.
fn facts_of(prepared: &Prepared) -> BTreeMap<String, ArmFacts> {
    let facts = |library: &Library| {
        let mut facts = vec![
            ("arm.allocator".to_owned(), library.spec.clone()),
            ("arm.source".to_owned(), library.source.clone()),
        ];
        let known = [
            (DEFECTS_FACT, allocators::known_defects(library)),
            (PROTECTIONS_FACT, allocators::protections(library)),
        ];
        for (name, lines) in known.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            facts.push((name.to_owned(), lines.join("\n")));
        }
        let whole_libc = library
            .loader
            .as_ref()
            .map(|loader| loader.library_path.join("libc.so.6"));
        let answers = library.path.clone().or(whole_libc);
        let expected = answers.map_or(Expected::System, Expected::Library);
        ArmFacts { expected, facts }
    };
    prepared
        .libraries
        .iter()
        .map(|(arm, library)| (arm.clone(), facts(library)))
        .collect()
}

/// highwater's own processes and the machine, as targets like any other; the value is the supervisor.
fn record_ourselves(journal: &mut Journal, now: TimeNs) -> anyhow::Result<ProcessId> {
    let own = std::process::id() as i32;
    let supervisor = journal.ourselves(Role::Highwater, own, "supervisor", now)?;
    journal.ourselves(Role::Host, 0, "host", now)?;
    Ok(supervisor)
}

/// The stop rule, and its state in the record: from now on the record says that there is one.
fn begin_deciding(
    experiment: &Experiment,
    reader: &Reader,
    own: ProcessId,
    journal: &mut Journal,
    now: TimeNs,
) -> anyhow::Result<Deciding> {
    let deciding = Deciding::new(experiment, reader, own)?;
    journal.facts(now, vec![deciding.fact()])?;
    Ok(deciding)
}

/// Everything that can be known to be wrong before anything is started.
fn preflight(prepared: &Prepared) -> anyhow::Result<Vec<String>> {
    let found = examine(prepared);
    if !found.problems.is_empty() {
        bail!("nothing was started:\n  {}", found.problems.join("\n  "));
    }
    if let Some(plan) = &prepared.experiment.subject.remote {
        return super::remote::check(&prepared.experiment, plan);
    }
    Ok(found.warnings)
}

/// The plan against this machine; nothing is started or changed.
pub fn examine(prepared: &Prepared) -> preflight::Findings {
    let nowhere = Setup {
        run: "preflight".into(),
        folder: std::env::temp_dir(),
        preloads: prepared.preloads(),
        hierarchy: Hierarchy::find(),
    };
    let misfit = |program: &Path, library: &Path| {
        read_program(program)
            .ok()
            .and_then(|program| preload_problem(&program, library))
    };
    let mut found = preflight::preflight(&prepared.experiment, &nowhere, &misfit);
    found.warnings.extend(prepared.without_probe());
    found
}

//! Which processes are observed: those that selectors choose, or those of a run.

use experiment::chosen::{Choice, Chooser, Chosen, PROCESSES_MAX, Selector, regex, unit};
use observe::snapshot::Role;
use record::{Folder, Reader};

use super::ObserveArgs;
use crate::cli::exit::Usage;

/// Where the processes come from.
pub enum Source {
    Chooser(Chooser),
    Run {
        reader: Box<Reader>,
        left_out: usize,
    },
}

impl Source {
    /// # Errors
    /// The call: nothing is chosen, or a selector is none; or the run cannot be read.
    pub fn of(args: &ObserveArgs) -> anyhow::Result<Source> {
        if let Some(run) = &args.run {
            let folder: Folder = crate::cli::find_run(&args.runs, run)?;
            let reader = Box::new(Reader::open(&folder)?);
            return Ok(Source::Run {
                reader,
                left_out: 0,
            });
        }
        let choices = choices(args)?;
        if choices.is_empty() {
            let words =
                "which processes? Give --pid, --exe, --args, --unit, --arm NAME=SELECTOR or --run";
            return Err(Usage(words.to_owned()).into());
        }
        Ok(Source::Chooser(Chooser::new(choices)))
    }

    /// What is there now.
    ///
    /// # Errors
    /// The record of the run cannot be read.
    pub fn search(&mut self) -> anyhow::Result<Vec<Chosen>> {
        match self {
            Source::Chooser(chooser) => {
                chooser.search();
                Ok(chooser.held().to_vec())
            }
            Source::Run { reader, left_out } => {
                let targets = reader.targets()?;
                let of_run = targets.into_iter().filter(|t| t.role == Role::Subject);
                let mut chosen: Vec<Chosen> = of_run
                    .map(|target| Chosen {
                        name: format!("{}-{}", target.arm, target.replica),
                        arm: target.arm,
                        pid: target.pid,
                        start_ticks: target.start_ticks,
                        cgroup: target.cgroup,
                        base: String::new(),
                    })
                    .collect();
                *left_out = chosen.len().saturating_sub(PROCESSES_MAX);
                chosen.truncate(PROCESSES_MAX);
                Ok(chosen)
            }
        }
    }

    /// Processes whose executable this user may not see.
    pub fn hidden(&self) -> usize {
        match self {
            Source::Chooser(chooser) => chooser.hidden(),
            Source::Run { .. } => 0,
        }
    }

    pub fn left_out(&self) -> usize {
        match self {
            Source::Chooser(chooser) => chooser.left_out,
            Source::Run { left_out, .. } => *left_out,
        }
    }
}

/// Those with an arm first: the first choice that fits a process counts.
fn choices(args: &ObserveArgs) -> anyhow::Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for text in &args.arm {
        let wrong = |words: &str| Usage(format!("--arm {text}: {words}"));
        let (arm, selector) = text
            .split_once('=')
            .filter(|(arm, _)| !arm.is_empty())
            .ok_or_else(|| wrong("write NAME=SELECTOR, as in --arm glibc=unit:tor@a*"))?;
        let selector = Selector::parse(selector).map_err(|words| wrong(&words))?;
        choices.push(Choice {
            arm: arm.to_owned(),
            selector,
        });
    }
    let plain = |selector| Choice {
        arm: String::new(),
        selector,
    };
    choices.extend(args.pid.iter().map(|pid| plain(Selector::Pid(*pid))));
    for (flag, texts, make) in [
        ("--exe", &args.exe, Selector::Exe as fn(_) -> _),
        ("--args", &args.args, Selector::Args),
    ] {
        for text in texts {
            let told = |words: String| Usage(format!("{flag} {text}: {words}"));
            choices.push(plain(make(regex(text).map_err(told)?)));
        }
    }
    for text in &args.unit {
        let told = |words: String| Usage(format!("--unit {text}: {words}"));
        choices.push(plain(Selector::Unit(unit(text).map_err(told)?)));
    }
    Ok(choices)
}

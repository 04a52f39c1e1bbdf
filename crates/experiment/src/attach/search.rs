//! One search: every process of the plan that runs now, with its arm and its name.
//!
//! The only place that knows how members are found; [`super::Attached`] only compares one search with the next.

use std::collections::BTreeMap;

use regex::Regex;

use super::MATCHES_MAX;
use super::glob::Glob;
use super::process::{
    Process, all_pids, own_line, read_cgroup, read_executable, read_process, read_variables,
};
use super::table::{Key, TableFile};
use super::unit::{Unit, read_units};
use crate::file::{AttachGroup, Experiment};

/// A process that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pid: i32,
    pub start_ticks: u64,
    /// `argv`; not yet redacted.
    pub command: Vec<String>,
    pub arm: String,
    /// What it is called over its restarts and moves: by its unit, or by its arguments.
    pub name: Option<String>,
    pub unit: Option<String>,
    /// By number: no other process takes its place.
    pub by_pid: bool,
}

impl Found {
    pub fn key(&self) -> (i32, u64) {
        (self.pid, self.start_ticks)
    }
}

/// What a search brought.
#[derive(Debug, Clone, Default)]
pub struct Sighting {
    pub found: Vec<Found>,
    pub units: Vec<Unit>,
    /// What would be wrong with a run that begins now.
    pub problems: Vec<String>,
    /// What is to be known of it.
    pub notes: Vec<String>,
}

/// The plan's signs of its processes, made ready.
#[derive(Debug)]
pub struct Search {
    arms: Vec<String>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    plan: AttachGroup,
    exe: Option<Regex>,
    args: Option<Regex>,
    cgroup: Option<Glob>,
    environ: Vec<(String, Glob)>,
    file: Option<TableFile>,
}

impl Search {
    /// # Errors
    /// In words: an expression that is none, a file of groups that cannot be read.
    pub fn new(plan: &Experiment) -> Result<Search, String> {
        let arms: Vec<String> = plan.arms.iter().map(|arm| arm.name.clone()).collect();
        let group = |group: &AttachGroup| Group::new(group, plan, &arms);
        let groups: Result<Vec<Group>, String> = plan.subject.attach.iter().map(group).collect();
        Ok(Search {
            groups: groups?,
            arms,
        })
    }

    /// Whether other processes may come than those that are there now.
    pub fn is_open(&self) -> bool {
        let by_sign = |group: &Group| group.plan.pids.is_empty();
        self.groups.iter().any(by_sign)
    }

    /// Everything that runs now. `at_s` is the calendar time, seconds since the epoch.
    ///
    /// # Errors
    /// In words, when systemctl fails: then nothing is known of its units.
    pub fn scan(&mut self, at_s: f64) -> Result<Sighting, String> {
        let mut sighting = Sighting::default();
        let mut everybody = None;
        for group in &mut self.groups {
            group.reread(&self.arms, &mut sighting.notes);
        }
        for group in &self.groups {
            let found = group.find(&mut everybody, at_s, &mut sighting)?;
            for one in found {
                admit(one, &mut sighting);
            }
        }
        self.check_arms(&mut sighting);
        sighting.found.sort_by_key(|one| (one.start_ticks, one.pid));
        Ok(sighting)
    }

    /// An arm that only a file knows may be empty for now, but not for ever.
    fn check_arms(&self, sighting: &mut Sighting) {
        let tables = || self.groups.iter().filter_map(|group| group.file.as_ref());
        if tables().next().is_none() {
            return;
        }
        for arm in &self.arms {
            let has = sighting.found.iter().any(|one| one.arm == *arm);
            let named = self.groups.iter().any(|group| group.plan.arm == *arm);
            if has || named {
                continue;
            }
            if tables().any(|file| file.table.knows(arm)) {
                let words = format!("arm {arm} has no process yet");
                sighting.notes.push(words);
            } else {
                let files: Vec<String> = tables().map(|f| f.path.display().to_string()).collect();
                let words = format!("arm {arm}: {} names no process for it", files.join(", "));
                sighting.problems.push(words);
            }
        }
    }
}

/// Takes it, unless another group has it already.
fn admit(one: Found, sighting: &mut Sighting) {
    let Some(other) = sighting.found.iter().find(|other| other.key() == one.key()) else {
        sighting.found.push(one);
        return;
    };
    if other.arm != one.arm {
        let (pid, arm, first) = (one.pid, &one.arm, &other.arm);
        sighting.problems.push(format!(
            "pid {pid} is in arm {arm} and in arm {first}: it can only be in one"
        ));
    }
}

impl Group {
    fn new(group: &AttachGroup, plan: &Experiment, arms: &[String]) -> Result<Group, String> {
        let wrong = |error: String| match group.arm.is_empty() {
            true => error,
            false => format!("arm {}: {error}", group.arm),
        };
        let read = |text: &Option<String>| text.as_deref().map(Regex::new).transpose();
        let regex = |text| read(text).map_err(|error| wrong(error.to_string()));
        let environ = group.environ.iter();
        let environ: Result<Vec<_>, String> = environ
            .map(|(name, value)| Ok((name.clone(), Glob::new(value).map_err(wrong)?)))
            .collect();
        let file = group.groups.as_ref();
        let made = Group {
            exe: regex(&group.exe)?,
            args: regex(&group.args)?,
            cgroup: group
                .cgroup
                .as_deref()
                .map(Glob::new)
                .transpose()
                .map_err(wrong)?,
            environ: environ?,
            file: file
                .map(|path| TableFile::read(plan.base.join(path), arms))
                .transpose()?,
            plan: group.clone(),
        };
        made.check()
    }

    fn check(self) -> Result<Group, String> {
        let key = self.file.as_ref().map(|file| file.table.key);
        if key.is_none() && self.plan.pids.is_empty() && !self.has_sign() {
            return Err(format!(
                "arm {}: neither pids nor an expression says which processes are meant",
                self.plan.arm
            ));
        }
        let names = self
            .args
            .as_ref()
            .is_some_and(|args| args.captures_len() > 1);
        if key == Some(Key::Name) && !names && self.plan.units.is_empty() {
            let file = self
                .file
                .as_ref()
                .map(|file| file.path.display().to_string());
            return Err(format!(
                "{} names processes, but nothing says what a process is called: give `args` with a group in \
                 parentheses (args = \"--nickname (\\\\S+)\"), or `unit` with a *",
                file.unwrap_or_default()
            ));
        }
        Ok(self)
    }

    fn has_sign(&self) -> bool {
        let plan = &self.plan;
        let texts = [&plan.exe, &plan.args, &plan.cgroup];
        texts.iter().any(|text| text.is_some())
            || !plan.units.is_empty()
            || !plan.environ.is_empty()
    }

    /// A file that changed is read again; one that cannot be read leaves everything as it was.
    fn reread(&mut self, arms: &[String], notes: &mut Vec<String>) {
        let Some(file) = &mut self.file else {
            return;
        };
        if file.is_current() {
            return;
        }
        match TableFile::read(file.path.clone(), arms) {
            Ok(new) => *file = new,
            Err(why) => notes.push(format!("{why}; the groups stay as they were")),
        }
    }

    fn find(
        &self,
        everybody: &mut Option<Vec<Process>>,
        at_s: f64,
        sighting: &mut Sighting,
    ) -> Result<Vec<Found>, String> {
        let key = self.file.as_ref().map(|file| file.table.key);
        let found = if !self.plan.pids.is_empty() {
            self.by_pids(&self.plan.pids, sighting)
        } else if key == Some(Key::Pid) && !self.has_sign() {
            let names = self.file.iter().flat_map(|file| file.table.names());
            let pids: Vec<i32> = names.filter_map(|pid| pid.parse().ok()).collect();
            self.by_pids(&pids, sighting)
        } else if !self.plan.units.is_empty() || (key == Some(Key::Unit) && !self.has_sign()) {
            self.by_units(sighting)?
        } else {
            let all = everybody.get_or_insert_with(read_everybody);
            self.by_signs(all, sighting)
        };
        let found = self.with_arms(found, at_s);
        let who = self.words();
        if found.is_empty() && sighting.problems.is_empty() {
            let words = format!("{who} has no process. Does the service run?");
            sighting.problems.push(words);
        }
        if found.len() > MATCHES_MAX {
            let many = found.len();
            let words = format!(
                "{who}: {many} processes, more than {MATCHES_MAX}: write a narrower expression"
            );
            sighting.problems.push(words);
        }
        Ok(found.into_iter().take(MATCHES_MAX).collect())
    }

    /// "arm a", or the file's name.
    fn words(&self) -> String {
        match &self.file {
            Some(file) => file.path.display().to_string(),
            None => format!("arm {}", self.plan.arm),
        }
    }

    fn by_pids(&self, pids: &[i32], sighting: &mut Sighting) -> Vec<Found> {
        let mut found = Vec::new();
        for pid in pids {
            match read_process(*pid) {
                Some(process) => found.push(self.found(process, None)),
                None => sighting
                    .problems
                    .push(format!("{}: there is no process {pid}", self.words())),
            }
        }
        found.iter_mut().for_each(|one| one.by_pid = true);
        found
    }

    fn by_units(&self, sighting: &mut Sighting) -> Result<Vec<Found>, String> {
        let table = self.file.iter().flat_map(|file| file.table.names());
        let wanted = match self.plan.units.is_empty() {
            true => table.collect(),
            false => self.plan.units.clone(),
        };
        let mut found = Vec::new();
        for unit in read_units(&wanted)? {
            let name = &unit.name;
            if !unit.exists {
                let words = format!("{}: systemd knows no unit {name}", self.words());
                sighting.problems.push(words);
                continue;
            }
            match unit.main_pid.and_then(read_process) {
                Some(process) if self.fits(&process) => {
                    found.push(self.found(process, Some(name)));
                }
                Some(_) => {}
                None => sighting.notes.push(format!(
                    "{}: unit {name} does not run: {}",
                    self.words(),
                    unit.state
                )),
            }
            sighting.units.push(unit);
        }
        Ok(found)
    }

    fn by_signs(&self, everybody: &[Process], sighting: &mut Sighting) -> Vec<Found> {
        let matching = everybody.iter().filter(|process| self.fits(process));
        let found: Vec<Found> = matching.map(|one| self.found(one.clone(), None)).collect();
        if found.is_empty() {
            sighting.problems.push(self.no_match(everybody));
        }
        found
    }

    /// What was sought in vain, and what could not be seen.
    fn no_match(&self, everybody: &[Process]) -> String {
        let plan = &self.plan;
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "anything".into());
        let mut sought = format!("exe {}, args {}", shown(&plan.exe), shown(&plan.args));
        for (name, value) in &plan.environ {
            sought.push_str(&format!(", {name}={value}"));
        }
        if let Some(cgroup) = &plan.cgroup {
            sought.push_str(&format!(", cgroup {cgroup}"));
        }
        let fits_args = |one: &&Process| {
            self.args
                .as_ref()
                .is_none_or(|args| args.is_match(&line(one)))
        };
        let is_hidden = |one: &&Process| {
            (self.exe.is_some() && read_executable(one.pid).is_none())
                || (!self.environ.is_empty() && read_variables(one.pid).is_none())
        };
        let hidden = everybody.iter().filter(fits_args).filter(is_hidden).count();
        let who = self.words();
        match hidden {
            0 => format!("{who}: no process matches {sought}. Does the service run?"),
            _ => format!(
                "{who}: no process matches {sought}; of {hidden} others the executable or the variables cannot be \
                 read: run as root, or as their user"
            ),
        }
    }

    fn fits(&self, process: &Process) -> bool {
        let matches = |regex: &Option<Regex>, text: &dyn Fn() -> Option<String>| {
            regex
                .as_ref()
                .is_none_or(|regex| text().is_some_and(|text| regex.is_match(&text)))
        };
        matches(&self.args, &|| Some(line(process)))
            && matches(&self.exe, &|| read_executable(process.pid))
            && self
                .cgroup
                .as_ref()
                .is_none_or(|glob| read_cgroup(process.pid).is_some_and(|path| glob.matches(&path)))
            && self.fits_variables(process.pid)
    }

    fn fits_variables(&self, pid: i32) -> bool {
        if self.environ.is_empty() {
            return true;
        }
        let Some(variables) = read_variables(pid) else {
            return false;
        };
        let value = |name: &str| {
            let mut pairs = variables.iter().filter_map(|text| text.split_once('='));
            pairs
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value)
        };
        let holds = |(name, glob): &(String, Glob)| value(name).is_some_and(|v| glob.matches(v));
        self.environ.iter().all(holds)
    }

    fn found(&self, process: Process, unit: Option<&String>) -> Found {
        let args = self.args.as_ref();
        let by_args = args.and_then(|args| {
            let captures = args.captures(&line(&process))?.get(1)?.as_str().to_owned();
            Some(captures).filter(|name| !name.is_empty())
        });
        Found {
            pid: process.pid,
            start_ticks: process.start_ticks,
            command: process.command,
            arm: self.plan.arm.clone(),
            name: by_args.or_else(|| unit.cloned()),
            unit: unit.cloned(),
            by_pid: false,
        }
    }

    /// Those that are in an arm now.
    fn with_arms(&self, found: Vec<Found>, at_s: f64) -> Vec<Found> {
        let Some(file) = &self.file else {
            return found;
        };
        let arm_of = |one: &Found| {
            let pid = one.pid.to_string();
            let names = self.names_of(one, &pid);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            file.table.arm(&names, at_s).map(str::to_owned)
        };
        let known = found.into_iter().filter_map(|one| {
            let arm = arm_of(&one)?;
            Some(Found { arm, ..one })
        });
        known.collect()
    }

    /// What a line of the file may call it.
    fn names_of(&self, one: &Found, pid: &str) -> Vec<String> {
        match self.file.as_ref().map(|file| file.table.key) {
            Some(Key::Pid) => vec![pid.to_owned()],
            Some(Key::Unit) => one.unit.iter().cloned().collect(),
            _ => {
                let globs = self
                    .plan
                    .units
                    .iter()
                    .filter_map(|unit| Glob::new(unit).ok());
                let stars = one.unit.iter().flat_map(|unit| {
                    let stars = globs
                        .clone()
                        .filter_map(|glob| glob.star(unit).map(str::to_owned));
                    stars.collect::<Vec<_>>()
                });
                one.name.iter().cloned().chain(stars).collect()
            }
        }
    }
}

/// Arguments joined by spaces.
fn line(process: &Process) -> String {
    process.command.join(" ")
}

/// All processes with arguments but highwater itself and what started it.
fn read_everybody() -> Vec<Process> {
    let ourselves = own_line();
    let others = all_pids().filter(|pid| !ourselves.contains(pid));
    let all = others.filter_map(read_process);
    all.filter(|one| !one.command.is_empty()).collect()
}

/// Names of units with their state, for comparing two searches.
pub fn by_name(units: &[Unit]) -> BTreeMap<&str, &Unit> {
    units
        .iter()
        .map(|unit| (unit.name.as_str(), unit))
        .collect()
}

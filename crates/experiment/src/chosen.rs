//! Processes chosen by selectors on a host, for as long as `observe` runs: each has a name that its successor
//! takes over, so that a restart is a restart and not another process.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::attach::process::{all_pids, own_line, read_executable, read_process};
use super::service::read_stat;
use crate::file::facts::parse_unit;

/// Processes watched at once; more are counted and left out, the youngest first.
pub const PROCESSES_MAX: usize = 1000;

/// Which processes are meant.
#[derive(Debug, Clone)]
pub enum Selector {
    Pid(i32),
    /// On the path of the executable.
    Exe(Regex),
    /// On the arguments joined by spaces.
    Args(Regex),
    /// On the name of the systemd unit; of a unit, the processes whose parent is not in it.
    Unit(Regex),
}

impl Selector {
    /// `pid:42`, `exe:REGEX`, `args:REGEX` or `unit:GLOB`, as `--arm NAME=` takes it.
    ///
    /// # Errors
    /// In words, what was expected.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let (kind, value) = text
            .split_once(':')
            .ok_or("write pid:NUMBER, exe:REGEX, args:REGEX or unit:GLOB")?;
        match kind {
            "pid" => value
                .parse()
                .map(Selector::Pid)
                .map_err(|_| format!("{value} is no pid")),
            "exe" => regex(value).map(Selector::Exe),
            "args" => regex(value).map(Selector::Args),
            "unit" => unit(value).map(Selector::Unit),
            other => Err(format!(
                "{other}: is unknown; write pid:NUMBER, exe:REGEX, args:REGEX or unit:GLOB"
            )),
        }
    }
}

/// A regular expression of the user's.
///
/// # Errors
/// Why it is none.
pub fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

/// A unit's name with `*` and `?` as systemctl takes it; `.service` may be left out.
///
/// # Errors
/// It is too long for an expression.
pub fn unit(glob: &str) -> Result<Regex, String> {
    let whole = match glob.contains('.') {
        true => glob.to_owned(),
        false => format!("{glob}.service"),
    };
    let pattern = regex::escape(&whole)
        .replace(r"\*", ".*")
        .replace(r"\?", ".");
    regex(&format!("^{pattern}$"))
}

/// A selector, and the arm of those that it chooses.
#[derive(Debug, Clone)]
pub struct Choice {
    pub arm: String,
    pub selector: Selector,
}

/// One process that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Empty where no arm was given.
    pub arm: String,
    /// Its unit or the file name of its program; `-2` and so on for further ones of one name.
    pub name: String,
    pub pid: i32,
    /// Field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    /// Folder of its unit's cgroup, where it has one with memory files.
    pub cgroup: Option<PathBuf>,
    /// What its name was made of.
    pub base: String,
}

impl Chosen {
    fn key(&self) -> (i32, u64) {
        (self.pid, self.start_ticks)
    }
}

/// The processes chosen so far; [`Chooser::search`] brings it up to date.
#[derive(Debug)]
pub struct Chooser {
    choices: Vec<Choice>,
    held: Vec<Chosen>,
    /// Processes that matched at the last search and were one too many.
    pub left_out: usize,
}

/// What the system tells of a process that was chosen, before it has a name.
struct Found {
    arm: String,
    base: String,
    pid: i32,
    start_ticks: u64,
    cgroup: Option<PathBuf>,
}

impl Chooser {
    /// The first choice that fits a process counts.
    pub fn new(choices: Vec<Choice>) -> Chooser {
        Chooser {
            choices,
            held: Vec::new(),
            left_out: 0,
        }
    }

    pub fn held(&self) -> &[Chosen] {
        &self.held
    }

    /// Processes whose executable this user may not see, when an expression asks for executables.
    pub fn hidden(&self) -> usize {
        let by_exe = |choice: &Choice| matches!(choice.selector, Selector::Exe(_));
        if !self.choices.iter().any(by_exe) {
            return 0;
        }
        // A kernel thread has no executable and no arguments either.
        let runs = |pid: &i32| read_process(*pid).is_some_and(|f| !f.command.is_empty());
        let unseen = all_pids().filter(|pid| read_executable(*pid).is_none());
        unseen.filter(runs).count()
    }

    /// Lets go of what has ended and takes in what is new, the oldest first.
    pub fn search(&mut self) {
        let mut found = self.find();
        found.sort_by_key(|one| (one.start_ticks, one.pid));
        self.settle(found);
    }

    fn settle(&mut self, found: Vec<Found>) {
        // One that became another program since, as a shell's child does, gets another name.
        let same =
            |one: &Chosen, f: &Found| one.key() == (f.pid, f.start_ticks) && one.base == f.base;
        self.held.retain(|one| found.iter().any(|f| same(one, f)));
        let known: HashSet<(i32, u64)> = self.held.iter().map(Chosen::key).collect();
        let mut names: HashSet<(String, String)> = HashSet::new();
        names.extend(self.held.iter().map(|h| (h.arm.clone(), h.name.clone())));
        self.left_out = 0;
        for new in found {
            if known.contains(&(new.pid, new.start_ticks)) {
                continue;
            }
            if self.held.len() == PROCESSES_MAX {
                self.left_out += 1;
                continue;
            }
            let name = free_name(&names, &new.arm, &new.base);
            names.insert((new.arm.clone(), name.clone()));
            self.held.push(Chosen {
                arm: new.arm,
                name,
                pid: new.pid,
                start_ticks: new.start_ticks,
                cgroup: new.cgroup,
                base: new.base,
            });
        }
    }

    fn find(&self) -> Vec<Found> {
        let by_pid = |choice: &Choice| matches!(choice.selector, Selector::Pid(_));
        if self.choices.iter().all(by_pid) {
            let pids = self.choices.iter().filter_map(|c| match c.selector {
                Selector::Pid(pid) => Some(pid),
                _ => None,
            });
            return pids.filter_map(|pid| self.inspect(pid)).collect();
        }
        let ourselves = own_line();
        all_pids()
            .filter(|pid| !ourselves.contains(pid) || self.is_named(*pid))
            .filter_map(|pid| self.inspect(pid))
            .collect()
    }

    fn is_named(&self, pid: i32) -> bool {
        let names = |c: &Choice| matches!(c.selector, Selector::Pid(named) if named == pid);
        self.choices.iter().any(names)
    }

    fn inspect(&self, pid: i32) -> Option<Found> {
        let mut seen = Seen::new(pid);
        let choice = self.choices.iter().find(|c| seen.fits(&c.selector))?;
        let found = read_process(pid)?;
        // Kernel threads, and programs that are just being executed, have no arguments.
        let program = found.command.first()?.clone();
        let by_unit = matches!(choice.selector, Selector::Unit(_));
        let base = match (by_unit, &seen.unit().1) {
            (true, Some(unit)) => unit.trim_end_matches(".service").to_owned(),
            _ => file_name(&read_executable(pid).unwrap_or(program)),
        };
        let cgroup = by_unit.then(|| cgroup_folder(&seen.unit().0)).flatten();
        Some(Found {
            arm: choice.arm.clone(),
            base,
            pid,
            start_ticks: found.start_ticks,
            cgroup,
        })
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The bare name if it is free, else the first number from 2 on that is.
fn free_name(taken: &HashSet<(String, String)>, arm: &str, base: &str) -> String {
    let numbered = (2..).map(|n| format!("{base}-{n}"));
    std::iter::once(base.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains(&(arm.to_owned(), name.clone())))
        .expect("names do not end")
}

/// What was read of one process, each part only when a selector asks for it.
struct Seen {
    pid: i32,
    exe: Option<Option<String>>,
    arguments: Option<String>,
    unit: Option<(String, Option<String>)>,
}

impl Seen {
    fn new(pid: i32) -> Seen {
        Seen {
            pid,
            exe: None,
            arguments: None,
            unit: None,
        }
    }

    fn fits(&mut self, selector: &Selector) -> bool {
        let pid = self.pid;
        match selector {
            Selector::Pid(named) => *named == pid,
            Selector::Exe(regex) => {
                let exe = self.exe.get_or_insert_with(|| read_executable(pid));
                exe.as_ref().is_some_and(|exe| regex.is_match(exe))
            }
            Selector::Args(regex) => {
                let read = || read_process(pid).map_or_else(String::new, |f| f.command.join(" "));
                let arguments = self.arguments.get_or_insert_with(read);
                !arguments.is_empty() && regex.is_match(arguments)
            }
            Selector::Unit(regex) => {
                let unit = self.unit().1.clone();
                unit.is_some_and(|unit| regex.is_match(&unit) && leads(pid, &unit))
            }
        }
    }

    /// Path of its cgroup, and its unit.
    fn unit(&mut self) -> &(String, Option<String>) {
        let pid = self.pid;
        self.unit.get_or_insert_with(|| read_unit(pid))
    }
}

fn read_unit(pid: i32) -> (String, Option<String>) {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    parse_cgroup(&text)
}

/// The path and the unit out of /proc/PID/cgroup: of the one hierarchy of version 2, else of systemd's own.
fn parse_cgroup(text: &str) -> (String, Option<String>) {
    let path = |line: &str| line.splitn(3, ':').nth(2).map(str::to_owned);
    let systemd = text.lines().find(|l| l.contains(":name=systemd:"));
    let unified = text.lines().find(|l| l.starts_with("0::"));
    let lines = [systemd, unified].into_iter().flatten();
    for found in lines.filter_map(path) {
        if let Some(unit) = parse_unit(&found) {
            return (found, Some(unit));
        }
    }
    (String::new(), None)
}

/// Its parent is not of the same unit: a service's workers are its own business.
fn leads(pid: i32, unit: &str) -> bool {
    let parent = read_stat(pid).map_or(0, |stat| stat.ppid);
    parent <= 1 || read_unit(parent).1.as_deref() != Some(unit)
}

fn cgroup_folder(path: &str) -> Option<PathBuf> {
    let folder = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
    folder.join("memory.current").exists().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &str, pid: i32, start_ticks: u64) -> Found {
        Found {
            arm: "a".into(),
            base: base.into(),
            pid,
            start_ticks,
            cgroup: None,
        }
    }

    fn names(chooser: &Chooser) -> Vec<(i32, &str)> {
        let held = chooser.held.iter();
        held.map(|h| (h.pid, h.name.as_str())).collect()
    }

    #[test]
    fn a_successor_takes_the_name_of_the_one_that_ended() {
        let mut chooser = Chooser::new(Vec::new());
        chooser.settle(vec![
            found("tor", 1, 10),
            found("tor", 2, 11),
            found("tor", 3, 12),
        ]);
        assert_eq!(names(&chooser), [(1, "tor"), (2, "tor-2"), (3, "tor-3")]);
        // 2 was restarted; 3 is another process now under the same pid.
        chooser.settle(vec![
            found("tor", 1, 10),
            found("tor", 7, 90),
            found("tor", 3, 91),
        ]);
        assert_eq!(names(&chooser), [(1, "tor"), (7, "tor-2"), (3, "tor-3")]);
        chooser.settle(vec![found("tor", 1, 10), found("nyx", 7, 90)]);
        assert_eq!(names(&chooser), [(1, "tor"), (7, "nyx")]);
    }

    #[test]
    fn one_too_many_is_counted() {
        let mut chooser = Chooser::new(Vec::new());
        let all = (0..1003).map(|n| found("x", n, 5));
        chooser.settle(all.collect());
        assert_eq!((chooser.held.len(), chooser.left_out), (PROCESSES_MAX, 3));
    }

    #[test]
    fn selectors_as_people_write_them() {
        for good in [
            "pid:1",
            "exe:/usr/bin/tor$",
            "args:--nick m.*",
            "unit:tor@*",
        ] {
            assert!(Selector::parse(good).is_ok(), "{good}");
        }
        for bad in ["tor", "pid:x", "exe:(", "name:tor", ""] {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
        let glob = unit("tor@r?*").unwrap();
        assert!(glob.is_match("tor@r17.service"));
        assert!(!glob.is_match("tor@r.service") && !glob.is_match("xtor@r17.service"));
        assert!(unit("a.b*").unwrap().is_match("a.b1") && !unit("a").unwrap().is_match("ab"));
    }

    /// Debian 12 with cgroup v2, a mixed hierarchy, and a container without systemd.
    #[test]
    fn units_out_of_cgroups() {
        let v2 = "0::/system.slice/system-tor.slice/tor@r17.service\n";
        let path = "/system.slice/system-tor.slice/tor@r17.service";
        let named = Some("tor@r17.service".to_owned());
        assert_eq!(parse_cgroup(v2), (path.to_owned(), named));
        let v1 = "5:memory:/x\n1:name=systemd:/system.slice/relay.service\n0::/\n";
        assert_eq!(parse_cgroup(v1).1.as_deref(), Some("relay.service"));
        assert_eq!(parse_cgroup("1:cpu:/docker/abc\n0::/\n").1, None);
        assert_eq!(parse_cgroup("").1, None);
    }

    #[test]
    fn this_process_is_chosen_by_its_pid_only() {
        let me = i32::try_from(std::process::id()).unwrap();
        let choice = |selector| Choice {
            arm: "x".into(),
            selector,
        };
        let mut chooser = Chooser::new(vec![choice(Selector::Pid(me))]);
        chooser.search();
        assert_eq!(chooser.held()[0].pid, me);
        let own = regex::escape(&read_executable(me).unwrap());
        let mut chooser = Chooser::new(vec![choice(Selector::Exe(regex(&own).unwrap()))]);
        chooser.search();
        assert!(chooser.held().iter().all(|held| held.pid != me));
    }
}

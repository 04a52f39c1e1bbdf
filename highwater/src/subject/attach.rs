//! Processes that run already: found by pid or by what they execute, watched, and never signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use regex::Regex;

use super::Subject;
use super::experiment::redact::redact_command;
use super::experiment::{AttachGroup, Experiment};
use super::happening::{Ending, Happening, Role, Started, What, Who};
use super::order::replica_seed;
use super::placeholder::{Values, expand};
use super::service::{is_alive, read_stat};

/// An expression that matches more processes was surely meant to be narrower.
pub const MATCHES_MAX: usize = 1000;
/// From one search to the next for a process that takes the place of a vanished one.
const SEARCH_EVERY: Duration = Duration::from_secs(5);

/// A process that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pid: i32,
    pub start_ticks: u64,
    /// `argv`; not yet redacted.
    pub command: Vec<String>,
}

/// The attached subject. Replicas of an arm are numbered by age, the oldest first.
#[derive(Debug)]
pub struct Attached {
    plan: Experiment,
    run: String,
    watched: Vec<Watched>,
    next_search: Duration,
}

#[derive(Debug)]
struct Watched {
    arm: String,
    replica: u32,
    incarnation: u32,
    found: Found,
    state: State,
    dismissed: bool,
    /// By expressions: another process may take its place.
    replaceable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Alive,
    Gone,
}

impl Attached {
    /// Finds all processes of the plan.
    ///
    /// # Errors
    /// In words: a pid that does not run, an expression that matches nothing or too much, a process in two arms.
    pub fn new(plan: &Experiment, run: &str) -> Result<Self, String> {
        let mut watched: Vec<Watched> = Vec::new();
        for group in &plan.subject.attach {
            for found in resolve(group)? {
                if let Some(other) = watched.iter().find(|other| other.found.pid == found.pid) {
                    let (pid, arm, first) = (found.pid, &group.arm, &other.arm);
                    return Err(format!(
                        "pid {pid} is in arm {arm} and in arm {first}: it can only be in one"
                    ));
                }
                let replica = watched
                    .iter()
                    .filter(|other| other.arm == group.arm)
                    .count();
                watched.push(Watched {
                    arm: group.arm.clone(),
                    replica: u32::try_from(replica).expect("bounded by MATCHES_MAX"),
                    incarnation: 0,
                    found,
                    state: State::New,
                    dismissed: false,
                    replaceable: group.pids.is_empty(),
                });
            }
        }
        Ok(Self {
            plan: plan.clone(),
            run: run.into(),
            watched,
            next_search: SEARCH_EVERY,
        })
    }

    /// Gives vanished processes their successors, when there are any.
    fn search(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let missing = |one: &Watched| one.state == State::Gone && one.replaceable && !one.dismissed;
        if now < self.next_search || !self.watched.iter().any(missing) {
            return;
        }
        self.next_search = now + SEARCH_EVERY;
        let known: BTreeSet<(i32, u64)> = self.watched.iter().map(|one| one.found.key()).collect();
        let mut news: BTreeMap<&str, Vec<Found>> = BTreeMap::new();
        for group in self
            .plan
            .subject
            .attach
            .iter()
            .filter(|group| group.pids.is_empty())
        {
            let found = resolve(group).unwrap_or_default();
            let new = found
                .into_iter()
                .filter(|found| !known.contains(&found.key()));
            news.entry(&group.arm).or_default().extend(new);
        }
        for one in self.watched.iter_mut().filter(|one| missing(one)) {
            let Some(successors) = news
                .get_mut(one.arm.as_str())
                .filter(|found| !found.is_empty())
            else {
                continue;
            };
            let successor = successors.remove(0);
            let words = format!(
                "{} has a successor: pid {}",
                one.who().words(),
                successor.pid
            );
            out.push(one.say(now, What::Restarted, words));
            one.incarnation += 1;
            one.found = successor;
            one.state = State::New;
        }
    }
}

impl Subject for Attached {
    fn poll(&mut self, now: Duration) -> Vec<Happening> {
        let mut out = Vec::new();
        self.search(now, &mut out);
        for at in 0..self.watched.len() {
            let values = self.watched[at].values(&self.run, self.plan.seed);
            let metrics = self
                .plan
                .subject
                .metrics
                .as_ref()
                .and_then(|url| expand(url, &values).ok());
            self.watched[at].poll(now, metrics, &mut out);
        }
        out
    }

    fn stop_arm(&mut self, arm: &str, _why: &str) {
        self.watched
            .iter_mut()
            .filter(|one| one.arm == arm)
            .for_each(|one| one.dismissed = true);
    }

    fn stop_all(&mut self, _why: &str) {
        self.watched.iter_mut().for_each(|one| one.dismissed = true);
    }

    fn is_over(&self) -> bool {
        let over = |one: &Watched| one.dismissed || (one.state == State::Gone && !one.replaceable);
        self.watched.iter().all(over)
    }

    fn values(&self, arm: &str, replica: u32) -> Option<Values> {
        let one = self
            .watched
            .iter()
            .find(|one| one.arm == arm && one.replica == replica)?;
        Some(one.values(&self.run, self.plan.seed))
    }
}

impl Watched {
    fn who(&self) -> Who {
        Who {
            arm: self.arm.clone(),
            replica: self.replica,
            incarnation: self.incarnation,
            role: Role::Subject,
        }
    }

    fn say(&self, at: Duration, what: What, words: String) -> Happening {
        Happening {
            at,
            who: self.who(),
            what,
            words,
        }
    }

    fn values(&self, run: &str, seed: u64) -> Values {
        Values {
            run: run.into(),
            arm: Some(self.arm.clone()),
            replica: Some(self.replica),
            seed: replica_seed(seed, self.replica),
            pid: (self.state != State::Gone).then_some(self.found.pid),
            ..Values::default()
        }
    }

    fn poll(&mut self, now: Duration, metrics_url: Option<String>, out: &mut Vec<Happening>) {
        if self.dismissed {
            return;
        }
        let words = self.who().words();
        let pid = self.found.pid;
        if self.state == State::New {
            let started = Started {
                pid,
                start_ticks: self.found.start_ticks,
                command: redact_command(&self.found.command),
                metrics_url,
                ..Started::default()
            };
            let what = What::Started(Box::new(started));
            out.push(self.say(
                now,
                what,
                format!("{words} is watched: pid {pid}, which ran already"),
            ));
            out.push(self.say(
                now,
                What::Ready,
                format!("{words} is ready: it ran already"),
            ));
            self.state = State::Alive;
        }
        if self.state == State::Alive && !is_alive(pid, self.found.start_ticks) {
            let why = match read_stat(pid).map(|stat| stat.starttime) {
                Some(start) if start != self.found.start_ticks => {
                    "the pid belongs to another process now"
                }
                _ => "how it ended is unknown: highwater did not start it",
            };
            let what = What::Ended {
                ending: Ending::Vanished,
                exit: None,
            };
            out.push(self.say(now, what, format!("{words} (pid {pid}) is gone; {why}")));
            self.state = State::Gone;
        }
    }
}

impl Found {
    fn key(&self) -> (i32, u64) {
        (self.pid, self.start_ticks)
    }
}

/// The processes of one group, oldest first.
///
/// # Errors
/// In words, as [`Attached::new`].
pub fn resolve(group: &AttachGroup) -> Result<Vec<Found>, String> {
    let arm = &group.arm;
    if !group.pids.is_empty() {
        let find =
            |pid: &i32| read_found(*pid).ok_or(format!("arm {arm}: there is no process {pid}"));
        return group.pids.iter().map(find).collect();
    }
    let read = |text: &Option<String>| text.as_deref().map(Regex::new).transpose();
    let wrong = |error: regex::Error| format!("arm {arm}: {error}");
    let (exe, args) = (
        read(&group.exe).map_err(wrong)?,
        read(&group.args).map_err(wrong)?,
    );
    if exe.is_none() && args.is_none() {
        return Err(format!(
            "arm {arm}: neither pids nor an expression says which processes are meant"
        ));
    }
    let ourselves = own_line();
    let mut hidden = 0;
    let mut found = Vec::new();
    for one in all_pids()
        .filter(|pid| !ourselves.contains(pid))
        .filter_map(read_found)
    {
        if one.command.is_empty() {
            continue;
        }
        if !args
            .as_ref()
            .is_none_or(|args| args.is_match(&one.command.join(" ")))
        {
            continue;
        }
        match (&exe, read_executable(one.pid)) {
            (Some(_), None) => hidden += 1,
            (Some(exe), Some(path)) if !exe.is_match(&path) => {}
            _ => found.push(one),
        }
    }
    found.sort_by_key(|one| (one.start_ticks, one.pid));
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "anything".into());
    let sought = format!("exe {}, args {}", shown(&group.exe), shown(&group.args));
    match found.len() {
        0 if hidden > 0 => Err(format!(
            "arm {arm}: no process matches {sought}; of {hidden} others the executable cannot be read: run as root, \
             or as their user"
        )),
        0 => Err(format!(
            "arm {arm}: no process matches {sought}. Does the service run?"
        )),
        many if many > MATCHES_MAX => Err(format!(
            "arm {arm}: {many} processes match {sought}, more than {MATCHES_MAX}: write a narrower expression"
        )),
        _ => Ok(found),
    }
}

pub(super) fn all_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `None` for a pid that is gone and for a zombie. Without arguments is a kernel thread, and for an instant a program
/// that is just being executed.
pub(super) fn read_found(pid: i32) -> Option<Found> {
    let stat = read_stat(pid)?;
    let command = parse_arguments(&fs::read(format!("/proc/{pid}/cmdline")).ok()?);
    let living = !matches!(stat.state, 'Z' | 'X');
    living.then_some(Found {
        pid,
        start_ticks: stat.starttime,
        command,
    })
}

/// /proc/PID/cmdline: arguments, each with a NUL behind it.
fn parse_arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// Path of the executable, also when its file was replaced since.
pub(super) fn read_executable(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let text = path.to_string_lossy();
    Some(text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned())
}

/// highwater itself and what started it: a shell whose command line names the expression would match it.
pub(super) fn own_line() -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut pid = i32::try_from(std::process::id()).expect("pids fit i32");
    while pid > 1 && line.insert(pid) {
        pid = read_stat(pid).map_or(0, |stat| stat.ppid);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_at_their_nuls() {
        assert_eq!(
            parse_arguments(b"/bin/a\0-x\0\0b c\0"),
            ["/bin/a", "-x", "", "b c"]
        );
        assert_eq!(parse_arguments(b"nginx: worker"), ["nginx: worker"]);
        assert!(parse_arguments(b"").is_empty());
    }

    fn group(pids: &[i32], exe: Option<&str>, args: Option<&str>) -> AttachGroup {
        AttachGroup {
            arm: "a".into(),
            pids: pids.to_vec(),
            exe: exe.map(str::to_owned),
            args: args.map(str::to_owned),
        }
    }

    #[test]
    fn we_are_found_by_pid_but_never_by_expression() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert_eq!(resolve(&group(&[me], None, None)).unwrap()[0].pid, me);
        let own = read_executable(me).unwrap();
        let error = resolve(&group(
            &[],
            Some(&format!("^{}$", regex::escape(&own))),
            None,
        ))
        .unwrap_err();
        assert!(error.contains("no process matches"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let words = |group: AttachGroup| resolve(&group).unwrap_err();
        assert!(words(group(&[i32::MAX], None, None)).contains("no process 2147483647"));
        assert!(words(group(&[], Some("("), None)).contains("regex"));
        assert!(words(group(&[], None, None)).contains("neither"));
    }
}

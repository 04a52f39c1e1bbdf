//! One incarnation: from the moment it runs until it and everything it left behind is gone.

use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::census::{Census, Identity, Row, is_alive, read_stat};
use super::cgroup::machine_oom_kills;
use super::exit::{Exit, signal_words};
use super::logs::Logs;
use super::memory::MemoryWatch;
use super::ready::Probe;
use super::secrets::Secrets;
use crate::subject::experiment::Stop;
use crate::subject::happening::{Ending, Happening, Role, Started, What, Who};

/// How long SIGKILL may take to work: a process in a system call that cannot be interrupted (a dead network file
/// system) outlives it.
const KILL_WAIT: Duration = Duration::from_secs(10);
/// For descendants that notice by themselves that their parent has ended.
const LEFT_GRACE: Duration = Duration::from_millis(100);
/// Processes named in a message.
const NAMED_MAX: usize = 5;

/// A child of ours, or a process of the supervisor before us.
#[derive(Debug)]
pub enum Handle {
    Child(Child),
    Adopted,
}

/// Where an incarnation stands.
#[derive(Debug)]
enum Phase {
    GettingReady {
        probe: Probe,
        until: Duration,
    },
    Up,
    /// The one signal was sent; SIGKILL when the time is over.
    Stopping {
        until: Duration,
    },
    Killing {
        until: Duration,
    },
    /// The process has ended; what it left behind gets until `kill_at`, then SIGKILL until `until`.
    Sweeping {
        kill_at: Duration,
        until: Duration,
        told: bool,
    },
    Gone,
}

/// A started process.
#[derive(Debug)]
pub struct Running {
    pub who: Who,
    pub identity: Identity,
    pub started: Started,
    handle: Handle,
    phase: Phase,
    began: Duration,
    stop: Stop,
    logs: Logs,
    secrets: Secrets,
    memory: MemoryWatch,
    ending: Option<Ending>,
    machine_oom_kills: u64,
}

/// What [`Running`] is made of.
#[derive(Debug)]
pub struct Birth {
    pub who: Who,
    pub identity: Identity,
    pub started: Started,
    pub handle: Handle,
    pub logs: Logs,
    pub secrets: Secrets,
    pub stop: Stop,
    pub memory_limit: Option<u64>,
    /// What must hold before it counts as ready, and for how long that may take.
    pub probe: Probe,
    pub ready_timeout: Duration,
}

impl Running {
    pub fn new(birth: Birth, now: Duration) -> Self {
        Self {
            phase: Phase::GettingReady {
                probe: birth.probe,
                until: now + birth.ready_timeout,
            },
            memory: MemoryWatch::new(&birth.identity, birth.memory_limit),
            who: birth.who,
            identity: birth.identity,
            started: birth.started,
            handle: birth.handle,
            began: now,
            stop: birth.stop,
            logs: birth.logs,
            secrets: birth.secrets,
            ending: None,
            machine_oom_kills: machine_oom_kills(),
        }
    }

    /// Ready and not being stopped.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// How it ended and how long it lived, once it is gone.
    pub fn outcome(&self, now: Duration) -> (Ending, Duration) {
        (
            self.ending.unwrap_or(Ending::Vanished),
            now.saturating_sub(self.began),
        )
    }

    /// The process itself still runs (what it left behind may run longer).
    pub fn has_pid(&self) -> bool {
        self.ending.is_none()
    }

    /// Carries on to `now`. `census` is taken only when somebody needs it.
    pub fn poll(&mut self, now: Duration, census: &mut Option<Census>, out: &mut Vec<Happening>) {
        self.bound_logs(now, out);
        if self.ending.is_none() {
            match self.read_exit() {
                Some(exit) => self.end(exit, now, census, out),
                None => self.poll_living(now, census, out),
            }
        }
        if matches!(self.phase, Phase::Sweeping { .. }) {
            self.sweep(now, census, out);
        }
    }

    /// Sends the one signal, unless the end has begun already.
    pub fn begin_stop(&mut self, now: Duration) {
        if matches!(self.phase, Phase::GettingReady { .. } | Phase::Up) {
            self.send(self.stop.signal);
            self.phase = Phase::Stopping {
                until: now + self.stop.grace,
            };
        }
    }

    /// SIGKILL to all of it at once: for the way out after an error, when nobody will poll any more.
    pub fn kill_now(&mut self) {
        self.kill_group();
        kill_members(&Census::take(), &self.identity);
        if let Handle::Child(child) = &mut self.handle {
            let _ = child.wait();
        }
        kill_members(&Census::take(), &self.identity);
        if let Some(cgroup) = &self.identity.cgroup {
            let _ = cgroup.remove();
        }
        self.ending = Some(Ending::Stopped);
        self.phase = Phase::Gone;
    }

    fn poll_living(
        &mut self,
        now: Duration,
        census: &mut Option<Census>,
        out: &mut Vec<Happening>,
    ) {
        match &mut self.phase {
            Phase::GettingReady { probe, until } => {
                if probe.poll(now) {
                    self.phase = Phase::Up;
                    // Nobody asks a load program whether it is ready.
                    if self.who.role == Role::Subject {
                        let words = format!("{} is ready", self.who.words());
                        out.push(self.say(now, What::Ready, words));
                    }
                } else if now >= *until {
                    let words = self.never_ready_words(now);
                    out.push(self.say(now, What::NeverReady, words));
                    self.begin_stop(now);
                }
            }
            Phase::Stopping { until } if now >= *until => {
                self.kill_group();
                kill_members(census.get_or_insert_with(Census::take), &self.identity);
                self.phase = Phase::Killing {
                    until: now + KILL_WAIT,
                };
                let words = format!(
                    "{} did not end within {:?} of {}: SIGKILL to its whole group",
                    self.who.words(),
                    self.stop.grace,
                    signal_words(self.stop.signal)
                );
                out.push(self.say(now, What::StopForced, words));
            }
            Phase::Killing { until } if now >= *until => self.give_up_killing(now, out),
            _ => {}
        }
        self.watch_memory(now, out);
    }

    fn watch_memory(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let noticed = self.memory.poll(now, &self.identity);
        if let Some(words) = noticed.child_killed {
            out.push(self.say(now, What::Note, format!("{}: {words}", self.who.words())));
        }
        if noticed.over_limit && !matches!(self.phase, Phase::Killing { .. }) {
            self.kill_group();
            self.phase = Phase::Killing {
                until: now + KILL_WAIT,
            };
        }
    }

    fn never_ready_words(&self, now: Duration) -> String {
        let Phase::GettingReady { probe, .. } = &self.phase else {
            unreachable!("asked only while it gets ready");
        };
        let waited = now.saturating_sub(self.began);
        format!(
            "{} was not ready after {waited:.1?} ({}); it is stopped. Is the address right, and ready_timeout long \
             enough?{}",
            self.who.words(),
            probe.words(),
            self.logs.last_lines()
        )
    }

    /// SIGKILL does not work: say it, and let go.
    fn give_up_killing(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let state = read_stat(self.identity.pid).map_or('?', |stat| stat.state);
        let words = format!(
            "{} (pid {}) is still there {KILL_WAIT:?} after SIGKILL, in state {state}: a system call that cannot be \
             interrupted, such as on a dead network file system. It is left as it is",
            self.who.words(),
            self.identity.pid
        );
        out.push(self.say(now, What::Degraded, words.clone()));
        self.ending = Some(Ending::Stopped);
        out.push(self.say(
            now,
            What::Ended {
                ending: Ending::Stopped,
                exit: None,
            },
            words,
        ));
        self.phase = Phase::Gone;
    }

    fn bound_logs(&mut self, now: Duration, out: &mut Vec<Happening>) {
        for cut in self.logs.bound() {
            // The first, then each power of two: a flood must not flood the record as well.
            if cut.cuts.is_power_of_two() {
                let words = format!(
                    "{}: {} had {} bytes and was cut off (time {}); its last MiB is beside it as .1",
                    self.who.words(),
                    cut.file.display(),
                    cut.bytes,
                    cut.cuts
                );
                out.push(self.say(now, What::LogTruncated, words));
            }
        }
    }

    fn read_exit(&mut self) -> Option<Exit> {
        match &mut self.handle {
            Handle::Child(child) => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.into()),
                Err(_) => Some(Exit::Unknown),
            },
            Handle::Adopted => {
                let alive = is_alive(self.identity.pid, self.identity.start_ticks);
                (!alive).then_some(Exit::Unknown)
            }
        }
    }

    fn end(
        &mut self,
        exit: Exit,
        now: Duration,
        census: &mut Option<Census>,
        out: &mut Vec<Happening>,
    ) {
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let (ending, why) = self.judge(exit);
        let words = self.ended_words(ending, exit, &why, now);
        let exit_words = exit.words();
        out.push(self.say(
            now,
            What::Ended {
                ending,
                exit: exit_words,
            },
            words,
        ));
        self.ending = Some(ending);
        let mut kill_at = now + LEFT_GRACE;
        if let Phase::Stopping { until } = self.phase {
            kill_at = until;
        }
        // A program that died of the signal itself (a shell, say) cannot have passed it on: the rest of its group
        // has not been asked yet. One that handled it has had its chance: no second signal.
        let unasked = stopping && exit.is_signal(self.stop.signal);
        if unasked && let Some(signal) = Signal::from_named_raw(self.stop.signal) {
            for row in census.insert(Census::take()).members(&self.identity) {
                let _ = kill_row(row, signal);
            }
        }
        self.phase = Phase::Sweeping {
            kill_at,
            until: kill_at + KILL_WAIT,
            told: false,
        };
    }

    fn judge(&mut self, exit: Exit) -> (Ending, String) {
        if let Some(words) = self.memory.killed_by_us() {
            return (Ending::OomKilled, words);
        }
        if matches!(self.phase, Phase::Stopping { .. } | Phase::Killing { .. }) {
            return (Ending::Stopped, String::new());
        }
        if exit.is_signal(libc::SIGKILL) {
            return self.judge_sigkill();
        }
        match exit {
            Exit::Code(0) => (Ending::Exited, String::new()),
            Exit::Code(_) | Exit::Signal { .. } => (Ending::Crashed, String::new()),
            Exit::Unknown => (
                Ending::Vanished,
                "how is unknown: it is not our child".into(),
            ),
        }
    }

    fn judge_sigkill(&mut self) -> (Ending, String) {
        if let Some(words) = self.memory.killed_by_kernel(&self.identity) {
            return (Ending::OomKilled, words);
        }
        let on_the_machine = machine_oom_kills() > self.machine_oom_kills;
        if self.identity.cgroup.is_none() && on_the_machine {
            let words = "inferred: SIGKILL that highwater did not send, and the kernel counted an OOM kill meanwhile";
            return (Ending::OomKilled, words.into());
        }
        (
            Ending::Killed,
            "by somebody else; the kernel counted no OOM kill for it".into(),
        )
    }

    fn ended_words(&self, ending: Ending, exit: Exit, why: &str, now: Duration) -> String {
        let verb = match ending {
            Ending::Stopped => "was stopped",
            Ending::Exited => "ended by itself",
            Ending::Crashed => "crashed",
            Ending::OomKilled => "was killed for its memory",
            Ending::Killed => "was killed",
            Ending::Vanished => "is gone",
        };
        let age = now.saturating_sub(self.began);
        let exit = exit
            .words()
            .map_or(String::new(), |words| format!(": {words}"));
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(" ({why})")
        };
        let early = match self.phase {
            Phase::GettingReady { .. } => ", before it was ready",
            _ => "",
        };
        let tail = match ending {
            Ending::Stopped => String::new(),
            _ => self.logs.last_lines(),
        };
        format!(
            "{} {verb} after {age:.1?}{early}{exit}{why}{tail}",
            self.who.words()
        )
    }

    /// Ends what the process left behind, pass by pass: a child may fork while we kill.
    fn sweep(&mut self, now: Duration, census: &mut Option<Census>, out: &mut Vec<Happening>) {
        let Phase::Sweeping {
            kill_at,
            until,
            told,
        } = self.phase
        else {
            return;
        };
        let census = census.get_or_insert_with(Census::take);
        // The census may be older than the end of a process: what it lists is looked at once more.
        let members = census.members(&self.identity).into_iter();
        let left: Vec<Row> = members
            .filter(|row| is_alive(row.pid, row.start_ticks))
            .cloned()
            .collect();
        if left.is_empty() {
            // Busy while the last zombie is not reaped: tried again at the next poll.
            let removed = self
                .identity
                .cgroup
                .as_ref()
                .is_none_or(|cgroup| cgroup.remove().is_ok());
            if removed || now >= until {
                self.phase = Phase::Gone;
            }
            return;
        }
        if now >= until {
            let words = format!(
                "{} left processes that SIGKILL does not end: {}",
                self.who.words(),
                list(&left)
            );
            out.push(self.say(now, What::Degraded, words));
            self.phase = Phase::Gone;
        } else if now >= kill_at {
            if !told {
                let words = self.left_words(&left);
                out.push(self.say(now, What::Note, words));
            }
            kill_members(census, &self.identity);
            self.phase = Phase::Sweeping {
                kill_at,
                until,
                told: true,
            };
        }
    }

    fn left_words(&self, left: &[Row]) -> String {
        let hint = match self.ending {
            Some(Ending::Exited) => {
                "; if the service puts itself into the background, start it in the foreground instead"
            }
            _ => "",
        };
        format!("{} left {}: SIGKILL{hint}", self.who.words(), list(left))
    }

    fn send(&self, signal: i32) {
        if let (Some(pid), Some(signal)) = (
            Pid::from_raw(self.identity.pid),
            Signal::from_named_raw(signal),
        ) && self.is_still_ours()
        {
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGKILL to the process group, while its leader has not been waited for: the number is surely ours.
    fn kill_group(&self) {
        if let Some(pid) = Pid::from_raw(self.identity.pid)
            && self.is_still_ours()
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if let Some(cgroup) = &self.identity.cgroup {
            cgroup.kill();
        }
    }

    /// A child's pid cannot be reused before we wait for it; that of an adopted process can.
    fn is_still_ours(&self) -> bool {
        match self.handle {
            Handle::Child(_) => self.ending.is_none(),
            Handle::Adopted => is_alive(self.identity.pid, self.identity.start_ticks),
        }
    }

    fn say(&self, at: Duration, what: What, words: String) -> Happening {
        Happening {
            at,
            who: self.who.clone(),
            what,
            words: self.secrets.out_of(&words),
        }
    }
}

/// SIGKILL to everything that belongs to a process. `true` when there was something.
pub fn kill_members(census: &Census, identity: &Identity) -> bool {
    let members = census.members(identity);
    if !members.is_empty()
        && let Some(cgroup) = &identity.cgroup
    {
        cgroup.kill();
    }
    for row in &members {
        let _ = kill_row(row, Signal::KILL);
    }
    !members.is_empty()
}

fn kill_row(row: &Row, signal: Signal) -> rustix::io::Result<()> {
    Pid::from_raw(row.pid).map_or(Ok(()), |pid| kill_process(pid, signal))
}

fn list(rows: &[Row]) -> String {
    let named = rows
        .iter()
        .take(NAMED_MAX)
        .map(|row| format!("{} ({})", row.pid, row.name.escape_debug()));
    let mut words = named.collect::<Vec<_>>().join(", ");
    if rows.len() > NAMED_MAX {
        words.push_str(&format!(" and {} more", rows.len() - NAMED_MAX));
    }
    format!(
        "{} running: {words}",
        if rows.len() == 1 {
            "a process"
        } else {
            "processes"
        }
    )
}

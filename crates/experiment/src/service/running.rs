//! One incarnation: from the moment it runs until it and everything it left behind is gone.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::census::{Census, Identity, is_alive, read_stat};
use super::cgroup::machine_oom_kills;
use super::ending::{Evidence, ended_words, judge};
use super::exit::{Exit, signal_words};
use super::logs::Logs;
use super::memory::MemoryWatch;
use super::ready::Probe;
use super::secrets::Secrets;
use super::sweep::{KILL_WAIT, Pass, Sweep, signal_members};
use crate::file::Stop;
use crate::happening::{Ending, Happening, Role, Started, What, Who};
use units::written;

/// For the kernel to end what got SIGKILL, when nobody will poll any more.
const REAP_WAIT: Duration = Duration::from_secs(2);

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
    /// The process itself has ended; what it left behind is being ended.
    Sweeping(Sweep),
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
    /// highwater asked it to end, and why.
    asked: Option<String>,
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
            asked: None,
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
        if matches!(self.phase, Phase::Sweeping(_)) {
            self.sweep(now, census, out);
        }
    }

    /// Sends the one signal, unless the end has begun already.
    pub fn begin_stop(&mut self, now: Duration, why: &str) {
        if matches!(self.phase, Phase::GettingReady { .. } | Phase::Up) {
            self.send(self.stop.signal);
            self.asked = Some(why.into());
            self.phase = Phase::Stopping {
                until: now + self.stop.grace,
            };
        }
    }

    /// SIGKILL to the group, while its leader has not been waited for: the number is surely ours.
    pub fn kill_group(&self) {
        if let Some(pid) = Pid::from_raw(self.identity.pid)
            && self.is_still_ours()
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if let Some(cgroup) = &self.identity.cgroup {
            cgroup.kill();
        }
    }

    /// Waits for the child after [`Running::kill_group`], for a bounded time: the way out after an error.
    pub fn reap(&mut self) {
        let begun = Instant::now();
        while self.ending.is_none() && self.read_exit().is_none() && begun.elapsed() < REAP_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
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
                    if self.who.role != Role::Load {
                        let words = format!("{} is ready", self.who.words());
                        out.push(self.say(now, What::Ready, words));
                    }
                } else if now >= *until {
                    let words = self.never_ready_words(now);
                    out.push(self.say(now, What::NeverReady, words));
                    self.begin_stop(now, "it never got ready");
                }
            }
            Phase::Stopping { until } if now >= *until => {
                self.kill_group();
                signal_members(
                    census.get_or_insert_with(Census::take),
                    &self.identity,
                    Signal::KILL,
                );
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
            "{} was not ready after {} ({}); it is stopped. Is the address right, and `timeout` of \
             [subject.ready] long enough?{}",
            self.who.words(),
            written::duration(waited),
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
        let (ending, why) = judge(&self.evidence(exit));
        let was_ready = !matches!(self.phase, Phase::GettingReady { .. });
        let age = now.saturating_sub(self.began);
        let mut words = format!(
            "{} {}",
            self.who.words(),
            ended_words(ending, exit, &why, age, was_ready)
        );
        if ending != Ending::Stopped {
            words.push_str(&self.logs.last_lines());
        }
        out.push(self.say(
            now,
            What::Ended {
                ending,
                exit: exit.words(),
            },
            words,
        ));
        self.ending = Some(ending);
        let rest_of_grace = match self.phase {
            Phase::Stopping { until } => Some(until),
            _ => None,
        };
        // A program that died of the signal itself (a shell, say) cannot have passed it on: the rest of its group
        // has not been asked yet. One that handled it has had its chance: no second signal.
        let unasked = rest_of_grace.is_some() && exit.is_signal(self.stop.signal);
        if unasked && let Some(signal) = Signal::from_named_raw(self.stop.signal) {
            signal_members(
                census.get_or_insert_with(Census::take),
                &self.identity,
                signal,
            );
        }
        self.phase = Phase::Sweeping(Sweep::new(now, rest_of_grace));
    }

    fn evidence(&self, exit: Exit) -> Evidence {
        Evidence {
            exit: Some(exit),
            asked: self.asked.clone(),
            over_limit: self.memory.killed_by_us(),
            counted: self.memory.killed_by_kernel(&self.identity),
            has_cgroup: self.identity.cgroup.is_some(),
            counted_on_machine: machine_oom_kills() > self.machine_oom_kills,
        }
    }

    fn sweep(&mut self, now: Duration, census: &mut Option<Census>, out: &mut Vec<Happening>) {
        let Phase::Sweeping(sweep) = &mut self.phase else {
            return;
        };
        let who = self.who.words();
        match sweep.pass(now, &self.identity, census.get_or_insert_with(Census::take)) {
            Pass::Waiting => {}
            Pass::Clean => self.phase = Phase::Gone,
            Pass::Killed(left) => {
                let hint = match self.ending {
                    Some(Ending::Exited) => {
                        "; if the service puts itself into the background, start it in the foreground instead"
                    }
                    _ => "",
                };
                out.push(self.say(now, What::Note, format!("{who} left {left}: SIGKILL{hint}")));
            }
            Pass::Stuck(left) => {
                self.phase = Phase::Gone;
                out.push(self.say(
                    now,
                    What::Degraded,
                    format!("{who} left what SIGKILL does not end: {left}"),
                ));
            }
        }
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

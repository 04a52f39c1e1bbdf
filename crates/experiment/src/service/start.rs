//! Starting an incarnation, or taking over one that an earlier supervisor started.

use std::path::PathBuf;
use std::time::Duration;

use super::census::{Census, Identity, is_alive, read_stat};
use super::command::Launch;
use super::logs::Logs;
use super::make_private_folder;
use super::processes::Record;
use super::ready::Probe;
use super::running::{Birth, Handle, Running};
use super::shared::Shared;
use super::slot::{Slot, State};
use super::spawn::Spec;
use crate::file::{Ready, Stop};
use crate::happening::{Happening, Started, What};
use crate::placeholder::{PlaceholderError, Values, expand};

/// What differs between a replica and a load program when it is started.
pub struct Order<'a> {
    pub launch: Launch,
    pub ready: Option<&'a Ready>,
    pub ready_timeout: Duration,
    pub stop: Stop,
    pub memory_limit: Option<u64>,
    pub metrics: Option<&'a str>,
    pub library: Option<PathBuf>,
    pub dies_with_us: bool,
}

/// A process that exists.
struct Body {
    identity: Identity,
    handle: Handle,
    logs: Logs,
}

impl Slot {
    /// Starts the next incarnation. What goes wrong is said in `out`.
    pub(super) fn start(
        &mut self,
        order: Result<Order, PlaceholderError>,
        values: &Values,
        now: Duration,
        shared: &mut Shared,
        out: &mut Vec<Happening>,
    ) {
        let order = order.map_err(|error| error.to_string());
        let started = order.and_then(|order| self.try_start(order, values, now, shared, out));
        let who = self.who();
        let (what, words) = match started {
            Ok(running) => {
                let what = What::Started(Box::new(running.started.clone()));
                let words = format!("{} started: pid {}", who.words(), running.identity.pid);
                self.state = State::Running(Box::new(running));
                (what, words)
            }
            Err(why) => {
                self.state = State::Over;
                (
                    What::StartFailed,
                    format!("{} could not be started: {why}", who.words()),
                )
            }
        };
        out.push(Happening {
            at: now,
            who,
            what,
            words,
        });
    }

    fn try_start(
        &mut self,
        order: Order,
        values: &Values,
        now: Duration,
        shared: &mut Shared,
        out: &mut Vec<Happening>,
    ) -> Result<Running, String> {
        if let Some(data) = &self.data {
            make_private_folder(data).map_err(|error| error.to_string())?;
        }
        let mark = shared.mark(&self.log_name());
        let launch = order.launch.clone().with_secrets()?.marked(&mark);
        let (program, arguments) = launch.executed()?;
        let folder = shared.setup.folder.join("logs");
        let (logs, out_file, err_file) = Logs::create(&folder, &self.log_name(), self.log_limit())
            .map_err(|error| format!("its logs in {}: {error}", folder.display()))?;
        // Made again with the real pid, once there is one.
        let expected = Values {
            pid: Some(1),
            ..values.clone()
        };
        Probe::new(order.ready, &expected, &logs)?;
        let cgroup = shared.make_cgroup(&self.log_name(), order.memory_limit, self.who(), now, out);
        let spec = Spec {
            program,
            arguments,
            directory: launch.directory.clone(),
            environment: launch.environment.clone(),
            out: out_file,
            err: err_file,
            cgroup: cgroup.as_ref().and_then(|cgroup| cgroup.entry().ok()),
            dies_with_us: order.dies_with_us,
        };
        self.ports
            .iter()
            .for_each(|port| shared.ports.release(*port));
        let child = shared.spawner.spawn(spec).map_err(|error| {
            cgroup.iter().for_each(|cgroup| drop(cgroup.remove()));
            format!("{}: {error}", launch.arguments[0])
        })?;
        let pid = i32::try_from(child.id()).expect("pids fit i32");
        let start_ticks = read_stat(pid).map_or(0, |stat| stat.starttime);
        let cgroup = shared.check_cgroup(cgroup, pid, self.who(), now, out);
        let body = Body {
            identity: Identity {
                pid,
                start_ticks,
                mark,
                cgroup,
            },
            handle: Handle::Child(child),
            logs,
        };
        Ok(self.born(Order { launch, ..order }, body, values, now))
    }

    /// Takes over what the record says of the time before us.
    pub(super) fn take_over(
        &mut self,
        record: &Record,
        census: &Census,
        order: Order,
        now: Duration,
        shared: &Shared,
        out: &mut Vec<Happening>,
    ) {
        self.incarnation = record.incarnation;
        self.ports.clone_from(&record.ports);
        let identity = record.identity(census);
        if identity.pid == 0 {
            self.state = State::Over;
            let who = self.who();
            let words = format!(
                "{} did not run when the run broke off; it is not started",
                who.words()
            );
            out.push(Happening {
                at: now,
                who,
                what: What::StartFailed,
                words,
            });
            return;
        }
        let logs = Logs::at(
            &shared.setup.folder.join("logs"),
            &record.log,
            self.log_limit(),
        );
        let ready = order.ready.filter(|_| !record.ready);
        let found = if is_alive(identity.pid, identity.start_ticks) {
            "found again"
        } else {
            "was looked for"
        };
        // One that is gone is noticed at the first poll, like any that vanishes later; so is what it left behind.
        let body = Body {
            identity,
            handle: Handle::Adopted,
            logs,
        };
        let values = self.values(&shared.setup);
        let running = self.born(Order { ready, ..order }, body, &values, now);
        let words = format!(
            "{} {found}: pid {}",
            running.who.words(),
            running.identity.pid
        );
        let what = What::Resumed(Box::new(running.started.clone()));
        out.push(Happening {
            at: now,
            who: self.who(),
            what,
            words,
        });
        self.state = State::Running(Box::new(running));
    }

    fn born(&self, order: Order, body: Body, values: &Values, now: Duration) -> Running {
        let Body {
            identity,
            handle,
            logs,
        } = body;
        let values = Values {
            pid: Some(identity.pid),
            ..values.clone()
        };
        // Whether it can be made was found out before the start.
        let probe = Probe::new(order.ready, &values, &logs).unwrap_or(Probe::Nothing);
        let cgroup = identity.cgroup.as_ref();
        let started = Started {
            pid: identity.pid,
            start_ticks: identity.start_ticks,
            command: order.launch.shown_command(),
            environment: order.launch.shown_environment(),
            out: Some(logs.out.clone()),
            err: Some(logs.err.clone()),
            cgroup: cgroup.map(|cgroup| cgroup.folder().to_owned()),
            metrics_url: order.metrics.and_then(|url| expand(url, &values).ok()),
            library: order.library,
            ..Started::default()
        };
        let birth = Birth {
            who: self.who(),
            identity,
            started,
            handle,
            logs,
            secrets: order.launch.secrets(),
            stop: order.stop,
            memory_limit: order.memory_limit,
            probe,
            ready_timeout: order.ready_timeout,
        };
        Running::new(birth, now)
    }
}

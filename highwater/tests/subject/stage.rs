//! What the tests stand on: the C programs, a plan, a service that is polled until something happened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use experiment::file::*;
use experiment::service::cgroup::Hierarchy;
use experiment::service::{Service, Setup};
use experiment::{Ending, Happening, Role, Started, Subject, What};
use tempfile::TempDir;

use crate::subjects;

/// A test that waits longer has failed: on a busy machine a process takes a second to start, not thirty.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Path of a compiled program of `tests/subjects`.
pub fn program(name: &str) -> String {
    subjects::program("subjects", name)
}

/// One arm `a`, one replica, ready when it says so, SIGTERM with a grace of five seconds.
pub fn plan(command: &[&str]) -> Experiment {
    Experiment {
        name: "test".into(),
        hypothesis: "it runs".into(),
        why: String::new(),
        evidence: String::new(),
        control: "a".into(),
        adopt: None,
        subject: SubjectPlan {
            kind: SubjectKind::Service,
            command: command.iter().map(|text| (*text).to_owned()).collect(),
            directory: None,
            environment: BTreeMap::new(),
            ready: Some(Ready::Log {
                regex: "^ready$".into(),
            }),
            ready_timeout: PATIENCE,
            stop: Stop {
                signal: libc::SIGTERM,
                grace: Duration::from_secs(5),
            },
            restart: Restart::Never,
            keep: false,
            ends: false,
            memory_limit: None,
            metrics: None,
            attach: Vec::new(),
            managed: false,
            remote: None,
        },
        backing: None,
        load: None,
        arms: vec![arm("a")],
        replicas: 1,
        duration: Duration::from_secs(10),
        interval: Duration::from_secs(1),
        warmup: Duration::ZERO,
        seed: 1,
        matters: 0.0,
        probe: false,
        stalls: false,
        verify: Vec::new(),
        guard: Vec::new(),
        revert: Revert::default(),
        base: PathBuf::from("/"),
    }
}

pub fn arm(name: &str) -> Arm {
    Arm {
        name: name.into(),
        allocator: "glibc".into(),
        environment: BTreeMap::new(),
        arguments: Vec::new(),
        command: None,
        curve: None,
        prediction: None,
        levels: Vec::new(),
    }
}

pub fn no_cgroups() -> Hierarchy {
    Hierarchy::None {
        why: "switched off for this test".into(),
    }
}

pub fn setup(folder: &Path, hierarchy: Hierarchy) -> Setup {
    Setup {
        run: "test-1".into(),
        folder: folder.into(),
        preloads: BTreeMap::new(),
        hierarchy,
    }
}

/// A service on stage, with all that happened so far.
pub struct Stage {
    pub service: Service,
    pub happened: Vec<Happening>,
    begun: Instant,
    pub folder: TempDir,
}

impl Stage {
    pub fn new(plan: Experiment) -> Self {
        Self::with(plan, no_cgroups())
    }

    pub fn with(plan: Experiment, hierarchy: Hierarchy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::new(plan, setup(folder.path(), hierarchy)).unwrap();
        Self {
            service,
            happened: Vec::new(),
            begun: Instant::now(),
            folder,
        }
    }

    pub fn poll(&mut self) {
        let news = self.service.poll(self.begun.elapsed());
        self.happened.extend(news);
    }

    /// Polls until `enough` holds, and fails with all that happened when it never does.
    pub fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(self) {
            assert!(
                Instant::now() < deadline,
                "{what} never happened; what did:\n{}",
                self.story()
            );
            self.poll();
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn until_ready(&mut self) {
        self.until("ready", |stage| {
            stage.count(|what| matches!(what, What::Ready)) > 0
        });
    }

    pub fn until_over(&mut self) {
        self.until("the end", |stage| stage.service.is_over());
    }

    pub fn stop(&mut self) {
        self.service.stop_all("the test is over");
        self.until_over();
    }

    pub fn count(&self, wanted: impl Fn(&What) -> bool) -> usize {
        self.happened
            .iter()
            .filter(|happening| wanted(&happening.what))
            .count()
    }

    pub fn find(&self, wanted: impl Fn(&What) -> bool) -> &Happening {
        let found = self
            .happened
            .iter()
            .find(|happening| wanted(&happening.what));
        found.unwrap_or_else(|| panic!("not among what happened:\n{}", self.story()))
    }

    /// What was started, in order.
    pub fn started(&self, role: Role) -> Vec<Started> {
        let of_role = self
            .happened
            .iter()
            .filter(|happening| happening.who.role == role);
        of_role
            .filter_map(|happening| match &happening.what {
                What::Started(started) => Some((**started).clone()),
                _ => None,
            })
            .collect()
    }

    /// The one ending of the first subject, with its words.
    pub fn ending(&self) -> (Ending, Option<String>, String) {
        let happening = self.find(|what| matches!(what, What::Ended { .. }));
        let What::Ended { ending, exit } = &happening.what else {
            unreachable!()
        };
        (*ending, exit.clone(), happening.words.clone())
    }

    pub fn log(&self, name: &str) -> String {
        let file = self.folder.path().join("logs").join(name);
        String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned()
    }

    pub fn story(&self) -> String {
        let lines = self
            .happened
            .iter()
            .map(|h| format!("{:?} {:?}\n    {}", h.at, h.what, h.words));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A process that runs, zombies excluded.
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The number after `word` in a log.
pub fn number_after(log: &str, word: &str) -> Option<i32> {
    let line = log.lines().find_map(|line| line.strip_prefix(word))?;
    line.trim().parse().ok()
}

/// Waits for something outside the service.
pub fn wait_for(what: &str, enough: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !enough() {
        assert!(Instant::now() < deadline, "{what} never happened");
        thread::sleep(Duration::from_millis(10));
    }
}

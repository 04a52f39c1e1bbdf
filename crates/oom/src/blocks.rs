//! The messages of one kill, put together.
//!
//! The kernel prints them one after the other under a lock, so that those of two kills are never mixed; other messages
//! may stand between them.

use std::collections::VecDeque;

use crate::cgroup_memory::CgroupReader;
use crate::kill::{At, By, Constraint, Kill, Missing, Outcome, Tasks, Victim};
use crate::line::{Origin, Record};
use crate::machine_memory::MachineReader;
use crate::message::{self, Summary};
use crate::oomd;
use crate::task_table::TaskTable;

/// Kills that are kept, the newest; 3 MiB or so.
pub const KILLS_MAX: usize = 1000;
/// Longest name or path that is kept: PATH_MAX.
const TEXT_MAX: usize = 4096;
/// Members of a group that are named.
const VICTIMS_MAX: usize = 256;
/// Within so many seconds after the first, kills are of the same group.
const GROUP_S: f64 = 5.0;
/// systemd tells the number of processes right after systemd-oomd's line.
const OOMD_S: f64 = 60.0;

/// Kills of a log.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of the log.
    pub kills: Vec<Kill>,
    /// Older ones that were left out, there being more than [`KILLS_MAX`].
    pub left_out: u64,
}

/// Takes records and gives kills.
#[derive(Debug, Default)]
pub struct Blocks {
    open: Option<Open>,
    kills: VecDeque<Kill>,
    left_out: u64,
}

/// A kill whose messages still come.
#[derive(Debug)]
struct Open {
    kill: Kill,
    /// By a line of its own, before 5.3.
    chosen: Option<(u32, String)>,
    summary: Option<Summary>,
    cgroup: CgroupReader,
    machine: Option<MachineReader>,
    table: Option<TaskTable>,
}

impl Blocks {
    pub fn take(&mut self, record: &Record<'_>) {
        let text = record.text;
        if text.len() > TEXT_MAX {
            return;
        }
        match record.origin {
            Origin::Program(name) => self.program(name, record),
            Origin::Kernel => self.kernel(record),
        }
    }

    fn kernel(&mut self, record: &Record<'_>) {
        let text = record.text;
        if let Some(request) = message::request(text) {
            self.open_new(record).kill.request = Some(request);
        } else if text.contains(": page allocation failure: order:") {
            // It prints the machine's memory too, and kills nothing.
            self.close();
        } else if let Some(victim) = message::killed(text) {
            self.killed(record, victim);
        } else if message::is_panic(text) {
            self.opened(record).kill.outcome = Outcome::Panicked;
            self.close();
        } else if text.starts_with("Out of memory and no killable processes") {
            self.opened(record).kill.outcome = Outcome::NothingToKill;
        } else if let Some(open) = &mut self.open {
            open.take(text);
        } else if begins_in_the_middle(text) {
            self.opened(record).take(text);
        }
    }

    fn killed(&mut self, record: &Record<'_>, victim: Victim) {
        let is_next = self
            .open
            .as_ref()
            .is_some_and(|open| open.has_other_victim(&victim, record.at));
        let open = match is_next {
            // Its own messages are not there: the kernel prints ten in five seconds at most.
            true => self.open_new(record),
            false => self.opened(record),
        };
        open.killed(record.text, victim);
    }

    fn opened(&mut self, record: &Record<'_>) -> &mut Open {
        self.open.get_or_insert_with(|| Open::new(record))
    }

    fn open_new(&mut self, record: &Record<'_>) -> &mut Open {
        self.close();
        self.opened(record)
    }

    fn close(&mut self) {
        if let Some(kill) = self.open.take().and_then(Open::finish) {
            self.keep(kill);
        }
    }

    fn keep(&mut self, kill: Kill) {
        if self.kills.len() >= KILLS_MAX {
            self.kills.pop_front();
            self.left_out += 1;
        }
        self.kills.push_back(kill);
    }

    fn program(&mut self, name: &str, record: &Record<'_>) {
        if name == "systemd-oomd"
            && let Some((path, why)) = oomd::killed(record.text)
        {
            self.close();
            let mut kill = Open::new(record).kill;
            kill.by = By::SystemdOomd(why.to_owned());
            kill.outcome = Outcome::Killed;
            kill.constraint = match why.starts_with("memory pressure") {
                true => Constraint::Cgroup,
                false => Constraint::Machine,
            };
            kill.task_cgroup = Some(path.to_owned());
            self.keep(kill);
        } else if name == "systemd"
            && let Some((unit, count)) = oomd::killed_in_unit(record.text)
        {
            let ends_with = |path: &str| path.rsplit('/').next() == Some(unit);
            let kill = self.kills.iter_mut().rev().find(|kill| {
                kill.by != By::Kernel
                    && kill.task_cgroup.as_deref().is_some_and(ends_with)
                    && record.at.since(kill.at).is_none_or(|s| s < OOMD_S)
            });
            if let Some(kill) = kill {
                kill.killed_count = Some(count);
            }
        }
    }

    pub fn finish(mut self) -> Found {
        self.close();
        Found {
            kills: self.kills.into(),
            left_out: self.left_out,
        }
    }
}

/// What stands between the first message of a kill and the last, and nowhere else.
fn begins_in_the_middle(text: &str) -> bool {
    text.starts_with("memory: usage ")
        || text.starts_with("Memory cgroup stats for ")
        || text.starts_with("oom-kill:constraint=")
        || message::limit(text).is_some()
        || message::chosen(text).is_some()
        || TaskTable::of_header(text).is_some()
}

impl Open {
    fn new(record: &Record<'_>) -> Open {
        Open {
            kill: Kill {
                at: record.at,
                line: record.line,
                kernel: None,
                by: By::Kernel,
                constraint: Constraint::Unknown,
                limit_cgroup: None,
                task_cgroup: None,
                cpuset: None,
                nodes: None,
                request: None,
                outcome: Outcome::Unsaid,
                victims: Vec::new(),
                killed_count: None,
                group_cgroup: None,
                is_allocating_task: false,
                cgroup: None,
                machine: None,
                tasks: Tasks::default(),
                missing: Vec::new(),
            },
            chosen: None,
            summary: None,
            cgroup: CgroupReader::default(),
            machine: None,
            table: None,
        }
    }

    /// Whether a line about a victim is of another kill than this.
    fn has_other_victim(&self, victim: &Victim, at: At) -> bool {
        let Some(first) = self.kill.victim() else {
            return matches!(
                self.kill.outcome,
                Outcome::NothingToKill | Outcome::Panicked
            );
        };
        let is_soon = at
            .since(self.kill.at)
            .is_none_or(|seconds| seconds <= GROUP_S);
        let is_same = first.pid == victim.pid || self.kill.group_cgroup.is_some();
        !(is_same && is_soon)
    }

    fn killed(&mut self, text: &str, mut victim: Victim) {
        let kill = &mut self.kill;
        kill.outcome = Outcome::Killed;
        kill.is_allocating_task |= text.contains("(oom_kill_allocating_task)");
        if kill.constraint == Constraint::Unknown {
            kill.constraint = message::constraint_of_kill(text).unwrap_or_default();
        }
        if kill.victims.iter().any(|known| known.pid == victim.pid) {
            return;
        }
        let chosen = self.chosen.take();
        victim.instead_of = chosen.filter(|(pid, _)| *pid != victim.pid);
        if kill.victims.len() < VICTIMS_MAX {
            kill.victims.push(victim);
        }
    }

    /// A message between the first and the last.
    fn take(&mut self, text: &str) {
        if let Some(path) = message::group(text) {
            self.kill.group_cgroup = Some(path.to_owned());
        }
        // Behind the victim only others of its group come.
        if self.kill.outcome != Outcome::Unsaid {
            return;
        }
        if let Some(table) = TaskTable::of_header(text) {
            self.table.get_or_insert(table);
            self.cgroup.is_open = false;
        } else if let Some(table) = &mut self.table
            && table.row(text).is_some()
        {
        } else if let Some(found) = message::summary(text) {
            self.summary = Some(found);
        } else if let Some(found) = message::chosen(text) {
            self.kill.constraint = message::constraint_of_kill(text).unwrap_or_default();
            self.chosen = Some(found);
        } else if let Some((pid, release)) = message::caller(text) {
            self.caller(pid, release);
        } else if let Some((task, limit)) = message::limit(text) {
            self.kill.constraint = Constraint::Cgroup;
            self.kill.task_cgroup = task;
            self.kill.limit_cgroup = Some(limit);
        } else if let Some((cpuset, nodes)) = message::cpuset(text) {
            (self.kill.cpuset, self.kill.nodes) = (Some(cpuset), nodes);
        } else if self.cgroup.take(text).is_none() {
            self.machine_line(text);
        }
    }

    fn caller(&mut self, pid: u32, release: Option<String>) {
        if let Some(request) = &mut self.kill.request {
            request.pid.get_or_insert(pid);
        }
        if let Some(release) = release {
            self.kill.kernel.get_or_insert(release);
        }
    }

    fn machine_line(&mut self, text: &str) {
        if text == "Mem-Info:" {
            self.machine.get_or_insert_default();
        } else if let Some(machine) = &mut self.machine {
            machine.take(text);
        }
    }

    /// `None`: lines that look like those of a kill, without any that says of one.
    fn finish(mut self) -> Option<Kill> {
        self.summarise();
        let page_bytes = self.page_bytes();
        let mut kill = self.kill;
        let is_known = kill.request.is_some() || kill.victim().is_some();
        if !is_known && kill.outcome == Outcome::Unsaid {
            return None;
        }
        kill.tasks = self
            .table
            .map(|table| table.finish(page_bytes))
            .unwrap_or_default();
        kill.cgroup = self.cgroup.finish();
        kill.machine = self.machine.map(|machine| machine.finish(page_bytes));
        // A panic has no line that says; the machine's memory is printed where no cgroup's limit was it.
        let is_machine = kill.machine.is_some() && kill.cgroup.is_none();
        if kill.constraint == Constraint::Unknown && is_machine {
            kill.constraint = Constraint::Machine;
        }
        if let Some(cgroup) = &mut kill.cgroup {
            if kill.limit_cgroup.is_none() && !cgroup.path.is_empty() {
                kill.limit_cgroup = Some(cgroup.path.clone());
            }
            // The first of the older, longer list is that of the limit too.
            cgroup.path = kill.limit_cgroup.clone().unwrap_or_default();
        }
        for victim in &mut kill.victims {
            let row = kill
                .tasks
                .largest
                .iter()
                .find(|task| task.pid == victim.pid);
            victim.swap_bytes = row.map(|row| row.swap_bytes);
        }
        kill.missing = missing(&kill);
        Some(kill)
    }

    /// The kernel's own summary of 4.20 and later goes before what was found line by line.
    fn summarise(&mut self) {
        let Some(summary) = self.summary.take() else {
            return;
        };
        let kill = &mut self.kill;
        kill.constraint = summary.constraint;
        kill.limit_cgroup = summary.limit_cgroup.or(kill.limit_cgroup.take());
        kill.task_cgroup = summary.task_cgroup.or(kill.task_cgroup.take());
        kill.cpuset = summary.cpuset.or(kill.cpuset.take());
        kill.nodes = summary.nodes.or(kill.nodes.take());
        if let (Some(pid), true) = (summary.pid, kill.victims.is_empty()) {
            kill.victims.push(Victim {
                pid,
                command: summary.command,
                uid: summary.uid,
                ..Victim::default()
            });
        }
    }

    /// What the victim has mapped stands in the table in pages and behind its name in kB.
    fn page_bytes(&self) -> u64 {
        let ratio = || {
            let victim = self.kill.victim()?;
            let pages = self.table.as_ref()?.total_vm_pages(victim.pid)?;
            Some(victim.virtual_bytes? as f64 / pages.max(1) as f64)
        };
        match ratio() {
            Some(ratio) if ratio > 32_768.0 => 65_536,
            Some(ratio) if ratio > 8_192.0 => 16_384,
            _ => 4_096,
        }
    }
}

fn missing(kill: &Kill) -> Vec<Missing> {
    let has_memory = match kill.constraint {
        Constraint::Cgroup => kill.cgroup.is_some(),
        _ => kill.machine.is_some() || kill.cgroup.is_some(),
    };
    let parts = [
        (kill.request.is_some(), Missing::Request),
        (kill.constraint != Constraint::Unknown, Missing::Limit),
        (has_memory, Missing::Memory),
        (kill.tasks.count > 0, Missing::Tasks),
        (kill.outcome != Outcome::Unsaid, Missing::Victim),
    ];
    let missing = parts.into_iter().filter(|(is_there, _)| !is_there);
    missing.map(|(_, part)| part).collect()
}

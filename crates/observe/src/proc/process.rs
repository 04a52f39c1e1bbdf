//! One process at one snapshot: what /proc tells of it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ProcRoot;
use super::fields::Malformed;
use super::open::{Folder, Kept, Lost};
use super::pace::Pace;
use super::rollup::parse_rollup;
use super::stat::{Stat, parse_stat};
use super::status::{Status, parse_status};
use super::tasks::{Counts, TaskSums, parse_schedstat, read_tasks};
use crate::metric;
use crate::snapshot::TimeNs;
use crate::snapshot_writer::SnapshotWriter;

/// What the readings of one process may cost at this snapshot, as parts of one core.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub tasks: f64,
    pub rollup: f64,
}

/// Why a process is not sampled any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// No such process.
    Gone,
    /// It has ended and its parent has not asked for its exit code yet.
    Zombie,
    /// The pid belongs to a process that started at another time.
    Reused { start_ticks: u64 },
}

/// A reading that failed though the process lives: what is lost, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    pub what: &'static str,
    pub why: String,
}

/// What the other parts of a snapshot want to know of a living process.
#[derive(Debug, Clone)]
pub struct Vital {
    pub stat: Stat,
    /// Sums over the threads, when they were walked at this snapshot.
    pub counts: Option<Counts>,
}

/// Reads one process, snapshot after snapshot.
#[derive(Debug)]
pub struct ProcessReader {
    path: PathBuf,
    pid: i32,
    start_ticks: u64,
    tick_ns: u64,
    /// Whether descriptors stay open between snapshots.
    keep: bool,
    folder: Option<Folder>,
    sums: TaskSums,
    tasks_pace: Pace,
    rollup_pace: Pace,
}

impl ProcessReader {
    /// `seed` differs from process to process, to spread the costly readings over the snapshots.
    pub fn new(root: &ProcRoot, pid: i32, start_ticks: u64, keep: bool, seed: i64) -> Self {
        ProcessReader {
            path: root.process(pid),
            pid,
            start_ticks,
            tick_ns: super::stat::tick_ns(),
            keep,
            folder: None,
            sums: TaskSums::default(),
            tasks_pace: Pace::new(seed),
            rollup_pace: Pace::new(seed.wrapping_mul(3)),
        }
    }

    /// See [`TaskSums::carry`].
    pub fn carry(&mut self, recorded: Counts) {
        self.sums.carry(recorded);
    }

    /// The open folder, for the readings that are not made here; `None` before the first snapshot.
    pub fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    /// /proc/PID.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// Lets go of the descriptors at the end of a snapshot, unless they may stay open.
    pub fn rest(&mut self) {
        if !self.keep {
            self.folder = None;
        }
    }

    /// Reads and writes down one snapshot. Losses are told each time; the caller says them once.
    pub fn sample(
        &mut self,
        now: TimeNs,
        shares: Shares,
        buffer: &mut Vec<u8>,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) -> Result<Option<Vital>, Ended> {
        let stat = match self.read_stat(buffer)? {
            Ok(stat) => stat,
            Err(loss) => {
                losses.push(loss);
                return Ok(None);
            }
        };
        let Some(folder) = self.folder.as_mut() else {
            return Ok(None);
        };
        write_stat(&stat, writer);
        let body = living_thread(folder, &stat, self.pid);
        let read = match &body {
            None => folder.read_kept(Kept::Status, buffer),
            Some(thread) => folder.read(&format!("{thread}/status"), buffer),
        };
        let status = match read {
            Ok(()) => parse_status(buffer),
            Err(lost) => {
                losses.extend(loss("status (resident memory)", lost));
                Status::default()
            }
        };
        write_status(&status, writer);
        match folder.count_descriptors() {
            Ok(count) => writer.value(metric::FILE_DESCRIPTORS, count),
            Err(lost) => losses.extend(loss("fd (open files)", lost)),
        }
        let counts = self.count_tasks(now, shares.tasks, &stat, &status, buffer, losses);
        if let Some(counts) = &counts {
            write_counts(counts, writer);
        }
        let rollup = body.map_or("smaps_rollup".into(), |thread| {
            format!("{thread}/smaps_rollup")
        });
        self.roll_up(now, shares.rollup, &rollup, buffer, writer, losses);
        Ok(Some(Vital { stat, counts }))
    }

    /// The outer error ends the process for us; the inner one is a snapshot without it.
    fn read_stat(&mut self, buffer: &mut Vec<u8>) -> Result<Result<Stat, Loss>, Ended> {
        const WHAT: &str = "stat (everything)";
        let lost = |lost| match lost {
            Lost::Gone => Err(Ended::Gone),
            other => Ok(Err(Loss {
                what: WHAT,
                why: other.to_string(),
            })),
        };
        let mut folder = match self.folder.take() {
            Some(folder) => folder,
            None => match Folder::open(&self.path) {
                Ok(folder) => folder,
                Err(why) => return lost(why),
            },
        };
        if let Err(why) = folder.read_kept(Kept::Stat, buffer) {
            return lost(why);
        }
        let stat = match parse_stat(buffer, self.tick_ns) {
            Ok(stat) => stat,
            Err(malformed) => return Ok(Err(malformed_loss(WHAT, &malformed))),
        };
        if stat.start_ticks != self.start_ticks {
            return Err(Ended::Reused {
                start_ticks: stat.start_ticks,
            });
        }
        // A zombie with threads is a process whose main thread alone has ended.
        if matches!(stat.state, 'X' | 'x') || (stat.state == 'Z' && stat.threads <= 1) {
            return Err(Ended::Zombie);
        }
        self.folder = Some(folder);
        Ok(Ok(stat))
    }

    /// Sums over the threads. With one thread they are at hand; a walk costs about 15 us a thread
    /// here, so its rate follows from the number of threads.
    fn count_tasks(
        &mut self,
        now: TimeNs,
        share: f64,
        stat: &Stat,
        status: &Status,
        buffer: &mut Vec<u8>,
        losses: &mut Vec<Loss>,
    ) -> Option<Counts> {
        const WHAT: &str = "task/ (switches, run-queue wait)";
        let folder = self.folder.as_mut()?;
        if stat.threads == 1 && stat.state != 'Z' {
            let run_delay_ns = match folder.read_kept(Kept::Schedstat, buffer) {
                Ok(()) => parse_schedstat(buffer).unwrap_or(0),
                Err(_) => 0,
            };
            let counts = Counts {
                switches_voluntary: status.switches_voluntary?,
                switches_involuntary: status.switches_involuntary?,
                run_delay_ns,
            };
            return Some(self.sums.book([(self.pid, counts)].into()));
        }
        if !self.tasks_pace.is_due(now) {
            return None;
        }
        let begin = Instant::now();
        let alive = read_tasks(folder, buffer);
        self.tasks_pace.book(now, begin.elapsed(), share);
        match alive {
            Ok(alive) => Some(self.sums.book(alive)),
            Err(lost) => {
                losses.extend(loss(WHAT, lost));
                None
            }
        }
    }

    fn roll_up(
        &mut self,
        now: TimeNs,
        share: f64,
        file: &str,
        buffer: &mut Vec<u8>,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) {
        const WHAT: &str = "smaps_rollup (PSS, LazyFree, huge pages, private dirty)";
        let Some(folder) = self
            .folder
            .as_ref()
            .filter(|_| self.rollup_pace.is_due(now))
        else {
            return;
        };
        let begin = Instant::now();
        let read = folder.read(file, buffer);
        self.rollup_pace.book(now, begin.elapsed(), share);
        match read {
            Ok(()) => {
                let rollup = parse_rollup(buffer);
                writer.maybe(metric::PSS, rollup.pss_bytes);
                writer.maybe(metric::PRIVATE_DIRTY, rollup.private_dirty_bytes);
                writer.maybe(metric::LAZY_FREE, rollup.lazy_free_bytes);
                writer.maybe(metric::HUGE_PAGES, rollup.huge_pages_bytes);
            }
            Err(lost) => losses.extend(loss(WHAT, lost)),
        }
    }
}

/// The folder of a thread that still has the memory of the process, when the main thread has ended
/// and the others run on: the files of the process itself are empty then.
fn living_thread(folder: &Folder, stat: &Stat, pid: i32) -> Option<String> {
    if stat.state != 'Z' {
        return None;
    }
    let tid = folder.threads().ok()?.into_iter().find(|&tid| tid != pid)?;
    Some(format!("task/{tid}"))
}

/// A process that ends between two readings of one snapshot is no loss: the next snapshot says so.
fn loss(what: &'static str, lost: Lost) -> Option<Loss> {
    match lost {
        Lost::Gone => None,
        other => Some(Loss {
            what,
            why: other.to_string(),
        }),
    }
}

fn malformed_loss(what: &'static str, malformed: &Malformed) -> Loss {
    Loss {
        what,
        why: malformed.to_string(),
    }
}

fn write_stat(stat: &Stat, writer: &mut SnapshotWriter<'_>) {
    writer.value(metric::THREADS, stat.threads);
    writer.value(metric::CPU_USER, stat.cpu_user_ns);
    writer.value(metric::CPU_SYSTEM, stat.cpu_system_ns);
    writer.value(metric::MINOR_FAULTS, stat.minor_faults);
    writer.value(metric::MAJOR_FAULTS, stat.major_faults);
}

fn write_status(status: &Status, writer: &mut SnapshotWriter<'_>) {
    writer.maybe(metric::RSS, status.rss_bytes);
    writer.maybe(metric::RSS_ANON, status.rss_anon_bytes);
    writer.maybe(metric::RSS_FILE, status.rss_file_bytes);
    writer.maybe(metric::RSS_SHMEM, status.rss_shmem_bytes);
    writer.maybe(metric::RSS_PEAK, status.rss_peak_bytes);
    writer.maybe(metric::SWAP, status.swap_bytes);
    writer.maybe(metric::VIRTUAL, status.virtual_bytes);
}

fn write_counts(counts: &Counts, writer: &mut SnapshotWriter<'_>) {
    writer.value(metric::SWITCHES_VOLUNTARY, counts.switches_voluntary);
    writer.value(metric::SWITCHES_INVOLUNTARY, counts.switches_involuntary);
    writer.value(metric::RUN_DELAY, counts.run_delay_ns);
}

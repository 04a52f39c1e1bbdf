//! The collector as the supervisor sees it: something that looks at every interval, and that may die.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use observe::snapshot::TimeNs;

/// Starts of the collector before it is given up; a broken record would break every further one.
const STARTS_MAX: u32 = 20;
/// From a death to the next start.
const START_AFTER: Duration = Duration::from_millis(200);

/// What keeps looking while the loop runs.
pub trait Watch {
    /// Called several times a second; says in words what is worth an event (the collector died).
    ///
    /// # Errors
    /// The collector cannot be kept alive.
    fn tick(&mut self, now: TimeNs) -> anyhow::Result<Option<String>>;

    /// One more snapshot, then no further one.
    fn finish(&mut self, now: TimeNs) -> anyhow::Result<()>;

    /// Its pid, when it is a process of its own.
    fn pid(&self) -> Option<i32> {
        None
    }
}

/// The collector as a child process: `highwater collect --run FOLDER`.
pub struct ChildCollector {
    folder: PathBuf,
    child: Option<Child>,
    starts: u32,
    died: Option<Instant>,
    last_max: Duration,
}

impl ChildCollector {
    /// `last_max`: for what it has left to do when the run is over; it is ended then.
    ///
    /// # Errors
    /// The collector could not be started at all.
    pub fn start(folder: &Path, last_max: Duration) -> io::Result<ChildCollector> {
        let child = Some(spawn(folder)?);
        Ok(ChildCollector {
            folder: folder.to_owned(),
            child,
            starts: 1,
            died: None,
            last_max,
        })
    }
}

/// In a process group of its own: a Ctrl-C at the terminal is the supervisor's to handle.
fn spawn(folder: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("collect")
        .arg("--run")
        .arg(folder)
        .arg("--supervisor")
        .arg(std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

impl Watch for ChildCollector {
    fn tick(&mut self, _now: TimeNs) -> anyhow::Result<Option<String>> {
        if let Some(child) = &mut self.child {
            let Some(status) = child.try_wait()? else {
                return Ok(None);
            };
            self.child = None;
            self.died = Some(Instant::now());
            return Ok(Some(format!(
                "the collector ended ({status}); it is started again"
            )));
        }
        if self.died.is_some_and(|at| at.elapsed() < START_AFTER) {
            return Ok(None);
        }
        anyhow::ensure!(
            self.starts < STARTS_MAX,
            "the collector ended {STARTS_MAX} times; what it said is above. Everything recorded so \
             far is in {}",
            self.folder.display()
        );
        self.starts += 1;
        self.child = Some(spawn(&self.folder)?);
        Ok(None)
    }

    fn finish(&mut self, _now: TimeNs) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        // SAFETY: kill takes two integers; the child is ours and not yet reaped.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + self.last_max;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.id() as i32)
    }
}

impl Drop for ChildCollector {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

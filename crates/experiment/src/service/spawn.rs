//! Starts processes from one thread that lives as long as the service.
//!
//! The parent-death signal is sent when the *thread* that forked ends, not the process: a child started from a
//! worker thread would be killed when that worker returns.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};

/// All that is needed to start one process.
#[derive(Debug)]
pub struct Spec {
    /// Absolute.
    pub program: PathBuf,
    /// `argv[0]` first.
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    /// On top of highwater's own environment.
    pub environment: BTreeMap<String, String>,
    /// Opened for appending, so that they can be cut off while they are written to.
    pub out: File,
    pub err: File,
    /// `cgroup.procs` of the process's own cgroup, open for writing.
    pub cgroup: Option<File>,
    /// SIGKILL when the supervisor dies. Not inherited by grandchildren, and forgotten by programs with set-user-ID
    /// or file capabilities.
    pub dies_with_us: bool,
}

type Reply = io::Result<Child>;

/// The thread that forks. Dropping it ends the thread, and with it every child that dies with us.
#[derive(Debug)]
pub struct Spawner {
    requests: Sender<(Spec, Sender<Reply>)>,
}

impl Spawner {
    /// # Errors
    /// When no thread can be started.
    pub fn new() -> io::Result<Self> {
        let (requests, received) = channel();
        thread::Builder::new()
            .name("highwater-spawn".into())
            .spawn(move || serve(&received))?;
        Ok(Self { requests })
    }

    /// Starts a process in a session and a process group of its own.
    ///
    /// # Errors
    /// Those of fork and exec: no such program, no permission, no memory.
    pub fn spawn(&self, spec: Spec) -> Reply {
        let (reply, answer) = channel();
        let gone = |_| io::Error::other("the thread that starts processes has ended");
        self.requests.send((spec, reply)).map_err(|_| gone(()))?;
        answer.recv().map_err(|_| gone(()))?
    }
}

fn serve(requests: &Receiver<(Spec, Sender<Reply>)>) {
    while let Ok((spec, reply)) = requests.recv() {
        // Nobody waits any more: the service was dropped meanwhile, and the child dies with this thread.
        let _ = reply.send(spawn_here(spec));
    }
}

fn spawn_here(spec: Spec) -> Reply {
    let mut command = Command::new(&spec.program);
    if let Some((first, rest)) = spec.arguments.split_first() {
        command.arg0(first).args(rest);
    }
    command
        .current_dir(&spec.directory)
        .envs(&spec.environment)
        .stdin(Stdio::null())
        .stdout(spec.out)
        .stderr(spec.err);
    let (cgroup, dies_with_us, supervisor) = (spec.cgroup, spec.dies_with_us, getpid());
    // SAFETY: between fork and exec only system calls are made, no lock is taken and nothing is allocated.
    unsafe {
        command.pre_exec(move || prepare_child(cgroup.as_ref(), dies_with_us, supervisor));
    }
    command.spawn()
}

/// Runs in the child, between fork and exec.
fn prepare_child(cgroup: Option<&File>, dies_with_us: bool, supervisor: Pid) -> io::Result<()> {
    setsid()?;
    if let Some(mut procs) = cgroup {
        // Not entering is no reason not to start: the supervisor looks afterwards whether it worked, and says so.
        let _ = procs.write(b"0\n");
    }
    // A process to be kept has no mark yet by which it could be found: it does not outlive its supervisor here either.
    end_with(supervisor, dies_with_us.then_some(Signal::KILL))
}

/// In a child, between fork and exec: the kernel sends it the signal, if any, when `parent` ends.
///
/// # Errors
/// The parent has ended already, and that signal would never be sent.
pub fn end_with(parent: Pid, signal: Option<Signal>) -> io::Result<()> {
    set_parent_process_death_signal(signal)?;
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

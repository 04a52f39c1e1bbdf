//! Go programs of the tests: built, started, and told what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use runtimes::{Limits, ManagedHeap};

pub const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    bytes: 256 << 20,
    pause: Duration::ZERO,
};

/// A program that runs, and reads commands.
pub struct Program {
    pub child: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Built with these arguments of `go build`; `None`, and a line that says so, where it cannot be.
    pub fn of(source: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let program = build(&folder, source, arguments)?;
        let mut child = Command::new(program)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut program = Program {
            commands: child.stdin.take().unwrap(),
            replies: BufReader::new(child.stdout.take().unwrap()),
            child,
            _folder: folder,
        };
        // It runs once it has answered.
        program.ask("nothing");
        Some(program)
    }

    /// What it prints until it has done a command.
    pub fn ask(&mut self, command: &str) -> Vec<String> {
        writeln!(self.commands, "{command}").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(
                self.replies.read_line(&mut line).unwrap(),
                0,
                "it has ended"
            );
            if line.starts_with("done") {
                return lines;
            }
            lines.push(line.trim_end().to_owned());
        }
    }

    pub fn heap(&self) -> Box<dyn ManagedHeap> {
        let mut heaps = runtimes::open(self.child.id());
        assert_eq!(heaps.len(), 1);
        heaps.remove(0).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build(folder: &tempfile::TempDir, text: &str, arguments: &[&str]) -> Option<PathBuf> {
    let source = folder.path().join("leaks.go");
    std::fs::write(&source, text).unwrap();
    let program = folder.path().join("leaks");
    let toolchain = std::env::var("GOTOOLCHAIN").unwrap_or_else(|_| "local".to_owned());
    let built = Command::new("go")
        .arg("build")
        .args(arguments)
        .arg("-o")
        .args([&program, &source])
        .env("GOTOOLCHAIN", toolchain)
        .current_dir(folder.path())
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            testkit::skipped(&format!("go: {error}"));
            None
        }
    }
}

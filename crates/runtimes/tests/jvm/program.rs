//! A Java program that a test orders about, and that must end as if nothing had read it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use runtimes::jvm::{self, Jvm};
pub use testkit::java::{Jdk, jdks};

/// The program App, compiled by a JDK.
pub struct Compiled {
    java: PathBuf,
    folder: tempfile::TempDir,
}

impl Compiled {
    pub fn new(jdk: Jdk) -> Compiled {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm/App.java");
        let status = Command::new(&jdk.javac)
            .args(["-Xlint:none", "--release", "11", "-d"])
            .arg(folder.path())
            .arg(source)
            .status()
            .unwrap();
        assert!(status.success());
        // Other users run it too.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Compiled {
            java: jdk.java,
            folder,
        }
    }

    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.java);
        command
            .arg("-Xmx256m")
            .args(options)
            .arg("-cp")
            .arg(self.folder.path())
            .arg("App");
        command
    }

    /// `None`: this JVM lacks one of the options.
    pub fn start(&self, options: &[&str]) -> Option<Program> {
        let probe = self.command(options).stdin(Stdio::null()).output().unwrap();
        if probe.status.code() != Some(3) {
            testkit::skipped(&format!(
                "{} does not start with {options:?}",
                self.java.display()
            ));
            return None;
        }
        Some(Program::start(self.command(options)))
    }
}

/// A running App in an empty folder.
pub struct Program {
    child: Child,
    commands: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Program {
    pub fn start(mut command: Command) -> Program {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        command
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program {
            child,
            commands,
            output,
            folder,
        };
        program.expect("ready");
        program
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn expect(&mut self, line: &str) {
        let mut printed = String::new();
        self.output.read_line(&mut printed).unwrap();
        assert_eq!(printed, format!("{line}\n"));
    }

    pub fn order(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
        self.expect("done");
    }

    pub fn open(&self) -> Jvm {
        jvm::open(self.pid()).expect("a JVM").unwrap()
    }

    /// It printed what it always prints, ended as always, and nothing is left of the reader.
    pub fn end(mut self, sessions: u64) {
        let pid = self.pid();
        assert!(!Path::new(&format!("/tmp/.attach_pid{pid}")).exists());
        writeln!(self.commands, "end").unwrap();
        self.expect(&format!("sessions {sessions}"));
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        let ended = self.child.wait_with_output().unwrap();
        assert_eq!((rest.as_str(), ended.status.code()), ("", Some(3)));
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
        let left: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!Path::new(&format!("/tmp/.java_pid{pid}")).exists());
    }
}

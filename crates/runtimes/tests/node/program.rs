//! A program in Node.js that says when it is ready, and how it ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use runtimes::node::{self, Node};
use testkit::skipped;

/// A running program; its standard output says `ready` first.
pub struct Program {
    pub child: Child,
    pub output: BufReader<ChildStdout>,
    pub folder: tempfile::TempDir,
}

/// What a program printed and how it ended.
pub struct End {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Program {
    /// `None`, with a reason printed, where there is no Node.js.
    pub fn start(options: &[&str], script: &str) -> Option<Program> {
        Program::start_of(Path::new("node"), options, script)
    }

    pub fn start_of(node: &Path, options: &[&str], script: &str) -> Option<Program> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("app.js");
        fs::write(&path, script).expect("a script");
        let errors = File::create(folder.path().join("errors")).expect("a file");
        let mut command = Command::new(node);
        command.args(options).arg(&path).env_remove("NODE_OPTIONS");
        let Ok(mut child) = command.stdout(Stdio::piped()).stderr(errors).spawn() else {
            skipped("there is no node");
            return None;
        };
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Some(Program {
            child,
            output,
            folder,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn reader(&self) -> Node {
        node::open(self.pid())
            .expect("it is node")
            .expect("it can be opened")
    }

    /// Waits until it ends by itself.
    pub fn end(mut self) -> End {
        let until = Instant::now() + Duration::from_secs(60);
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status.code();
            }
            assert!(Instant::now() < until, "it does not end: {}", self.errors());
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut output = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut output).expect("its output");
        let errors = self.errors();
        End {
            code,
            output,
            errors,
        }
    }

    pub fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).expect("its errors")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its standard error has lines of the debugger only.
pub fn only_the_debuggers(errors: &str) -> bool {
    const KNOWN: [&str; 5] = [
        "Debugger listening on ws://127.0.0.1:",
        "For help, see:",
        "Debugger attached.",
        "Debugger ending on ws://",
        "Waiting for the debugger to disconnect...",
    ];
    errors
        .lines()
        .all(|line| KNOWN.iter().any(|known| line.starts_with(known)))
}

/// `body`, and a file named `stop` beside the script ends the program with code 7.
pub fn script(body: &str) -> String {
    format!(
        "const fs = require('fs'), path = require('path');\n{body}\nconst waits = setInterval(() => {{ \
         if (fs.existsSync(path.join(__dirname, 'stop'))) {{ console.log('stops'); process.exitCode = 7; \
         for (const timer of [waits, globalThis.work]) clearInterval(timer); globalThis.server?.close(); }} }}, 20);\n\
         console.log('ready');\n"
    )
}

pub fn stop(program: Program) -> End {
    fs::write(program.folder.path().join("stop"), "").expect("a file");
    program.end()
}

pub fn assert_undisturbed(end: &End) {
    assert_eq!(end.code, Some(7), "{}", end.errors);
    assert_eq!(end.output, "stops\n");
    assert!(only_the_debuggers(&end.errors), "{}", end.errors);
}

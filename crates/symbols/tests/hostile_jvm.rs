//! A process that claims to be a JVM: whatever it describes, its stacks are read, without Java and in bounded time.

#![cfg(target_arch = "x86_64")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use symbols::hotspot::JavaMethods;
use symbols::registers::Registers;
use symbols::unwind::Stacks;

const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\nextern void *gHotSpotVMTypes;\n\
    int main(void) { char c; printf(\"%d\\n\", gHotSpotVMTypes != 0); fflush(stdout); return read(0, &c, 1) < 0; }\n";
/// Twenty times it is asked whether it has begun by now.
const RELOADS: usize = 25;
/// No bound of speed: what is asked for ends.
const ENOUGH: Duration = Duration::from_secs(60);

fn compile(folder: &Path, arguments: &[&str]) {
    let status = Command::new("cc")
        .current_dir(folder)
        .args(arguments)
        .status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// The line of /proc/PID/syscall once the program waits for its input; before, it is "running".
fn blocked(pid: u32) -> String {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
        if text.split_whitespace().count() > 2 || start.elapsed() > ENOUGH {
            return text;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_library_that_lies_about_its_structures() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotspot/hostile.c");
    for case in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.c"), PROGRAM).unwrap();
        let which = format!("-DCASE={case}");
        compile(
            folder.path(),
            &[
                "-shared",
                "-fPIC",
                &which,
                "-o",
                "libjvm.so",
                source.to_str().unwrap(),
            ],
        );
        compile(folder.path(), &["-o", "main", "main.c", "./libjvm.so"]);
        let mut program = Command::new(folder.path().join("main"))
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "1\n");
        let (pid, start) = (program.id(), Instant::now());
        let mut stacks = Stacks::new(pid);
        for _ in 0..RELOADS {
            stacks.reload();
        }
        assert!(!stacks.reads_managed(), "case {case}");
        let text = blocked(pid);
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        let registers = Registers {
            sp: number(words[words.len() - 2]),
            pc: number(words[words.len() - 1]),
            ..Registers::default()
        };
        assert!(
            stacks.of_blocked_without_fp(registers).len() > 1,
            "case {case}"
        );
        // Half of all doubles look like one of our addresses.
        assert_eq!(JavaMethods::default().at(pid, 100.0_f64.to_bits()), None);
        assert!(
            start.elapsed() < ENOUGH,
            "case {case}: {:?}",
            start.elapsed()
        );
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success());
    }
}

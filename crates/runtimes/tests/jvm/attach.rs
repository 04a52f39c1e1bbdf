//! The attach listener: when a JVM is signalled, and what is left to other tools.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use runtimes::{Limits, ManagedHeap};

use super::program::{Compiled, Program, jdks};
use super::{SESSIONS, objects, paused, refusal};

#[test]
fn a_jvm_that_may_not_be_attached_to_is_not_signalled() {
    let disabled: [(&[&str], &str); 3] = [
        (&["-XX:+DisableAttachMechanism"], "DisableAttachMechanism"),
        (
            &["-XX:+DisableAttachMechanism", "-XX:-UsePerfData"],
            "DisableAttachMechanism",
        ),
        (
            &["-XX:+DisableAttachMechanism", "-Xrs"],
            "DisableAttachMechanism",
        ),
    ];
    for compiled in jdks().into_iter().map(Compiled::new) {
        for (options, named) in disabled {
            let program = compiled.start(options).unwrap();
            let why = refusal(program.open().snapshot(&paused()));
            assert!(why.contains(named), "{options:?}: {why}");
            program.end(0);
        }
    }
}

#[test]
fn a_listener_that_runs_already_needs_no_signal() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        for options in [
            &["-Xrs"][..],
            &["-XX:+StartAttachListener", "-XX:-UsePerfData"],
        ] {
            let mut program = compiled.start(options).unwrap();
            program.order(&format!("sessions {SESSIONS}"));
            let snapshot = program.open().snapshot(&paused()).unwrap();
            assert_eq!(objects(&snapshot, "App$Session"), SESSIONS);
            program.end(SESSIONS);
        }
    }
}

#[test]
fn a_stopped_process_is_not_signalled() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        signal(program.pid(), "-STOP");
        let why = refusal(program.open().snapshot(&paused()));
        assert!(why.contains("stopped"), "{why}");
        signal(program.pid(), "-CONT");
        program.end(0);
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn a_socket_of_another_process_is_not_asked() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        let path = format!("/tmp/.java_pid{}", program.pid());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let why = refusal(program.open().snapshot(&paused()));
        assert!(why.contains("another process"), "{why}");
        drop(listener);
        let why = refusal(program.open().snapshot(&paused()));
        assert!(why.contains("refused a connection"), "{why}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "no socket").unwrap();
        let why = refusal(program.open().snapshot(&paused()));
        assert!(why.contains("is not a socket"), "{why}");
        std::fs::remove_file(&path).unwrap();
        program.end(0);
    }
}

#[test]
fn readers_at_once_and_the_trigger_file_of_another_tool() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        let readers = [(); 4].map(|()| {
            let mut jvm = program.open();
            std::thread::spawn(move || jvm.snapshot(&paused()).map(|snapshot| snapshot.types.len()))
        });
        for reader in readers {
            assert!(reader.join().unwrap().unwrap() > 100);
        }
        program.end(0);

        let program = compiled.start(&[]).unwrap();
        let path = format!("/tmp/.attach_pid{}", program.pid());
        std::fs::write(&path, "").unwrap();
        let short = Limits {
            time: Duration::from_secs(1),
            ..paused()
        };
        let why = refusal(program.open().snapshot(&short));
        assert!(why.contains("another tool is attaching to it"), "{why}");
        // It is not ours.
        std::fs::remove_file(&path).unwrap();
        assert!(program.open().snapshot(&paused()).is_ok());
        program.end(0);

        // The other tool starts the listener while we wait.
        let program = compiled.start(&[]).unwrap();
        let path = format!("/tmp/.attach_pid{}", program.pid());
        std::fs::write(&path, "").unwrap();
        let mut jvm = program.open();
        let reader = std::thread::spawn(move || jvm.snapshot(&paused()));
        std::thread::sleep(Duration::from_millis(300));
        signal(program.pid(), "-QUIT");
        assert!(reader.join().unwrap().is_ok());
        std::fs::remove_file(&path).unwrap();
        program.end(0);
    }
}

#[test]
fn root_reads_the_jvm_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        testkit::skipped("only root starts a program as another user");
        return;
    }
    for compiled in jdks().into_iter().map(Compiled::new) {
        let mut command = compiled.command(&[]);
        command.uid(65_534).gid(65_534);
        let mut program = Program::start(command);
        program.order(&format!("sessions {SESSIONS}"));
        let snapshot = program.open().snapshot(&paused()).unwrap();
        assert_eq!(objects(&snapshot, "App$Session"), SESSIONS);
        assert_eq!(snapshot.missing, Vec::<String>::new());
        program.end(SESSIONS);
    }
}

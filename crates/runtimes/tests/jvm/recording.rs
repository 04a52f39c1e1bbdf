//! What holds objects, by a recording of JDK Flight Recorder, which leaves nothing and disturbs no other.

use std::path::Path;
use std::process::Command;

use super::*;

/// Folders of recordings of a process in /tmp.
fn folders(pid: u32) -> usize {
    let start = format!("highwater-jfr-{pid}-");
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .count()
}

#[test]
fn what_holds_objects_and_who_made_them() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        for options in [&["-XX:+UseG1GC"][..], &["-XX:+UseSerialGC"]] {
            let mut program = compiled.start(options).unwrap();
            let pid = program.pid();
            let mut jvm = program.open();
            jvm.snapshot(&paused()).unwrap();
            assert_eq!(folders(pid), 1);
            program.order("sessions 200000");
            program.order("collect 1");
            jvm.snapshot(&paused()).unwrap();
            let holders = jvm.holders(&["App$Session".to_owned()], &paused());
            let search = jvm.last_search();
            assert_eq!(search.missing, None, "{}", jvm.runtime());
            assert!(search.paused > Duration::ZERO && search.paused < Duration::from_secs(20));
            let holder = holders
                .first()
                .unwrap_or_else(|| panic!("{}", jvm.runtime()));
            let [root, item] = &holder.path[..] else {
                panic!("{holder:?}");
            };
            assert_eq!(item, "[…] (App$Session)", "{}", jvm.runtime());
            // A field that compiled code refers to has no name in JDK 11.
            let is_unnamed = jvm.runtime().starts_with("HotSpot JVM 11")
                && root == "a root that the JVM does not name (HashMap)";
            assert!(
                is_unnamed || root == "static App.SESSIONS (HashMap)",
                "{}: {root}",
                jvm.runtime()
            );
            assert!(
                holder.objects * 2 >= holder.asked && holder.asked > 0,
                "{holder:?}"
            );
            assert!(
                holder.makers[0].starts_with("App.await (App.java:"),
                "{holder:?}"
            );
            jvm.finish().unwrap();
            assert_eq!(folders(pid), 0);
            program.end(200_000);
        }
    }
}

#[test]
fn a_recording_of_others_goes_on() {
    let Some(jcmd) = jcmd() else {
        return testkit::skipped("no jcmd in /usr/lib/jvm");
    };
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        let pid = program.pid().to_string();
        let ask = |command: &[&str]| {
            let output = Command::new(&jcmd)
                .arg(&pid)
                .args(command)
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(ask(&["JFR.start", "name=theirs"]).contains("Started"));
        let mut jvm = program.open();
        jvm.snapshot(&paused()).unwrap();
        assert!(ask(&["JFR.check"]).contains("highwater-jfr-"));
        assert!(
            jvm.holders(&["App$Session".to_owned()], &paused())
                .is_empty()
        );
        assert_eq!(jvm.last_search().missing, None);
        jvm.finish().unwrap();
        let left = ask(&["JFR.check"]);
        assert!(
            left.contains("name=theirs") && left.contains("running"),
            "{left}"
        );
        assert!(!left.contains("highwater"), "{left}");
        assert_eq!(folders(program.pid()), 0);
        ask(&["JFR.stop", "name=theirs"]);
        program.end(0);
    }
}

#[test]
fn without_a_pause_nothing_is_recorded() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        let mut jvm = program.open();
        jvm.snapshot(&limits(Duration::ZERO)).unwrap();
        assert!(
            jvm.holders(&["App".to_owned()], &limits(Duration::ZERO))
                .is_empty()
        );
        assert_eq!(folders(program.pid()), 0);
        assert!(!Path::new(&format!("/tmp/.java_pid{}", program.pid())).exists());
        program.end(0);
    }
}

fn jcmd() -> Option<std::path::PathBuf> {
    let homes = std::fs::read_dir("/usr/lib/jvm").ok()?.flatten();
    let mut tools = homes.map(|home| home.path().join("bin/jcmd"));
    tools.find(|tool| tool.exists())
}

//! What is wrong is said by name, with what to do next, and with the exit code of its kind.

use crate::stage::{are_refused, is_ready};

#[test]
fn mistakes_of_record() {
    if !is_ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("there.hwt"), "mine").unwrap();
    let cases: [(&[&str], i32, &str); 3] = [
        (
            &["record", "--out", "there.hwt", "--", "/bin/true"],
            2,
            "there.hwt exists already",
        ),
        (
            &["record", "--", "/nowhere/at-all"],
            4,
            "/nowhere/at-all: no such file",
        ),
        (
            &["record", "--out", "no/such/folder.hwt", "--", "/bin/true"],
            4,
            "no/such/folder.hwt",
        ),
    ];
    are_refused(folder.path(), &cases);
    assert_eq!(
        std::fs::read(folder.path().join("there.hwt")).unwrap(),
        b"mine"
    );
}

#[test]
fn mistakes_of_trace_and_replay() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no trace at all").unwrap();
    let mut writer = trace::TraceWriter::create(&folder.path().join("made.hwt")).unwrap();
    let main = writer.thread(1, "main", true);
    let event = trace_abi::Event::Malloc {
        bytes: 10,
        address: 4096,
    };
    writer.event(main, 5, event).unwrap();
    writer.finish().unwrap();
    let cases: [(&[&str], i32, &str); 10] = [
        (
            &["replay", "made.hwt", "--tune", "onetbb@2021.8"],
            2,
            "--tune: onetbb@2021.8 has no settings",
        ),
        (
            &[
                "replay",
                "made.hwt",
                "--tune",
                "glibc",
                "--plot",
                "front.gif",
            ],
            2,
            "ends in .svg or .png",
        ),
        (&["replay", "made.hwt", "--plot", "front.svg"], 2, "--tune"),
        (&["trace", "info", "notes.txt"], 4, "is no trace"),
        (&["trace", "info", "absent.hwt"], 4, "absent.hwt"),
        (
            &[
                "trace", "cut", "made.hwt", "--from", "5s", "--to", "2s", "--out", "x",
            ],
            2,
            "window is empty",
        ),
        (
            &["trace", "cut", "made.hwt", "--from", "5s", "--out", "x.hwt"],
            4,
            "no event lies between",
        ),
        (&["replay", "notes.txt"], 4, "is no trace"),
        (
            &["replay", "made.hwt", "--allocators", "jemaloc"],
            2,
            "the nearest is jemalloc",
        ),
        (
            &["replay", "made.hwt", "--set", "glibc:arenas=2"],
            2,
            "has no setting",
        ),
    ];
    are_refused(folder.path(), &cases);
}

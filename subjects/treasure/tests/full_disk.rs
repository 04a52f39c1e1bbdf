//! A disk that is really full: a small file system of its own for the data, which needs root.

mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use server::{Client, NETS, Server, tap};
use testkit::skipped;
use treasure::protocol::{Answer, Request};

/// Bytes of the disk: room for the log of some thousand taps, not for a snapshot beside it.
const DISK: &str = "768k";

/// The data folder is a mount that only the server sees; its files are reached through its root.
fn on_small_disk(folder: &Path, net: &str) -> Option<(Server, PathBuf)> {
    let is_possible = Command::new("unshare")
        .args(["-m", "true"])
        .stderr(Stdio::null())
        .status();
    if !is_possible.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = Command::new("unshare");
    let mount = format!(
        "mount -t tmpfs -o size={DISK} none '{}' && exec \"$0\" \"$@\"",
        folder.display()
    );
    command.args(["-m", "sh", "-c", &mount, env!("CARGO_BIN_EXE_treasure")]);
    let server = Server::start_by(command, folder, &["--net", net, "--snapshot", "300ms"]);
    let inside = PathBuf::from(format!("/proc/{}/root", server.child.id()))
        .join(folder.strip_prefix("/").unwrap());
    Some((server, inside))
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Takes what room there is, also what a snapshot just gave back.
fn fill(path: &Path) {
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn on_a_full_disk_nobody_is_answered_and_nothing_answered_is_lost() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let Some((mut server, inside)) = on_small_disk(folder.path(), net) else {
            skipped("a full disk: no mount of its own (needs root)");
            return;
        };
        // Many sessions, so that a snapshot needs room.
        let mut client = Client::connect(server.port).unwrap();
        let tokens: Vec<u64> = (0..1500).map(|_| client.hello(0).unwrap().0).collect();
        let (token, _) = client.hello(tokens[7]).unwrap();
        let first = client.tap(1).unwrap();
        server.wait_for("treasure_snapshots_total", 2);

        // All room that is left goes to something else.
        let filler = inside.join("filler");
        let refused = (2..4000).find(|number| {
            fill(&filler);
            let answer = client.ask(tap(*number));
            !matches!(answer, Ok(Answer::Coin { .. }))
        });
        let refused = refused.expect("the disk never became full");
        assert_eq!(server.get("/healthz").0, 503, "{net}");
        let errors = server.metric("treasure_snapshot_errors_total");
        server.wait_for("treasure_snapshot_errors_total", errors + 2);
        let left = files(&inside);
        assert!(
            !left.iter().any(|name| name.ends_with(".part")),
            "{net}: {left:?}"
        );
        assert!(left.iter().any(|name| name.starts_with("snapshot-")));

        // There is room again: the same tap is stored.
        fs::remove_file(&filler).unwrap();
        let (mut client, taps) = Client::resume(server.port, token);
        assert!(taps + 1 >= refused, "{net}: {taps}, refused at {refused}");
        let number = taps.max(refused);
        let last = client.tap(number).unwrap();
        assert_eq!(server.get("/healthz").0, 200, "{net}");
        let snapshots = server.metric("treasure_snapshots_total");
        server.wait_for("treasure_snapshots_total", snapshots + 1);

        // As after a kill -9: the folder of a server that stands still, on another disk.
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let saved = tempfile::tempdir().unwrap();
        for name in files(&inside) {
            fs::copy(inside.join(&name), saved.path().join(&name)).unwrap();
        }
        server.kill();
        let server = Server::start(saved.path(), &["--net", net]);
        let mut client = Client::connect(server.port).unwrap();
        assert_eq!(client.hello(token).unwrap(), (token, number), "{net}");
        assert_eq!(client.tap(number).unwrap(), last, "{net}");
        if number <= 4 {
            assert_eq!(client.tap(1).unwrap(), first, "{net}");
        }
        for token in tokens {
            let answer = client.ask(Request::Hello { token }).unwrap();
            assert!(
                matches!(answer, Answer::Welcome { .. }),
                "{net}: {answer:?}"
            );
        }
    }
}

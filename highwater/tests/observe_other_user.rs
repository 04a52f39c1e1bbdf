//! Another user's process: what can be sampled is, what is lost is said.

mod observed;

use std::process::Command;

use observe::collector::{Observer, Options};
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, TimeNs};
use observed::{SECOND, fact, start};

/// Looks at another user's process: pid in HIGHWATER_TEST_PID. Run by the test below as nobody.
#[test]
fn observes_as_another_user() {
    let Ok(pid) = std::env::var("HIGHWATER_TEST_PID") else {
        return;
    };
    let pid: i32 = pid.parse().unwrap();
    let root = ProcRoot::default();
    let start = observe::proc::read_start_ticks(&root, pid).unwrap();
    // It sleeps all the time, which is not what this test is about.
    let options = Options {
        hung_after_ns: i64::MAX,
        ..Options::default()
    };
    let mut observer = Observer::new(root, options);
    let targets = [observed::target(1, pid, start)];
    let snapshot = observer.snapshot(TimeNs(SECOND), &targets);
    assert!(observed::value(&snapshot, 1, observe::metric::RSS).unwrap() > 0.0);
    let lost: Vec<&str> = snapshot
        .events
        .iter()
        .map(|event| event.words.as_str())
        .collect();
    assert!(
        snapshot
            .events
            .iter()
            .all(|event| event.kind == EventKind::Degraded),
        "{lost:?}"
    );
    assert!(
        lost.iter().any(|words| words.contains("which allocator")),
        "{lost:?}"
    );
    assert!(
        lost.iter().any(|words| words.contains("smaps_rollup")),
        "{lost:?}"
    );
    assert!(
        lost.iter().all(|words| words.contains("permission denied")),
        "{lost:?}"
    );
    assert_eq!(
        fact(&snapshot, 1, "malloc.library"),
        None,
        "nothing is made up"
    );
    for second in 2..200 {
        let again = observer.snapshot(TimeNs(second * SECOND), &targets);
        assert!(again.events.is_empty(), "said once: {:?}", again.events);
    }
}

#[test]
fn another_users_process_is_sampled_and_what_is_lost_is_said() {
    let child = start(Command::new("sleep").arg("60"));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut run = match rustix::process::geteuid().is_root() {
        true => {
            let mut run = Command::new("setpriv");
            run.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(&copy);
            run.env("HIGHWATER_TEST_PID", child.pid().to_string());
            run
        }
        false => {
            let mut run = Command::new(&copy);
            run.env("HIGHWATER_TEST_PID", "1");
            run
        }
    };
    let run = run
        .args(["--exact", "observes_as_another_user"])
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && out.contains("1 passed"), "{out}");
}

//! Cgroups, pressure and the machine: from captured text, and for real where this machine can.

mod observed;

use std::path::{Path, PathBuf};

use observe::cgroup::{Cgroup, Folders, find_folders, parse_key, read_cgroup};
use observe::collector::{Observer, Options};
use observe::host::{Cpu, SystemRoot, parse_cpu, parse_load, parse_meminfo, read_machine};
use observe::metric;
use observe::pressure::{Pressure, parse_pressure};
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, Role, TimeNs};
use observed::{SECOND, fact, fixture_root, fixtures, spawn, spawn_c, target, value};
use proptest::prelude::*;
use testkit::skipped;

fn cgroup(path: &str) -> Cgroup {
    let folders = find_folders(&fixtures().join("cgroup").join(path)).unwrap();
    read_cgroup(&folders).unwrap()
}

#[test]
fn version_1_is_read_from_any_of_its_folders() {
    let expected = Cgroup {
        memory_bytes: number("v1/memory/job/memory.usage_in_bytes"),
        memory_peak_bytes: number("v1/memory/job/memory.max_usage_in_bytes"),
        memory_limit_bytes: Some(32 << 20),
        oom_kills: Some(1),
        throttled_ns: Some(624_747_062),
    };
    assert!(
        expected.memory_peak_bytes >= Some(31 << 20),
        "the capture reached its limit"
    );
    assert_eq!(cgroup("v1/memory/job"), expected);
    assert_eq!(cgroup("v1/cpu/job"), expected);
}

fn number(file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(fixtures().join("cgroup").join(file)).unwrap();
    Some(text.trim().parse().unwrap())
}

#[test]
fn version_2_is_read_in_base_units() {
    let expected = Cgroup {
        memory_bytes: Some(41_234_432),
        memory_peak_bytes: Some(64 << 20),
        memory_limit_bytes: Some(64 << 20),
        oom_kills: Some(2),
        throttled_ns: Some(345_678_000),
    };
    assert_eq!(cgroup("v2/job"), expected);
}

#[test]
fn no_limit_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    write("memory.current", "4096\n");
    write("memory.max", "max\n");
    let v2 = read_cgroup(&find_folders(folder.path()).unwrap()).unwrap();
    assert_eq!((v2.memory_bytes, v2.memory_limit_bytes), (Some(4096), None));
    let memory = folder.path().join("memory/x");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("memory.usage_in_bytes"), "8192\n").unwrap();
    // What the root group of the captured machine says.
    std::fs::write(
        memory.join("memory.limit_in_bytes"),
        "9223372036854771712\n",
    )
    .unwrap();
    let v1 = find_folders(&memory).unwrap();
    assert_eq!(
        v1,
        Folders::V1 {
            memory: memory.clone(),
            cpu: None
        }
    );
    assert_eq!(read_cgroup(&v1).unwrap().memory_limit_bytes, None);
    assert_eq!(find_folders(Path::new("/nonexistent")), None);
}

#[test]
fn a_snapshot_brings_the_cgroup_and_its_pressure() {
    let child = spawn("sleep", &["60"]);
    let mut target = child.target(1);
    target.cgroup = Some(fixtures().join("cgroup/v2/job"));
    let snapshot =
        Observer::new(ProcRoot::default(), Options::default()).snapshot(TimeNs(1), &[target]);
    assert_eq!(value(&snapshot, 1, metric::CGROUP_OOM_KILLS), Some(2.0));
    assert_eq!(
        value(&snapshot, 1, metric::PRESSURE_MEMORY_SOME),
        Some(700_000.0)
    );
    assert_eq!(
        value(&snapshot, 1, metric::PRESSURE_CPU_SOME),
        Some(55_000.0)
    );
    assert!(
        snapshot.events.is_empty(),
        "kills before the first snapshot are not news: {:?}",
        snapshot.events
    );
}

/// A cgroup of v1 that goes away with the test.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("highwater-test-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/memory").join(name);
        std::fs::create_dir(&path).ok()?;
        let group = Group(path);
        std::fs::write(group.0.join("memory.limit_in_bytes"), "33554432").ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn an_oom_kill_is_an_event() {
    let Some(group) = Group::new() else {
        skipped("no cgroup v1 memory controller that this user may write to");
        return;
    };
    let child = spawn_c("grow.c", &[]);
    child.read_line();
    std::fs::write(group.0.join("cgroup.procs"), child.pid().to_string()).unwrap();
    let mut target = child.target(1);
    target.cgroup = Some(group.0.clone());
    let mut observer = Observer::new(ProcRoot::default(), Options::default());
    let targets = [target];
    let before = observer.snapshot(TimeNs(SECOND), &targets);
    assert_eq!(value(&before, 1, metric::CGROUP_LIMIT), Some(33_554_432.0));
    assert_eq!(value(&before, 1, metric::CGROUP_OOM_KILLS), Some(0.0));
    child.write_line(); // touches 64 MiB
    let mut kinds = Vec::new();
    for second in 2..500 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let snapshot = observer.snapshot(TimeNs(second * SECOND), &targets);
        kinds.extend(snapshot.events.iter().map(|event| event.kind.clone()));
        if kinds.contains(&EventKind::Vanished) {
            break;
        }
    }
    kinds.sort_by_key(|kind| format!("{kind:?}"));
    assert_eq!(kinds, [EventKind::OomKilled, EventKind::Vanished]);
    drop(child);
}

#[test]
fn pressure_totals_are_nanoseconds() {
    let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=7\n";
    let expected = Pressure {
        some_ns: Some(12_000),
        full_ns: Some(7_000),
    };
    assert_eq!(parse_pressure(text), Ok(expected));
    assert!(parse_pressure(b"some avg10=0.00\n").is_err());
    for file in ["cpu", "io", "memory"] {
        let text = fixture_root("6.18")
            .read(&format!("pressure/{file}"))
            .unwrap();
        assert!(parse_pressure(&text).unwrap().some_ns.is_some(), "{file}");
    }
}

#[test]
fn cpu_time_of_the_machine_is_in_nanoseconds_and_guests_are_not_counted_twice() {
    let parse = |text: &str| parse_cpu(text.as_bytes(), 10);
    // Linux 6.18, a virtual machine: user nice system idle iowait irq softirq steal guest guest_nice.
    let seen =
        parse("cpu  10010053 4871743 2342499 5598058 93290 0 194935 147360 0 0\ncpu0 1 2 3\n");
    let expected = Cpu {
        busy_ns: 174_192_300,
        stolen_ns: 1_473_600,
    };
    assert_eq!(seen, Some(expected));
    let at = |busy_s: u64, stolen_s: u64| Cpu {
        busy_ns: busy_s * 1_000_000_000,
        stolen_ns: stolen_s * 1_000_000_000,
    };
    assert_eq!(at(16, 5).stolen_share_since(&at(10, 3)), Some(0.25));
    assert_eq!(at(10, 3).stolen_share_since(&at(10, 3)), None);
    for text in [
        "",
        "cpu",
        "cpu 1 2 3 4 5 6 7\n",
        "intr 1 2 3 4 5 6 7 8\n",
        "cpu a 2 3 4 5 6 7 8\n",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn the_host_is_sampled_and_described() {
    let mut host = target(3, 0, 0);
    host.role = Role::Host;
    let mut observer = Observer::new(ProcRoot::default(), Options::default());
    let snapshot = observer.snapshot(TimeNs(1), std::slice::from_ref(&host));
    let total = value(&snapshot, 3, metric::HOST_MEMORY_TOTAL).unwrap();
    let available = value(&snapshot, 3, metric::HOST_MEMORY_AVAILABLE).unwrap();
    assert!(available > 0.0 && available <= total);
    assert!(value(&snapshot, 3, metric::HOST_LOAD).is_some());
    assert!(value(&snapshot, 3, metric::HOST_CPU_BUSY).unwrap() > 0.0);
    assert!(value(&snapshot, 3, metric::HOST_CPU_STOLEN).is_some());
    let cpus: usize = fact(&snapshot, 3, "machine.cpus").unwrap().parse().unwrap();
    assert!(cpus >= std::thread::available_parallelism().unwrap().get());
    let uname = rustix::system::uname();
    assert_eq!(
        fact(&snapshot, 3, "machine.kernel"),
        uname.release().to_str().ok()
    );
    assert!(
        observer.snapshot(TimeNs(2), &[host]).facts.is_empty(),
        "described once"
    );
}

#[test]
fn a_machine_from_captured_text() {
    let system = SystemRoot(fixtures().join("system"));
    let machine = read_machine(&fixture_root("6.18"), &system);
    assert_eq!(machine.cpus, 4);
    assert_eq!(machine.cpu, "Intel(R) Xeon(R) Processor");
    assert_eq!(machine.distribution, "Debian GNU/Linux 12 (bookworm)");
    assert_eq!(machine.transparent_huge_pages, "madvise");
    assert_eq!(machine.memory_bytes, 24_683_660 * 1024);
    let nothing = read_machine(
        &ProcRoot::new("/nonexistent"),
        &SystemRoot("/nonexistent".into()),
    );
    assert_eq!(nothing, Default::default());
}

proptest! {
    #[test]
    fn parsers_take_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_pressure(&bytes);
        let _ = parse_meminfo(&bytes);
        let _ = parse_load(&bytes);
        let _ = parse_key(&bytes, b"oom_kill");
    }

    #[test]
    fn keys_are_whole_words(value: u64) {
        let text = format!("oom 1\noom_kill {value}\noom_group_kill 3\n");
        prop_assert_eq!(parse_key(text.as_bytes(), b"oom_kill"), Some(value));
        prop_assert_eq!(parse_key(text.as_bytes(), b"oom_k"), None);
    }
}

//! The reader of CPython's heap against large heaps: memory that is not in RAM stays out of it, and objects past the
//! memory limit are counted. `cargo test --release --test cpython_large -- --ignored --nocapture` prints times.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use runtimes::cpython::{self, CPython};
use runtimes::{Limits, ManagedHeap, Snapshot};
use testkit::skipped;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    bytes: 256 << 20,
    pause: Duration::ZERO,
};

struct Program(Child);

impl Program {
    /// Runs code that ends with a function `ready`, and waits until it is called. `None`: there is no Python.
    fn start(code: &str) -> Option<Program> {
        let wait = "\nprint('ready', flush=True)\nimport time\ntime.sleep(600)\n";
        let child = Command::new("/usr/bin/python3")
            .args(["-c", &format!("{code}{wait}")])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            skipped("/usr/bin/python3 is missing");
            return None;
        };
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Program(child))
    }

    fn heap(&self) -> CPython {
        let opened = cpython::open(self.0.id()).expect("it is Python");
        opened.expect("it can be read")
    }

    /// Of `/proc/PID/status`, KiB: `VmRSS`, `VmPTE`.
    fn status(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn objects(snapshot: &Snapshot, name: &str) -> u64 {
    let found = snapshot.types.iter().find(|count| count.name == name);
    found.map_or(0, |count| count.objects)
}

#[test]
fn memory_that_was_never_touched_stays_so() {
    // 4 GiB that are reserved, and 256 MiB that are not Python's.
    let code = "import mmap\na = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)\n\
                b = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE)\n\
                for i in range(0, 256 << 20, 4096): b[i] = 1\n\
                class Order: pass\norders = [Order() for _ in range(5_000)]";
    let Some(program) = Program::start(code) else {
        return;
    };
    let before = [program.status("VmRSS:"), program.status("VmPTE:")];
    let mut heap = program.heap();
    let snapshot = heap.snapshot(&LIMITS).unwrap();
    assert_eq!(objects(&snapshot, "__main__.Order"), 5_000);
    assert!(!snapshot.is_partial, "{:?}", snapshot.missing);
    let after = [program.status("VmRSS:"), program.status("VmPTE:")];
    assert!(after[0] - before[0] < 4_096, "{before:?} {after:?}");
    assert!(after[1] - before[1] < 256, "{before:?} {after:?}");
    assert!(
        snapshot.cost.reading < Duration::from_secs(10),
        "{:?}",
        snapshot.cost
    );
}

#[test]
fn objects_past_the_memory_limit_are_counted() {
    let code = "class Old: __slots__ = 'a'\nclass New: __slots__ = 'a'\n\
                old = [Old() for _ in range(100_000)]\nimport gc\ngc.collect()\n\
                new = [New() for _ in range(30_000)]";
    let Some(program) = Program::start(code) else {
        return;
    };
    let small = Limits {
        bytes: 2 << 20,
        ..LIMITS
    };
    let snapshot = program.heap().snapshot(&small).unwrap();
    assert!(snapshot.is_partial);
    let missing = snapshot.missing.join(" ");
    assert!(missing.contains("memory limit"), "{missing}");
    assert_eq!(objects(&snapshot, "__main__.Old"), 100_000);
    assert_eq!(objects(&snapshot, "__main__.New"), 30_000);
}

#[test]
#[ignore = "prints times; it takes a minute and 2 GiB"]
fn times_per_million_objects() {
    for millions in [1, 4, 9] {
        let code = format!(
            "class Order:\n  __slots__ = ('number', 'name')\n  def __init__(self, i): self.number = i + 1000\n\
             orders = [Order(i) for i in range({millions} * 500_000)]"
        );
        let Some(program) = Program::start(&code) else {
            return;
        };
        let mut heap = program.heap();
        let snapshot = heap.snapshot(&LIMITS).unwrap();
        let again = heap.snapshot(&LIMITS).unwrap();
        let start = std::time::Instant::now();
        let holders = heap.holders(&["__main__.Order".to_owned()], &LIMITS);
        let peak = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        println!(
            "{millions} M objects: snapshot {:?}, again {:?}, holders {:?}, {} orders, partial {}, {peak}, {:?} {:?}",
            snapshot.cost.reading,
            again.cost.reading,
            start.elapsed(),
            objects(&snapshot, "__main__.Order"),
            snapshot.is_partial,
            snapshot.missing,
            holders.first().map(|holder| holder.path.join(" ")),
        );
    }
}

//! The probe as a guest: what it does when it is not wanted, not given memory, too dear, or when
//! the ground under it goes away. The program must never notice.

mod subject;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use abi::{Anchor, State, off_reason};
use subject::{Subject, compile, library, read_tables, skipped, totals};

fn glibc() -> (String, Option<std::path::PathBuf>) {
    ("glibc".to_owned(), None)
}

/// Starts `churn` over glibc and returns what is seen at its first mark and at its last.
fn seen(seconds: &str, env: &[(&str, &str)]) -> Option<[Result<Vec<u8>, Anchor>; 2]> {
    let program = compile("churn.c", &[])?;
    let mut running = Subject::start(&program, &[seconds], &glibc(), env);
    let mut snapshots = Vec::new();
    while let Some(mark) = running.mark() {
        snapshots.push(read_tables(mark.pid));
        running.go_on();
    }
    running.end();
    snapshots.try_into().ok()
}

#[test]
fn off_when_asked() {
    let Some([_, last]) = seen("0.1", &[("HIGHWATER_PROBE", "off")]) else {
        return;
    };
    let anchor = last.expect_err("no mapping");
    assert_eq!(State::of(anchor.state), State::Off);
    assert_eq!(
        (anchor.off_reason, anchor.header_address),
        (off_reason::REQUESTED, 0)
    );
}

#[test]
fn off_over_its_budget_and_says_so() {
    let Some(program) = compile("churn.c", &[]) else {
        return;
    };
    // A budget that nothing can keep: it slows down step by step, then gives up. On a busy machine each step takes
    // longer, so it is watched.
    let env = [("HIGHWATER_PROBE_BUDGET", "0.0001")];
    let mut running = Subject::start(&program, &["100"], &glibc(), &env);
    let pid = running.mark().expect("a mark").pid;
    assert_eq!(
        abi::read(&read_tables(pid).unwrap()).unwrap().state(),
        State::On,
        "at its start"
    );
    running.go_on();
    let is_on = || abi::read(&read_tables(pid).unwrap()).unwrap().state() == State::On;
    let patience = Instant::now() + Duration::from_secs(90);
    while is_on() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100));
    }
    // SAFETY: a signal to the child.
    unsafe { libc::kill(pid as i32, libc::SIGTERM) };
    running.mark().expect("its last mark");
    let last = read_tables(pid).unwrap();
    running.go_on();
    running.end();
    let snapshot = abi::read(&last).unwrap();
    assert_eq!(
        snapshot.state(),
        State::Off,
        "{:?}",
        snapshot.header.counters
    );
    assert_eq!(snapshot.header.off_reason, off_reason::BUDGET);
    assert!(snapshot.header.state_since_ns > snapshot.header.started_ns);
}

#[test]
fn exact_bytes_are_given_up_when_they_are_dear() {
    // Of all that this program does, exact bytes are more than 1 %.
    let Some([_, last]) = seen("4", &[("HIGHWATER_PROBE_BYTES", "auto")]) else {
        return;
    };
    let last = last.unwrap();
    let snapshot = abi::read(&last).unwrap();
    assert_eq!(snapshot.header.bytes_mode, abi::bytes_mode::SAMPLED);
    assert!(snapshot.header.exact_bytes_ended_ns > snapshot.header.started_ns);
    assert_eq!(snapshot.state(), State::On, "sampling goes on");
}

#[test]
fn metadata_stays_under_the_cap_whatever_it_is() {
    for (cap, bytes) in [("2M", 2 << 20), ("8M", 8 << 20), ("1", 2 << 20)] {
        let Some([_, last]) = seen(
            "0.5",
            &[
                ("HIGHWATER_PROBE_CAP", cap),
                ("HIGHWATER_PROBE_MEAN", "100"),
            ],
        ) else {
            return;
        };
        let last = last.unwrap();
        let snapshot = abi::read(&last).unwrap();
        assert!(snapshot.header.mapped_bytes <= bytes, "{cap}");
        assert!(snapshot.header.counters.samples_taken > 1000, "{cap}");
        assert_eq!(snapshot.state(), State::On);
    }
}

/// Runs `churn` by a shell that first takes something away.
fn seen_after(shell: &str) -> Option<Result<Vec<u8>, Anchor>> {
    let program = compile("churn.c", &[])?;
    let script = format!("{shell}; exec {} 0.3", program.display());
    let mut running = Subject::start(Path::new("/bin/sh"), &["-c", &script], &glibc(), &[]);
    running.mark()?;
    running.go_on();
    let mark = running
        .mark()
        .unwrap_or_else(|| panic!("{shell}: it did not run"));
    let seen = read_tables(mark.pid);
    running.go_on();
    running.end();
    Some(seen)
}

#[test]
fn without_a_free_descriptor_the_anchor_leads_to_it() {
    // Where the kernel names anonymous memory no descriptor is needed, and the name is there all
    // the same.
    let Some(seen) = seen_after("ulimit -n 4; exec 3</dev/null") else {
        return;
    };
    let bytes = seen.unwrap_or_else(|anchor| panic!("{anchor:?}"));
    assert!(totals(&abi::read(&bytes).unwrap()).live_blocks > 1000);
}

#[test]
fn without_address_space_it_is_off() {
    let Some(seen) = seen_after("ulimit -v 9000") else {
        return;
    };
    let anchor = seen.expect_err("9 MB hold the program but not the mapping too");
    assert_eq!(anchor.off_reason, off_reason::NO_MEMORY);
}

#[test]
fn under_a_limit_of_address_space_it_takes_a_small_part() {
    for limit_kilobytes in [100_000, 300_000] {
        let Some(seen) = seen_after(&format!("ulimit -v {limit_kilobytes}")) else {
            return;
        };
        let bytes = seen.unwrap();
        let snapshot = abi::read(&bytes).unwrap();
        let most = (limit_kilobytes * 1024 / 64).max(2 << 20);
        assert!(snapshot.header.mapped_bytes <= most, "{limit_kilobytes}");
        assert!(totals(&snapshot).live_blocks > 1000);
    }
}

#[test]
fn with_dev_shm_full_it_works_as_ever() {
    let in_namespace = |script: &str| {
        Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .status()
    };
    if !in_namespace("mount -t tmpfs -o size=4k none /dev/shm").is_ok_and(|status| status.success())
    {
        skipped("no mount namespace here");
        return;
    }
    let Some(program) = compile("churn.c", &[]) else {
        return;
    };
    let fill = "mount -t tmpfs -o size=4k none /dev/shm; head -c 4096 /dev/zero >/dev/shm/full";
    let script = format!("{fill}; exec {} 0.3", program.display());
    let mut running = Subject::start(
        Path::new("/usr/bin/unshare"),
        &["-m", "sh", "-c", &script],
        &glibc(),
        &[],
    );
    running.mark().expect("it runs");
    running.go_on();
    let mark = running.mark().unwrap();
    let bytes = read_tables(mark.pid).expect("a mapping in another mount namespace");
    assert!(totals(&abi::read(&bytes).unwrap()).live_blocks > 1000);
    running.go_on();
    running.end();
}

#[test]
fn with_its_own_file_deleted_it_can_still_be_read() {
    let Some(program) = compile("churn.c", &[]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("libhighwater_probe.so");
    std::fs::copy(library(), &copy).unwrap();
    let mut running = Subject::start_with(&copy, &program, &["0.3"], &glibc(), &[]);
    running.mark().unwrap();
    std::fs::remove_file(&copy).unwrap();
    running.go_on();
    let mark = running.mark().unwrap();
    let bytes = read_tables(mark.pid).expect("found though deleted");
    assert!(totals(&abi::read(&bytes).unwrap()).live_blocks > 1000);
    running.go_on();
    running.end();
}

/// The kernel counts what is locked by area, and may have joined variables of the probe's with a neighbour's. Stacks
/// begin elsewhere in each process.
#[test]
fn mlockall_locks_nothing_of_it() {
    const KIB: i64 = 100;
    let Some(program) = compile("locked_bytes.c", &[]) else {
        return;
    };
    let locked = |preload: &str| {
        let done = Command::new(&program)
            .env("LD_PRELOAD", preload)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout).trim().parse::<i64>();
        text.ok().filter(|_| done.status.success())
    };
    let Some(plain) = locked("") else {
        skipped("memory cannot be locked");
        return;
    };
    let with = locked(&library().display().to_string()).expect("locked as without the probe");
    assert!((with - plain).abs() <= KIB, "{with} KiB, {plain} without");
}

#[test]
fn a_set_uid_program_runs_without_it() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        skipped("needs root");
        return;
    }
    let Some(program) = compile("churn.c", &[]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let set_uid = folder.path().join("set_uid");
    std::fs::copy(program, &set_uid).unwrap();
    std::fs::set_permissions(&set_uid, PermissionsExt::from_mode(0o4755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "env"]);
    command
        .arg(format!("LD_PRELOAD={}", library().display()))
        .arg(&set_uid)
        .arg("0.1");
    let out = command.stdin(std::process::Stdio::null()).output();
    // With nothing to read the first mark ends it with 99: it ran, by itself.
    match out {
        Ok(out) => assert_eq!(
            out.status.code(),
            Some(99),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(error) => skipped(&format!("setpriv: {error}")),
    }
}

#[test]
fn it_shows_nothing_but_what_it_interposes() {
    let Ok(out) = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
    else {
        skipped("no nm here");
        return;
    };
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let family = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "free",
        "memalign",
        "posix_memalign",
        "aligned_alloc",
        "valloc",
        "pvalloc",
        "mmap",
        "mmap64",
        "munmap",
        "mremap",
        "brk",
        "sbrk",
        "dlclose",
        "mlockall",
        "prctl",
        "syscall",
    ];
    let shown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let is_operator = |name: &str| {
        ["_Znw", "_Zna", "_Zdl", "_Zda"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let strange: Vec<_> = shown
        .iter()
        .filter(|name| !family.contains(name) && !is_operator(name))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(family.iter().all(|name| shown.contains(name)), "{shown:?}");
    assert_eq!(shown.iter().filter(|name| is_operator(name)).count(), 20);
}

/// Small stacks are the program's: a coroutine's, a signal handler's.
#[test]
fn a_sample_takes_little_of_the_callers_stack() {
    let Some(program) = compile("stack_use.c", &[]) else {
        return;
    };
    let used = |preload: &std::path::Path| -> u64 {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", preload);
        // Every block is a sample, at any cost.
        command.env("HIGHWATER_PROBE_MEAN", "1");
        command.env("HIGHWATER_PROBE_BUDGET", "0");
        let out = command.output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().parse().unwrap()
    };
    let (without, with) = (used("".as_ref()), used(&library()));
    assert!(
        with > without,
        "nothing was sampled: {with} bytes, {without} without"
    );
    // Measured 1.5 KiB with optimisation (docs/explanation/safety.md), 4.1 KiB without.
    let limit = if cfg!(debug_assertions) { 4608 } else { 1536 };
    assert!(with <= limit, "{with} bytes, {without} without");
}

/// On an older C library the loader would end every program that the probe is preloaded into.
#[test]
fn it_asks_for_no_newer_c_library_than_documented() {
    const NEWEST: (u32, u32) = (2, 34);
    let read = Command::new("readelf")
        .args(["--version-info", "--wide"])
        .arg(library())
        .output();
    let Ok(read) = read else {
        return skipped("no readelf here");
    };
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (major, minor) = rest[..end].split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    });
    let newest: Option<(u32, u32)> = versions.max();
    assert!(
        newest.is_some_and(|newest| newest <= NEWEST),
        "{newest:?}: {text}"
    );
}

//! Which allocator a process really runs, proved on real processes.

mod observed;

use std::path::{Path, PathBuf};
use std::process::Command;

use observe::collector::{Observer, Options};
use observe::fact::program::{Libc, preload_problem, read_program};
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, Expected, Snapshot, TimeNs};
use observed::{Child, SECOND, compile, fact, start};

const LIBRARY: &[&str] = &["-shared", "-fPIC", "-fno-builtin"];

/// A program, an allocator to preload, and a folder that goes away.
struct Bench {
    folder: tempfile::TempDir,
    program: PathBuf,
    bump: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let program = compile("calls.c", &[], folder.path(), "calls");
        let bump = compile("bump.c", LIBRARY, folder.path(), "libbump.so");
        Bench {
            folder,
            program,
            bump,
        }
    }

    fn library(&self, source: &str, name: &str) -> PathBuf {
        compile(source, LIBRARY, self.folder.path(), name)
    }

    fn start(&self, preload: Option<&Path>) -> Child {
        start_with(&self.program, preload)
    }
}

fn start_with(program: &Path, preload: Option<&Path>) -> Child {
    let mut command = Command::new(program);
    command.env_remove("LD_PRELOAD");
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let child = start(command.stderr(std::process::Stdio::null()));
    child.read_line();
    child
}

fn observer() -> Observer {
    Observer::new(ProcRoot::default(), Options::default())
}

/// One snapshot by a new observer.
fn snapshot(child: &Child, expected: Option<&Path>) -> Snapshot {
    let mut target = child.target(1);
    target.expected_allocator = expected.map_or(Expected::System, |path| {
        Expected::Library(path.to_path_buf())
    });
    observer().snapshot(TimeNs(SECOND), &[target])
}

fn library(snapshot: &Snapshot) -> &str {
    fact(snapshot, 1, "malloc.library").expect("the allocator is always told")
}

/// The words of the one NotTheArm event.
fn not_the_arm(snapshot: &Snapshot) -> &str {
    let found: Vec<_> = snapshot
        .events
        .iter()
        .filter(|event| event.kind == EventKind::NotTheArm)
        .collect();
    assert_eq!(found.len(), 1, "{:?}", snapshot.events);
    &found[0].words
}

fn assert_proved(snapshot: &Snapshot, expected: &Path) {
    assert_eq!(Path::new(library(snapshot)), expected);
    let proof = fact(snapshot, 1, "malloc.proof").unwrap();
    assert!(proof.contains("bound calls go there"), "{proof}");
    assert!(snapshot.events.is_empty(), "{:?}", snapshot.events);
}

#[test]
fn plain_glibc_is_the_system_allocator() {
    let bench = Bench::new();
    let child = bench.start(None);
    let seen = snapshot(&child, None);
    assert!(library(&seen).ends_with("/libc.so.6"), "{}", library(&seen));
    assert!(seen.events.is_empty(), "{:?}", seen.events);
    assert_eq!(fact(&seen, 1, "allocator.family"), Some("glibc"));
    assert!(
        fact(&seen, 1, "allocator.version")
            .unwrap()
            .starts_with("GNU C Library (")
    );
    assert!(
        fact(&seen, 1, "malloc.proof")
            .unwrap()
            .contains("bound calls go there")
    );
    // The address is where malloc of that library is mapped in that process.
    let address = fact(&seen, 1, "malloc.address")
        .unwrap()
        .trim_start_matches("0x");
    let address = u64::from_str_radix(address, 16).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.pid())).unwrap();
    let holds = |line: &&str| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    };
    let line = maps.lines().find(holds).unwrap();
    assert!(
        line.contains("r-xp") && line.ends_with("libc.so.6"),
        "{line}"
    );
    let words = snapshot(&child, Some(&bench.bump));
    let words = not_the_arm(&words);
    assert!(
        words.contains("libbump.so") && words.contains("libc.so.6"),
        "{words}"
    );
    assert!(words.contains("not mapped"), "{words}");
}

#[test]
fn a_preloaded_allocator_answers() {
    let bench = Bench::new();
    let child = bench.start(Some(&bench.bump));
    let seen = snapshot(&child, Some(&bench.bump));
    assert_proved(&seen, &bench.bump);
    assert!(
        fact(&seen, 1, "malloc.others")
            .unwrap()
            .ends_with("/libc.so.6")
    );
    let bytes = std::fs::read(&bench.bump).unwrap();
    use sha2::Digest;
    let sha256: String = sha2::Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(fact(&seen, 1, "allocator.sha256"), Some(sha256.as_str()));
    // libc's own calls (strdup) are bound to it too.
    let bound = fact(&seen, 1, "malloc.bound").unwrap();
    assert!(
        !bound.contains(';') && !bound.starts_with("0 of"),
        "{bound}"
    );
    // The same process in an arm without an allocator is not what that arm says.
    let words = snapshot(&child, None);
    assert!(
        not_the_arm(&words).contains("libbump.so"),
        "{}",
        not_the_arm(&words)
    );
}

#[test]
fn a_copy_of_the_library_is_the_library() {
    let bench = Bench::new();
    let copy = bench.folder.path().join("elsewhere.so");
    std::fs::copy(&bench.bump, &copy).unwrap();
    let child = bench.start(Some(&copy));
    assert_proved(&snapshot(&child, Some(&bench.bump)), &copy);
}

#[test]
fn a_preload_that_cannot_be_loaded_is_not_the_arm() {
    let bench = Bench::new();
    let broken = bench.folder.path().join("broken.so");
    std::fs::write(&broken, "not a library").unwrap();
    let child = bench.start(Some(&broken));
    let seen = snapshot(&child, Some(&broken));
    assert!(library(&seen).ends_with("/libc.so.6"));
    assert!(
        not_the_arm(&seen).contains("cannot be preloaded"),
        "{}",
        not_the_arm(&seen)
    );
}

#[test]
fn a_library_that_exports_nothing_is_not_the_arm() {
    let bench = Bench::new();
    let nothing = bench.library("nothing.c", "libnothing.so");
    let child = bench.start(Some(&nothing));
    let seen = snapshot(&child, Some(&nothing));
    assert!(library(&seen).ends_with("/libc.so.6"));
    assert!(
        not_the_arm(&seen).contains("exports no malloc"),
        "{}",
        not_the_arm(&seen)
    );
    let problem = preload_problem(&read_program(&bench.program).unwrap(), &nothing).unwrap();
    assert!(problem.contains("exports no malloc"), "{problem}");
}

#[test]
fn the_second_of_two_preloads_is_not_the_one_that_answers() {
    let bench = Bench::new();
    let second = bench.library("bump.c", "libsecond.so");
    // Other bytes, or it would be a copy of the first.
    let mut bytes = std::fs::read(&second).unwrap();
    bytes.push(0);
    std::fs::write(&second, bytes).unwrap();
    let both = format!("{}:{}", bench.bump.display(), second.display());
    let child = bench.start(Some(Path::new(&both)));
    let seen = snapshot(&child, Some(&second));
    assert_eq!(Path::new(library(&seen)), bench.bump);
    assert!(
        not_the_arm(&seen).contains("behind another"),
        "{}",
        not_the_arm(&seen)
    );
    assert!(
        fact(&seen, 1, "malloc.others")
            .unwrap()
            .contains("libsecond.so")
    );
}

#[test]
fn a_static_program_has_its_own() {
    let bench = Bench::new();
    let program = compile("calls.c", &["-static"], bench.folder.path(), "static");
    let child = start_with(&program, Some(&bench.bump));
    let seen = snapshot(&child, Some(&bench.bump));
    assert!(library(&seen).contains("static") && library(&seen).contains("glibc"));
    assert!(
        not_the_arm(&seen).contains("static"),
        "{}",
        not_the_arm(&seen)
    );
    assert!(snapshot(&child, None).events.is_empty());
    let read = read_program(&program).unwrap();
    assert_eq!((read.libc, read.interpreter.as_deref()), (Libc::None, None));
    assert!(
        preload_problem(&read, &bench.bump)
            .unwrap()
            .contains("static program")
    );
    let pie = compile(
        "calls.c",
        &["-static-pie"],
        bench.folder.path(),
        "static-pie",
    );
    let child = start_with(&pie, Some(&bench.bump));
    assert!(library(&snapshot(&child, None)).contains("static"));
    assert!(preload_problem(&read_program(&pie).unwrap(), &bench.bump).is_some());
}

#[test]
fn a_program_with_its_own_malloc_is_told() {
    let bench = Bench::new();
    let bump = bench.folder.path().join("bump.o");
    compile(
        "bump.c",
        &["-c", "-fno-builtin"],
        bench.folder.path(),
        "bump.o",
    );
    let flags = [bump.to_str().unwrap(), "-rdynamic"];
    let program = compile("calls.c", &flags, bench.folder.path(), "own");
    let child = start_with(&program, None);
    let seen = snapshot(&child, None);
    assert!(
        library(&seen).ends_with("own (the program)"),
        "{}",
        library(&seen)
    );
    assert!(not_the_arm(&seen).contains("linked with an allocator of its own"));
    assert!(read_program(&program).unwrap().exports_malloc);
}

#[test]
fn deleted_files_are_still_proved() {
    let bench = Bench::new();
    let copy = bench.folder.path().join("gone.so");
    std::fs::copy(&bench.bump, &copy).unwrap();
    let program = bench.folder.path().join("gone");
    std::fs::copy(&bench.program, &program).unwrap();
    let child = start_with(&program, Some(&copy));
    std::fs::remove_file(&program).unwrap();
    std::fs::remove_file(&copy).unwrap();
    // Another file under the old name must not be taken for the mapped one.
    std::fs::copy(bench.library("nothing.c", "other.so"), &copy).unwrap();
    let seen = snapshot(&child, Some(&bench.bump));
    assert_eq!(Path::new(library(&seen)), copy);
    assert!(fact(&seen, 1, "exe").unwrap().ends_with("/gone (deleted)"));
    assert!(
        fact(&seen, 1, "malloc.proof")
            .unwrap()
            .contains("bound calls go there")
    );
    // Whether the deleted library could still be read depends on the rights of this test; only
    // with them can it be told that it is the arm's.
    if fact(&seen, 1, "allocator.sha256").is_some_and(|sha256| !sha256.is_empty()) {
        assert!(seen.events.is_empty(), "{:?}", seen.events);
    }
}

#[test]
fn files_in_another_mount_namespace_are_reached() {
    let bench = Bench::new();
    // The library exists only on a tmpfs that this process does not see.
    let script = format!(
        "mkdir -p {0}/hidden && mount -t tmpfs none {0}/hidden && cp {0}/libbump.so {0}/hidden/ && \
         LD_PRELOAD={0}/hidden/libbump.so exec {0}/calls",
        bench.folder.path().display()
    );
    let child = start(Command::new("unshare").args(["-rm", "sh", "-c", &script]));
    child.read_line();
    let hidden = bench.folder.path().join("hidden/libbump.so");
    assert!(!hidden.exists(), "it must be out of sight");
    assert_proved(&snapshot(&child, Some(&bench.bump)), &hidden);
}

#[test]
fn a_program_run_through_its_linker_is_proved() {
    let bench = Bench::new();
    let linker = read_program(&bench.program).unwrap().interpreter.unwrap();
    let mut command = Command::new(linker);
    command
        .arg("--preload")
        .arg(&bench.bump)
        .arg(&bench.program);
    let child = start(&mut command);
    child.read_line();
    assert_proved(&snapshot(&child, Some(&bench.bump)), &bench.bump);
}

#[test]
fn exec_is_seen_although_pid_and_start_time_stay() {
    let bench = Bench::new();
    let other = compile("idle.c", &["-static"], bench.folder.path(), "idle");
    let child = bench.start(Some(&bench.bump));
    let mut target = child.target(1);
    target.expected_allocator = Expected::Library(bench.bump.clone());
    let mut observer = observer();
    let targets = [target];
    assert!(
        observer
            .snapshot(TimeNs(SECOND), &targets)
            .events
            .is_empty()
    );
    let quiet = observer.snapshot(TimeNs(2 * SECOND), &targets);
    assert!(quiet.facts.is_empty(), "nothing changed: {:?}", quiet.facts);
    child.write(&format!("exec {}\n", other.display()));
    child.read_line();
    let seen = observer.snapshot(TimeNs(3 * SECOND), &targets);
    assert!(
        not_the_arm(&seen).contains("static"),
        "{}",
        not_the_arm(&seen)
    );
    assert!(fact(&seen, 1, "exe").unwrap().ends_with("/idle"));
    let said = observer.snapshot(TimeNs(4 * SECOND), &targets);
    assert!(said.events.is_empty(), "said once: {:?}", said.events);
}

#[test]
fn a_process_that_stands_still_is_hung_until_it_moves() {
    let bench = Bench::new();
    let idle = compile("idle.c", &[], bench.folder.path(), "idle");
    let (still, busy) = (start_with(&idle, None), bench.start(None));
    let targets = [still.target(1), busy.target(2)];
    let mut observer = observer();
    let mut hung = Vec::new();
    for second in 0..100 {
        busy.write("x\n"); // a line makes it wake up
        if second == 80 {
            signal(&still, rustix::process::Signal::STOP);
            signal(&still, rustix::process::Signal::CONT);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        let snapshot = observer.snapshot(TimeNs(second * SECOND), &targets);
        for event in snapshot.events {
            hung.push((second, event.process.unwrap().0, event.kind));
        }
    }
    let (at, back) = ((60, 1, EventKind::Hung), (1, EventKind::Note));
    assert!(
        hung[0].0 >= at.0 && hung[0].0 <= 65 && hung[0].1 == 1,
        "{hung:?}"
    );
    assert_eq!(hung[0].2, at.2);
    assert!(
        hung[1].0 >= 80 && (hung[1].1, hung[1].2.clone()) == back,
        "{hung:?}"
    );
    assert_eq!(hung.len(), 2, "the busy one is never hung: {hung:?}");
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.pid()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Real allocators from Debian. `cargo test -- --ignored`: it downloads two packages.
#[test]
#[ignore = "downloads libjemalloc2 and libmimalloc2.0 with apt-get"]
fn jemalloc_and_mimalloc_from_debian() {
    let bench = Bench::new();
    let script = "apt-get download -qq libjemalloc2 libmimalloc2.0 && \
                  for deb in *.deb; do dpkg -x $deb x; done";
    let run = Command::new("sh")
        .args(["-c", script])
        .current_dir(bench.folder.path())
        .output();
    assert!(run.as_ref().unwrap().status.success(), "{run:?}");
    for (name, family, version) in [
        ("libjemalloc.so.2", "jemalloc", "5.3.0-0-g"),
        ("libmimalloc.so.2.0", "mimalloc", "2.0.9"),
    ] {
        let folders = bench.folder.path().join("x/usr/lib");
        let folder = std::fs::read_dir(folders)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let path = folder.join(name).canonicalize().unwrap();
        let child = bench.start(Some(&path));
        let seen = snapshot(&child, Some(&path));
        assert_proved(&seen, &path);
        assert_eq!(fact(&seen, 1, "allocator.family"), Some(family));
        let found = fact(&seen, 1, "allocator.version").unwrap();
        assert!(found.starts_with(version), "{name}: {found}");
        assert!(fact(&seen, 1, "allocator.build_id").unwrap().len() >= 32);
        assert_eq!(
            preload_problem(&read_program(&bench.program).unwrap(), &path),
            None
        );
    }
}

//! Real processes, from the plan to the verdict.

use observe::snapshot::{EventKind, Role};

use super::scene::{Scene, is_root, lives, program, wait};

/// A plan of seconds for one program and these arms.
fn plan(command: &[&str], arms: &str, more: &str) -> String {
    let words: Vec<String> = command.iter().map(|word| format!("{word:?}")).collect();
    format!(
        "name = \"small\"\nhypothesis = \"it grows\"\ncontrol = \"a\"\nreplicas = 2\n\
         duration = \"6s\"\ninterval = \"200ms\"\nwarmup = \"1s\"\n{more}\n\
         [subject]\ncommand = [{}]\n[subject.ready]\nlog = \"^ready$\"\ntimeout = \"30s\"\n\
         [subject.stop]\ngrace = \"2s\"\n{arms}",
        words.join(", ")
    )
}

fn kinds(run: &record::run::Run, kind: EventKind) -> Vec<String> {
    run.events
        .iter()
        .filter(|e| e.kind == kind)
        .map(|e| e.words.clone())
        .collect()
}

fn nothing_is_left(run: &record::run::Run) {
    for process in run
        .processes
        .iter()
        .filter(|p| matches!(p.role, Role::Subject | Role::Load))
    {
        assert!(
            !lives(process.pid, process.start_ticks),
            "pid {} is left",
            process.pid
        );
        assert!(
            process.ended.is_some(),
            "{} {} has no end",
            process.arm,
            process.replica
        );
    }
}

#[test]
fn a_leak_grows_and_its_twin_is_flat() {
    let scene = Scene::new();
    let flat = program("flat");
    let arms = format!("[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\ncommand = [{flat:?}]\n");
    let said = scene.run(&plan(&[&program("grows")], &arms, ""), &["--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let text = json.to_string();
    assert!(text.contains("growing") && text.contains("flat"), "{text}");
    let run = scene.record();
    nothing_is_left(&run);
    let subjects: Vec<_> = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject)
        .collect();
    assert_eq!(subjects.len(), 4);
    for process in subjects {
        let rss = &process.samples["rss_bytes"];
        assert!(
            rss.len() >= 20,
            "{} snapshots of {}",
            rss.len(),
            process.arm
        );
        assert!(
            process.facts.contains_key("malloc.library"),
            "{:?}",
            process.facts.keys()
        );
    }
    let own = run.processes.iter().filter(|p| p.role == Role::Highwater);
    let own: Vec<_> = own
        .filter(|p| p.samples.contains_key("cpu_user_ns"))
        .collect();
    assert_eq!(own.len(), 2, "supervisor and collector are samples too");
}

#[test]
fn one_that_dies_at_once_is_an_outcome_with_its_code() {
    let scene = Scene::new();
    let dies = program("dies");
    let arms =
        format!("[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\ncommand = [{dies:?}, \"code\"]\n");
    let said = scene.run(&plan(&[&program("flat")], &arms, ""), &[]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let crashed = kinds(&scene.record(), EventKind::Crashed);
    assert_eq!(crashed.len(), 2, "{crashed:?}");
    assert!(crashed[0].contains("code 3"), "{crashed:?}");
}

#[test]
fn what_the_log_says_of_a_failed_start_is_said_at_once() {
    let scene = Scene::new();
    let dies = ["sh", "-c", "echo no such flag >&2; exit 3"];
    let said = scene.run(&plan(&dies, "[[arms]]\nname = \"a\"\n", ""), &[]);
    assert_eq!(said.code, 4, "{said:?}");
    for word in ["before it was ready: exit code 3", "no such flag"] {
        assert!(said.err.contains(word), "{word}: {}", said.err);
    }
}

#[test]
fn a_subject_that_never_gets_ready_is_a_clear_error() {
    let scene = Scene::new();
    let text = plan(&[&program("flat")], "[[arms]]\nname = \"a\"\n", "")
        .replace("^ready$", "^never$")
        .replace("timeout = \"30s\"", "timeout = \"1s\"");
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(
        said.err.contains("^never$"),
        "says what was waited for: {}",
        said.err
    );
    nothing_is_left(&scene.record());
}

#[test]
fn children_that_spin_and_ignore_sigterm_are_gone_afterwards() {
    let scene = Scene::new();
    let forks = program("forks");
    let text = plan(&[&forks, "group"], "[[arms]]\nname = \"a\"\n", "");
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let logs = scene.run_folder().path().join("logs");
    let mut children = 0;
    for entry in std::fs::read_dir(logs).expect("logs").flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for pid in text
            .split_whitespace()
            .filter_map(|word| word.parse::<i32>().ok())
        {
            children += 1;
            // An orphan that nobody has reaped yet is a zombie: it runs no more.
            let runs = experiment::service::read_stat(pid)
                .is_some_and(|stat| stat.comm == "forks" && stat.state != 'Z');
            assert!(!runs, "child {pid} is left");
        }
    }
    assert!(children >= 2, "the log names {children} children");
}

#[test]
fn one_that_ignores_sigterm_is_ended_after_its_grace() {
    let scene = Scene::new();
    let text = plan(&[&program("stubborn")], "[[arms]]\nname = \"a\"\n", "");
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    assert_eq!(kinds(&run, EventKind::StopForced).len(), 2);
    nothing_is_left(&run);
}

#[test]
fn a_hostile_name_is_text_in_every_format() {
    let scene = Scene::new();
    let text = plan(
        &[&program("renames")],
        "[[arms]]\nname = \"a\"\n",
        "why = \"<script>alert(1)</script>\"",
    );
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let folder = scene.run_folder();
    let page = std::fs::read_to_string(folder.path().join("report.html")).expect("the page");
    assert!(
        !page.contains("<script>alert"),
        "hostile text runs in the page"
    );
    assert!(!said.out.contains('\u{1b}'), "escape codes in plain output");
}

#[test]
fn a_memory_limit_ends_the_process_and_says_so() {
    let scene = Scene::new();
    let text = plan(&[&program("hog")], "[[arms]]\nname = \"a\"\n", "").replace(
        "[subject.ready]",
        "memory_limit = \"64MiB\"\n[subject.ready]",
    );
    let said = scene.run(&text, &[]);
    let run = scene.record();
    let killed = kinds(&run, EventKind::OomKilled);
    assert!(
        !killed.is_empty(),
        "root: {}, {said:?}, {:?}",
        is_root(),
        run.events
    );
    nothing_is_left(&run);
}

#[test]
fn an_arm_that_loses_its_preload_fails_loudly() {
    let scene = Scene::new();
    let library = preloadable(&scene);
    let grows = program("grows");
    let arms = format!("[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\nallocator = {library:?}\n");
    let text = plan(&["env", "-u", "LD_PRELOAD", &grows], &arms, "");
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("arm b is aborted"), "{}", said.err);
    assert!(
        said.err.contains("libc"),
        "says what runs instead: {}",
        said.err
    );
    assert_eq!(kinds(&scene.record(), EventKind::NotTheArm).len(), 2);
}

#[test]
fn an_arm_that_keeps_its_preload_is_proved() {
    let scene = Scene::new();
    let library = preloadable(&scene);
    let arms = format!(
        "[[arms]]\nname = \"a\"\nallocator = \"glibc\"\n[[arms]]\nname = \"b\"\nallocator = {library:?}\n"
    );
    let said = scene.run(&plan(&[&program("flat")], &arms, ""), &[]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    assert_eq!(kinds(&run, EventKind::NotTheArm), Vec::<String>::new());
    for process in run.processes.iter().filter(|p| p.role == Role::Subject) {
        let answers = &process.facts["malloc.library"].last().expect("a fact").1;
        let wanted = if process.arm == "b" {
            "libcounts.so"
        } else {
            "libc.so.6"
        };
        assert!(answers.contains(wanted), "{}: {answers}", process.arm);
    }
}

/// A library with the whole family, forwarding to glibc's own names.
fn preloadable(scene: &Scene) -> String {
    let text = "#include <stddef.h>\n\
        void *__libc_malloc(size_t); void __libc_free(void *);\n\
        void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);\n\
        void *malloc(size_t n) { return __libc_malloc(n); }\n\
        void free(void *p) { __libc_free(p); }\n\
        void *calloc(size_t a, size_t b) { return __libc_calloc(a, b); }\n\
        void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }\n";
    let library = scene.library("libcounts.so", text);
    library.display().to_string()
}

#[test]
fn attached_processes_are_watched_and_never_signalled() {
    let scene = Scene::new();
    let mut child = std::process::Command::new(program("flat"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = child.id();
    wait("it to be up", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()
    });
    let text = format!(
        "name = \"watch\"\nhypothesis = \"\"\ncontrol = \"a\"\nduration = \"3s\"\ninterval = \"200ms\"\n\
         warmup = \"0s\"\n[subject]\nkind = \"attach\"\n[[subject.attach]]\narm = \"a\"\npids = [{pid}]\n\
         [[arms]]\nname = \"a\"\n"
    );
    let said = scene.run(&text, &[]);
    let alive = child.try_wait().expect("a child").is_none();
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    assert!(alive, "an attached process was ended: {said:?}");
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    let watched = run
        .processes
        .iter()
        .find(|p| p.pid == pid as i32)
        .expect("its row");
    assert!(watched.samples["rss_bytes"].len() >= 8);
}

//! What is wrong is said: what, where, what next, with its exit code; and nothing was started.

use super::scene::{Said, Scene, program};

fn plan(subject: &str, arms: &str) -> String {
    format!(
        "name = \"bad\"\nhypothesis = \"x\"\ncontrol = \"a\"\nduration = \"3s\"\ninterval = \"500ms\"\n\
         warmup = \"0s\"\n[subject]\n{subject}\n{arms}"
    )
}

const ARM: &str = "[[arms]]\nname = \"a\"\n";

fn refused(said: &Said, code: i32, words: &[&str]) {
    assert_eq!(said.code, code, "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is missing: {}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{}", said.err);
}

#[test]
fn the_file_is_checked_before_anything_runs() {
    let flat = format!("command = [{:?}]", program("flat"));
    let cases: [(String, &[&str]); 7] = [
        (plan(&flat, ""), &["arm"]),
        (
            plan(&flat, "[[arms]]\nname = \"a\"\n[[arms]]\nname = \"a\"\n"),
            &["`a`"],
        ),
        (
            plan(
                &flat,
                "[[arms]]\nname = \"a\"\nallocator = \"jemalloc@5.3\"\n",
            ),
            &["5.3.0"],
        ),
        (
            plan(&flat, "[[arms]]\nname = \"a\"\nalocator = \"glibc\"\n"),
            &["allocator"],
        ),
        (plan(&flat, ARM).replace("\"3s\"", "\"1s\""), &["snapshot"]),
        (
            plan(&flat, ARM).replace("\"500ms\"", "\"0s\""),
            &["interval"],
        ),
        (
            plan(&flat, ARM).replace("[subject]", "replicas = 0\n[subject]"),
            &["replicas"],
        ),
    ];
    for (text, words) in cases {
        let scene = Scene::new();
        refused(&scene.run(&text, &[]), 2, words);
        assert!(
            !scene.folder.path().join("runs").exists(),
            "a run was begun: {text}"
        );
    }
}

#[test]
fn a_misspelt_tunable_is_refused() {
    let scene = Scene::new();
    let flat = format!("command = [{:?}]", program("flat"));
    let arms = "[[arms]]\nname = \"a\"\n[arms.environment]\nMALLOC_ARENAS_MAX = \"2\"\n";
    refused(
        &scene.run(&plan(&flat, arms), &[]),
        2,
        &["MALLOC_ARENA_MAX"],
    );
}

#[test]
fn a_command_that_does_not_exist() {
    let scene = Scene::new();
    let said = scene.run(&plan("command = [\"./no-such-program\"]", ARM), &[]);
    refused(&said, 4, &["no-such-program"]);
}

#[test]
fn a_library_that_exports_nothing() {
    let scene = Scene::new();
    scene.library("libnothing.so", "int highwater_nothing;\n");
    let flat = format!("command = [{:?}]", program("flat"));
    let arms = "[[arms]]\nname = \"a\"\nallocator = \"./libnothing.so\"\n";
    refused(
        &scene.run(&plan(&flat, arms), &[]),
        4,
        &["libnothing.so", "malloc"],
    );
}

#[test]
fn a_static_program_under_a_preload() {
    let scene = Scene::new();
    scene.compile("static", "int main(void) { return 0; }\n", &["-static"]);
    let text = "#include <stddef.h>\nvoid *malloc(size_t n) { return 0; }\nvoid free(void *p) {}\n\
                void *calloc(size_t a, size_t b) { return 0; }\n\
                void *realloc(void *p, size_t n) { return 0; }\n";
    scene.library("liball.so", text);
    let arms = "[[arms]]\nname = \"a\"\nallocator = \"./liball.so\"\n";
    refused(
        &scene.run(&plan("command = [\"./static\"]", arms), &[]),
        4,
        &["static"],
    );
}

#[test]
fn a_port_in_use() {
    let scene = Scene::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let subject = format!(
        "command = [{:?}]\n[subject.ready]\ntcp = \"127.0.0.1:{port}\"\n",
        program("flat")
    );
    let text = plan(&subject, ARM);
    refused(
        &scene.run(&text, &["--set", "replicas=1"]),
        4,
        &[&port.to_string(), "in use"],
    );
    // Two processes cannot share a fixed port, whoever has it now.
    refused(
        &scene.run(&text, &["--set", "replicas=2"]),
        4,
        &[&port.to_string(), "{port}"],
    );
}

#[test]
fn records_that_are_none() {
    let scene = Scene::new();
    let run = scene.folder.path().join("runs/2026-11-21-x-1");
    std::fs::create_dir_all(&run).expect("a folder");
    for garbage in [
        &b""[..],
        b"garbage, not a database",
        b"SQLite format 3\0and then nothing",
    ] {
        std::fs::write(run.join("run.db"), garbage).expect("a file");
        refused(
            &scene.highwater(&["report", "2026-11-21-x-1"]),
            4,
            &["run.db"],
        );
    }
    refused(
        &scene.highwater(&["report", "no-such-run"]),
        4,
        &["no-such-run"],
    );
    refused(
        &scene.highwater(&["run", "--resume", "no-such-run"]),
        4,
        &["no-such-run"],
    );
}

#[test]
fn the_plan_can_be_read_before_it_is_run() {
    let scene = Scene::new();
    let subject = format!(
        "command = [{:?}, \"--port\", \"{{port}}\"]\n[subject.environment]\nDB_PASSWORD = \"hunter2\"\n",
        program("flat")
    );
    let said = scene.run(&plan(&subject, ARM), &["--dry-run", "--set", "duration=1h"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("1h") && said.out.contains("{port}"),
        "{}",
        said.out
    );
    assert!(!said.out.contains("hunter2"), "a secret is printed");
    assert!(
        !scene.folder.path().join("runs").exists(),
        "a dry run began a run"
    );
}

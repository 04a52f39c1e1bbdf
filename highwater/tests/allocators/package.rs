//! Packages and bug reports, made of what was added.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, compile, real};

/// The package of the stand-in mimalloc, written into a folder of its own.
fn package(bench: &Bench, folder: &str) -> PathBuf {
    let folder = bench.file(folder);
    fs::create_dir(&folder).unwrap();
    let words = ["package", "mimalloc@2.0.9", "--deb", "-o"];
    let said = bench.run(&[&words[..], &[folder.to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let file = PathBuf::from(said.out.trim());
    assert_eq!(file.parent(), Some(&*folder));
    file
}

fn dpkg(words: &[&str], file: &Path, more: &[&str]) -> String {
    let mut command = Command::new("dpkg-deb");
    let output = command.args(words).arg(file).args(more).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_package_installs_the_library_at_a_stable_path_twice_the_same_bytes() {
    let bench = Bench::new();
    for program in ["dpkg-deb", "tar", "rm"] {
        bench.link(program);
    }
    let (first, second) = (package(&bench, "one"), package(&bench, "two"));
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    let field = |name: &str| dpkg(&["--field"], &first, &[name]).trim().to_owned();
    assert_eq!(field("Package"), "highwater-allocator-mimalloc-2.0.9");
    assert_eq!(field("Version"), "2.0.9-1");
    assert!(field("Description").contains("Known defect (misaligned)"));
    let root = bench.file("root");
    dpkg(&["--extract"], &first, &[root.to_str().unwrap()]);
    let library = root.join("usr/lib/highwater/allocators/mimalloc-2.0.9/libmimalloc.so");
    let installed = bench.run(&["path", "mimalloc@2.0.9"]).out;
    assert_eq!(
        fs::read(&library).unwrap(),
        fs::read(installed.trim()).unwrap()
    );
    let mode = library.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    let documents = root.join("usr/share/doc/highwater-allocator-mimalloc-2.0.9");
    let copyright = fs::read_to_string(documents.join("copyright")).unwrap();
    assert!(copyright.contains("Licence: MIT"), "{copyright}");
    let provenance = fs::read_to_string(documents.join("provenance.json")).unwrap();
    assert!(provenance.contains("crate libmimalloc-sys 0.1.30"));
    assert!(!provenance.contains("built_at"), "a time differs each time");
}

#[test]
fn what_a_package_needs_and_does_not_have_is_said() {
    let bench = Bench::new();
    let words = ["package", "mimalloc@2.0.9", "--deb", "-o"];
    let to = |folder: &Path| [&words[..], &[folder.to_str().unwrap()]].concat().join(" ");
    let run = |line: String| bench.run(&line.split(' ').collect::<Vec<_>>());
    run(to(bench.folder.path())).fails(4, &["dpkg-deb is not on PATH", "install dpkg"]);
    for program in ["dpkg-deb", "tar", "rm"] {
        bench.link(program);
    }
    run(to(&bench.file("none"))).fails(4, &["writing", "none"]);
    bench
        .run(&["package", "glibc", "--deb"])
        .fails(4, &["nothing to package"]);
    bench
        .run(&["package", "mimalloc@2.0.9"])
        .fails(2, &["--deb"]);
    let words = ["package", "mimalloc@2.0.9", "--deb", "--maintainer", "me"];
    bench.run(&words).fails(2, &["NAME <ADDRESS>"]);
}

/// A wrapper of glibc's malloc that leaves errno alone and hands out misaligned blocks.
const FAULTY: &str = "\
    #include <stddef.h>\n\
    void *__libc_memalign(size_t, size_t);\n\
    void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(16, n + a); }\n";

#[test]
fn a_bug_report_has_the_smallest_program_that_shows_the_defect() {
    let bench = Bench::new();
    let text = fs::read_to_string(crate::check::BROKEN).unwrap();
    let text = text.replace("void *aligned_alloc", "static void *unused");
    let source = format!("{text}\n{FAULTY}");
    let library = compile(&bench, "faulty.so", &source, &["-pthread", "-w"]);
    let file = bench.file("bug.md");
    let library = library.to_str().unwrap();
    let words = ["report", library, "--upstream", "--only", "alignment", "-o"];
    let said = real(&bench, &[&words[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let report = fs::read_to_string(&file).unwrap();
    for words in [
        "## Reproducer: alignment",
        "aligned_alloc(",
        "cc -O1 -fno-builtin -w -pthread alignment.c -o alignment",
        "| glibc | passes |",
        "LD_PRELOAD=./faulty.so ./alignment",
        "## Environment",
        "- sha256: ",
        "## Commands",
    ] {
        assert!(report.contains(words), "no {words:?} in {report}");
    }
    let rounds = report
        .lines()
        .find_map(|l| l.strip_prefix("#define ROUNDS "));
    let rounds: u32 = rounds.unwrap().parse().unwrap();
    assert!(rounds < 100, "{rounds} rounds are not the fewest");
}

#[test]
#[ignore = "long: a whole check of glibc"]
fn where_nothing_is_wrong_there_is_nothing_to_report() {
    let bench = Bench::new();
    real(&bench, &["report", "glibc", "--upstream"]).fails(4, &["nothing is wrong with glibc"]);
    let said = real(&bench, &["report", "glibc"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("## Probes"), "{said:?}");
}

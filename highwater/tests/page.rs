//! `report.html` in a real browser: it draws, it answers to mouse and keys, it asks nobody for
//! anything, and hostile names stay names.
//!
//! Needs Chromium (`chromium` on the PATH, or `$CHROMIUM`), node, and `npm ci` in `tests/page`.
//! Without them the test is skipped and says so, unless `$HIGHWATER_REQUIRE_BROWSER` is set.
//! `$HIGHWATER_PAGE_DIR` keeps the pages.

#[path = "synthetic/mod.rs"]
mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use record::run::Run;
use report::{Extras, Report, html};
use serde::Deserialize;
use testkit::skipped;

/// One observation of `page/check.mjs`.
#[derive(Debug, Deserialize)]
struct Observation {
    page: String,
    what: String,
    ok: bool,
    seen: String,
}

#[test]
fn the_page_works_in_a_browser() {
    let (chromium, script) = match tools() {
        Ok(tools) => tools,
        Err(missing) => {
            assert!(
                std::env::var_os("HIGHWATER_REQUIRE_BROWSER").is_none(),
                "{missing}"
            );
            skipped(&missing.to_string());
            return;
        }
    };
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var_os("HIGHWATER_PAGE_DIR").map(PathBuf::from);
    let folder = kept.unwrap_or_else(|| temporary.path().to_path_buf());
    for (name, run) in pages() {
        let begun = std::time::Instant::now();
        let page = render(&run);
        println!(
            "{name}: {} KiB after {:.1?}",
            page.len() / 1024,
            begun.elapsed()
        );
        std::fs::write(folder.join(format!("{name}.html")), page).expect("the page is written");
    }
    let output = Command::new("node")
        .arg(script)
        .arg(&folder)
        .arg(chromium)
        .output()
        .expect("node starts");
    let lines = String::from_utf8_lossy(&output.stdout);
    let seen: Vec<Observation> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    for one in &seen {
        println!(
            "{} {}: {} ({})",
            if one.ok { "ok  " } else { "FAIL" },
            one.page,
            one.what,
            one.seen
        );
    }
    assert!(
        output.status.success(),
        "the browser failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(seen.len() > 60, "only {} observations", seen.len());
    let failed: Vec<&Observation> = seen.iter().filter(|one| !one.ok).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// What a report is with nothing to report, at its best, at its most hostile, and at its largest.
fn pages() -> Vec<(&'static str, Run)> {
    let mut empty = synthetic::relay().run();
    empty.processes.clear();
    empty.events.clear();
    vec![
        ("empty", empty),
        ("relay", synthetic::relay().run()),
        ("hostile", synthetic::hostile()),
        ("fleet", synthetic::fleet().run()),
        ("pausing", synthetic::pausing()),
    ]
}

fn render(run: &Run) -> String {
    let verdict = synthetic::judged::verdict(run);
    let extras = Extras {
        ledger: Some("2026-11-18 relay: the growth is a leak, not fragmentation.".to_string()),
        reproduce: vec!["highwater run experiments/relay.toml --set seed=7".to_string()],
        score: None,
    };
    html::render(&Report::build(run, &verdict, extras))
}

/// Chromium and the script, or what is missing.
fn tools() -> Result<(PathBuf, PathBuf), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    if !folder.join("node_modules/playwright-core").is_dir() {
        return Err("no browser driver: run `npm ci` in highwater/tests/page".to_string());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        std::env::split_paths(&path)
            .map(|dir| dir.join(name))
            .find(|file| file.is_file())
    };
    let chromium = std::env::var_os("CHROMIUM")
        .map(PathBuf::from)
        .or_else(|| find("chromium"));
    find("node").ok_or("no `node` on the PATH")?;
    let chromium = chromium.ok_or("no `chromium` on the PATH and no $CHROMIUM")?;
    Ok((chromium, folder.join("check.mjs")))
}

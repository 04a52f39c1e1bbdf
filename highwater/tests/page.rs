//! `report.html` in a real browser.
#[path = "synthetic/mod.rs"]
mod synthetic;

use highwater::report::{Extras, Report, html};

#[test]
fn write_pages() {
    let dir = std::path::PathBuf::from(std::env::var("HIGHWATER_PAGE_DIR").unwrap());
    for (name, run) in [
        ("relay", synthetic::relay().run()),
        ("hostile", synthetic::hostile()),
    ] {
        let verdict = synthetic::judged::verdict(&run);
        let extras = Extras {
            ledger: None,
            reproduce: vec!["highwater run experiments/relay.toml".into()],
        };
        let report = Report::build(&run, &verdict, extras);
        std::fs::write(dir.join(format!("{name}.html")), html::render(&report)).unwrap();
    }
}

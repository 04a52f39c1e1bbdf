//! `highwater report --output`: a document with its charts beside it, and a folder of tables.

use csv::StringRecord;

use super::scene::Scene;

/// An hour of two arms, one of them restarted by its memory.
const EXPERIMENT: &str = "name = \"fake\"\nhypothesis = \"it is fragmentation\"\ncontrol = \"leaks\"\nreplicas = 2\n\
     duration = \"1h\"\ninterval = \"10s\"\nwarmup = \"1m\"\n[subject]\nkind = \"fake\"\nrestart = \"on-failure\"\n\
     [[arms]]\nname = \"leaks\"\ncurve = \"64MiB + 80KiB/s + oom at 256MiB\"\n\
     [[arms]]\nname = \"flat\"\ncurve = \"64MiB + noise 1%\"\n";

/// Titles and rows.
fn table(text: &str) -> (StringRecord, Vec<StringRecord>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let titles = reader.headers().expect("a header").clone();
    let rows = reader.records().map(|row| row.expect("a row")).collect();
    (titles, rows)
}

fn of(titles: &StringRecord, name: &str) -> usize {
    let mut titles = titles.iter();
    titles.position(|title| title == name).expect("a column")
}

/// The charts that a document shows are files beside it, each drawn in both forms.
fn has_charts(page: &str, read: &dyn Fn(&str) -> Vec<u8>) {
    let shown: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("!["))
        .collect();
    assert!(shown.len() >= 3, "{page}");
    for line in shown {
        let (_, rest) = line.split_once("](").expect("an address");
        let name = rest.trim_end_matches(')');
        assert_eq!(&read(name)[1..4], b"PNG", "{name}");
        let svg = String::from_utf8(read(&name.replace(".png", ".svg"))).expect("text");
        assert!(svg.starts_with("<svg") && svg.contains("leaks"), "{name}");
    }
}

#[test]
fn a_document_has_its_charts_beside_it_and_tables_fill_a_folder() {
    let scene = Scene::new();
    let said = scene.run(EXPERIMENT, &["--quiet"]);
    assert_eq!(said.code, 0, "{said:?}");
    let run = scene.run_folder().path().display().to_string();
    let write = |format: &str, output: &str| {
        let said = scene.highwater(&["report", &run, "--format", format, "--output", output]);
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(said.out, "", "nothing on stdout");
    };
    let read = |name: &str| {
        std::fs::read(scene.folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let text = |name: &str| String::from_utf8(read(name)).expect("text");
    write("md", "new/page.md");
    let page = text("new/page.md");
    has_charts(&page, &|name| read(&format!("new/{name}")));
    assert!(
        page.contains("oom-killed") && page.contains("## What to do"),
        "{page}"
    );
    write("csv", "tables");
    let rows = |name: &str| table(&text(&format!("tables/{name}")));
    let (titles, groups) = rows("groups.csv");
    assert!(
        groups.len() > 4,
        "four processes and their restarts: {}",
        groups.len()
    );
    let known: Vec<&str> = groups
        .iter()
        .map(|row| &row[of(&titles, "process")])
        .collect();
    let (titles, samples) = rows("samples.csv");
    let (role, process) = (of(&titles, "role"), of(&titles, "process"));
    let subjects = samples.iter().filter(|row| &row[role] == "subject");
    assert!(samples.len() > 1000 && subjects.clone().count() > 1000);
    assert!(
        subjects
            .into_iter()
            .all(|row| known.contains(&&row[process])),
        "samples and groups join"
    );
    assert!(
        rows("events.csv")
            .1
            .iter()
            .any(|row| &row[2] == "oom-killed" && !row[1].is_empty())
    );
    assert!(rows("diagnostics.csv").1.iter().any(|row| &row[0] == "own"));
    assert_eq!(rows("arms.csv").1.len(), 2);
    write("json", "new/");
    assert!(text("new/report.json").starts_with('{'));
    let page = scene.folder.path().join("new/page.md/x");
    let said = scene.highwater(&[
        "report",
        &run,
        "--format",
        "md",
        "--output",
        &page.display().to_string(),
    ]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("page.md"), "says where: {}", said.err);
}

//! Drafted experiments: each parses as it stands. The expected texts are in `experiment/draft/`; after a deliberate
//! change, `HIGHWATER_BLESS=1 cargo test --test draft` writes them anew, to be read in the diff.

use std::path::Path;

use experiment::file::draft::{Listening, ProgramFacts, draft};
use experiment::file::{Experiment, parse_experiment};
use proptest::prelude::*;

fn parse(text: &str) -> Experiment {
    parse_experiment(text, "draft.toml", Path::new("/"), &[], &|_| Ok(()))
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn assert_golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/experiment/draft")
        .join(name);
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, got).expect("the expected file");
    }
    assert_eq!(
        got,
        std::fs::read_to_string(&path).unwrap_or_default(),
        "{name}"
    );
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn listening(port: u16, answers: &[&str]) -> Listening {
    let answers = answers.iter().map(|path| (*path).to_owned()).collect();
    Listening {
        address: "127.0.0.1".into(),
        port,
        answers,
    }
}

fn relay() -> ProgramFacts {
    let environment = [
        ("DATABASE_URL", "postgres://relay:hunter2@db/relay"),
        ("HOME", "/home/me"),
        ("MALLOC_ARENA_MAX", "4"),
        ("PATH", "/usr/bin"),
        ("RELAY_LOG", "info {level}"),
        ("RELAY_TOKEN", "hunter2"),
    ];
    ProgramFacts {
        pid: 4242,
        exe: Some("/opt/relay/bin/relay".into()),
        command: words(
            "relay --listen 0.0.0.0:4100 --admin=4101 --size 141000 --key hunter2 {name}",
        ),
        directory: Some("/var/lib/relay".into()),
        environment: environment
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .to_vec(),
        listening: vec![
            listening(4100, &["/_health"]),
            listening(4101, &["/metrics"]),
        ],
        rss_bytes: Some(2_254_857_830),
        threads: Some(2768),
        unit: Some("relay.service".into()),
        unread: vec![],
    }
}

#[test]
fn a_service_with_ports_and_a_unit() {
    let text = draft(&relay());
    assert_golden("relay.toml", &text);
    assert!(!text.contains("hunter2"), "{text}");
    let plan = parse(&text);
    assert_eq!(plan.name, "relay");
    assert_eq!(
        plan.subject.command,
        words(
            "/opt/relay/bin/relay --listen 0.0.0.0:{port} --admin={port2} --size 141000 --key [redacted] {{name}}"
        )
    );
    assert_eq!(
        plan.subject.metrics.as_deref(),
        Some("http://127.0.0.1:{port2}/metrics")
    );
    assert_eq!(plan.subject.environment["RELAY_LOG"], "info {{level}}");
    assert!(!plan.subject.environment.contains_key("MALLOC_ARENA_MAX"));
}

#[test]
fn a_process_of_which_nothing_is_known() {
    let unread = vec![
        "environment: Permission denied".into(),
        "open ports: Permission denied".into(),
    ];
    let text = draft(&ProgramFacts {
        pid: 7,
        unread,
        ..ProgramFacts::default()
    });
    assert_golden("unknown.toml", &text);
    assert_eq!(parse(&text).name, "pid-7");
}

#[test]
fn a_port_that_no_argument_names() {
    let facts = ProgramFacts {
        pid: 9,
        exe: Some("/usr/bin/python3.11".into()),
        command: words("python3 serve.py"),
        listening: vec![listening(8080, &[])],
        ..ProgramFacts::default()
    };
    let text = draft(&facts);
    assert_golden("port-in-no-argument.toml", &text);
    assert_eq!(parse(&text).name, "python3-11");
}

#[test]
fn a_text_of_several_lines_stays_what_it_is() {
    let script = "import x\n\tprint(\"\u{7f}'\\\")\n";
    let facts = ProgramFacts {
        pid: 9,
        exe: Some("/usr/bin/python3.11".into()),
        command: ["python3", "-c", script].map(str::to_owned).to_vec(),
        environment: vec![("BANNER".to_owned(), script.to_owned())],
        ..ProgramFacts::default()
    };
    let plan = parse(&draft(&facts));
    assert_eq!(plan.subject.command[2], script);
    assert_eq!(plan.subject.environment["BANNER"], script);
}

proptest! {
    /// Whatever a process calls itself, the draft parses, and nothing of it escapes from its value or comment.
    #[test]
    fn any_program_gives_a_file_that_parses(
        exe in "(/|\\PC|[\n\x1b\"'#{}]){0,30}", command in prop::collection::vec("(\\PC|[\n\x1b\"'{}]){0,20}", 0..5),
        names in prop::collection::vec("(\\PC|[=\n]){0,12}", 0..5), value in "(\\PC|[\n\x1b\"'{}]){0,20}",
        port in 1u16.., unit in "(\\PC|[\n]){0,20}", rss in any::<u64>(),
    ) {
        let mut environment: Vec<_> = names.into_iter().map(|name| (name, value.clone())).collect();
        environment.sort();
        environment.dedup_by(|a, b| a.0 == b.0);
        let facts = ProgramFacts {
            pid: 1,
            exe: Some(exe.into()),
            command,
            directory: Some(value.clone().into()),
            environment,
            listening: vec![listening(port, &["/metrics", "/healthz"])],
            rss_bytes: Some(rss),
            threads: None,
            unit: Some(unit.clone()),
            unread: vec![unit],
        };
        let text = draft(&facts);
        let plan = parse_experiment(&text, "d", Path::new("/"), &[], &|_| Ok(()));
        prop_assert!(plan.is_ok(), "{}\n{}", plan.unwrap_err(), text);
        prop_assert!(!text.contains('\x1b'));
    }
}

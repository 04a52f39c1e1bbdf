//! An experiment file from a replay: the recorded program on its own allocator and on the remedies that the replay
//! ranks first, `highwater replay --experiment FILE`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::draft::{comment, entry, line, list, literal, pair};
use super::redact::REDACTED;
use super::{LIFE, Over};
use units::{write_bytes_exact, write_duration_exact, written};

/// Share of the recorded time that the experiment takes: a program that ends by itself is stopped before.
const LENGTH_SHARE: f64 = 0.9;
/// The longest that a program which ends by itself is waited for: copies side by side share the processors.
const LIFE_FACTOR: u32 = 12;
const LIFE_MIN: Duration = Duration::from_secs(60);
/// Shorter than this nothing can be sampled.
const LENGTH_MIN: Duration = Duration::from_secs(1);
/// Snapshots of a run, unless they would come more often than the shortest or less often than the longest interval.
const SNAPSHOTS: u32 = 100;
const INTERVAL_MIN: Duration = Duration::from_millis(20);
const INTERVAL_MAX: Duration = Duration::from_secs(10);
const NAME_LENGTH_MAX: usize = 60;

/// What is known of the recorded program and of the replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayFacts {
    /// Name of the program, for the name of the experiment.
    pub program: String,
    /// As a person types it in the next command.
    pub trace: String,
    /// As recorded, secrets hidden.
    pub command: Vec<String>,
    pub directory: Option<String>,
    /// Variables that the program itself needs.
    pub environment: Vec<(String, String)>,
    pub recorded: Duration,
    /// The whole life of a program that comes to its end by itself was recorded.
    pub is_whole_life: bool,
    /// Why no arm has a prediction; empty where they have.
    pub unpredicted: String,
    /// The recorded arm first.
    pub arms: Vec<ReplayedArm>,
}

/// An arm of the replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayedArm {
    /// As the replay prints it.
    pub name: String,
    /// As the experiment names it; `None`: the program as it comes.
    pub allocator: Option<String>,
    pub environment: Vec<(String, String)>,
    /// `None`: [`ReplayFacts::unpredicted`] says why.
    pub predicted: Option<Predicted>,
}

/// Mean anonymous resident bytes of a process over its life, or over its first [`duration_of`] the recording where it
/// does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Predicted {
    pub mean_bytes: f64,
    pub lo_bytes: f64,
    pub hi_bytes: f64,
}

/// How long an experiment is that follows a recording of this length, of a program that goes on.
pub fn duration_of(recorded: Duration) -> Duration {
    let tenths = (recorded.as_secs_f64() * LENGTH_SHARE * 10.0).floor();
    Duration::from_secs_f64(tenths / 10.0).max(LENGTH_MIN)
}

/// A commented experiment file that parses as it stands. The first arm is the control.
pub fn of_replay(facts: &ReplayFacts) -> String {
    let mut out = String::new();
    let names = names(&facts.arms);
    head(&mut out, facts, &names);
    subject(&mut out, facts);
    for (arm, name) in facts.arms.iter().zip(&names) {
        one_arm(&mut out, arm, name, over(facts));
    }
    out
}

fn head(out: &mut String, facts: &ReplayFacts, names: &[String]) {
    let trace = comment(&facts.trace);
    let _ = writeln!(out, "# Written by `highwater replay {trace} --experiment`.");
    line(
        out,
        "# `highwater run FILE --dry-run` checks it and starts nothing.",
    );
    line(out, "");
    pair(out, "name", &experiment_name(&facts.program));
    pair(out, "hypothesis", &hypothesis(facts));
    pair(out, "evidence", &format!("a replay of {trace}"));
    pair(out, "control", names.first().map_or("", String::as_str));
    line(out, "replicas = 2");
    let part = duration_of(facts.recorded);
    let interval = (part / SNAPSHOTS).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let interval = Duration::from_millis(interval.as_millis() as u64);
    let (why, duration) = match facts.is_whole_life {
        true => (
            "# When it was recorded the program ended by itself, and so does the run; side by side it may take far\n\
             # longer. Was it asked to end? Then write the time to compare, over = \"10m\", and this as the duration.",
            LIFE_MIN.max(part * LIFE_FACTOR),
        ),
        false => (
            "# Nine tenths of the recording; the predictions are for this time, from the start on.",
            part,
        ),
    };
    line(out, why);
    pair(out, "duration", &write_duration_exact(duration));
    pair(out, "interval", &write_duration_exact(interval));
    if facts.is_whole_life {
        pair(out, "warmup", "0s");
    }
    line(out, "");
}

/// What the predictions are for.
fn over(facts: &ReplayFacts) -> Over {
    match facts.is_whole_life {
        true => Over::Life,
        false => Over::First(duration_of(facts.recorded)),
    }
}

fn hypothesis(facts: &ReplayFacts) -> String {
    let mean = |arm: Option<&ReplayedArm>| Some((arm?.name.clone(), arm?.predicted?.mean_bytes));
    let (today, best) = (mean(facts.arms.first()), mean(facts.arms.get(1)));
    match (today, best) {
        (None, _) => format!(
            "another allocator or setting needs less memory; nothing is predicted: {}",
            facts.unpredicted
        ),
        (Some((_, today)), Some((best, less))) if less < 0.95 * today => format!(
            "with {best} the mean anonymous memory is {} instead of {}",
            written::bytes(less),
            written::bytes(today)
        ),
        _ => "no other allocator or setting needs less memory than the recorded one".to_owned(),
    }
}

fn subject(out: &mut String, facts: &ReplayFacts) {
    line(out, "[subject]");
    let _ = writeln!(
        out,
        "command = {}",
        list(&facts.command.iter().map(|w| literal(w)).collect::<Vec<_>>())
    );
    if facts.command.iter().any(|word| word.contains(REDACTED)) {
        let _ = writeln!(
            out,
            "# {REDACTED} stands for a secret: put it back, or let the program read it from a file."
        );
    }
    if facts.is_whole_life {
        line(out, "ends = true");
    }
    if let Some(directory) = &facts.directory {
        pair(out, "directory", &literal(directory));
    }
    line(
        out,
        "# Copies run side by side: one that listens needs a port of its own, `{port}`,",
    );
    line(
        out,
        "# and one that writes files a folder of its own, `{data}`.",
    );
    line(out, "");
    if !facts.environment.is_empty() {
        line(out, "[subject.environment]");
        for (name, value) in &facts.environment {
            line(out, &entry(name, &literal(value)));
        }
        line(out, "");
    }
    line(
        out,
        "# What made requests while the program was recorded? It is not in the trace.",
    );
    line(out, "# [load]");
    line(
        out,
        "# command = [\"./load\", \"--to\", \"127.0.0.1:{port}\"]",
    );
    line(out, "");
}

fn one_arm(out: &mut String, arm: &ReplayedArm, name: &str, over: Over) {
    let _ = writeln!(out, "# {}", comment(&arm.name));
    line(out, "[[arms]]");
    pair(out, "name", name);
    if let Some(allocator) = &arm.allocator {
        pair(out, "allocator", allocator);
    }
    if !arm.environment.is_empty() {
        let entries = arm
            .environment
            .iter()
            .map(|(name, value)| entry(name, &literal(value)));
        let _ = writeln!(
            out,
            "environment = {{ {} }}",
            entries.collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(predicted) = arm.predicted {
        prediction(out, predicted, over);
    }
    line(out, "");
}

fn prediction(out: &mut String, predicted: Predicted, over: Over) {
    // Whole KiB: what a page does not change.
    let bytes = |value: f64| write_bytes_exact((value.max(0.0) as u64 >> 10) << 10);
    let Predicted {
        mean_bytes,
        lo_bytes,
        hi_bytes,
    } = predicted;
    let _ = writeln!(
        out,
        "prediction = {{ mean = \"{}\", lo = \"{}\", hi = \"{}\", over = \"{}\" }}",
        bytes(mean_bytes),
        bytes(lo_bytes),
        bytes(hi_bytes),
        match over {
            Over::First(time) => write_duration_exact(time),
            Over::Run | Over::Life => LIFE.to_owned(),
        }
    );
}

fn experiment_name(program: &str) -> String {
    let lower = program.to_lowercase();
    let words = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    match name.is_empty() {
        true => "replayed".to_owned(),
        false => name
            .chars()
            .take(NAME_LENGTH_MAX)
            .collect::<String>()
            .trim_matches('-')
            .to_owned(),
    }
}

/// Names that an experiment allows, each once.
fn names(arms: &[ReplayedArm]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut unique = |arm: &ReplayedArm| {
        let plain = arm_name(&arm.name);
        let numbered = (2..).map(|n: u32| format!("{plain}-{n}"));
        let mut all = std::iter::once(plain.clone()).chain(numbered);
        let name = all.find(|name| !seen.contains(name)).unwrap_or_default();
        seen.insert(name.clone());
        name
    };
    arms.iter().map(&mut unique).collect()
}

/// `glibc MALLOC_ARENA_MAX=2` as `glibc-MALLOC_ARENA_MAX-2`.
fn arm_name(shown: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._+@".contains(c);
    let words = shown
        .split(|c: char| !fits(c))
        .filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    match name.is_empty() {
        true => "arm".to_owned(),
        false => name.chars().take(NAME_LENGTH_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse_experiment;
    use std::path::Path;

    fn facts() -> ReplayFacts {
        let arm = |name: &str, allocator: Option<&str>, environment: &[(&str, &str)], mean: f64| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            ReplayedArm {
                name: name.to_owned(),
                allocator: allocator.map(str::to_owned),
                environment: environment.iter().map(pair).collect(),
                predicted: Some(Predicted {
                    mean_bytes: mean,
                    lo_bytes: mean * 0.9,
                    hi_bytes: mean * 1.1,
                }),
            }
        };
        let tuned = "glibc MALLOC_ARENA_MAX=2";
        let conf = [("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")];
        ReplayFacts {
            program: "python3.11".to_owned(),
            trace: "app.hwt".to_owned(),
            command: ["python3", "-c", "print(\"{port} {x}\")\n", "[redacted]"]
                .map(str::to_owned)
                .to_vec(),
            directory: Some("/srv/a b".to_owned()),
            environment: vec![("PYTHONMALLOC".to_owned(), "malloc".to_owned())],
            recorded: Duration::from_millis(15_700),
            is_whole_life: false,
            unpredicted: String::new(),
            arms: vec![
                arm("glibc", Some("glibc"), &[], 5e7),
                arm(
                    "jemalloc@5.3.0 dirty_decay_ms=0",
                    Some("jemalloc@5.3.0"),
                    &conf,
                    4e7,
                ),
                arm(tuned, Some("glibc"), &[("MALLOC_ARENA_MAX", "2")], 4.5e7),
                arm(tuned, None, &[], 4.5e7),
            ],
        }
    }

    #[test]
    fn what_is_written_is_an_experiment() {
        let text = of_replay(&facts());
        let plan = parse_experiment(&text, "a.toml", Path::new("/"), &[], &|_| Ok(()));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert_eq!(
            (plan.name.as_str(), plan.control.as_str()),
            ("python3-11", "glibc")
        );
        assert_eq!(plan.subject.command[2], "print(\"{{port}} {{x}}\")\n");
        assert_eq!(plan.subject.environment["PYTHONMALLOC"], "malloc");
        assert_eq!(plan.duration, Duration::from_millis(14_100));
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        let tuned = "glibc-MALLOC_ARENA_MAX-2";
        assert_eq!(
            names,
            [
                "glibc",
                "jemalloc@5.3.0-dirty_decay_ms-0",
                tuned,
                "glibc-MALLOC_ARENA_MAX-2-2"
            ]
        );
        assert_eq!(
            plan.arms[1].environment["MALLOC_CONF"],
            "dirty_decay_ms:0,muzzy_decay_ms:0"
        );
        let prediction = plan.arms[1].prediction.unwrap();
        assert_eq!(prediction.mean_bytes, (40_000_000 >> 10) << 10);
        assert_eq!(prediction.over, Over::First(plan.duration));
        assert!(
            prediction.lo_bytes < prediction.mean_bytes
                && prediction.mean_bytes < prediction.hi_bytes
        );
        assert!(text.contains("[redacted] stands for a secret"), "{text}");
    }

    #[test]
    fn a_prediction_is_frozen_and_a_broken_one_is_refused() {
        let text = of_replay(&facts());
        let parse = |text: &str| parse_experiment(text, "a.toml", Path::new("/"), &[], &|_| Ok(()));
        let plan = parse(&text).unwrap();
        let again = parse(&crate::file::freeze(&plan)).unwrap();
        assert_eq!(plan.arms, again.arms);
        for (broken, why) in [
            (
                "prediction = { mean = \"5MiB\", lo = \"6MiB\", hi = \"7MiB\" }",
                "outside of `lo` to `hi`",
            ),
            (
                "prediction = { mean = \"5MiB\", lo = \"4MiB\" }",
                "has no `hi`",
            ),
            (
                "prediction = { mean = \"5MiB\", lo = \"4MiB\", high = \"7MiB\", hi = \"7MiB\" }",
                "unknown key `high`",
            ),
            (
                "prediction = { mean = \"5MiB\", lo = \"4MiB\", hi = \"7MiB\", over = \"0s\" }",
                "`over` is no time at all",
            ),
        ] {
            let text = text.replacen(
                "allocator = \"glibc\"\nprediction",
                &format!("{broken}\nwas"),
                1,
            );
            let problems = parse(&text).unwrap_err().to_string();
            assert!(problems.contains(why), "{problems}");
        }
    }

    #[test]
    fn a_program_that_ends_by_itself_is_compared_over_its_life() {
        let facts = ReplayFacts {
            is_whole_life: true,
            ..facts()
        };
        let parse = |text: &str| parse_experiment(text, "a.toml", Path::new("/"), &[], &|_| Ok(()));
        let plan = parse(&of_replay(&facts)).unwrap();
        assert_eq!((plan.warmup, plan.subject.ends), (Duration::ZERO, true));
        assert!(plan.duration > 4 * facts.recorded);
        assert_eq!(plan.arms[1].prediction.unwrap().over, Over::Life);
        let again = parse(&crate::file::freeze(&plan)).unwrap();
        assert_eq!(plan.arms, again.arms);
    }

    #[test]
    fn a_replay_that_cannot_be_trusted_predicts_nothing() {
        let mut facts = facts();
        facts.unpredicted = "the self-check failed".to_owned();
        for arm in &mut facts.arms {
            arm.predicted = None;
        }
        let text = of_replay(&facts);
        let plan = parse_experiment(&text, "a.toml", Path::new("/"), &[], &|_| Ok(())).unwrap();
        assert!(
            plan.arms.iter().all(|arm| arm.prediction.is_none()),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_goes_on_is_stopped_before() {
        assert_eq!(duration_of(Duration::from_secs(10)), Duration::from_secs(9));
        assert_eq!(
            duration_of(Duration::from_millis(300)),
            Duration::from_secs(1)
        );
    }
}

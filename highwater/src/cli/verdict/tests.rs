//! The verb from text to text.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: VerdictArgs,
}

pub(super) fn say(flags: &str, input: &str) -> Result<(u8, String)> {
    let only = Only::parse_from(["x"].into_iter().chain(flags.split_whitespace()));
    let mut out = Vec::new();
    let given = Given::read(&only.args)?;
    let code = judge_input(&given, "test", input.as_bytes(), &mut out)?;
    Ok((code, String::from_utf8(out)?))
}

/// Rows `id,t,kib`, a line every minute; a wobble keeps it from being too clean.
pub(super) fn rows(id: &str, n: usize, kib: impl Fn(f64) -> f64) -> String {
    (0..n)
        .map(|i| {
            let wobble = f64::from((i * i * 7919 % 101) as u32) - 50.0;
            format!(
                "{id},{},{:.0}\n",
                i * 60,
                kib(i as f64 / n as f64) + 3.0 * wobble
            )
        })
        .collect()
}

pub(super) fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn json_lines_have_the_fields_that_were_promised() {
    let input = format!(
        "id,t_s,rss_kib\n{}{}",
        rows("leak", 200, |x| 100_000.0 * (1.0 + x)),
        rows("flat", 200, |_| 100_000.0)
    );
    let (code, text) = say("--json", &input).unwrap();
    let said = objects(&text);
    assert_eq!((code, said.len()), (0, 2));
    assert_eq!(
        (&said[0]["label"], &said[1]["label"]),
        (&"growing".into(), &"flat".into())
    );
    for key in [
        "schema",
        "kind",
        "id",
        "label",
        "slope_bytes_per_hour",
        "slope_lo",
        "slope_hi",
        "asymptote_bytes",
        "asymptote_lo",
        "asymptote_hi",
        "time_to_limit_s",
        "confidence",
        "evidence",
        "needs",
    ] {
        assert!(said[0].get(key).is_some(), "{key}");
    }
    let slope = said[0]["slope_bytes_per_hour"].as_f64().unwrap();
    let truth = 100_000.0 * 1024.0 / (200.0 / 60.0);
    assert!((slope / truth - 1.0).abs() < 0.05, "{slope} {truth}");
}

#[test]
fn parts_of_a_series_have_ids_of_their_own() {
    let input = format!(
        "id,t_s,rss_kib\n{}",
        rows("a", 200, |x| 100_000.0 * (1.0 + x))
    );
    let (_, text) = say("--json --at 0.25,1", &input).unwrap();
    let ids: Vec<String> = objects(&text)
        .iter()
        .map(|o| o["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["a@0.25", "a@1"]);
    assert!(say("--at 1.5", &input).is_err());
}

pub(super) fn two_arms(moved: bool) -> String {
    let mut text = "arm,process,t_s,rss_kib\n".to_owned();
    for (arm, level) in [("low", 100_000.0), ("high", 200_000.0)] {
        for p in 0..4 {
            let id = format!("{arm}-{p}");
            let each = rows(&id, 120, |_| level * (1.0 + 0.01 * f64::from(p)));
            for (i, line) in each.lines().enumerate() {
                let arm = if moved && id == "low-0" && i > 60 {
                    "high"
                } else {
                    arm
                };
                text += &format!("{arm},{line}\n");
            }
        }
    }
    text
}

#[test]
fn arms_are_judged_compared_and_audited() {
    let (code, text) = say("--json --arms --all-pairs --strict", &two_arms(false)).unwrap();
    let said = objects(&text);
    let of = |kind: &str| {
        said.iter()
            .filter(|o| o["kind"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (code, of("audit").len(), of("series").len(), of("arm").len()),
        (0, 0, 8, 2)
    );
    let pair = of("pair")[0];
    assert_eq!(
        (pair["a"].as_str(), pair["b"].as_str()),
        (Some("high"), Some("low"))
    );
    let lo_hi = (pair["lo"].as_f64().unwrap(), pair["hi"].as_f64().unwrap());
    assert!(
        lo_hi.0 < 2.0 && 2.0 < lo_hi.1 && pair["decided"] == true,
        "{pair}"
    );
    let (code, text) = say("--json --arms --strict", &two_arms(true)).unwrap();
    let refused = objects(&text)
        .iter()
        .filter(|o| o["refused"] == true)
        .count();
    assert_eq!((code, refused), (1, 2));
}

#[test]
fn tables_and_errors_are_for_people() {
    let (_, text) = say("--arms --control high", &two_arms(true)).unwrap();
    assert!(
        text.contains("changed arms") && text.contains("low uses less than high"),
        "{text}"
    );
    let words = |input: &str| format!("{:#}", say("", input).unwrap_err());
    assert!(words("id,t_s,rss_kib\n").contains("no readings"));
    assert!(words("id,t_s,rss_kib\na,1,x\n").contains("line 2, column 3"));
    assert!(words("").contains("empty"));
}

#[test]
fn a_long_pipe_of_series_that_stand_together_is_judged_as_it_comes() {
    let mut input = "id,t_s,rss_kib\n".to_owned();
    for i in 0..700 {
        input += &rows(&format!("s{i}"), 100, |_| 100_000.0).replace(".5", "");
    }
    let only = Only::parse_from(["x", "--json"]);
    let mut given = Given::read(&only.args).unwrap();
    // No opinion is formed on fewer than this, so that the test is about reading.
    given.rules.samples_min = 1000;
    let mut out = Vec::new();
    assert_eq!(
        judge_input(&given, "test", input.as_bytes(), &mut out).unwrap(),
        0
    );
    let said = objects(&String::from_utf8(out).unwrap());
    let ids: Vec<&str> = said.iter().map(|o| o["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 700);
    assert!(
        ids.iter().enumerate().all(|(i, id)| *id == format!("s{i}")),
        "not in order"
    );
}

#[test]
fn what_was_judged_before_a_broken_line_is_written() {
    let mut input = "id,t_s,rss_kib\n".to_owned();
    for i in 0..700 {
        input += &rows(&format!("s{i}"), 100, |_| 100_000.0);
    }
    input += "s700,0,many\n";
    let only = Only::parse_from(["x", "--json"]);
    let mut given = Given::read(&only.args).unwrap();
    given.rules.samples_min = 1000;
    let mut out = Vec::new();
    let error = judge_input(&given, "test", input.as_bytes(), &mut out).unwrap_err();
    assert!(
        format!("{error:#}").contains("line 70002, column 3"),
        "{error:#}"
    );
    assert!(String::from_utf8(out).unwrap().lines().count() > 300);
}

#[test]
fn what_is_asked_for_and_cannot_be_is_said() {
    let told = |flags: &str, told: &str| {
        let error = say(flags, &two_arms(false)).map(|_| ()).expect_err(told);
        assert!(format!("{error:#}").contains(told), "{told}: {error:#}");
    };
    told(
        "--pairs high:high",
        "high:high: an arm cannot be compared with itself",
    );
    told(
        "--value-column memm",
        "line 1, column 1: no memory column memm, but arm",
    );
    assert!(Only::try_parse_from(["x", "--unit", "furlong"]).is_err());
    assert!(Only::try_parse_from(["x", "--unit", "MiB"]).is_ok());
}

/// What a file can be besides good is an error with its place.
#[test]
fn bad_input_is_an_error_with_its_place() {
    let many = vec!["1"; 1_000_000].join(",");
    let told = |input: &str, told: &str| {
        let error = say("", input).map(|_| ()).expect_err(told);
        assert!(format!("{error:#}").contains(told), "{told}: {error:#}");
    };
    told("", "line 1, column 1: the file is empty");
    told("id,t_s,rss_kib\n", "no readings after the header");
    told("id,t_s\0\n", "this is no text");
    told(&format!("c{}\n", many.replace('1', "c")), "1000000 columns");
    let records = [
        ("a,0,lots", "line 2, column 3: \"lots\" is no number"),
        ("a,0,12 apples", "line 2, column 3"),
        ("a,soon,1", "line 2, column 2"),
        ("a,0,1\na,1", "line 3, column 3: 2 fields"),
        (many.as_str(), "line 2, column 4: 1000000 fields"),
        ("\"a,0,1\na,1,1", "line 2"),
    ];
    for (record, place) in records {
        told(&format!("id,t_s,rss_kib\n{record}\n"), place);
    }
}

fn label_of(value: impl Fn(usize) -> String, n: usize) -> String {
    let lines = (0..n).map(|i| format!("a,{},{}\n", i * 60, value(i)));
    let input = format!("id,t_s,rss_kib\n{}", lines.collect::<String>());
    let said = objects(&say("--json", &input).unwrap().1);
    said[0]["label"].as_str().unwrap().to_owned()
}

/// What cannot be an error gets an honest label.
#[test]
fn odd_readings_get_an_honest_label() {
    let some = |odd: &'static str, every: usize| {
        move |i: usize| match i % every {
            0 => odd.to_owned(),
            _ => (1000 + i % 5).to_string(),
        }
    };
    assert_eq!(label_of(|_| "1000".to_owned(), 1), "insufficient");
    for nothing in ["NaN", "-5", "0", ""] {
        assert_eq!(
            label_of(|_| nothing.to_owned(), 100),
            "insufficient",
            "{nothing}"
        );
    }
    assert_eq!(label_of(|_| "1000".to_owned(), 100), "flat");
    for (odd, every) in [("NaN", 3), ("-5", 7), ("inf", 9), ("", 4), ("0", 5)] {
        assert_eq!(label_of(some(odd, every), 100), "flat", "some {odd}");
    }
    let back = |i: usize| format!("a,{},{}\n", i * 60, 100_000 + 500 * i);
    let back: String = (0..100).rev().map(back).collect();
    let said = say("--json", &format!("id,t_s,rss_kib\n{back}")).unwrap().1;
    assert_eq!(objects(&said)[0]["label"], "growing");
}

/// Processes 0, 1, 2 of every arm are not one process each that changes arms at every snapshot.
#[test]
fn processes_may_be_numbered_anew_in_every_arm() {
    let input = two_arms(false).replace("low-", "").replace("high-", "");
    let (code, text) = say("--json --arms --all-pairs --strict", &input).unwrap();
    let said = objects(&text);
    assert_eq!(
        (code, said.iter().filter(|o| o["kind"] == "series").count()),
        (0, 8)
    );
    assert!(said.iter().any(|o| o["id"] == "high/0") && said.iter().all(|o| o["kind"] != "audit"));
}

#[test]
fn a_picture_is_drawn_and_its_limits_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let input = format!(
        "id,t_s,rss_kib\n{}",
        rows("a", 200, |x| 100_000.0 * (1.0 + x))
    );
    for (name, begins) in [("a.svg", &b"<svg"[..]), ("a.png", b"\x89PNG")] {
        let path = folder.path().join(name);
        say(&format!("--plot {}", path.display()), &input).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(begins), "{name}");
    }
    let told = |flags: &str, input: &str| format!("{:#}", say(flags, input).unwrap_err());
    assert!(told("--plot a.jpg", &input).contains(".svg or .png"));
    let many: String = (0..25)
        .map(|i| rows(&format!("s{i}"), 10, |_| 1000.0))
        .collect();
    let words = told("--plot a.svg", &format!("id,t_s,rss_kib\n{many}"));
    assert!(words.contains("25 series, a picture holds 24"), "{words}");
}

/// Series without an arm are not drawn beside arms, and take no room.
#[test]
fn a_picture_of_arms_has_room_for_series_that_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.svg");
    let stray: String = (0..25)
        .map(|i| rows(&format!(",s{i}"), 10, |_| 1000.0))
        .collect();
    let input = format!("{}{stray}", two_arms(false));
    say(&format!("--arms --plot {}", path.display()), &input).unwrap();
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(picture.contains("low") && !picture.contains("s24"));
}

#[test]
fn a_time_since_the_beginning_and_limits_by_arm_and_process() {
    let of = |arm: &str| rows(&format!("{arm},{arm}-0"), 120, |x| 100_000.0 * (1.0 + x));
    let input = format!("arm,process,t_s,rss_kib\n{}{}", of("old"), of("new"));
    let readings = |flags: &str, input: &str| {
        let told = say(flags, input).unwrap().1;
        objects(&told)[0]["evidence"]["n"].as_f64()
    };
    let alone = format!("id,t_s,rss_kib\n{}", rows("a", 120, |_| 100_000.0));
    assert_eq!(readings("--json --until 1h", &alone), Some(61.0));
    assert!(say("--until soon", &alone).is_err());

    let folder = tempfile::tempdir().unwrap();
    let meta = folder.path().join("meta.csv");
    std::fs::write(&meta, "id,limit_kib\nold/old-0,400000\n").unwrap();
    let told = say(&format!("--json --meta {}", meta.display()), &input)
        .unwrap()
        .1;
    let limited: Vec<String> = objects(&told)
        .iter()
        .filter(|line| line["kind"] == "series" && !line["time_to_limit_s"].is_null())
        .map(|line| line["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(limited, ["old-0"]);
}

#[test]
fn a_backtest_holds_forecasts_against_what_came() {
    let input = format!(
        "id,t_s,rss_kib\n{}{}{}",
        rows("leak", 200, |x| 100_000.0 * (1.0 + x)),
        rows("flat", 200, |_| 100_000.0),
        rows("short", 5, |_| 100_000.0),
    );
    let (code, text) = say("--backtest --json", &input).unwrap();
    let said = objects(&text);
    assert_eq!((code, said.len()), (0, 1), "{text}");
    let of = |name: &str| said[0][name].as_u64().unwrap();
    assert_eq!((of("series"), of("rose"), of("left_out")), (2, 1, 1));
    let own = &said[0]["rows"][0];
    assert_eq!(own["name"], "highwater");
    assert_eq!(
        (&own["called"], &own["called_rose"]),
        (&1.into(), &1.into())
    );
    let (code, text) = say("--backtest=0.4", &input).unwrap();
    assert_eq!(code, 0);
    assert!(
        text.starts_with("2 series, of which the level rose by 3 % or more in 1; 1 with too few")
    );
    assert!(
        text.lines()
            .any(|line| line.trim().starts_with("predict_linear")),
        "{text}"
    );
    assert!(Only::try_parse_from(["x", "--backtest=0.9"]).is_err());
    assert!(Only::try_parse_from(["x", "--backtest", "--plot", "a.svg"]).is_err());
}

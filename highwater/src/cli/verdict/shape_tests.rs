//! Every line of JSON has the shape that was promised, whatever was judged.

use serde_json::Value;

use super::tests::{objects, rows, say, two_arms};

const LABELS: &[&str] = &[
    "flat",
    "plateauing",
    "growing",
    "sawtooth",
    "stepped",
    "variable",
    "insufficient",
];

/// An estimate with its interval: three numbers in order, or three nulls; of what never ends the ends may be null.
fn estimate(line: &Value, names: [&str; 3]) {
    let [value, lo, hi] = names.map(|name| {
        let field = line
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {line}"));
        assert!(
            field.is_null() || field.is_f64() || field.is_number(),
            "{name} in {line}"
        );
        field.as_f64()
    });
    if let (Some(lo), Some(value)) = (lo, value) {
        assert!(lo <= value, "{names:?} in {line}");
    }
    if let (Some(hi), Some(value)) = (hi, value) {
        assert!(value <= hi, "{names:?} in {line}");
    }
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    let field = line[name].as_str();
    field.unwrap_or_else(|| panic!("{name} in {line}"))
}

fn texts(line: &Value, name: &str) {
    let list = line[name].as_array();
    let list = list.unwrap_or_else(|| panic!("{name} in {line}"));
    assert!(list.iter().all(Value::is_string), "{name} in {line}");
}

fn maybe(line: &Value, name: &str, is: fn(&Value) -> bool) {
    let field = line
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {line}"));
    assert!(field.is_null() || is(field), "{name} in {line}");
}

/// Names of the fields, in order.
fn fields(line: &Value) -> Vec<&str> {
    line.as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

const SERIES: &str = "schema kind id label slope_bytes_per_hour slope_lo slope_hi asymptote_bytes asymptote_lo \
    asymptote_hi time_to_limit_s time_to_limit_lo time_to_limit_hi level_bytes level_lo level_hi confidence period_s \
    steps rule evidence needs";
const ARM: &str = "schema kind id label slope_bytes_per_hour slope_lo slope_hi asymptote_bytes asymptote_lo \
    asymptote_hi time_to_limit_s time_to_limit_lo time_to_limit_hi level_bytes level_lo level_hi confidence outliers \
    rule evidence refused needs";
const PAIR: &str = "schema kind id a b ratio lo hi p_better difference_slope_bytes_per_hour difference_slope_lo \
    difference_slope_hi decided words needs";
const AUDIT: &str = "schema kind id check severity arms processes since_s what effect still";

fn judged(line: &Value) {
    let label = text(line, "label");
    assert!(LABELS.contains(&label), "{line}");
    assert!(!text(line, "rule").is_empty(), "{line}");
    for names in [
        super::lines::SLOPE,
        super::lines::ASYMPTOTE,
        super::lines::TIME_TO_LIMIT,
        super::lines::LEVEL,
    ] {
        estimate(line, names);
    }
    let sure = line["confidence"].as_f64().expect("a confidence");
    assert!((0.0..=1.0).contains(&sure), "{line}");
    maybe(line, "needs", Value::is_string);
    assert!(
        label != "insufficient" || line["needs"].is_string(),
        "{line}"
    );
    assert!(line["evidence"].is_object(), "{line}");
}

fn check(line: &Value) -> &str {
    assert_eq!(line["schema"], "highwater.verdict/2");
    let kind = text(line, "kind");
    let promised = match kind {
        "series" => SERIES,
        "arm" => ARM,
        "pair" => PAIR,
        "audit" => AUDIT,
        other => panic!("a line of kind {other}"),
    };
    let promised: Vec<&str> = promised.split_whitespace().collect();
    assert_eq!(fields(line), promised, "{line}");
    text(line, "id");
    match kind {
        "series" => {
            judged(line);
            maybe(line, "period_s", Value::is_number);
            for step in line["steps"].as_array().expect("steps") {
                assert_eq!(fields(step), ["t_s", "bytes"]);
            }
            assert!(
                line["evidence"]
                    .as_object()
                    .expect("evidence")
                    .values()
                    .all(Value::is_number),
                "{line}"
            );
        }
        "arm" => {
            judged(line);
            texts(line, "outliers");
            assert!(
                line["refused"].is_boolean() && line["evidence"]["processes"].is_u64(),
                "{line}"
            );
        }
        "pair" => {
            assert_eq!(
                text(line, "id"),
                format!("{}:{}", text(line, "a"), text(line, "b"))
            );
            estimate(line, ["ratio", "lo", "hi"]);
            maybe(line, "p_better", Value::is_number);
            assert!(
                line["decided"].is_boolean() && !text(line, "words").is_empty(),
                "{line}"
            );
            maybe(line, "needs", Value::is_string);
        }
        _ => {
            texts(line, "arms");
            texts(line, "processes");
            maybe(line, "since_s", Value::is_number);
            let severity = text(line, "severity");
            assert!(["note", "weakens", "refuses"].contains(&severity), "{line}");
            for name in ["what", "effect", "still"] {
                assert!(!text(line, name).is_empty(), "{line}");
            }
        }
    }
    kind
}

/// Shapes that give every label, hostile names, and what is no series at all.
fn series() -> String {
    let mut input = "id,t_s,rss_kib\n".to_owned();
    input += &rows("leak", 200, |x| 1e5 * (1.0 + x));
    input += &rows("\"a,\"\"b\"\"\u{202e}<&\"", 200, |_| 1e5);
    input += &rows("fill", 200, |x| {
        1e5 * (1.0 + 0.5 * (1.0 - (-12.0 * x).exp()))
    });
    input += &rows("step", 200, |x| if x < 0.5 { 1e5 } else { 1.5e5 });
    input += &rows("saw", 200, |x| 1e5 * (1.0 + (9.0 * x).fract()));
    input += &rows("few", 3, |_| 1e5);
    input += "nothing,0,\nnothing,60,NaN\ninfinite,0,inf\ninfinite,1,-inf\none,0,5\n";
    input
        + &(0..60)
            .map(|i| format!("huge,{},1e300\n", 60 * i))
            .collect::<String>()
}

#[test]
fn every_line_of_json_has_its_shape() {
    let mut kinds = Vec::new();
    let calls = [
        ("--json --limit 400MiB", series()),
        ("--json --at 0.1,0.5,1", series()),
        ("--json --until 600 --limit 1", series()),
        ("--json --all-pairs", two_arms(false)),
        ("--json --arms --control high --limit 1GiB", two_arms(true)),
        ("--json --at 0.5 --all-pairs", two_arms(true)),
        ("--json --all-pairs --until 120", two_arms(false)),
    ];
    for (flags, input) in calls {
        let (code, said) = say(flags, &input).unwrap();
        assert_eq!(code, 0, "{flags}");
        let lines = objects(&said);
        assert!(!lines.is_empty(), "{flags}");
        kinds.extend(lines.iter().map(|line| check(line).to_owned()));
    }
    for kind in ["series", "arm", "pair", "audit"] {
        assert!(kinds.iter().any(|k| k == kind), "no {kind}");
    }
}

#[test]
fn what_is_left_until_the_limit_has_its_interval() {
    let (_, said) = say("--json --limit 300MiB", &series()).unwrap();
    let lines = objects(&said);
    let of = |id: &str| lines.iter().find(|l| l["id"] == id).unwrap();
    let (leak, flat) = (of("leak"), of("fill"));
    // 195.3 MiB at the end of 3.33 h, 97.7 of them gained meanwhile: 104.7 are left.
    let truth = 104.7 / (97.66 / (200.0 * 60.0));
    let time = |name: &str| leak[name].as_f64().unwrap();
    assert!(
        (time("time_to_limit_s") / truth - 1.0).abs() < 0.1,
        "{leak}"
    );
    assert!(
        time("time_to_limit_lo") <= truth && truth <= time("time_to_limit_hi"),
        "{leak}"
    );
    assert!(flat["time_to_limit_s"].is_null(), "{flat}");
}

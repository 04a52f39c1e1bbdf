//! Instants as files have them, and those that nobody can read.

use super::*;

/// 2025-12-26T14:00:00Z.
const THEN: f64 = 1_766_757_600.0;

fn at(text: &str) -> Option<f64> {
    match parse_moment(text, None) {
        Ok((Moment::At(t_s), _)) => Some(t_s),
        _ => None,
    }
}

#[test]
fn one_instant_in_many_ways() {
    for text in [
        "2025-12-26T14:00:00Z",
        "2025-12-26 14:00:00",
        "2025-12-26T14:00",
        "2025-12-26_14:00:00",
        "2025-12-26 14:00:00 UTC",
        "2025-12-26 14:00:00 +0000 UTC m=+0.113",
        "2025-12-26 15:00:00 +0100 CET m=-1.5",
        "2025-12-26 15:00:00 +0100",
        "2025-12-26 15:00:00+01",
        "2025-12-26T15:00:00+01:00",
        "2025-12-26 14:00:00,000",
        "2025/12/26 14:00:00",
        "26.12.2025 14:00",
        "12/26/2025 14:00:00",
        "26/12/2025 14:00:00",
        "12/26/2025 2:00:00 PM",
        "12/26/25 14:00",
        "26/Dec/2025:14:00:00 +0000",
        "26-Dec-2025 14:00:00",
        "Fri Dec 26 14:00:00 UTC 2025",
        "Fri Dec 26 02:00:00 PM UTC 2025",
        "Fri, 26 Dec 2025 14:00:00 GMT",
        "Dec 26, 2025 2:00 PM",
        "1766757600",
        "1766757600000",
    ] {
        assert_eq!(at(text), Some(THEN), "{text}");
    }
    assert_eq!(at("2025-12-26 14:00:00,250"), Some(THEN + 0.25));
    assert_eq!(at("2025-12-26T14:00:00,25Z"), Some(THEN + 0.25));
}

#[test]
fn what_is_no_time_is_none() {
    for text in [
        "",
        "soon",
        "25:00",
        "12:60",
        "2025-13-01",
        "2025-02-30 10:00",
        "31/31/2025",
        "12/26",
        "Dec 2025",
        "26 14:00",
        "14:00:00:00",
        "13:00 PM",
        "api-1",
        "10.0.0.1",
        "1.2.3",
        "::1",
        "May",
        "a/b/c",
        "2025-12-26 14:00:00 tomorrow",
    ] {
        assert!(
            parse_moment(text, None).is_err(),
            "{text}: {:?}",
            parse_moment(text, None)
        );
    }
}

#[test]
fn day_and_month_are_an_error_until_one_date_tells() {
    let mut times = Times {
        factor: 1.0,
        ..Times::default()
    };
    let doubt = times.read("3/4/2026 10:00", "a").unwrap_err();
    assert!(
        doubt.what.contains("which of 3 and 4") && doubt.next.contains("--dates"),
        "{doubt:?}"
    );
    times.learn("3/13/2026");
    assert_eq!(
        times.read("3/4/2026 00:00", "a"),
        Ok(at("2026-03-04").unwrap())
    );
    assert!(
        times
            .read("13/3/2026 10:00", "a")
            .unwrap_err()
            .what
            .contains("other way round")
    );
    let mut days = Times {
        factor: 1.0,
        order: Some(DateOrder::DayFirst),
        ..Times::default()
    };
    assert_eq!(days.read("3/4/2026", "a"), Ok(at("2026-04-03").unwrap()));
    assert_eq!(at("4/4/2026"), at("2026-04-04"));
}

fn clock(times: &mut Times, id: &str, text: &str) -> f64 {
    times
        .read(text, id)
        .unwrap_or_else(|e| panic!("{id} {text}: {e:?}"))
        / 3600.0
}

#[test]
fn times_of_day_pass_midnight() {
    let mut times = Times {
        factor: 1.0,
        ..Times::default()
    };
    let hours = [
        "22:00", "23:30:00", "0:30", "12:00:00", "12:00:00", "11:59", "23:00", "01:00",
    ];
    let read: Vec<f64> = hours.iter().map(|t| clock(&mut times, "a", t)).collect();
    assert_eq!(read[..5], [22.0, 23.5, 24.5, 36.0, 36.0]);
    assert_eq!(read[6..], [47.0, 49.0]);
    let back = times
        .read("20:00", "a")
        .map(|_| ())
        .and_then(|()| times.read("15:00", "a"));
    assert!(back.unwrap_err().what.contains("goes back by 5.0 h"));
    assert!(
        times.read("2026-01-01T00:00:00Z", "a").is_err(),
        "a date among times of day"
    );
}

#[test]
fn a_snapshot_of_many_processes_may_pass_midnight() {
    let mut times = Times {
        factor: 1.0,
        ..Times::default()
    };
    for (id, text, hours) in [
        ("a", "12:00", 12.0),
        ("b", "12:00", 12.0),
        ("a", "23:59:59", 24.0),
        ("b", "00:00", 24.0),
        ("c", "00:00", 24.0),
        ("a", "12:00", 36.0),
        ("d", "12:00", 36.0),
    ] {
        assert!(
            (clock(&mut times, id, text) - hours).abs() < 0.01,
            "{id} {text}"
        );
    }
    let mut sorted = Times {
        factor: 1.0,
        ..Times::default()
    };
    clock(&mut sorted, "a", "12:00");
    assert_eq!(clock(&mut sorted, "b", "11:00"), 11.0);
    clock(&mut sorted, "b", "23:00");
    clock(&mut sorted, "b", "01:00");
    assert!(
        sorted
            .read("12:00", "c")
            .unwrap_err()
            .what
            .contains("first day")
    );
}

#[test]
fn numbers_are_seconds_unless_the_column_says_otherwise() {
    let mut ms = Times {
        factor: 1e-3,
        ..Times::default()
    };
    assert_eq!(ms.read("1500", "a"), Ok(1.5));
    assert_eq!(ms.read("1795000000500", "a"), Ok(1_795_000_000.5));
    let mut date = Times {
        factor: 1.0,
        is_date: true,
        ..Times::default()
    };
    assert!(
        date.read("46017.58", "a")
            .unwrap_err()
            .what
            .contains("spreadsheets")
    );
    assert_eq!(date.read("1766757600", "a"), Ok(THEN));
    assert!(date.read("NaN", "a").is_err());
}

#[test]
fn what_has_passed_is_no_time_of_day() {
    let mut times = Times {
        factor: 1.0,
        is_elapsed: true,
        ..Times::default()
    };
    for (text, seconds) in [
        ("5:12", 312.0),
        ("2:03:04", 7384.0),
        ("1-02:03:04", 93_784.0),
        ("90", 90.0),
        ("30:00:00", 108_000.0),
    ] {
        assert_eq!(times.read(text, "a"), Ok(seconds), "{text}");
    }
    assert!(times.read("noon", "a").is_err());
}

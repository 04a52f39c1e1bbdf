//! Requests that are seen on the connections of the service itself, with nothing said by anybody.

use serde_json::Value;

use super::watched::{Mode, Seen, c, watch};
use testkit::skipped;

/// `None`, with the reason printed: this machine does not tell of requests on connections.
fn handed(flags: &[&str]) -> Option<Seen> {
    let seen = watch(Mode::Ebpf, c("handed"), flags)?;
    let missing = seen.found["self_checks"]["missing"].to_string();
    if missing.contains("requests on its connections") {
        skipped(&missing);
        return None;
    }
    Some(seen)
}

/// The share of the slow requests' time that went to it.
fn share(requests: &Value, what: &str) -> f64 {
    let went = requests["went"].as_array().unwrap();
    let ns = |part: &Value| part["ns"].as_f64().unwrap();
    let all: f64 = went.iter().map(ns).sum();
    let of = went.iter().filter(|part| part["what"] == what).map(ns);
    of.sum::<f64>() / all
}

/// All turns of the worker are alike: by what it does otherwise none is slow, by what requests take otherwise all are.
#[test]
fn a_worker_whose_turns_are_all_long_is_named_by_the_requests_that_wait_for_it() {
    let Some(seen) = handed(&[]) else { return };
    let row = seen.row("on-cpu");
    assert_eq!(row.text("/culprit/function"), "score_rows", "{row:#?}");
    let stalls = row.number("/count");
    assert!(stalls >= 5, "{row:#?}");
    let requests = &seen.found["requests"];
    assert_eq!(requests["source"], "connections");
    assert!(requests["count"].as_u64() > Some(200), "{requests:#}");
    // Of the time of requests in the log, as their clients have it.
    let slow = requests["slow"].as_array().unwrap();
    let long = |ns: u64| ns >= 50_000_000;
    let seen_long = slow
        .iter()
        .filter(|one| one["ns"].as_u64().is_some_and(long));
    let in_log = seen.truth.iter().filter(|(start, end)| long(end - start));
    let (seen_long, in_log) = (seen_long.count(), in_log.count());
    assert!(
        seen_long >= 5 && seen_long <= in_log,
        "{seen_long} of {in_log}"
    );
    let with_threads = 1.0 - share(requests, "outside") - share(requests, "not seen");
    assert!(with_threads > 0.9, "{:#}", requests["went"]);
    assert!(requests["gains"]["without"][0]["high"]["p99_ns"].is_number());
}

#[test]
fn of_a_service_whose_requests_are_all_short_no_row_is_made() {
    let Some(seen) = handed(&["fixed"]) else {
        return;
    };
    assert!(
        seen.longer_than(20_000_000)
            .iter()
            .all(|cause| cause == "cpu-starvation")
    );
    assert_eq!(seen.found["requests"]["source"], "connections");
    assert!(seen.found["requests"]["count"].as_u64() > Some(200));
}

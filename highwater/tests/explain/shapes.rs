//! Shapes of growth in C under glibc.

use crate::stage::{assert_adds_up, cause, explained, probe, shapes, top_function};

/// Explains one shape and checks cause, site and the sum.
fn check(shape: &str, seconds: u64, cause_wanted: &str, function: Option<&str>) {
    if probe().is_none() {
        return;
    }
    let program = shapes();
    let json = explained(seconds, &[program.to_str().unwrap(), shape]);
    assert_eq!(cause(&json), cause_wanted, "{shape}: {json:#}");
    assert_adds_up(&json);
    if let Some(function) = function {
        assert_eq!(top_function(&json), function, "{shape}: {json:#}");
        assert!(
            json["sites"][0]["share_of_growth"].as_f64().unwrap() > 0.8,
            "{shape}: {json:#}"
        );
    }
}

#[test]
fn a_leak_is_named_with_its_function() {
    check("leak", 12, "leak", Some("forget_session"));
}

#[test]
fn a_forked_child_is_followed() {
    check("leak-child", 12, "leak", Some("forget_session"));
}

#[test]
fn mappings_are_told_from_the_heap() {
    check("mapping", 10, "mapping", Some("open_window"));
}

#[test]
fn fragmentation_is_retention() {
    check("frag", 20, "retention", None);
}

#[test]
#[ignore = "two minutes: every other shape"]
fn every_other_shape() {
    check("leak-wrapped", 15, "leak", Some("open_ticket"));
    check("leak-large", 15, "leak", Some("forget_session"));
    check("leak-kept", 15, "leak", Some("take_request"));
    check("leak-threads", 15, "leak", Some("forget_session"));
    check("filling", 15, "filling", Some("cache_put"));
    check("cache", 15, "flat", None);
    check("peak", 15, "retention", None);
    check("stacks", 15, "stacks", None);
    check("files", 15, "files", None);
    check("shared", 15, "mapping", None);
    check("lazyfree", 15, "lazyfree", None);
    check("hugepages", 15, "hugepages", None);
    check("flat", 15, "flat", None);
}

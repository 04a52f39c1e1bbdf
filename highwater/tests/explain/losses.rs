//! What is lost together, kept, mapped by the page or handed to a daemon.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::stage::{assert_adds_up, cause, compile, explained, probe, top_function};

fn losses() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| compile("gcc", "losses.c", &[], "losses"))
        .clone()
}

/// Explains one shape; `function` is the site of the heap, or of the mappings.
fn check(shape: &str, seconds: u64, cause_wanted: &str, function: Option<&str>) {
    if probe().is_none() {
        return;
    }
    let program = losses();
    let json = explained(seconds, &[program.to_str().unwrap(), shape]);
    assert_eq!(cause(&json), cause_wanted, "{shape}: {json:#}");
    assert_adds_up(&json);
    if let Some(function) = function {
        assert_eq!(top_function(&json), function, "{shape}: {json:#}");
    }
}

#[test]
fn blocks_that_only_lost_ones_point_to_are_lost() {
    check("list", 14, "leak", Some("open_session"));
}

#[test]
fn mappings_of_a_page_have_a_caller() {
    check("pages", 10, "mapping", Some("map_page"));
}

#[test]
fn a_function_that_ends_in_a_call_of_malloc_is_named() {
    check("tail", 12, "leak", Some("make_ticket"));
}

#[test]
fn what_only_epoll_points_to_is_held() {
    check("epoll", 12, "filling", Some("accept_client"));
}

#[test]
#[ignore = "two minutes: every other shape"]
fn every_other_loss() {
    check("owner", 16, "leak", Some("open_session"));
    check("ring", 16, "leak", Some("open_session"));
    check("registry", 16, "filling", Some("open_session"));
    check("resized", 16, "filling", Some("write_line"));
    check("level", 30, "flat", None);
    check("break", 12, "mapping", Some("take_break"));
    check("data", 12, "mapping", None);
    check("daemon", 16, "leak", Some("open_session"));
    check("closed", 12, "leak", Some("accept_client"));
    check("timers", 12, "filling", Some("accept_client"));
}

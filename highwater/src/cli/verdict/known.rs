//! Names in the call, and in the files beside the series, that no series has.

use super::given::{Given, Until};
use crate::cli::exit::Usage;
use crate::cli::out::say;
use units::wording::nearest;

/// Names that a note lists.
const SHOWN: usize = 3;

/// Checks what was asked for against the names that were read: `--only` names that are not there are an error,
/// names in the files beside the series are worth a line on stderr.
///
/// # Errors
/// A name in `--only` that no series has.
pub fn check<'a>(
    given: &Given,
    names: impl Iterator<Item = &'a str> + Clone,
    known: impl Fn(&str) -> bool,
) -> Result<(), Usage> {
    if let Some(id) = given.args.only.iter().find(|id| !known(id)) {
        let near = nearest(id, names.clone()).or_else(|| names.clone().next());
        let hint = near.map_or_else(String::new, |near| format!("; one is {near}"));
        return Err(Usage(format!("--only {id}: no series has this id{hint}")));
    }
    if !given.args.only.is_empty() {
        return Ok(());
    }
    let beside = |id: &&String| !known(id) && !known(Given::process_of(id));
    let meta: Vec<&String> = given.meta.keys().filter(beside).collect();
    tell("--meta", &meta, names.clone());
    let grouped = given.groups.iter().flat_map(|g| g.arms.keys());
    let mut groups: Vec<&String> = grouped.filter(beside).collect();
    groups.sort();
    groups.dedup();
    tell("--groups", &groups, names);
    Ok(())
}

fn tell<'a>(flag: &str, unknown: &[&String], names: impl Iterator<Item = &'a str>) {
    let Some(first) = unknown.first() else {
        return;
    };
    let listed: Vec<&str> = unknown.iter().take(SHOWN).map(|id| id.as_str()).collect();
    let more = if unknown.len() > SHOWN { " ..." } else { "" };
    let near = nearest(first, names).map_or_else(String::new, |n| format!(" (is {first} {n}?)"));
    let lines = if unknown.len() == 1 { "line" } else { "lines" };
    say!(
        "highwater: {flag}: {} {lines} of no series: {}{more}{near}",
        unknown.len(),
        listed.join(", ")
    );
}

/// A date in `--until` must not lie before everything.
///
/// # Errors
/// It does.
pub fn check_until(given: &Given, first_s: f64) -> Result<(), Usage> {
    match given.until {
        Some(Until::Date(t_s)) if t_s < first_s => Err(Usage(format!(
            "--until {}: the first reading is {:.0} s later; times without an offset are UTC",
            given.args.until.as_deref().unwrap_or(""),
            first_s - t_s
        ))),
        _ => Ok(()),
    }
}

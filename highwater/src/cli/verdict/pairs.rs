//! Which arms are compared, and the comparison.

use anyhow::Result;

use super::VerdictArgs;
use crate::cli::exit::Usage;
use units::wording::nearest;
use verdict::Rules;
use verdict::arm::ArmVerdict;
use verdict::pair;
use verdict::pair::PairVerdict;

/// The pairs asked for, of the arms that there are: `--pairs` as written, else every arm against
/// `--control`; `--all-pairs` is every two arms.
///
/// # Errors
/// An arm that is not there, with the nearest that is.
pub fn wanted(args: &VerdictArgs, names: &[&str]) -> Result<Vec<(String, String)>> {
    let control = args.control.as_deref();
    if let Some(control) = control.filter(|control| !names.contains(control)) {
        return Err(unknown("--control", control, control, names));
    }
    let mut wanted = Vec::new();
    for text in &args.pairs {
        wanted.push(pair_of(text, names)?);
    }
    if args.all_pairs {
        return Ok(every_two(names));
    }
    if let Some(control) = control.filter(|_| wanted.is_empty()) {
        let others = names.iter().filter(|n| **n != control);
        wanted.extend(others.map(|n| ((*n).to_owned(), control.to_owned())));
    }
    Ok(wanted)
}

/// "A:B"; a name may hold a colon itself (`jemalloc:5.3`), so every split is tried.
fn pair_of(text: &str, names: &[&str]) -> Result<(String, String)> {
    let splits = text
        .match_indices(':')
        .map(|(at, _)| (&text[..at], &text[at + 1..]));
    let known = |(a, b): &(&str, &str)| names.contains(a) && names.contains(b);
    if let Some((a, b)) = splits.clone().find(known) {
        if a == b {
            let why = format!("--pairs {text}: an arm cannot be compared with itself");
            return Err(Usage(why).into());
        }
        return Ok((a.to_owned(), b.to_owned()));
    }
    match splits.clone().next() {
        Some((a, _)) if !names.contains(&a) => Err(unknown("--pairs", text, a, names)),
        Some((_, b)) => Err(unknown("--pairs", text, b, names)),
        None => Err(Usage(format!("--pairs {text}: write A:B")).into()),
    }
}

fn unknown(flag: &str, text: &str, arm: &str, names: &[&str]) -> anyhow::Error {
    let near = nearest(arm, names.iter().copied());
    let hint = near.map_or_else(String::new, |n| format!("; is it {n}?"));
    Usage(format!(
        "{flag} {text}: no arm is called {arm}; there are {}{hint}",
        names.join(", ")
    ))
    .into()
}

fn every_two(names: &[&str]) -> Vec<(String, String)> {
    let mut wanted = Vec::new();
    for (i, a) in names.iter().enumerate() {
        let after = names[i + 1..].iter();
        wanted.extend(after.map(|b| ((*a).to_owned(), (*b).to_owned())));
    }
    wanted
}

/// Compares, with intervals corrected for how many pairs there are.
pub fn compare(
    arms: &[ArmVerdict],
    wanted: &[(String, String)],
    rules: &Rules,
) -> Vec<PairVerdict> {
    let by = |name: &str| arms.iter().find(|a| a.arm == name);
    let pairs = wanted.iter().filter_map(|(a, b)| Some((by(a)?, by(b)?)));
    pairs
        .map(|(a, b)| pair::compare_judged(a, b, wanted.len(), rules))
        .collect()
}

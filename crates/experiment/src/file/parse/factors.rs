//! `[factors]`: several things that are varied together, each with its levels, as arms.
//!
//! In: `[factors.NAME]`, a table for each level with what it sets. Out: an arm for each combination of levels, or for
//! as many as `arms_max` allows, chosen so that the effect of each factor is known best ([`super::design`]).

use std::collections::BTreeMap;

use super::design::chosen;
use super::setting::{Setting, is_arm_name, setting};
use super::{ARMS_MAX, Context, NAME_BYTES_MAX};
use crate::file::Arm;
use crate::file::syntax::fields::Fields;
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::{Table, Value};
use units::wording::quoted;

/// Combinations among which a selection is searched: as many as a person could mean.
const COMBINATIONS_MAX: usize = 1024;

struct Factor {
    name: String,
    place: Place,
    /// Each with what it sets, the reference first.
    levels: Vec<(String, Setting)>,
}

/// The arms that the factors make; empty without any.
pub fn parse(top: &Fields, context: &Context) -> Vec<Placed<Arm>> {
    let Some((table, place)) = top.table("factors") else {
        if top.has("arms_max") {
            let place = top.place_of("arms_max");
            context
                .faults
                .note(place, "`arms_max` belongs to `[factors]`");
        }
        return Vec::new();
    };
    let factors: Vec<Factor> = table
        .entries
        .iter()
        .filter_map(|entry| match &entry.node.value {
            Value::Table(levels) => factor(&entry.key, levels, entry.key_place, context),
            other => {
                let example = "[factors.purge] with a table for each level, such as \
                               0 = { environment = { MIMALLOC_PURGE_DELAY = \"0\" } }";
                let message = format!("factor {} is {}", quoted(&entry.key), other.kind());
                context
                    .faults
                    .note_with_help(entry.node.place, message, example);
                None
            }
        })
        .collect();
    let counts: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
    let all = counts
        .iter()
        .try_fold(1usize, |product, count| product.checked_mul(*count));
    let Some(all) = all.filter(|all| *all <= COMBINATIONS_MAX && !counts.is_empty()) else {
        let message =
            format!("the factors have more than {COMBINATIONS_MAX} combinations, or none");
        context.faults.note(place, message);
        return Vec::new();
    };
    let longest = |factor: &Factor| factor.levels.iter().map(|(name, _)| name.len()).max();
    let name_bytes = factors.iter().filter_map(longest).sum::<usize>() + factors.len() - 1;
    if name_bytes > NAME_BYTES_MAX {
        let message = format!(
            "arms are named by their levels, and would have up to {name_bytes} letters; at most {NAME_BYTES_MAX} fit"
        );
        context
            .faults
            .note_with_help(place, message, "give the levels shorter names");
    }
    let most = most_arms(top, &counts, all, place, context);
    chosen(&counts, most)
        .iter()
        .map(|levels| combined(&factors, levels, place, context))
        .collect()
}

/// How many of the combinations become arms.
fn most_arms(top: &Fields, counts: &[usize], all: usize, place: Place, context: &Context) -> usize {
    let least = 1 + counts.iter().map(|count| count - 1).sum::<usize>();
    let Some(most) = top.integer("arms_max", 1..=ARMS_MAX as u64) else {
        if all > ARMS_MAX {
            let message = format!(
                "the factors have {all} combinations; at most {ARMS_MAX} arms can be compared"
            );
            let help = format!("arms_max = {least} or more chooses as many of them");
            context.faults.note_with_help(place, message, help);
        }
        return all.min(ARMS_MAX);
    };
    let count = most.value as usize;
    if count < least.min(all) {
        let message = format!(
            "`arms_max` is {count}: the levels of these factors need {least} arms at least"
        );
        context.faults.note(most.place, message);
    }
    count.max(least).min(all)
}

fn factor(name: &str, table: &Table, place: Place, context: &Context) -> Option<Factor> {
    if !is_arm_name(name) {
        let message = format!("a factor cannot be called {}", quoted(name));
        context.faults.note(place, message);
        return None;
    }
    let levels: Vec<(String, Setting)> = table
        .entries
        .iter()
        .filter_map(|entry| {
            let Value::Table(level) = &entry.node.value else {
                let message = format!("level {} is no table of what it sets", quoted(&entry.key));
                context
                    .faults
                    .note_with_help(entry.node.place, message, "`{}` sets nothing");
                return None;
            };
            // A + joins the levels in the name of an arm.
            if !is_arm_name(&entry.key) || entry.key.contains('+') {
                let message = format!("a level cannot be called {}", quoted(&entry.key));
                let rule = "letters, digits and . _ @ -, the first a letter or a digit";
                context
                    .faults
                    .note_with_help(entry.key_place, message, rule);
            }
            let what = setting(level, entry.key_place, context);
            Some((entry.key.clone(), what))
        })
        .collect();
    if levels.len() < 2 {
        let message = format!("factor {} has fewer than two levels", quoted(name));
        context.faults.note(place, message);
        return None;
    }
    Some(Factor {
        name: name.to_owned(),
        place,
        levels,
    })
}

/// The arm of one combination. Two levels that set the same thing contradict each other.
fn combined(factors: &[Factor], levels: &[usize], place: Place, context: &Context) -> Placed<Arm> {
    let mut arm = Arm::default();
    let mut names = Vec::new();
    for (factor, level) in factors.iter().zip(levels) {
        let (name, what) = &factor.levels[*level];
        names.push(name.clone());
        arm.levels.push((factor.name.clone(), name.clone()));
        let twice = merge(&mut arm, what);
        if let Some(what) = twice {
            let message = format!(
                "factor {} sets {what}, which another factor sets too",
                quoted(&factor.name)
            );
            context.faults.note(factor.place, message);
        }
    }
    arm.name = names.join("+");
    Placed { value: arm, place }
}

/// Adds what a level sets; what was set before.
fn merge(arm: &mut Arm, what: &Setting) -> Option<String> {
    let mut twice = None;
    if let Some(allocator) = &what.allocator {
        if !arm.allocator.is_empty() {
            twice = Some("the allocator".to_owned());
        }
        arm.allocator.clone_from(allocator);
    }
    if let Some(command) = &what.command {
        if arm.command.is_some() {
            twice = Some("the command".to_owned());
        }
        arm.command = Some(command.clone());
    }
    if let Some(curve) = &what.curve {
        if arm.curve.is_some() {
            twice = Some("the curve".to_owned());
        }
        arm.curve = Some(curve.clone());
    }
    arm.arguments.extend(what.arguments.iter().cloned());
    let before: BTreeMap<_, _> = std::mem::take(&mut arm.environment);
    for (name, value) in &what.environment {
        if before.contains_key(name) {
            twice = Some(name.clone());
        }
        arm.environment.insert(name.clone(), value.clone());
    }
    for (name, value) in before {
        arm.environment.entry(name).or_insert(value);
    }
    twice
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::file::{Experiment, freeze, parse_experiment};

    const VERSIONS: &str = r#"
name = "mimalloc"
[subject]
command = "./relay"
[factors.version]
"2.0.9" = { allocator = "mimalloc@2.0.9" }
"2.1.7" = { allocator = "mimalloc@2.1.7" }
"3.0.1" = { allocator = "mimalloc@3.0.1" }
[factors.purge]
default = {}
0 = { environment = { MIMALLOC_PURGE_DELAY = "0", MIMALLOC_DECOMMIT_DELAY = 0 } }
[factors.threads]
4 = { arguments = ["--threads", "4"] }
16 = { arguments = ["--threads", "16"] }
"#;

    fn parse(text: &str) -> Result<Experiment, String> {
        let parsed = parse_experiment(text, "a.toml", Path::new("/"), &[], &|_| Ok(()));
        parsed.map_err(|problems| problems.to_string())
    }

    #[test]
    fn every_combination_is_an_arm_and_the_first_is_the_control() {
        let plan = parse(VERSIONS).unwrap();
        assert_eq!(plan.arms.len(), 12);
        assert_eq!(plan.control, "2.0.9+default+4");
        let one = plan
            .arms
            .iter()
            .find(|arm| arm.name == "3.0.1+0+16")
            .unwrap();
        assert_eq!(one.allocator, "mimalloc@3.0.1");
        assert_eq!(one.environment["MIMALLOC_DECOMMIT_DELAY"], "0");
        assert_eq!(one.arguments, ["--threads", "16"]);
        let levels: Vec<&str> = one
            .levels
            .iter()
            .map(|(factor, _)| factor.as_str())
            .collect();
        assert_eq!(levels, ["version", "purge", "threads"]);
        let again = parse(&freeze(&plan)).unwrap();
        assert_eq!((plan.arms, plan.control), (again.arms, again.control));
    }

    #[test]
    fn fewer_arms_are_a_selection_with_every_level() {
        let head = "name = \"mimalloc\"\narms_max = 6\n";
        let plan = parse(&VERSIONS.replace("name = \"mimalloc\"\n", head)).unwrap();
        assert_eq!(plan.arms.len(), 6);
        for (factor, level) in [("version", "2.1.7"), ("purge", "0"), ("threads", "16")] {
            let wanted = (factor.to_owned(), level.to_owned());
            let count = plan
                .arms
                .iter()
                .filter(|arm| arm.levels.contains(&wanted))
                .count();
            assert!(count >= 2, "{factor} {level}: {count} of {:?}", plan.arms);
        }
    }

    #[test]
    fn what_is_no_factor_is_said_with_its_place() {
        let set = |from: &str, to: &str| parse(&VERSIONS.replacen(from, to, 1)).unwrap_err();
        for (said, words) in [
            (
                set("default = {}\n", ""),
                "factor `purge` has fewer than two levels",
            ),
            (
                set("default = {}", "default = 5"),
                "level `default` is no table",
            ),
            (
                set("{ arguments = [\"--threads\", \"4\"] }", "{ threads = 4 }"),
                "unknown key `threads`",
            ),
            (
                set("default = {}", "default = { allocator = \"glibc\" }"),
                "factor `purge` sets the allocator, which another factor sets too",
            ),
            (
                set("default = {}", "\"a+b\" = {}"),
                "a level cannot be called `a+b`",
            ),
            (
                set("default = {}", &format!("{} = {{}}", "d".repeat(60))),
                "at most 64 fit",
            ),
            (
                set("name =", "arms_max = 3\nname ="),
                "need 5 arms at least",
            ),
            (
                set(
                    "[factors.threads]",
                    "[[arms]]\nname = \"a\"\n[factors.threads]",
                ),
                "not both",
            ),
        ] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
        let many: String = (0..13)
            .map(|n| format!("[factors.f{n}]\na = {{}}\nb = {{}}\n"))
            .collect();
        let said = parse(&format!("name = \"a\"\n[subject]\ncommand = \"a\"\n{many}")).unwrap_err();
        assert!(said.contains("more than 1024 combinations"), "{said}");
        let alone = "name = \"a\"\narms_max = 4\ncontrol = \"a\"\n[subject]\ncommand = \"a\"\n[[arms]]\nname = \"a\"\n";
        assert!(parse(alone).unwrap_err().contains("belongs to `[factors]`"));
    }
}

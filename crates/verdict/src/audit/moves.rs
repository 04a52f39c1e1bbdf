//! Membership that changed while a record was written. Such a record has, for each snapshot, the arm of every process,
//! so nothing is mixed: what weakens the verdict is who is missing in an arm, and since when.

use std::collections::BTreeMap;

use super::{Check, Finding, Severity, names, span};

/// One stretch of a member in one arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stay {
    pub arm: String,
    /// Seconds since the run began.
    pub from_s: f64,
    /// `None`: to the end of the run, or until the process ended.
    pub until_s: Option<f64>,
    /// The process is the one of the stretch before, not another one after a restart.
    pub is_same_process: bool,
    /// It was not what the arm says, in words.
    pub left_out: Option<String>,
}

/// A process over its restarts and moves; stretches in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Member {
    pub id: String,
    pub stays: Vec<Stay>,
}

/// What happened to one arm.
#[derive(Default)]
struct Changes {
    ever: Vec<String>,
    /// (who, where to, when)
    left: Vec<(String, String, f64)>,
    /// (who, where from, when, without a restart)
    came: Vec<(String, String, f64, bool)>,
    left_out: Vec<(String, String, f64)>,
}

/// Arms whose members changed, and processes that are not what their arm says.
pub fn moves(members: &[Member]) -> Vec<Finding> {
    let mut arms: BTreeMap<&str, Changes> = BTreeMap::new();
    for member in members {
        for stay in &member.stays {
            let changes = arms.entry(&stay.arm).or_default();
            if !changes.ever.contains(&member.id) {
                changes.ever.push(member.id.clone());
            }
            if let Some(why) = &stay.left_out {
                let who = (member.id.clone(), why.clone(), stay.from_s);
                changes.left_out.push(who);
            }
        }
        for pair in member.stays.windows(2) {
            note_move(&member.id, &pair[0], &pair[1], &mut arms);
        }
        note_leaving(member, &mut arms);
    }
    let mut found = Vec::new();
    for (arm, changes) in &arms {
        found.extend(changed(arm, changes));
        found.extend(left_out(arm, changes));
    }
    found
}

fn note_move<'a>(id: &str, a: &'a Stay, b: &'a Stay, arms: &mut BTreeMap<&'a str, Changes>) {
    if a.arm == b.arm || a.left_out.is_some() {
        return;
    }
    let left = (id.to_owned(), b.arm.clone(), b.from_s);
    arms.entry(&a.arm).or_default().left.push(left);
    let came = (id.to_owned(), a.arm.clone(), b.from_s, b.is_same_process);
    arms.entry(&b.arm).or_default().came.push(came);
}

/// Into no arm, for good.
fn note_leaving<'a>(member: &'a Member, arms: &mut BTreeMap<&'a str, Changes>) {
    let Some(last) = member.stays.last().filter(|stay| stay.left_out.is_none()) else {
        return;
    };
    if let Some(until_s) = last.until_s {
        let left = (member.id.clone(), String::new(), until_s);
        arms.entry(&last.arm).or_default().left.push(left);
    }
}

fn changed(arm: &str, changes: &Changes) -> Option<Finding> {
    let first = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let times: Vec<f64> = changes.left.iter().map(|(.., t)| *t).collect();
    let times: Vec<f64> = times
        .into_iter()
        .chain(changes.came.iter().map(|c| c.2))
        .collect();
    if times.is_empty() {
        return None;
    }
    let left = changes.left.iter().map(|(who, to, at)| match to.as_str() {
        "" => format!("{who} left it after {}", span(*at)),
        to => format!("{who} went to {to} after {}", span(*at)),
    });
    let came = changes.came.iter().map(|(who, from, at, is_same)| {
        let how = if *is_same {
            "without a restart"
        } else {
            "restarted"
        };
        format!("{who} came from {from}, {how}, after {}", span(*at))
    });
    let each: Vec<String> = left.chain(came).collect();
    let mut processes: Vec<String> = changes.left.iter().map(|l| l.0.clone()).collect();
    processes.extend(changes.came.iter().map(|c| c.0.clone()));
    processes.sort();
    processes.dedup();
    let carried: Vec<String> = changes
        .came
        .iter()
        .filter(|c| c.3)
        .map(|c| c.0.clone())
        .collect();
    let effect = match (carried.is_empty(), changes.left.is_empty()) {
        (false, _) => format!(
            "{} brings the memory of another arm along, and counts for none since it came",
            names(&carried)
        ),
        (true, false) => {
            "readings count for the arm that a process was in when they were taken".to_owned()
        }
        (true, true) => "the arm mixes ages from then on".to_owned(),
    };
    let stayed = changes
        .ever
        .iter()
        .filter(|id| !processes.contains(id))
        .count();
    Some(Finding {
        check: Check::Membership,
        severity: Severity::Weakens,
        arms: vec![arm.to_owned()],
        what: format!("the members of {arm} changed: {}", listed(&each)),
        processes,
        since_s: Some(first(&times)),
        effect,
        still: match stayed {
            0 => format!(
                "no process was in {arm} all the time; it is classified on parts of the run"
            ),
            1 => format!("1 process was in {arm} all along"),
            n => format!("{n} processes were in {arm} all along"),
        },
    })
}

fn left_out(arm: &str, changes: &Changes) -> Option<Finding> {
    let (_, why, since_s) = changes.left_out.first()?;
    let mut ids: Vec<String> = changes.left_out.iter().map(|l| l.0.clone()).collect();
    ids.sort();
    ids.dedup();
    let verb = if ids.len() == 1 { "is" } else { "are" };
    Some(Finding {
        check: Check::Allocators,
        severity: Severity::Weakens,
        arms: vec![arm.to_owned()],
        what: format!("{} {verb} not what {arm} says: {why}", names(&ids)),
        processes: ids,
        since_s: Some(*since_s),
        effect: "what was read of it counts for no arm".to_owned(),
        still: format!("{arm} is classified by the others"),
    })
}

/// "a; b; c and 7 more"
fn listed(each: &[String]) -> String {
    const SHOWN: usize = 4;
    if each.len() <= SHOWN + 1 {
        return each.join("; ");
    }
    format!(
        "{} and {} more",
        each[..SHOWN].join("; "),
        each.len() - SHOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(arm: &str, from_s: f64, until_s: Option<f64>) -> Stay {
        Stay {
            arm: arm.into(),
            from_s,
            until_s,
            ..Stay::default()
        }
    }

    fn member(id: &str, stays: Vec<Stay>) -> Member {
        let id = id.into();
        Member { id, stays }
    }

    #[test]
    fn members_that_stay_are_silent_whatever_they_restart() {
        let restarts = vec![stay("a", 0.0, None), stay("a", 50.0, None)];
        let all = [
            member("1", restarts),
            member("2", vec![stay("b", 0.0, None)]),
        ];
        assert_eq!(moves(&all), []);
    }

    #[test]
    fn a_move_is_said_of_both_arms_with_how() {
        let along = Stay {
            is_same_process: true,
            ..stay("b", 60.0, None)
        };
        let all = [
            member("x", vec![stay("a", 0.0, Some(60.0)), along]),
            member("y", vec![stay("a", 0.0, None)]),
        ];
        let found = moves(&all);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0].what,
            "the members of a changed: x went to b after 60 s"
        );
        assert_eq!(found[0].still, "1 process was in a all along");
        assert!(
            found[1]
                .what
                .contains("x came from a, without a restart, after 60 s")
        );
        assert!(
            found[1]
                .effect
                .starts_with("x brings the memory of another arm along")
        );
        assert!(
            found
                .iter()
                .all(|f| f.since_s == Some(60.0) && f.processes == ["x"])
        );
    }

    #[test]
    fn a_move_with_a_restart_is_a_clean_start() {
        let stays = vec![stay("a", 0.0, None), stay("b", 90.0, None)];
        let found = moves(&[member("x", stays)]);
        assert!(
            found[1].what.contains("restarted") && found[1].effect.contains("ages"),
            "{found:?}"
        );
    }

    #[test]
    fn who_leaves_for_none_and_who_is_left_out() {
        let out = Stay {
            left_out: Some("runs glibc".into()),
            ..stay("b", 10.0, Some(11.0))
        };
        let all = [
            member("x", vec![stay("a", 0.0, Some(30.0))]),
            member("z", vec![out]),
        ];
        let found = moves(&all);
        assert!(found[0].what.ends_with("x left it after 30 s"), "{found:?}");
        assert_eq!(found[1].what, "z is not what b says: runs glibc");
        assert_eq!(found.len(), 2);
    }
}

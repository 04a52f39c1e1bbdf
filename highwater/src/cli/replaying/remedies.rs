//! Settings of the allocators as further arms, as many as fit the time, and the remedies of all arms.

use std::time::Duration;

use super::arms::Chosen;
use super::runs::Played;
use allocators::{Recipe, Spec};
use replay::{Arm, End, Forecast, Remedy, Tried, Usual, ranked, usual};
use trace::Trace;
use verdict::run::factors::{FactorEffects, of_values};

/// Of how many allocators besides the recorded one settings are tried: those with the least memory.
const BEST: usize = 2;
/// A replay takes so much beside what it measures: the start of its process, the reading of its outcome.
const START: Duration = Duration::from_millis(60);

/// Settings to be replayed, and those that the time did not allow.
#[derive(Default)]
pub struct Further {
    pub arms: Vec<Arm>,
    pub left_out: Vec<String>,
}

/// Of the recorded allocator and of the best others, the usual settings in turn, for as long as the budget lasts.
/// `left`: of the budget, `repeat`: replays of each arm, `threads`: of the recorded program.
pub fn further(
    played: &[Played],
    trace: &Trace,
    threads: usize,
    repeat: u32,
    left: Duration,
) -> Further {
    let mut further = Further::default();
    let mut left = left;
    let is_there = |arm: &Arm| {
        let mut all = played.iter();
        all.any(|other| other.arm.name == arm.name || is_same(&other.arm, arm))
    };
    for (base, arm) in in_turn(&bases(played, trace), threads) {
        if is_there(&arm) {
            continue;
        }
        let cost = repeat * (base.wall + START);
        match left.checked_sub(cost) {
            Some(rest) => {
                left = rest;
                further.arms.push(arm);
            }
            None => further.left_out.push(arm.name),
        }
    }
    further
}

fn is_same(a: &Arm, b: &Arm) -> bool {
    a.library.path == b.library.path && a.environment == b.environment
}

/// An allocator whose settings are tried.
struct Base<'a> {
    played: &'a Played,
    recipe: &'static Recipe,
    /// Of one replay.
    wall: Duration,
}

/// The recorded allocator, then the best others.
fn bases<'a>(played: &'a [Played], trace: &Trace) -> Vec<Base<'a>> {
    let mut all: Vec<(f64, Base<'a>)> = Vec::new();
    for one in played {
        // Settings of the user's own are in the names and environments of other arms.
        let is_plain = one.arm.environment.is_empty() || one.is_recorded;
        let (Some(recipe), Some(forecast)) = (recipe_of(&one.arm), Forecast::of(&one.runs, trace))
        else {
            continue;
        };
        if is_plain {
            let wall = Duration::from_nanos(forecast.wall_ns.median as u64);
            let base = Base {
                played: one,
                recipe,
                wall,
            };
            all.push((forecast.mean_bytes.median, base));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (recorded, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, base)| base.played.is_recorded);
    let all = recorded.into_iter().chain(others.into_iter().take(BEST));
    all.map(|(_, base)| base).collect()
}

/// The catalogue's recipe of an arm's allocator.
pub fn recipe_of(arm: &Arm) -> Option<&'static Recipe> {
    Spec::parse(&arm.library.spec).ok()?.recipe()
}

/// The first setting of each allocator, then the second of each, and so on.
fn in_turn<'a>(bases: &'a [Base<'a>], threads: usize) -> Vec<(&'a Base<'a>, Arm)> {
    let lists: Vec<Vec<&Usual>> = bases
        .iter()
        .map(|base| usual(base.recipe, threads).collect())
        .collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for turn in 0..longest {
        for (base, list) in bases.iter().zip(&lists) {
            let Some(usual) = list.get(turn) else {
                continue;
            };
            let library = base.played.arm.library.clone();
            let arm = Arm::with(library, Some(base.recipe), &usual.as_settings());
            all.extend(arm.ok().map(|arm| (base, arm)));
        }
    }
    all
}

/// Arms that finished, the least memory first.
pub fn remedies(rows: &[(&Played, Option<Forecast>)]) -> Vec<Remedy> {
    let tried = rows.iter().enumerate().filter_map(|(index, (played, f))| {
        let is_whole = played.runs.iter().all(|ran| ran.end == End::Finished);
        let forecast = f.as_ref().filter(|_| is_whole)?;
        Some(Tried {
            index,
            is_recorded: played.is_recorded,
            forecast,
        })
    });
    ranked(&tried.collect::<Vec<_>>())
}

/// What each factor does to the mean memory and to the CPU time of the replays.
pub fn factors(
    arms: &[experiment::file::Arm],
    played: &[Played],
    trace: &Trace,
) -> Vec<FactorEffects> {
    let of_arm = |name: &str, value: fn(&Forecast) -> f64| -> Vec<f64> {
        // A plain arm may have the name of a level; those of the factors come last.
        let own = played.iter().rfind(|played| played.arm.name == name);
        own.into_iter()
            .flat_map(|played| &played.runs)
            .filter_map(|ran| Forecast::of(std::slice::from_ref(ran), trace))
            .map(|forecast| value(&forecast))
            .collect()
    };
    let memory = |name: &str| of_arm(name, |forecast| forecast.mean_bytes.median);
    let cpu = |name: &str| {
        of_arm(name, |forecast| {
            forecast.user_ns.median + forecast.system_ns.median
        })
    };
    [
        of_values("memory", arms, memory),
        of_values("CPU", arms, cpu),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Says which settings the time did not allow.
pub fn note(further: &Further, chosen: &mut Chosen) {
    if !further.left_out.is_empty() {
        let list = further.left_out.join("; ");
        let words = format!("settings not tried, the time was over (--budget): {list}");
        chosen.notes.push(words);
    }
}

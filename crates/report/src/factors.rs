//! What each factor of an experiment does to memory and CPU, in words and as JSON.

use serde_json::{Value, json};

use series::estimate::Estimate;
use units::written;
use verdict::run::factors::{Factor, FactorEffects, Interaction, Pair};

/// A smaller share is not listed.
const LISTED: f64 = 0.01;

pub const TITLE: &str = "What the factors do";

/// A line for each quantity's combinations, for each factor, and for each interaction.
pub fn lines(all: &[FactorEffects]) -> Vec<String> {
    let flat = |(head, lines): (String, Vec<String>)| std::iter::once(head).chain(lines);
    blocks(all).into_iter().flat_map(flat).collect()
}

/// The same, of each quantity a head and what stands below it.
pub fn blocks(all: &[FactorEffects]) -> Vec<(String, Vec<String>)> {
    let split = |mut lines: Vec<String>| {
        let rest = lines.split_off(1.min(lines.len()));
        (lines.concat(), rest)
    };
    all.iter().map(of_one).map(split).collect()
}

fn of_one(found: &FactorEffects) -> Vec<String> {
    let (some, all) = (found.combinations, found.combinations_all);
    let left_out = match &found.left_out[..] {
        [] => String::new(),
        names => format!("; left out, since they ended early: {}", names.join(", ")),
    };
    if !found.why.is_empty() {
        return vec![format!("{}: {}{left_out}", found.of, found.why)];
    }
    let mut factors: Vec<&Factor> = found.factors.iter().collect();
    factors.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut lines = vec![format!(
        "{}, {some} of {all} combinations{left_out}:",
        found.of
    )];
    lines.extend(factors.into_iter().map(factor));
    lines.extend(found.interactions.iter().map(|one| {
        format!(
            "{} {} with {} {}: {} of what the two alone would give",
            one.first.0,
            one.first.1,
            one.second.0,
            one.second.1,
            times(one.ratio)
        )
    }));
    let together = found.pairs.iter().filter(|pair| pair.share >= LISTED);
    let together = together.map(|pair| {
        let share = written::percent(pair.share);
        format!("{} and {} only together {share}", pair.first, pair.second)
    });
    let more = (found.together_share >= LISTED).then(|| {
        let share = written::percent(found.together_share);
        format!("what only several factors together explain, or chance, {share}")
    });
    let within = found.within_share.map(|share| {
        let share = written::percent(share);
        format!("measurements of one combination {share}")
    });
    let rest: Vec<String> = together.chain(more).chain(within).collect();
    if !rest.is_empty() {
        lines.push(format!("the rest of what differs: {}", rest.join(", ")));
    }
    if some < all {
        let words = "not every combination was run: a ratio holds as far as the factors do not change each other's \
                     effect, and shares may overlap";
        lines.push(words.to_owned());
    }
    lines
}

fn factor(factor: &Factor) -> String {
    let level = |(level, ratio): &(String, Estimate)| format!("{level} {}", times(*ratio));
    let levels: Vec<String> = factor.levels.iter().map(level).collect();
    format!(
        "{} explains {} of what differs: against {}, {}",
        factor.name,
        written::percent(factor.share),
        factor.reference,
        levels.join(", ")
    )
}

/// "1.31x [1.24, 1.38]".
fn times(ratio: Estimate) -> String {
    format!("{:.2}x [{:.2}, {:.2}]", ratio.value, ratio.lo, ratio.hi)
}

/// An object for each quantity. Shares of 1, ratios to the reference.
pub fn json(all: &[FactorEffects]) -> Value {
    let ratio = |ratio: &Estimate| json!([ratio.value, ratio.lo, ratio.hi]);
    let factor = |factor: &Factor| {
        let level = |(level, own): &(String, Estimate)| {
            let ratio = ratio(own);
            json!({ "level": level, "ratio_value_lo_hi": ratio })
        };
        json!({
            "factor": factor.name,
            "reference": factor.reference,
            "variance_share": factor.share,
            "levels": factor.levels.iter().map(level).collect::<Vec<_>>(),
        })
    };
    let one = |found: &FactorEffects| {
        let interaction = |one: &Interaction| {
            json!({
                "factors": [one.first.0, one.second.0],
                "levels": [one.first.1, one.second.1],
                "ratio_value_lo_hi": ratio(&one.ratio),
            })
        };
        let pair = |pair: &Pair| {
            let factors = [&pair.first, &pair.second];
            json!({ "factors": factors, "variance_share": pair.share })
        };
        json!({
            "of": found.of,
            "factors": found.factors.iter().map(factor).collect::<Vec<_>>(),
            "interactions": found.interactions.iter().map(interaction).collect::<Vec<_>>(),
            "pairs": found.pairs.iter().map(pair).collect::<Vec<_>>(),
            "together_variance_share": found.together_share,
            "within_variance_share": found.within_share,
            "left_out": found.left_out,
            "why": found.why,
            "combinations_count": found.combinations,
            "combinations_all_count": found.combinations_all,
        })
    };
    all.iter().map(one).collect()
}

//! What each factor of an experiment does to memory and CPU, in words and as JSON.

use serde_json::{Value, json};

use series::estimate::Estimate;
use units::written;
use verdict::run::factors::{Factor, FactorEffects, Interaction, Pair};

pub const TITLE: &str = "What the factors do";

/// A line for each quantity's combinations, for each factor, and for each interaction.
pub fn lines(all: &[FactorEffects]) -> Vec<String> {
    all.iter().flat_map(of_one).collect()
}

fn of_one(found: &FactorEffects) -> Vec<String> {
    let mut factors: Vec<&Factor> = found.factors.iter().collect();
    factors.sort_by(|a, b| b.share.total_cmp(&a.share));
    let head = format!(
        "{}, {} of {} combinations:",
        found.of, found.combinations, found.combinations_all
    );
    let mut lines = vec![head];
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
    let together = found.pairs.iter().filter_map(|pair| {
        let share = pair.share.filter(|share| *share >= 0.01)?;
        Some(format!(
            "{} and {} only together {}",
            pair.first,
            pair.second,
            written::percent(share)
        ))
    });
    let rest = format!(
        "what no factor explains {}",
        written::percent(found.rest_share)
    );
    let list: Vec<String> = together.chain([rest]).collect();
    lines.push(format!("of what differs: {}", list.join(", ")));
    if found.pairs.iter().any(|pair| pair.share.is_none()) {
        lines.push(
            "whether factors change each other's effect does not follow from these combinations, or without repeats"
                .to_owned(),
        );
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
            "rest_variance_share": found.rest_share,
            "combinations_count": found.combinations,
            "combinations_all_count": found.combinations_all,
        })
    };
    all.iter().map(one).collect()
}

//! Parts of sentences about arms: names, levels, growth, costs beside them.

use super::standing::{Change, Standing};
use units::written;
use units::written::ByteScale;

/// Names said in a sentence before the rest is only counted.
const NAMES_MAX: usize = 4;
/// Costs within this share of the control's are about the same.
const SAME_COST: f64 = 0.05;

/// The arm with the lowest level among these.
pub fn lowest<'a, 'b>(arms: &[&'a Standing<'b>]) -> Option<&'a Standing<'b>> {
    let leveled = arms
        .iter()
        .filter_map(|s| Some((s.row.memory.level?.value, *s)));
    leveled
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, standing)| standing)
}

/// "flat at 512 MiB [498, 524]".
pub fn level(standing: &Standing) -> String {
    let memory = &standing.row.memory;
    let at = match memory.level {
        Some(level) => format!(
            " at {}",
            written::bytes_interval(level.value, level.lo, level.hi)
        ),
        None => String::new(),
    };
    format!("{}{at}", memory.label.word())
}

/// Below this share of a core, ticks of 10 ms and the snapshots themselves make up the CPU time: a ratio of two
/// such figures says nothing.
const CPU_FLOOR: f64 = 0.01;

/// ", at 1.94x the CPU and 0.80x the p99": what stands beside the memory, against the control.
pub fn costs(standing: &Standing, control: &Standing) -> String {
    if standing.change == Change::Control {
        return String::new();
    }
    let ratios = [
        ("CPU", cpu(standing), cpu(control)),
        ("p99", p99(standing), p99(control)),
    ];
    let ratios: Vec<(&str, f64)> = ratios
        .into_iter()
        .filter_map(|(word, own, other)| Some((word, own? / other.filter(|o| *o > 0.0)?)))
        .collect();
    let is_same = |(_, ratio): &(&str, f64)| (ratio - 1.0).abs() < SAME_COST;
    let words = |(word, ratio): &(&str, f64)| format!("{}x the {word}", written::digits(*ratio));
    match (ratios.is_empty(), ratios.iter().all(is_same)) {
        (true, _) => String::new(),
        (_, true) => {
            let names: Vec<String> = ratios.iter().map(|(word, _)| word.to_string()).collect();
            format!(", at about the same {}", list(&names))
        }
        _ => format!(
            ", at {}",
            list(&ratios.iter().map(words).collect::<Vec<_>>())
        ),
    }
}

/// User and system CPU together, share of one core.
pub fn cpu(standing: &Standing) -> Option<f64> {
    let cost = &standing.row.cost;
    Some((cost.cpu_user?.value + cost.cpu_system?.value).max(CPU_FLOOR))
}

fn p99(standing: &Standing) -> Option<f64> {
    standing
        .row
        .cost
        .latency
        .map(|latency| latency.p99_ns as f64)
}

/// "+290 MiB/h".
pub fn slope(standing: &Standing) -> String {
    let slope = standing.row.memory.slope_per_hour;
    slope.map_or("at an unknown rate".to_string(), |slope| {
        written::bytes_per_hour(slope.value)
    })
}

/// "+281 to +300 MiB/h", or one number when both ends are written the same.
pub fn slope_range(arms: &[&Standing]) -> String {
    let slopes = arms
        .iter()
        .filter_map(|s| s.row.memory.slope_per_hour)
        .map(|slope| slope.value);
    let (low, high) = slopes
        .clone()
        .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return "at an unknown rate".to_string();
    }
    let scale = ByteScale::of_column(slopes);
    let [low, high] = [low, high].map(|slope| written::signed(slope / scale.bytes));
    match low == high {
        true => format!("{low} {}/h", scale.word),
        false => format!("{low} to {high} {}/h", scale.word),
    }
}

/// "`zig-debug` 3.20x".
pub fn times(standing: &Standing) -> Option<String> {
    let ratio = written::digits(standing.slope_ratio?);
    Some(format!("{} {ratio}x", name(standing)))
}

/// Between backquotes, which a name cannot end: those of its own become apostrophes.
pub fn name(standing: &Standing) -> String {
    format!("`{}`", standing.row.arm.replace('`', "'"))
}

/// "`a`, `b` and `c`"; past a few only their number.
pub fn names(arms: &[&Standing]) -> String {
    list(
        &arms
            .iter()
            .map(|standing| name(standing))
            .collect::<Vec<_>>(),
    )
}

pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if words.len() <= NAMES_MAX => {
            format!("{} and {last}", first.join(", "))
        }
        _ => format!(
            "{} and {} more",
            words[..NAMES_MAX - 1].join(", "),
            words.len() - NAMES_MAX + 1
        ),
    }
}

pub fn verb<'a, T>(subjects: &[T], one: &'a str, many: &'a str) -> &'a str {
    if subjects.len() == 1 { one } else { many }
}

/// Recorded words as part of a sentence: the first line, without its full stop.
pub fn clause(words: &str) -> &str {
    words.lines().next().unwrap_or("").trim_end_matches('.')
}

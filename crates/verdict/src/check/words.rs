//! A condition in the words of the experiment file.

use std::time::Duration;

use experiment::file::{Check, Condition};
use units::written;

/// "rss_max 512 MiB after 1 min".
pub fn of(check: &Check) -> String {
    condition(&check.condition) + &after(check.after)
}

/// " after 1 min", nothing for zero.
pub fn after(after: Duration) -> String {
    match after.is_zero() {
        true => String::new(),
        false => format!(" after {}", written::duration(after)),
    }
}

/// The condition without `after`: what makes two checks the same question.
pub fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Http { url, status } => format!("http {status} from {url}"),
        Condition::Command { command, exit } => {
            format!("command exits {exit}: {}", command.join(" "))
        }
        Condition::Metric { name, min, max } => {
            let bound = |word, bound: &Option<f64>| bound.map(|b| format!(" {word} {b}"));
            let (min, max) = (bound("min", min), bound("max", max));
            format!(
                "metric {name}{}{}",
                min.unwrap_or_default(),
                max.unwrap_or_default()
            )
        }
        Condition::RssMax { bytes } => format!("rss_max {}", written::bytes_limit(*bytes as f64)),
        Condition::P99Max { limit } => {
            format!(
                "p99_max {}",
                written::nanoseconds_limit(limit.as_nanos() as f64)
            )
        }
        Condition::PausesPerMinuteMax { max } => format!("pauses_per_minute_max {max}"),
        Condition::RestartsMax { count, within } => {
            let within = within.map(|w| format!(" within {}", written::duration(w)));
            format!("restarts_max {count}{}", within.unwrap_or_default())
        }
        Condition::Trend { any_of } => {
            let labels: Vec<&str> = any_of.iter().map(|trend| trend.word()).collect();
            format!("trend {}", labels.join(" or "))
        }
    }
}

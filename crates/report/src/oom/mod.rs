//! OOM kills: text and JSON.

mod json;
mod rows;
mod text;

use jiff::Timestamp;

use ::oom::kill::At;
use ::oom::log::Reading;
use units::written::seconds;
use verdict::oom::OomFinding;

pub use json::json;
pub use text::text;

pub const SCHEMA: &str = "highwater.oom/1";

/// Findings of one log, and what of it was searched.
#[derive(Debug, Clone, PartialEq)]
pub struct OomReport {
    pub reading: Reading,
    /// Only kills of the last so many seconds, where a limit was given.
    pub since_s: Option<f64>,
    /// Kills before that.
    pub earlier: u64,
    /// The newest first.
    pub findings: Vec<OomFinding>,
    /// What limits the answer, a sentence each.
    pub notes: Vec<String>,
}

impl OomReport {
    fn kills(&self) -> u64 {
        self.findings
            .iter()
            .map(|finding| finding.kills.len() as u64)
            .sum()
    }
}

/// "2026-11-27 06:50:56 UTC", "1055.83 s after boot", or what is known.
fn when(at: At) -> String {
    let wall = at
        .wall_s
        .and_then(|wall_s| Timestamp::from_second(wall_s as i64).ok());
    match (wall, at.boot_s) {
        (Some(wall), _) => wall.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        (None, Some(boot_s)) => format!("{} after boot", seconds(boot_s)),
        (None, None) => "at a time that the log does not have".to_owned(),
    }
}

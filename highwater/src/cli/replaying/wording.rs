//! What the parts of a replay's text share.

use super::runs::Played;
use replay::End;

/// Columns of text.
pub const WIDTH: usize = 80;

/// A paragraph.
pub fn fill(text: &str) -> String {
    textwrap::fill(text, WIDTH)
}

/// Why an arm has no forecast, in a word or two.
pub fn how(played: &Played) -> &'static str {
    match played.runs.last().map(|ran| &ran.end) {
        Some(End::Crashed(_)) => "crashed",
        Some(End::TooLarge) => "too large",
        Some(End::TooLong) => "too long",
        Some(End::NotTheArm(_)) => "not loaded",
        _ => "did not run",
    }
}

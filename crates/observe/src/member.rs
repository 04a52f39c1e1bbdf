//! Facts of a process that was found and not started: who it is over its restarts and moves from arm to arm.

use super::snapshot::TimeNs;
use std::collections::BTreeMap;

/// What it is called: its unit, or what its arguments say.
pub const NAME: &str = "member.name";
/// The systemd unit that it was found by.
pub const UNIT: &str = "member.unit";
/// When it really started, nanoseconds since the epoch on the run's clock; before the run for most.
pub const BORN: &str = "member.born";
/// Why it is left out of its arm: it is not what the arm says, and its samples count for nothing.
pub const LEFT_OUT: &str = "member.left_out";

/// The newest value of a fact.
pub fn latest<'a>(
    facts: &'a BTreeMap<String, Vec<(TimeNs, String)>>,
    key: &str,
) -> Option<&'a str> {
    let (_, value) = facts.get(key)?.last()?;
    Some(value)
}

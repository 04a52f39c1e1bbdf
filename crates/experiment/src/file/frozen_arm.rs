//! An arm as the frozen experiment writes it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{Arm, LIFE, Over};
use units::{write_bytes_exact, write_duration_exact};

#[derive(Serialize)]
pub(super) struct ArmTable<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    allocator: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    arguments: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<PredictionTable>,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "in_order")]
    levels: &'a [(String, String)],
}

/// As a table in the order of the list.
fn in_order<S: Serializer>(pairs: &&[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

#[derive(Serialize)]
struct PredictionTable {
    mean: String,
    lo: String,
    hi: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

/// Secrets are out of it already.
pub(super) fn arm_table(arm: &Arm) -> ArmTable<'_> {
    ArmTable {
        name: &arm.name,
        allocator: &arm.allocator,
        arguments: &arm.arguments,
        command: arm.command.as_deref(),
        curve: arm.curve.as_deref(),
        environment: &arm.environment,
        levels: &arm.levels,
        prediction: arm.prediction.map(|prediction| PredictionTable {
            mean: write_bytes_exact(prediction.mean_bytes),
            lo: write_bytes_exact(prediction.lo_bytes),
            hi: write_bytes_exact(prediction.hi_bytes),
            over: match prediction.over {
                Over::Run => None,
                Over::First(time) => Some(write_duration_exact(time)),
                Over::Life => Some(LIFE.to_owned()),
            },
        }),
    }
}

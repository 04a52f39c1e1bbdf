//! How many, how long, how often.

use std::time::Duration;

use crate::file::syntax::fields::{Faults, Fields};
use units::write_duration_exact;

/// Processes per arm; the machine's own limits are reached long before.
const REPLICAS_MAX: u64 = 1000;
/// Shorter intervals would measure highwater rather than the subject.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// A trend needs a middle.
const SNAPSHOTS_MIN: u32 = 3;
/// Beyond that a typing error is likelier than a plan.
const DURATION_MAX: Duration = Duration::from_secs(400 * 86_400);

const REPLICAS: u32 = 2;
const DURATION: Duration = Duration::from_secs(240);
const INTERVAL: Duration = Duration::from_secs(1);
const SEED: u64 = 1;
/// Warm-up unless the file says otherwise: 30 s, in a run shorter than the usual 4 minutes the same share of it.
const WARMUP_MAX: Duration = Duration::from_secs(30);
const WARMUP_SHARE: u32 = 8;

pub struct Timing {
    pub replicas: u32,
    pub duration: Duration,
    pub interval: Duration,
    pub warmup: Duration,
    pub seed: u64,
}

pub fn parse(top: &Fields, faults: &Faults) -> Timing {
    let duration = top
        .duration("duration")
        .map_or(DURATION, |duration| duration.value);
    let interval = top
        .duration("interval")
        .map_or(INTERVAL, |interval| interval.value);
    let warmup_default = WARMUP_MAX.min(duration / WARMUP_SHARE);
    let warmup = top
        .duration("warmup")
        .map_or(warmup_default, |warmup| warmup.value);
    let timing = Timing {
        replicas: replicas(top),
        duration,
        interval,
        warmup,
        seed: top
            .integer("seed", 0..=u64::MAX)
            .map_or(SEED, |seed| seed.value),
    };
    check(&timing, top, faults);
    timing
}

fn replicas(top: &Fields) -> u32 {
    let replicas = top.integer("replicas", 1..=REPLICAS_MAX);
    replicas.map_or(REPLICAS, |replicas| {
        u32::try_from(replicas.value).unwrap_or(REPLICAS)
    })
}

/// The first contradiction only: the others follow from it.
fn check(timing: &Timing, top: &Fields, faults: &Faults) {
    let Timing {
        duration,
        interval,
        warmup,
        ..
    } = *timing;
    let words = write_duration_exact;
    // A contradiction is shown where it was written; what is left to its default has no place of its own.
    let place = |keys: [&str; 2]| {
        let key = keys.into_iter().find(|key| top.has(key));
        top.node(key.unwrap_or("duration"))
            .map_or(top.place, |node| node.place)
    };
    if interval < INTERVAL_MIN {
        let message = format!("`interval` is {}; the shortest is 10ms", words(interval));
        faults.note(place(["interval", "interval"]), message);
    } else if duration > DURATION_MAX {
        let message = format!("`duration` is {}; the longest is 400 days", words(duration));
        faults.note(place(["duration", "duration"]), message);
    } else if duration < interval * SNAPSHOTS_MIN {
        let message = format!(
            "`duration` {} is shorter than three snapshots, one every {}; a trend needs at least {}",
            words(duration),
            words(interval),
            words(interval * SNAPSHOTS_MIN)
        );
        faults.note(place(["duration", "interval"]), message);
    } else if warmup >= duration {
        let message = format!(
            "`warmup` {} leaves nothing of `duration` {} to evaluate",
            words(warmup),
            words(duration)
        );
        faults.note(place(["warmup", "duration"]), message);
    } else if duration - warmup < interval * SNAPSHOTS_MIN {
        let message = format!(
            "`warmup` {} leaves {} of `duration` {} to evaluate: fewer than three snapshots, one every {}",
            words(warmup),
            words(duration - warmup),
            words(duration),
            words(interval)
        );
        faults.note(place(["warmup", "duration"]), message);
    }
}

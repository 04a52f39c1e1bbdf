//! A family of series as corpus/series describes it: what its series are made of, and what is true of them.
//!
//! Times are parts of the window, sizes are parts of the level. corpus/series/README.md explains the tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use verdict::Label;

use crate::dice::Dice;

/// A number, or what it is drawn from.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Range {
    Fixed(f64),
    /// Evenly on the logarithm when both ends are positive, evenly otherwise.
    Between([f64; 2]),
    OneOf {
        one_of: Vec<f64>,
    },
}

impl Range {
    pub fn draw(&self, dice: &mut Dice) -> f64 {
        match self {
            Range::Fixed(value) => *value,
            Range::Between([lo, hi]) if *lo > 0.0 && *hi > 0.0 => dice.log_between(*lo, *hi),
            Range::Between([lo, hi]) => dice.between(*lo, *hi),
            Range::OneOf { one_of } => dice.pick(one_of),
        }
    }

    pub fn count(&self, dice: &mut Dice) -> usize {
        match self {
            Range::Between([lo, hi]) if *hi < 20.0 => dice.whole(*lo as usize, *hi as usize),
            other => other.draw(dice).round().max(0.0) as usize,
        }
    }
}

/// A range that a family may leave out, and its value then.
pub type Maybe = Option<Range>;

pub fn or(range: &Maybe, default: f64, dice: &mut Dice) -> f64 {
    range.as_ref().map_or(default, |range| range.draw(dice))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// What happens in the process.
    #[expect(dead_code, reason = "for the reader of the file")]
    about: String,
    pub truth: Truth,
    #[serde(default)]
    pub clock: Clock,
    #[serde(default)]
    pub trend: Vec<Shape>,
    pub lives: Option<Lives>,
    #[serde(default)]
    pub load: Vec<Load>,
    pub noise: Noise,
    /// Without this field one series in ten has each of the usual faults, and an arm none.
    pub dirt: Option<Vec<Dirt>>,
    /// MiB.
    pub level: Maybe,
    /// Memory limit in parts of the highest reading.
    pub limit: Maybe,
    pub arm: Option<Arm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Labels that are right of the whole series.
    pub label: Vec<Label>,
    /// Whether the noise leaves the label decidable to a reader who knows the noise.
    #[serde(default = "yes")]
    pub decidable: bool,
    /// Whether there is one slope at the end, if it grows.
    #[serde(default = "yes")]
    pub slope: bool,
    /// `with` or (without this field) without knowledge of the model.
    #[expect(dead_code, reason = "for the reader of the file")]
    written: Option<String>,
    /// Date and share right of the first run of the first set that had it.
    #[expect(dead_code, reason = "for the reader of the file")]
    first: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clock {
    pub readings: Maybe,
    pub days: Maybe,
    pub spacing: Spacing,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    #[default]
    Any,
    Even,
    Jitter,
    /// Exponential waits.
    Random,
    /// The interval changes once, by a factor of 2 to 4.
    TwoIntervals,
}

/// A part of the trend; all parts of a trend are added.
#[derive(Debug, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    Line {
        rise: Range,
        from: Maybe,
        to: Maybe,
    },
    Power {
        rise: Range,
        exponent: Range,
        knee: Maybe,
    },
    Log {
        rise: Range,
        near: Range,
    },
    Exponential {
        rise: Range,
        rate: Range,
    },
    Fill {
        rise: Range,
        tau: Range,
        order: Maybe,
        from: Maybe,
    },
    Hyperbola {
        rise: Range,
        half: Range,
        steep: Maybe,
    },
    Sigmoid {
        rise: Range,
        mid: Range,
        width: Range,
    },
    Steps(Steps),
    /// Stretches of the window, each at a rate of its own.
    Rates {
        rise: Range,
        count: Range,
        rate: Range,
        /// Every second stretch is at rest, this part of the time.
        rest: Maybe,
    },
    /// Grows only by day, for this part of it.
    Busy {
        rise: Range,
        busy: Range,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    pub count: Range,
    /// Of each step, or ...
    pub size: Maybe,
    /// ... of all together.
    pub rise: Maybe,
    #[serde(default)]
    pub direction: Direction,
    #[serde(default)]
    pub places: Places,
    /// How unlike the sizes are: 0 all the same, 1 exponential.
    pub uneven: Maybe,
    /// Each step in parts of the one before.
    pub shrink: Maybe,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    #[default]
    Up,
    Down,
    Either,
    /// Up, then a part of it down again.
    Alternating,
    /// Up, then all of it down.
    ThereAndBack,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Places {
    /// One in each of as many equal stretches.
    #[default]
    Spread,
    Even,
    Random,
    /// At ever longer distances, all in the first half.
    Rarer,
}

/// Restarts: the trend is one of the uptime.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lives {
    /// Restarts in the window; of a killed process, lives in the window.
    pub count: Range,
    #[serde(default)]
    pub places: Places,
    /// How often the restarts stand in the file.
    pub known: f64,
    /// Spread of the level between lives.
    pub own_level: Maybe,
    /// The first life was there before the window and is warm.
    #[serde(default)]
    pub first_is_warm: bool,
    /// Ends at its limit, each life at a pace of its own; the trend is one of the part of a life.
    #[serde(default)]
    pub killed: bool,
}

/// What comes and goes on top of the trend.
#[derive(Debug, Deserialize)]
#[serde(tag = "load", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    Day {
        swing: Range,
        #[serde(default)]
        form: Form,
        /// The load of two days of seven, in parts of that of the others.
        weekend: Maybe,
        uneven: Maybe,
    },
    Cycle {
        /// In the window, or ...
        turns: Maybe,
        /// ... of this many hours each.
        hours: Maybe,
        swing: Range,
        form: Form,
        duty: Maybe,
    },
    Collector(Collector),
    Trim {
        count: Range,
        depth: Range,
        tau: Range,
    },
    Jobs {
        count: Range,
        height: Range,
        length: Range,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collector {
    pub turns: Range,
    pub height: Range,
    pub uneven: Maybe,
    /// How much more often it collects at the end.
    pub quicken: Maybe,
    /// Rhythms and sizes in the window.
    pub regimes: Maybe,
    /// What only every fourth collection frees.
    pub old: Maybe,
    /// Exponent of the climb.
    pub bend: Maybe,
    /// Collects at a multiple of what is live.
    #[serde(default)]
    pub follows_live: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    #[default]
    Any,
    Wave,
    Peak,
    Office,
    TwoShifts,
    Square,
    Triangle,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub kind: NoiseKind,
    /// Autocorrelation from reading to reading, or ...
    pub phi: Maybe,
    /// ... the time after which it is forgotten.
    pub tau: Maybe,
    /// Size by standard errors between the truth and its nearest rival, ...
    pub z: Maybe,
    /// ... or as a part of the level, ...
    pub share: Maybe,
    /// ... or as a part of the swing of the first load.
    pub of_swing: Maybe,
    /// Largest deviation, as a part of the level.
    pub cap: Option<f64>,
    #[serde(default)]
    pub by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseKind {
    /// Normal or uniform.
    White,
    /// Student's t, or upwards only.
    Heavy,
    Memory,
    /// Memory and white noise together.
    Mixed,
    /// Loud and quiet stretches.
    Stretches,
    Any,
}

/// What the deviation follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    #[default]
    Nothing,
    Level,
    Time,
    Day,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "dirt", rename_all = "snake_case", deny_unknown_fields)]
pub enum Dirt {
    Holes {
        count: Range,
        length: Range,
    },
    Lost {
        share: Range,
    },
    /// No readings at night, for this part of the day.
    Nights {
        length: Range,
    },
    Outliers {
        share: Range,
        times: Range,
    },
    Zeros {
        share: Range,
    },
    /// Several readings in turn are higher.
    Bursts {
        share: Range,
        height: Range,
        readings: Range,
    },
    Doubled {
        share: Range,
    },
    Shuffled {
        share: Range,
    },
    ClockSet {
        by: Range,
    },
    /// Readings in multiples of a part of the level, of the rise, or of so many KiB.
    Grain {
        level: Maybe,
        rise: Maybe,
        kib: Option<f64>,
    },
}

/// How the processes of an arm differ.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Fewest processes.
    pub least: usize,
    #[serde(default)]
    pub who: Who,
    /// Pace of each process beside the others.
    pub pace: Maybe,
    /// The ratio of two such arms is that of their levels.
    #[serde(default)]
    pub comparable: bool,
    /// How often the first process is 1.8 times as large as the others.
    #[serde(default)]
    pub outlier: f64,
}

/// The processes that have the trend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    #[default]
    All,
    First,
    EverySecond,
}

/// The families of one file, by name.
pub struct Kind {
    pub name: String,
    pub families: BTreeMap<String, Family>,
}

/// Every file of corpus/series, in the order of their names.
pub fn load() -> Result<Vec<Kind>, String> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.find_map(|folder| fs::read_dir(folder.join("corpus/series")).ok());
    let entries = folder.ok_or("no folder corpus/series above the manifest")?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let kind = |file: &PathBuf| {
        let text = fs::read_to_string(file).map_err(|e| e.to_string());
        let families = text.and_then(|text| toml::from_str(&text).map_err(|e| e.to_string()));
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Kind {
            name: stem.into_owned(),
            families: families.map_err(|e| format!("{}: {e}", file.display()))?,
        })
    };
    files.iter().map(kind).collect()
}

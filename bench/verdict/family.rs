//! A family of series as corpus/series describes it: what its series are made of, and what is true of them.
//!
//! corpus/series/README.md explains every field. Times are parts of the window, sizes are parts of the level.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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

impl Default for Range {
    fn default() -> Range {
        Range::Fixed(0.0)
    }
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

/// The value of an optional range, or this one.
pub fn or(range: Option<&Range>, default: f64, dice: &mut Dice) -> f64 {
    range.map_or(default, |range| range.draw(dice))
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// What happens in the process.
    #[serde(rename = "about")]
    pub _about: String,
    /// Labels that are right of the whole series.
    pub label: Vec<Label>,
    /// Whether the noise leaves the label decidable to a reader who knows the noise.
    #[serde(default = "yes", rename = "decidable")]
    pub _decidable: bool,
    /// `with` or (without this field) without knowledge of the model.
    #[serde(rename = "written")]
    pub _written: Option<String>,
    /// Date and share right of the first run of the set in which the family was written.
    #[serde(rename = "first")]
    pub _first: Option<String>,
    #[serde(default)]
    pub clock: Clock,
    #[serde(default)]
    pub trend: Vec<Shape>,
    pub lives: Option<Lives>,
    #[serde(default)]
    pub load: Vec<Load>,
    pub noise: Noise,
    /// Faults of the readings. Without this field one series in ten has each of the usual ones.
    pub dirt: Option<Vec<Dirt>>,
    /// MiB.
    pub level: Option<Range>,
    /// Memory limit in parts of the highest reading.
    pub limit: Option<Range>,
    pub arm: Option<Arm>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    pub readings: Option<Range>,
    pub days: Option<Range>,
    #[serde(default)]
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
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    Line {
        rise: Range,
        #[serde(default)]
        from: Range,
        to: Option<Range>,
    },
    Power {
        rise: Range,
        exponent: Range,
        #[serde(default)]
        knee: Range,
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
        order: Option<Range>,
        #[serde(default)]
        from: Range,
    },
    Hyperbola {
        rise: Range,
        half: Range,
        steep: Option<Range>,
    },
    Sigmoid {
        rise: Range,
        mid: Range,
        width: Range,
    },
    Steps {
        count: Range,
        /// Of each step, or ...
        #[serde(default)]
        size: Range,
        /// ... of all together.
        rise: Option<Range>,
        #[serde(default)]
        direction: Direction,
        #[serde(default)]
        places: Places,
        /// How unlike the sizes are: 0 all the same, 1 exponential.
        #[serde(default)]
        uneven: Range,
        /// Each step in parts of the one before.
        shrink: Option<Range>,
    },
    Rates {
        rise: Range,
        count: Range,
        rate: Range,
        /// Every second stretch is at rest, this part of the time.
        #[serde(default)]
        rest: Range,
    },
    /// Grows only while there is load: by day, or in so many waves.
    Busy {
        rise: Range,
        busy: Range,
        waves: Option<Range>,
    },
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
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lives {
    /// Restarts in the window; of a killed process, lives in the window.
    pub count: Range,
    #[serde(default)]
    pub places: Places,
    /// How often the restarts stand in the file.
    pub told: f64,
    /// Spread of the level between lives.
    #[serde(default)]
    pub own_level: Range,
    /// The first life was there before the window and is warm.
    #[serde(default)]
    pub first_is_warm: bool,
    /// Ends at its limit, each life at a pace of its own; the trend is one of the part of a life.
    #[serde(default)]
    pub killed: bool,
}

/// What comes and goes on top of the trend.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "load", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    Day {
        swing: Range,
        #[serde(default)]
        form: Form,
        /// The load of two days of seven, in parts of that of the others.
        weekend: Option<Range>,
        #[serde(default)]
        uneven: Range,
    },
    Cycle {
        /// In the window, or ...
        turns: Option<Range>,
        /// ... of this many hours each.
        hours: Option<Range>,
        swing: Range,
        form: Form,
        duty: Option<Range>,
    },
    Collector {
        turns: Range,
        height: Range,
        #[serde(default)]
        uneven: Range,
        quicken: Option<Range>,
        regimes: Option<Range>,
        /// What only every fourth collection frees.
        #[serde(default)]
        old: Range,
        /// Exponent of the climb.
        bend: Option<Range>,
        /// Collects at a multiple of what is live.
        #[serde(default)]
        follows_live: bool,
    },
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub kind: NoiseKind,
    /// Autocorrelation from reading to reading, or ...
    pub phi: Option<Range>,
    /// ... the time after which it is forgotten.
    pub tau: Option<Range>,
    /// Size by standard errors between the truth and its nearest rival, ...
    pub z: Option<Range>,
    /// ... or as a part of the level, ...
    pub share: Option<Range>,
    /// ... or as a part of the swing of the first load.
    pub of_swing: Option<Range>,
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

#[derive(Debug, Clone, Deserialize)]
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
        level: Option<Range>,
        rise: Option<Range>,
        kib: Option<f64>,
    },
}

/// How the processes of an arm differ.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Fewest processes.
    pub least: usize,
    #[serde(default)]
    pub who: Who,
    /// Pace of each process beside the others.
    pub pace: Option<Range>,
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

/// Every file of corpus/series.
pub fn load() -> Result<Vec<Kind>, String> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above
        .map(|folder| folder.join("corpus/series"))
        .find(|folder| folder.is_dir())
        .ok_or("no folder corpus/series above the manifest")?;
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let kind = |file: &std::path::PathBuf| {
        let fault = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| fault(&e))?;
        let families = toml::from_str(&text).map_err(|e| fault(&e))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Kind {
            name: stem.into_owned(),
            families,
        })
    };
    files.iter().map(kind).collect()
}

//! Bins made ready for the fit: scaled, with the candidates that suit them, and a coarse fit.

use series::bins::Bin;
use series::fit::Fit;
use series::linear::Window;
use series::model_search::ModelSearch;
use series::order::median;
use series::shapes::{Shapes, shapes, simple_shapes};
use series::square::Square;

/// A day, for the cycle that nearly every service has.
pub const DAY_S: f64 = 86_400.0;

/// A step of fewer grains than this is what a slow drift looks like in coarse readings.
pub const GRAINS: f64 = 1.5;

/// A cycle of the load, which is nuisance.
#[derive(Debug, Clone, Copy)]
pub enum Cycle {
    /// The first two harmonics of a period in seconds.
    Waves(f64),
    /// Two levels by turns.
    Square(Square),
}

impl Cycle {
    pub fn length_s(&self) -> f64 {
        match self {
            Cycle::Waves(length_s) => *length_s,
            Cycle::Square(square) => square.length_s,
        }
    }
}

/// What the incarnations of one process have in common, when each is judged on its own uptime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lives {
    /// One curve.
    #[default]
    Alike,
    /// The shape of one curve; the level of each is its own.
    OwnLevels,
    /// Nothing: level and slope of the earlier ones are others than those of the last.
    Apart,
}

/// How the bins are to be looked at.
#[derive(Debug, Clone, Default)]
pub struct View<'a> {
    pub bins: &'a [Bin],
    /// Judge every incarnation on its own uptime, or all on one clock.
    pub by_uptime: bool,
    pub lives: Lives,
    pub cycles: &'a [Cycle],
    /// Length of one bin, seconds.
    pub width_s: f64,
    /// The level that shares are taken of, when it is not that of the bins (the floors of a saw).
    pub level: Option<f64>,
    /// Grain of the readings; 0 when they are not coarse.
    pub grain: f64,
    /// A handful of points: only the simplest shapes.
    pub few: bool,
}

/// The frame of the fit: what its units are in those of the series.
pub struct Scaled {
    /// A step below this height (in scaled units) may be the grain of the readings.
    pub grain: f64,
    /// Unit of x and y: seconds per window, and the unit of values per scaled unit.
    pub span_s: f64,
    pub scale: f64,
    pub shift: f64,
    pub level: f64,
    pub start_s: f64,
}

/// A coarse fit of the bins: a sparse choice of shapes, enough to compare segmentations of the same bins.
pub struct CoarseFit {
    scaled: Scaled,
    shapes: Shapes,
    search: ModelSearch,
    sketch: Fit,
    few: bool,
}

impl CoarseFit {
    /// Takes it; `None` when there are too few bins, or no time passes. `like` is a fit of the same bins
    /// with other cycles, of which the columns are the same.
    pub fn at(view: &View, like: Option<&CoarseFit>) -> Option<CoarseFit> {
        let (scaled, window) = scale(view)?;
        let shapes = candidates(view, &window, scaled.span_s);
        let mut search = match like {
            Some(other) => other.search.like(window),
            None => ModelSearch::new(window),
        };
        let sketch = if view.few {
            search.fit_few(&shapes)
        } else {
            search.sketch(&shapes)
        };
        Some(CoarseFit {
            scaled,
            shapes,
            search,
            sketch,
            few: view.few,
        })
    }

    /// Log evidence: to be compared with that of another way to look at the same bins.
    pub fn ln_evidence(&self) -> f64 {
        self.sketch.ln_evidence
    }

    /// The same in the unit of the series: to be compared with the sum of those of parts of the bins.
    pub fn ln_density(&self) -> f64 {
        let bins = self.search.window.y.len() as f64;
        self.sketch.ln_evidence - bins * self.scaled.scale.ln()
    }

    /// The whole fit.
    pub fn fit(mut self) -> (Scaled, Window, Fit) {
        let fitted = if self.few {
            self.sketch
        } else {
            self.search.fit(&self.shapes, &self.sketch)
        };
        (self.scaled, self.search.window, fitted)
    }
}

fn candidates(view: &View, window: &Window, span_s: f64) -> Shapes {
    if view.few {
        return simple_shapes();
    }
    let single = !view.by_uptime || view.bins.iter().all(|b| b.incarnation == 0);
    let steps_at: Vec<f64> = if single {
        // Two bins on either side: one alone is as well a spike, with which a series of spikes may begin or end.
        let x = &window.x;
        let inner = x.get(1..x.len().saturating_sub(1)).unwrap_or_default();
        inner.windows(2).map(|w| 0.5 * (w[0] + w[1])).collect()
    } else {
        Vec::new()
    };
    let day = DAY_S / span_s;
    let half_a_day = (0.4..2.4).contains(&day) && view.cycles.is_empty();
    shapes(&steps_at, half_a_day.then_some(day))
}

fn scale(view: &View) -> Option<(Scaled, Window)> {
    let bins = view.bins;
    let (first, last) = (bins.first()?, bins.last()?);
    let clock = |b: &Bin| {
        if view.by_uptime {
            b.uptime_s
        } else {
            b.t_s - first.t_s
        }
    };
    let span_s = bins.iter().map(clock).fold(0.0, f64::max);
    let values: Vec<f64> = bins.iter().map(|b| b.value).collect();
    let tail = values.len() - values.len().div_ceil(5);
    let level = view.level.unwrap_or_else(|| median(&values[tail..]));
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if bins.len() < 5 || span_s <= 0.0 || level <= 0.0 {
        return None;
    }
    // A flat line must not make its own dust the unit: a thousandth of the level is the least range.
    let scale = (high - low).max(1e-3 * level);
    let usual = bins.iter().map(|b| b.count as f64).sum::<f64>() / bins.len() as f64;
    let gap = |i: usize| -> f64 {
        let same = i > 0 && (bins[i].incarnation == bins[i - 1].incarnation || !view.by_uptime);
        if same {
            (bins[i].t_s - bins[i - 1].t_s) / view.width_s
        } else {
            f64::INFINITY
        }
    };
    let window = Window {
        x: bins.iter().map(|b| clock(b) / span_s).collect(),
        y: values.iter().map(|v| (v - low) / scale).collect(),
        gap: (0..bins.len()).map(gap).collect(),
        thin: bins.iter().map(|b| usual / b.count as f64).collect(),
        nuisance: nuisance(view, span_s),
        now: (clock(last) / span_s).clamp(0.3, 1.0),
        floor: floor_of(view.grain, scale, level),
        reach: 1.0,
    };
    let scaled = Scaled {
        grain: GRAINS * view.grain / scale,
        span_s,
        scale,
        shift: low,
        level,
        start_s: first.t_s,
    };
    Some((scaled, window))
}

/// No residual is known better than the grain of the readings, a three-thousandth of the level, or a
/// hundredth of the range: no real curve is exactly a formula.
fn floor_of(grain: f64, scale: f64, level: f64) -> f64 {
    // What is rounded to a grain is off by 0.29 grains (the deviation of an even distribution).
    (0.29 * grain.min(0.2 * scale))
        .max(3e-4 * level)
        .max(5e-3 * scale)
        / scale
}

/// The columns that are in every candidate: of the earlier incarnations, and of the cycles.
fn nuisance(view: &View, span_s: f64) -> Vec<Vec<f64>> {
    let mut columns = earlier_lives(view, span_s);
    for cycle in view.cycles {
        match cycle {
            Cycle::Waves(period_s) => columns.extend(harmonics(view, *period_s)),
            Cycle::Square(square) => {
                let at = |b: &Bin| square.at(b.t_s);
                columns.push(view.bins.iter().map(at).collect());
            }
        }
    }
    columns
}

/// More incarnations than this have no level each, but one for all earlier ones: every level costs a reading.
const OWN_LEVELS_MAX: usize = 8;

/// What sets the earlier incarnations apart. The last one has none of it: level and slope at the end are its own.
fn earlier_lives(view: &View, span_s: f64) -> Vec<Vec<f64>> {
    let last = view.bins.last().map_or(0, |bin| bin.incarnation);
    let of = |value: &dyn Fn(&Bin) -> f64| view.bins.iter().map(value).collect::<Vec<f64>>();
    let earlier = |bin: &Bin| f64::from(u8::from(bin.incarnation != last));
    match view.lives {
        Lives::Alike => Vec::new(),
        Lives::OwnLevels => {
            let mut lives: Vec<usize> = view.bins.iter().map(|bin| bin.incarnation).collect();
            lives.dedup();
            lives.pop();
            match lives.len() {
                OWN_LEVELS_MAX.. => vec![of(&earlier)],
                _ => {
                    let own = |life| of(&|bin| f64::from(u8::from(bin.incarnation == life)));
                    lives.into_iter().map(own).collect()
                }
            }
        }
        Lives::Apart => vec![
            of(&earlier),
            of(&|bin| earlier(bin) * bin.uptime_s / span_s),
        ],
    }
}

fn harmonics(view: &View, period_s: f64) -> Vec<Vec<f64>> {
    let told = |harmonic: &f64| period_s / harmonic >= 2.2 * view.width_s;
    let mut columns = Vec::new();
    for harmonic in [1.0, 2.0].iter().filter(|h| told(h)) {
        let omega = harmonic * std::f64::consts::TAU / period_s;
        columns.push(view.bins.iter().map(|b| (omega * b.t_s).sin()).collect());
        columns.push(view.bins.iter().map(|b| (omega * b.t_s).cos()).collect());
    }
    columns
}

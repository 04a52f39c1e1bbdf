//! The columns that shapes are made of. Every basis is 0 at 0 and, where it moves inside the window, 1 at 1.

/// One column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// `x^p`
    Power(f64),
    /// `ln(1 + x/t0)`
    Log(f64),
    /// `1 - exp(-x/tau)`
    Fill {
        tau: f64,
    },
    /// The same, beginning at `from`.
    LateFill {
        from: f64,
        tau: f64,
    },
    /// `x / (x + half)`: half the rise is reached at `half`.
    Saturation {
        half: f64,
    },
    /// `exp(rate x) - 1`
    Runaway(f64),
    /// Flat until `from`, then straight.
    Hinge(f64),
    /// Straight until `to`, then flat.
    Ramp(f64),
    /// S-curve around `mid` of half width `width`.
    Logistic {
        mid: f64,
        width: f64,
    },
    /// 0 before, 1 from there on.
    Step(f64),
    /// Equal steps every `gap`, the first at `from`.
    Ladder {
        from: f64,
        gap: f64,
    },
    /// Sine and cosine with `omega` radians per window.
    Sine(f64),
    Cosine(f64),
}

impl Basis {
    /// Value at `x`.
    pub fn at(self, x: f64) -> f64 {
        let (zero, unit) = self.frame();
        (self.plain(x) - zero) / unit
    }

    /// Values at every `x`. What does not depend on it is worked out once: an exponential costs more than
    /// the rest of a cell.
    pub fn over(self, x: &[f64]) -> impl Iterator<Item = f64> {
        let (zero, unit) = self.frame();
        x.iter().map(move |x| (self.plain(*x) - zero) / unit)
    }

    /// The curve before it is shifted to 0 at 0 and scaled to 1 at 1.
    fn plain(self, x: f64) -> f64 {
        match self {
            Basis::Power(p) => x.max(0.0).powf(p),
            Basis::Log(t0) => (x.max(0.0) / t0).ln_1p(),
            Basis::Fill { tau } => (-x / tau).exp_m1(),
            Basis::LateFill { from, tau } => (-(x - from).max(0.0) / tau).exp_m1(),
            Basis::Saturation { half } => x * (1.0 + half) / (x + half),
            Basis::Runaway(rate) => (rate * x).exp_m1(),
            Basis::Hinge(from) => (x - from).max(0.0),
            Basis::Ramp(to) => x.min(to),
            Basis::Logistic { mid, width } => logistic(x, mid, width),
            Basis::Step(at) => f64::from(u8::from(x >= at)),
            Basis::Ladder { from, gap } => rungs(x, from, gap),
            Basis::Sine(omega) => (omega * x).sin(),
            Basis::Cosine(omega) => (omega * x).cos(),
        }
    }

    /// Value of the plain curve at 0 where it is not 0, and what makes it 1 at 1.
    fn frame(self) -> (f64, f64) {
        match self {
            Basis::Log(t0) => (0.0, (1.0 / t0).ln_1p()),
            Basis::Fill { tau } => (0.0, (-1.0 / tau).exp_m1()),
            Basis::LateFill { from, tau } => (0.0, (-(1.0 - from) / tau).exp_m1()),
            Basis::Runaway(rate) => (0.0, rate.exp_m1()),
            Basis::Hinge(from) => (0.0, 1.0 - from),
            Basis::Ramp(to) => (0.0, to),
            Basis::Logistic { mid, width } => {
                let zero = logistic(0.0, mid, width);
                (zero, logistic(1.0, mid, width) - zero)
            }
            Basis::Ladder { from, gap } => (0.0, rungs(1.0, from, gap).max(1.0)),
            _ => (0.0, 1.0),
        }
    }

    /// Value where time has no end; infinite for what has no bound.
    pub fn at_infinity(self) -> f64 {
        match self {
            basis if basis.unbounded() => f64::INFINITY,
            Basis::Saturation { half } => 1.0 + half,
            Basis::Fill { tau } => -1.0 / (-1.0 / tau).exp_m1(),
            Basis::LateFill { from, tau } => -1.0 / (-(1.0 - from) / tau).exp_m1(),
            Basis::Logistic { mid, width } => {
                let zero = logistic(0.0, mid, width);
                (1.0 - zero) / (logistic(1.0, mid, width) - zero)
            }
            Basis::Ramp(_) | Basis::Step(_) => 1.0,
            _ => 0.0,
        }
    }

    /// Rise per window at the end as a share of the rise so far, where that is not read off the curve: a
    /// ladder stands still most of the time.
    pub fn pace(self) -> Option<f64> {
        match self {
            Basis::Ladder { from, gap } => Some(1.0 / (gap * rungs(1.0, from, gap).max(1.0))),
            _ => None,
        }
    }

    /// Whether it has no bound.
    pub fn unbounded(self) -> bool {
        matches!(
            self,
            Basis::Power(_)
                | Basis::Log(_)
                | Basis::Hinge(_)
                | Basis::Runaway(_)
                | Basis::Ladder { .. }
        )
    }
}

fn logistic(x: f64, mid: f64, width: f64) -> f64 {
    1.0 / (1.0 + (-(x - mid) / width).exp())
}

/// Rungs of a ladder up to `x`.
fn rungs(x: f64, from: f64, gap: f64) -> f64 {
    ((x - from) / gap + 1.0).floor().max(0.0)
}

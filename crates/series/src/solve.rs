//! Least squares for many small designs that share their columns: whitened once, freed of the nuisance
//! once, then every design of at most three columns is a formula over inner products.

use super::columns::Columns;
use super::linear::{Guess, Window, dot};
use super::shapes::COLUMNS_MAX;
use super::whitened::Whitened;

/// The readings and the columns, whitened and freed of the nuisance under one hypothesis on the noise.
pub struct Prepared {
    pub whitened: Whitened,
    pub y: Vec<f64>,
    yy: f64,
    /// The intercept, if nothing else were fitted; and its variance per unit of residual variance.
    pub y0: f64,
    pub var0: f64,
    /// The product of each column with the readings.
    cy: Vec<f64>,
    floor2: f64,
    reach: f64,
}

impl Prepared {
    /// The readings of a window on its ground.
    pub fn new(window: &Window, whitened: Whitened) -> Prepared {
        let (y, y0) = whitened.free(&window.y);
        Prepared {
            yy: dot(&y, &y),
            y,
            y0,
            var0: whitened.read0 * whitened.read0,
            floor2: window.y.len() as f64 * window.floor * window.floor,
            reach: window.reach,
            cy: Vec::new(),
            whitened,
        }
    }

    /// Makes every column ready that is not.
    pub fn prepare(&mut self, raw: &Columns) {
        self.whitened.prepare(raw, &self.y, &mut self.cy);
    }

    /// The inner products of a column with itself and with the readings.
    pub fn products(&self, place: usize) -> (f64, f64) {
        (self.whitened.square(place), self.cy[place])
    }
}

/// Coefficients of one shape with the inverse of its Gram matrix.
#[derive(Default)]
pub struct Solved {
    pub width: usize,
    pub beta: [f64; COLUMNS_MAX],
    pub inverse: [[f64; COLUMNS_MAX]; COLUMNS_MAX],
    pub logdet: f64,
    pub rss: f64,
}

impl Prepared {
    /// Solves one design. Coefficients have a normal prior of deviation `reach` (in residual units it is
    /// a ridge): what the data do not say, a shape cannot claim. `None` when nothing is left to fit, and when it is
    /// not `promising`, which is asked with the width, and with the least that the sum of squares and the determinant
    /// can be.
    #[inline(always)]
    pub fn solve(
        &self,
        columns: &[usize],
        promising: impl Fn(usize, f64, f64) -> bool,
    ) -> Option<Solved> {
        // The compiler unrolls what it knows the width of.
        match *columns {
            [] => self.solve_some([], promising),
            [a] => self.solve_some([a], promising),
            [a, b] => self.solve_some([a, b], promising),
            [a, b, c] => self.solve_some([a, b, c], promising),
            _ => None,
        }
    }

    #[inline(always)]
    fn solve_some<const N: usize>(
        &self,
        columns: [usize; N],
        promising: impl Fn(usize, f64, f64) -> bool,
    ) -> Option<Solved> {
        let free = self
            .y
            .len()
            .checked_sub(1 + self.whitened.nuisances() + N)?;
        let gram = self.gram(columns);
        let y = self.moments(columns);
        let (explained, least) = explained::<N>(&gram, &y, 1e-9)?;
        let plain = (self.yy - explained).max(0.0);
        if !promising(N, plain, least) {
            return None;
        }
        let ridge = (plain + self.floor2) / free.max(1) as f64 / (self.reach * self.reach);
        let (inverse, det) = invert::<N>(&gram, ridge)?;
        let mut beta = [0.0; COLUMNS_MAX];
        for (beta, row) in beta.iter_mut().zip(inverse).take(N) {
            *beta = (0..N).map(|j| row[j] * y[j]).sum();
        }
        let fitted: f64 = (0..N).map(|j| beta[j] * y[j]).sum();
        Some(Solved {
            width: N,
            beta,
            inverse,
            logdet: det.ln(),
            rss: (self.yy - fitted).max(0.0),
        })
    }

    #[inline(always)]
    fn gram<const N: usize>(&self, columns: [usize; N]) -> Square {
        let mut g = [[0.0; COLUMNS_MAX]; COLUMNS_MAX];
        for (i, &a) in columns.iter().enumerate() {
            g[i][i] = self.whitened.square(a);
            for (j, &b) in columns.iter().enumerate().skip(i + 1) {
                g[i][j] = self.whitened.product(a, b);
                g[j][i] = g[i][j];
            }
        }
        g
    }

    #[inline(always)]
    fn moments<const N: usize>(&self, columns: [usize; N]) -> [f64; COLUMNS_MAX] {
        let mut y = [0.0; COLUMNS_MAX];
        for (slot, k) in y.iter_mut().zip(columns) {
            *slot = self.cy[k];
        }
        y
    }
}

type Square = [[f64; COLUMNS_MAX]; COLUMNS_MAX];

/// Sum of squares that the design explains, and its determinant.
#[inline(always)]
fn explained<const N: usize>(
    gram: &Square,
    y: &[f64; COLUMNS_MAX],
    ridge: f64,
) -> Option<(f64, f64)> {
    let (inverse, det) = invert::<N>(gram, ridge)?;
    let quadratic = |i: usize| (0..N).map(|j| y[i] * inverse[i][j] * y[j]).sum::<f64>();
    Some(((0..N).map(quadratic).sum(), det))
}

/// Inverse and determinant of the first `N` rows of `gram + ridge`, by cofactors; the other rows stay zero.
#[inline(always)]
fn invert<const N: usize>(gram: &Square, ridge: f64) -> Option<(Square, f64)> {
    let mut out = [[0.0; COLUMNS_MAX]; COLUMNS_MAX];
    let (a, b, c) = (gram[0][0] + ridge, gram[0][1], gram[0][2]);
    let (e, f, i) = (gram[1][1] + ridge, gram[1][2], gram[2][2] + ridge);
    let det = match N {
        0 => 1.0,
        1 => {
            out[0][0] = 1.0 / a;
            a
        }
        2 => {
            let det = a * e - b * b;
            (out[0][0], out[0][1], out[1][0], out[1][1]) = (e / det, -b / det, -b / det, a / det);
            det
        }
        _ => {
            out = [
                [e * i - f * f, c * f - b * i, b * f - c * e],
                [c * f - b * i, a * i - c * c, b * c - a * f],
                [b * f - c * e, b * c - a * f, a * e - b * b],
            ];
            let det = a * out[0][0] + b * out[0][1] + c * out[0][2];
            out.iter_mut().flatten().for_each(|v| *v /= det);
            det
        }
    };
    (det > 0.0 && det.is_finite()).then_some((out, det))
}

impl Solved {
    /// A linear functional of the coefficients.
    pub fn guess(&self, c: &[f64; COLUMNS_MAX], sigma2: f64) -> Guess {
        let mean = (0..self.width).map(|i| c[i] * self.beta[i]).sum();
        Guess {
            mean,
            se: (sigma2 * self.quadratic(c)).sqrt(),
        }
    }

    fn quadratic(&self, c: &[f64; COLUMNS_MAX]) -> f64 {
        let mut sum = 0.0;
        for i in 0..self.width {
            for j in 0..self.width {
                sum += c[i] * self.inverse[i][j] * c[j];
            }
        }
        sum.max(0.0)
    }

    /// The intercept plus a functional.
    pub fn level(
        &self,
        ready: &Prepared,
        columns: &[usize],
        c: &[f64; COLUMNS_MAX],
        sigma2: f64,
    ) -> Guess {
        let mut away = [0.0; COLUMNS_MAX];
        let mut mean = ready.y0;
        for j in 0..self.width {
            away[j] = c[j] - ready.whitened.c0(columns[j]);
            mean += away[j] * self.beta[j];
        }
        Guess {
            mean,
            se: (sigma2 * (ready.var0 + self.quadratic(&away))).sqrt(),
        }
    }
}

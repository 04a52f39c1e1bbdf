//! Least squares for many small designs that share their columns: whitened once, freed of the nuisance
//! once, then every design of at most three columns is a formula over inner products.

use super::columns::Columns;
use super::fit::{Guess, Window};
use super::lanes::{LANES, Lanes};
use super::noise::{Noise, Whitener};
use super::shapes::COLUMNS_MAX;

/// Inner product with four running sums, so that it is not one long chain of additions.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4
        .remainder()
        .iter()
        .zip(b4.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += x[k] * y[k];
        }
    }
    sums[0] + sums[1] + sums[2] + sums[3] + rest
}

fn take(from: &mut [f64], q: &[f64], times: f64) {
    for (v, q) in from.iter_mut().zip(q) {
        *v -= times * q;
    }
}

/// The readings and the columns, whitened and freed of the nuisance under one hypothesis on the noise.
pub struct Prepared {
    whitener: Whitener,
    /// Orthonormal nuisance columns, the intercept last.
    q: Vec<Vec<f64>>,
    /// What turns a projection on the last of them into an intercept.
    read0: f64,
    pub y: Vec<f64>,
    yy: f64,
    /// The intercept, if nothing else were fitted; and its variance per unit of residual variance.
    pub y0: f64,
    pub var0: f64,
    /// The blocks of columns that are ready, and how many columns that is.
    blocks: Vec<Vec<Lanes>>,
    ready: usize,
    cc: Vec<f64>,
    cy: Vec<f64>,
    /// What each column takes from the intercept.
    pub c0: Vec<f64>,
    pub logdet: f64,
    pub nuisances: usize,
    floor2: f64,
    reach: f64,
}

impl Prepared {
    /// Prepares for one noise; `None` when the nuisance columns say the same under it.
    pub fn new(window: &Window, noise: &Noise) -> Option<Prepared> {
        let whitener = Whitener::new(noise, &window.gap, &window.thin);
        let (q, lengths) = basis_of_nuisance(window, &whitener)?;
        let (q0, read0) = (q.last()?, 1.0 / lengths.last()?);
        let mut y = Vec::new();
        whitener.apply(&window.y, &mut y);
        let y0 = dot(&y, q0) * read0;
        for q in &q {
            let times = dot(&y, q);
            take(&mut y, q, times);
        }
        Some(Prepared {
            yy: dot(&y, &y),
            y,
            y0,
            read0,
            var0: read0 * read0,
            logdet: whitener.logdet + lengths.iter().map(|l| 2.0 * l.ln()).sum::<f64>(),
            nuisances: window.nuisance.len(),
            floor2: window.y.len() as f64 * window.floor * window.floor,
            reach: window.reach,
            blocks: Vec::new(),
            ready: 0,
            cc: Vec::new(),
            cy: Vec::new(),
            c0: Vec::new(),
            whitener,
            q,
        })
    }

    /// Makes every column ready that is not.
    pub fn prepare(&mut self, raw: &Columns) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.prepare_wide(raw) };
        }
        self.prepare_here(raw);
    }

    /// The same numbers to the last bit, four at a time: no product is fused with a sum.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn prepare_wide(&mut self, raw: &Columns) {
        self.prepare_here(raw);
    }

    #[inline(always)]
    fn prepare_here(&mut self, raw: &Columns) {
        if self.ready == raw.count() {
            return;
        }
        // The last block may have been half full.
        let whole = self.ready / LANES;
        self.blocks.truncate(whole);
        let blocks = &raw.blocks()[whole..];
        for moments in [&mut self.cc, &mut self.cy, &mut self.c0] {
            moments.truncate(whole * LANES);
            moments.reserve(blocks.len() * LANES);
        }
        for block in blocks {
            self.whiten(block.clone());
        }
        self.ready = raw.count();
    }

    /// Whitens a block and takes the nuisance away, a pass over the rows for each column of it: what one pass measures,
    /// the next one takes.
    #[inline(always)]
    fn whiten(&mut self, mut rows: Vec<Lanes>) {
        let Some((first, rest)) = self.q.split_first() else {
            return;
        };
        let mut times = self.whitener.apply_lanes(&mut rows, first);
        let mut taken = first;
        for q in rest {
            let mut next = Lanes::default();
            for ((row, taken), q) in rows.iter_mut().zip(taken).zip(q) {
                *row = row.minus(times.times(*taken));
                next = next.plus(row.times(*q));
            }
            (times, taken) = (next, q);
        }
        let (mut cc, mut cy) = (Lanes::default(), Lanes::default());
        for ((row, taken), y) in rows.iter_mut().zip(taken).zip(&self.y) {
            let free = row.minus(times.times(*taken));
            cc = cc.plus(free.by(free));
            cy = cy.plus(free.times(*y));
            *row = free;
        }
        self.cc.extend(cc.0);
        self.cy.extend(cy.0);
        self.c0.extend(times.times(self.read0).0);
        self.blocks.push(rows);
    }

    /// The inner products of a column with itself and with the readings.
    pub fn products(&self, place: usize) -> (f64, f64) {
        (self.cc[place], self.cy[place])
    }

    /// The inner product of two columns.
    #[inline(always)]
    fn product(&self, one: usize, other: usize) -> f64 {
        let (a, b) = (&self.blocks[one / LANES], &self.blocks[other / LANES]);
        let (one, other) = (one % LANES, other % LANES);
        a.iter().zip(b).map(|(a, b)| a.0[one] * b.0[other]).sum()
    }

    /// The inner products of one column with a block of them.
    #[inline(always)]
    fn products_with_block(&self, one: usize, block: usize) -> Lanes {
        let lane = one % LANES;
        let mut sum = Lanes::default();
        for (a, b) in self.blocks[one / LANES].iter().zip(&self.blocks[block]) {
            sum = sum.plus(b.times(a.0[lane]));
        }
        sum
    }

    /// The inner products of one column with others.
    pub fn products_with(&self, one: usize, others: &[usize]) -> Vec<f64> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.products_wide(one, others) };
        }
        self.products_here(one, others)
    }

    /// The same numbers to the last bit, four at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn products_wide(&self, one: usize, others: &[usize]) -> Vec<f64> {
        self.products_here(one, others)
    }

    #[inline(always)]
    fn products_here(&self, one: usize, others: &[usize]) -> Vec<f64> {
        let mut products = vec![None; self.blocks.len()];
        let mut all = Vec::with_capacity(others.len());
        for other in others {
            let block = other / LANES;
            let known = products[block].unwrap_or_else(|| self.products_with_block(one, block));
            products[block] = Some(known);
            all.push(known.0[other % LANES]);
        }
        all
    }
}

/// Orthonormal nuisance columns, the intercept last (then its coefficient is one projection), with the
/// length each had.
fn basis_of_nuisance(window: &Window, whitener: &Whitener) -> Option<(Vec<Vec<f64>>, Vec<f64>)> {
    let (mut q, mut lengths): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    let ones = vec![1.0; window.y.len()];
    for column in window.nuisance.iter().chain([&ones]) {
        let mut white = Vec::with_capacity(column.len());
        whitener.apply(column, &mut white);
        let full = dot(&white, &white);
        for done in &q {
            let times = dot(&white, done);
            take(&mut white, done, times);
        }
        let length2 = dot(&white, &white);
        if length2.is_nan() || length2 <= 1e-10 * full {
            return None;
        }
        let length = length2.sqrt();
        white.iter_mut().for_each(|v| *v /= length);
        lengths.push(length);
        q.push(white);
    }
    Some((q, lengths))
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
    /// a ridge): what the data do not say, a shape cannot claim. `None` when nothing is left to fit.
    #[inline(always)]
    pub fn solve(&self, columns: &[usize]) -> Option<Solved> {
        // The compiler unrolls what it knows the width of.
        match *columns {
            [] => self.solve_some([]),
            [a] => self.solve_some([a]),
            [a, b] => self.solve_some([a, b]),
            [a, b, c] => self.solve_some([a, b, c]),
            _ => None,
        }
    }

    #[inline(always)]
    fn solve_some<const N: usize>(&self, columns: [usize; N]) -> Option<Solved> {
        let free = self.y.len().checked_sub(1 + self.nuisances + N)?;
        let gram = self.gram(columns);
        let y = self.moments(columns);
        let plain = (self.yy - explained::<N>(&gram, &y, 1e-9)?).max(0.0);
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
            g[i][i] = self.cc[a];
            for (j, &b) in columns.iter().enumerate().skip(i + 1) {
                g[i][j] = self.product(a, b);
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

/// Sum of squares that the design explains.
#[inline(always)]
fn explained<const N: usize>(gram: &Square, y: &[f64; COLUMNS_MAX], ridge: f64) -> Option<f64> {
    let (inverse, _) = invert::<N>(gram, ridge)?;
    let quadratic = |i: usize| (0..N).map(|j| y[i] * inverse[i][j] * y[j]).sum::<f64>();
    Some((0..N).map(quadratic).sum())
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
            away[j] = c[j] - ready.c0[columns[j]];
            mean += away[j] * self.beta[j];
        }
        Guess {
            mean,
            se: (sigma2 * (ready.var0 + self.quadratic(&away))).sqrt(),
        }
    }
}

//! What depends on the times of the readings only: the noise made white, the nuisance, and every column freed of
//! both. Series that were read at the same times have it in common.

use std::sync::Arc;

use super::columns::Columns;
use super::lanes::{LANES, Lanes};
use super::linear::{Window, dot};
use super::noise::{Noise, Whitener};

/// One hypothesis on the noise over the times of one window, and the columns that were made ready under it.
#[derive(Clone)]
pub struct Whitened {
    whitener: Whitener,
    /// Orthonormal nuisance columns, the intercept last.
    q: Vec<Vec<f64>>,
    /// What turns a projection on the last of them into an intercept.
    pub read0: f64,
    /// Log determinant of the correlation matrix and of the nuisance.
    pub logdet: f64,
    blocks: Vec<Arc<Block>>,
    ready: usize,
}

/// Whitened columns. Their products are freed of the nuisance: what both columns have of it is subtracted.
struct Block {
    rows: Vec<Lanes>,
    /// What each has of each nuisance column.
    nuisance: Vec<Lanes>,
    /// The product of each with itself.
    cc: Lanes,
}

impl Whitened {
    /// `None` when the nuisance columns say the same under this noise.
    pub fn new(window: &Window, noise: &Noise) -> Option<Whitened> {
        let whitener = Whitener::new(noise, &window.gap, &window.thin);
        let (q, lengths) = basis_of_nuisance(window, &whitener)?;
        Some(Whitened {
            read0: 1.0 / lengths.last()?,
            logdet: whitener.logdet + lengths.iter().map(|l| 2.0 * l.ln()).sum::<f64>(),
            blocks: Vec::new(),
            ready: 0,
            whitener,
            q,
        })
    }

    /// How many nuisance columns there are besides the intercept.
    pub fn nuisances(&self) -> usize {
        self.q.len() - 1
    }

    /// Readings, whitened and freed of the nuisance, with the intercept that is fitted when nothing else is.
    pub fn free(&self, readings: &[f64]) -> (Vec<f64>, f64) {
        let mut y = Vec::with_capacity(readings.len());
        self.whitener.apply(readings, &mut y);
        let mut y0 = 0.0;
        for q in &self.q {
            let times = dot(&y, q);
            take(&mut y, q, times);
            y0 = times * self.read0;
        }
        (y, y0)
    }

    /// Makes every column ready that is not; adds to `cy` the products of those with `y`.
    pub fn prepare(&mut self, raw: &Columns, y: &[f64], cy: &mut Vec<f64>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.prepare_wide(raw, y, cy) };
        }
        self.prepare_here(raw, y, cy);
    }

    /// The same numbers to the last bit, four at a time: no product is fused with a sum.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn prepare_wide(&mut self, raw: &Columns, y: &[f64], cy: &mut Vec<f64>) {
        self.prepare_here(raw, y, cy);
    }

    #[inline(always)]
    fn prepare_here(&mut self, raw: &Columns, y: &[f64], cy: &mut Vec<f64>) {
        if self.ready < raw.count() {
            // The last block may have been half full.
            self.blocks.truncate(self.ready / LANES);
            for block in &raw.blocks()[self.blocks.len()..] {
                let freed = self.whitened(block.to_vec());
                self.blocks.push(Arc::new(freed));
            }
            cy.truncate(self.ready / LANES * LANES);
            self.ready = raw.count();
        }
        for block in &self.blocks[cy.len() / LANES..] {
            cy.extend(products(&block.rows, y).0);
        }
    }

    #[inline(always)]
    fn whitened(&self, mut rows: Vec<Lanes>) -> Block {
        let mut cc = self.whitener.apply_lanes(&mut rows);
        let mut nuisance = Vec::with_capacity(self.q.len());
        for q in &self.q {
            let with = products(&rows, q);
            cc = cc.minus(with.by(with));
            nuisance.push(with);
        }
        Block { rows, nuisance, cc }
    }

    /// What a column takes from the intercept.
    pub fn c0(&self, place: usize) -> f64 {
        let last = self.blocks[place / LANES].nuisance.last();
        last.map_or(0.0, |last| last.0[place % LANES] * self.read0)
    }

    /// The inner product of a column with itself.
    #[inline(always)]
    pub fn square(&self, place: usize) -> f64 {
        self.blocks[place / LANES].cc.0[place % LANES]
    }

    /// The inner product of two columns.
    #[inline(always)]
    pub fn product(&self, one: usize, other: usize) -> f64 {
        let (a, b) = (&self.blocks[one / LANES], &self.blocks[other / LANES]);
        let (one, other) = (one % LANES, other % LANES);
        let (a4, b4) = (a.rows.chunks_exact(4), b.rows.chunks_exact(4));
        let rest = a4.remainder().iter().zip(b4.remainder());
        let rest: f64 = rest.map(|(a, b)| a.0[one] * b.0[other]).sum();
        // Four running sums, so that it is not one long chain of additions.
        let mut sums = [rest, 0.0, 0.0, 0.0];
        for (a, b) in a4.zip(b4) {
            for k in 0..4 {
                sums[k] += a[k].0[one] * b[k].0[other];
            }
        }
        for (a, b) in a.nuisance.iter().zip(&b.nuisance) {
            sums[0] -= a.0[one] * b.0[other];
        }
        sums[0] + sums[1] + sums[2] + sums[3]
    }

    /// The inner products of one column with others.
    pub fn products(&self, one: usize, others: &[usize]) -> Vec<f64> {
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

    #[inline(always)]
    fn products_with_block(&self, one: usize, block: usize) -> Lanes {
        let (one, lane) = (&self.blocks[one / LANES], one % LANES);
        let block = &self.blocks[block];
        let mut sum = Lanes::default();
        for (a, b) in one.rows.iter().zip(&block.rows) {
            sum = sum.plus(b.times(a.0[lane]));
        }
        for (a, b) in one.nuisance.iter().zip(&block.nuisance) {
            sum = sum.minus(b.times(a.0[lane]));
        }
        sum
    }
}

/// The inner product of each column of a block with `other`.
#[inline(always)]
fn products(rows: &[Lanes], other: &[f64]) -> Lanes {
    let mut sum = Lanes::default();
    for (row, other) in rows.iter().zip(other) {
        sum = sum.plus(row.times(*other));
    }
    sum
}

fn take(from: &mut [f64], q: &[f64], times: f64) {
    for (v, q) in from.iter_mut().zip(q) {
        *v -= times * q;
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

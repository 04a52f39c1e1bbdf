//! Every column that is tried on one window, worked out once: exponentials and powers cost more than all
//! that is done with them.

use std::sync::Arc;

use super::basis::Basis;
use super::lanes::{LANES, Lanes};

/// Columns side by side in blocks, each with a value per bin.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    x: Vec<f64>,
    bases: Vec<Basis>,
    /// The last one is filled up with zeros.
    blocks: Vec<Arc<Vec<Lanes>>>,
}

impl Columns {
    /// No column yet, over these instants of the clock of a window.
    pub fn over(x: &[f64]) -> Columns {
        Columns {
            x: x.to_vec(),
            ..Columns::default()
        }
    }

    /// How many columns there are.
    pub fn count(&self) -> usize {
        self.bases.len()
    }

    /// The rows of each block.
    pub fn blocks(&self) -> &[Arc<Vec<Lanes>>] {
        &self.blocks
    }

    /// Where these columns stand, in their order; those that are new are worked out.
    pub fn places(&mut self, wanted: &[Basis]) -> Vec<usize> {
        let place = |(hint, basis)| self.place(hint, basis);
        wanted.iter().copied().enumerate().map(place).collect()
    }

    /// Most columns stand where they stood in the list that came first.
    fn place(&mut self, hint: usize, basis: Basis) -> usize {
        if self.bases.get(hint) == Some(&basis) {
            return hint;
        }
        if let Some(known) = self.bases.iter().position(|b| *b == basis) {
            return known;
        }
        let place = self.bases.len();
        self.bases.push(basis);
        let (block, lane) = (place / LANES, place % LANES);
        if block == self.blocks.len() {
            let empty = vec![Lanes::default(); self.x.len()];
            self.blocks.push(Arc::new(empty));
        }
        let rows = Arc::make_mut(&mut self.blocks[block]);
        for (row, value) in rows.iter_mut().zip(basis.over(&self.x)) {
            row.0[lane] = value;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_worked_out_once_and_found_again() {
        let mut all = Columns::over(&[0.0, 0.5, 1.0]);
        let (line, square) = (Basis::Power(1.0), Basis::Power(2.0));
        assert_eq!(all.places(&[line, square]), [0, 1]);
        assert_eq!(all.places(&[square, Basis::Step(0.4), line]), [1, 2, 0]);
        assert_eq!((all.blocks()[0].len(), all.count()), (3, 3));
        let column = |lane: usize| all.blocks()[0].iter().map(move |row| row.0[lane]);
        assert!(column(1).eq([0.0, 0.25, 1.0]));
        assert!(column(2).eq([0.0, 1.0, 1.0]));
        assert!(column(3).eq([0.0; 3]));
    }
}

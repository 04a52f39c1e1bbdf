//! Every column that is tried on one window, worked out once: exponentials and powers cost more than all
//! that is done with them.

use super::basis::Basis;

/// Room for what is tried besides the grid.
const NEIGHBOURS: usize = 200;

/// Columns side by side, each with a value per bin.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    x: Vec<f64>,
    bases: Vec<Basis>,
    cells: Vec<f64>,
}

impl Columns {
    /// No column yet, over these instants of the clock of a window.
    pub fn over(x: &[f64]) -> Columns {
        Columns {
            x: x.to_vec(),
            ..Columns::default()
        }
    }

    /// How many bins each has.
    pub fn rows(&self) -> usize {
        self.x.len()
    }

    /// How many columns there are.
    pub fn count(&self) -> usize {
        self.bases.len()
    }

    pub fn column(&self, place: usize) -> &[f64] {
        &self.cells[place * self.rows()..(place + 1) * self.rows()]
    }

    /// Where these columns stand, in their order; those that are new are worked out.
    pub fn places(&mut self, wanted: &[Basis]) -> Vec<usize> {
        if self.bases.is_empty() {
            let room = (wanted.len() + NEIGHBOURS) * self.rows();
            self.cells.reserve(room);
        }
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
        self.bases.push(basis);
        self.cells.extend(basis.over(&self.x));
        self.bases.len() - 1
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
        assert_eq!((all.rows(), all.count()), (3, 3));
        assert_eq!(all.column(1), [0.0, 0.25, 1.0]);
        assert_eq!(all.column(2), [0.0, 1.0, 1.0]);
    }
}

//! Embeddings, and the documents that are near to one: by comparing with all, or with those of the nearest cells.

use anyhow::Result;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};

use crate::corpus::DIMENSIONS;

/// Cells that are looked into; with one per topic the nearest holds nearly all that is near.
const LOOKED_INTO: usize = 2;
const NEAR: &str = "SELECT id, cosine(embedding, ?1) AS near FROM vectors";

/// The centres of all cells, in memory.
#[derive(Debug, Default)]
pub struct Cells(Vec<(i64, Vec<f32>)>);

impl Cells {
    /// # Errors
    /// When the table cannot be read.
    pub fn read(connection: &Connection) -> Result<Cells> {
        let mut statement = connection.prepare("SELECT cell, centre FROM cells ORDER BY cell")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, parse_embedding(row.get_ref(1)?.as_blob()?)))
        })?;
        Ok(Cells(rows.collect::<Result<_, _>>()?))
    }

    /// The cell that an embedding belongs to; 0 when there are none.
    pub fn of(&self, embedding: &[f32]) -> i64 {
        self.nearest(embedding).first().copied().unwrap_or(0)
    }

    fn nearest(&self, embedding: &[f32]) -> Vec<i64> {
        let mut near: Vec<_> = self
            .0
            .iter()
            .map(|(cell, centre)| (dot(embedding, centre), *cell))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.iter()
            .take(LOOKED_INTO)
            .map(|(_, cell)| *cell)
            .collect()
    }

    pub fn push(&mut self, cell: i64, centre: Vec<f32>) {
        self.0.push((cell, centre));
    }
}

/// Makes `cosine(blob, blob)` known to SQL; 0 for what is no embedding.
///
/// # Errors
/// When SQLite refuses the function.
pub fn define_cosine(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("cosine", 2, flags, |context| {
        let (a, b) = (context.get_raw(0).as_blob(), context.get_raw(1).as_blob());
        Ok(f64::from(cosine(a.unwrap_or(&[]), b.unwrap_or(&[]))))
    })?;
    Ok(())
}

/// The `count` documents nearest to an embedding, the nearest first, by comparing with every one.
///
/// # Errors
/// When the database cannot be read.
pub fn nearest_of_all(
    connection: &Connection,
    embedding: &[u8],
    count: usize,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    let mut statement =
        connection.prepare_cached(&format!("{NEAR} ORDER BY near DESC LIMIT ?2"))?;
    let rows = statement.query_map(params![embedding, count as i64], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    rows.collect()
}

/// The same, of the documents of the nearest cells only.
///
/// # Errors
/// When the database cannot be read.
pub fn nearest_of_cells(
    connection: &Connection,
    cells: &Cells,
    embedding: &[u8],
    count: usize,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    let nearest = cells.nearest(&parse_embedding(embedding));
    let mut statement = connection.prepare_cached(&format!(
        "{NEAR} WHERE cell IN (?3, ?4) ORDER BY near DESC LIMIT ?2"
    ))?;
    let (first, second) = (nearest.first(), nearest.get(1));
    let rows = statement.query_map(params![embedding, count as i64, first, second], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    rows.collect()
}

/// Little-endian floats.
pub fn bytes_of(embedding: &[f32]) -> Vec<u8> {
    embedding.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// What [`bytes_of`] wrote; empty when it is no embedding.
pub fn parse_embedding(bytes: &[u8]) -> Vec<f32> {
    if bytes.len() != DIMENSIONS * 4 {
        return Vec::new();
    }
    floats(bytes).collect()
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")))
}

/// Angle between two vectors as they lie in the database; both lengths are computed, as in SQL extensions.
fn cosine(a: &[u8], b: &[u8]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    let (mut product, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in floats(a).zip(floats(b)) {
        product += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    let lengths: f32 = of_a * of_b;
    if lengths > 0.0 {
        product / lengths.sqrt()
    } else {
        0.0
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_is_that_of_the_angle() {
        let (a, b) = (bytes_of(&[3.0, 0.0]), bytes_of(&[1.0, 1.0]));
        assert!((cosine(&a, &b) - 0.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(cosine(&a, &a), 1.0);
        assert_eq!(cosine(&a, &bytes_of(&[0.0, 0.0])), 0.0);
        assert_eq!(cosine(&a, &bytes_of(&[1.0])), 0.0);
    }

    #[test]
    fn an_embedding_survives_its_bytes_and_other_bytes_are_none() {
        let embedding: Vec<f32> = (0..DIMENSIONS).map(|at| at as f32 / 7.0).collect();
        assert_eq!(parse_embedding(&bytes_of(&embedding)), embedding);
        assert!(parse_embedding(&[1, 2, 3]).is_empty());
    }

    #[test]
    fn sql_meets_what_is_no_embedding_without_an_error() {
        let connection = Connection::open_in_memory().unwrap();
        define_cosine(&connection).unwrap();
        let near: f64 = connection
            .query_row(
                "SELECT cosine(NULL, 'text') + cosine(x'00', x'01')",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(near, 0.0);
    }
}

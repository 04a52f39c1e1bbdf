//! Series that were read as one, because no column is known to name them: most instants have several readings of
//! different values then, and another column separates them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use csv::StringRecord;

use super::ImportError;
use super::columns::Columns;

/// So many instants of the beginning are remembered.
const INSTANTS_MAX: usize = 4096;
/// So many columns may separate them, by so many values.
const COLUMNS_MAX: usize = 16;
const VALUES_MAX: usize = 1 << 14;
/// One reading in so many may come twice in a series that a column separates from others.
const SAME_PER: usize = 20;

/// The first reading of an instant.
#[derive(Debug)]
struct First {
    bytes: f64,
    /// Hashes of the cells of the columns.
    cells: Vec<u64>,
    is_doubled: bool,
}

/// A column that may say which series a row is of.
#[derive(Debug)]
struct Column {
    place: usize,
    values: HashSet<u64>,
    /// Readings that are the same here as the first of their instant.
    same: usize,
}

/// What the rows have shown so far.
#[derive(Debug)]
pub struct Doubles {
    firsts: HashMap<u64, First>,
    /// The latest instant that is remembered: a table in the order of time is not compared beyond it.
    latest_s: f64,
    columns: Vec<Column>,
    rows: usize,
    /// Instants with different readings.
    doubled: usize,
    /// Where the header is.
    line: u64,
    hasher: RandomState,
}

/// Values of a column that names the series, for each reading at one instant: some are there for a while only.
const VALUES_PER: usize = 4;

impl Doubles {
    /// `None` where a column names the series already, or there are no times.
    /// `line` and `count` are the place of the header, and its names.
    pub fn of(columns: &Columns, count: usize, line: u64) -> Option<Doubles> {
        let is_one = columns.id.is_empty() && columns.arm.is_none() && columns.wide.is_empty();
        if !is_one || columns.time.interval_s.is_some() {
            return None;
        }
        let is_other = |at: &usize| *at != columns.value && !columns.time.is_at(*at);
        let others = (0..count).filter(is_other).take(COLUMNS_MAX);
        let columns = others.map(|place| Column {
            place,
            values: HashSet::new(),
            same: 0,
        });
        Some(Doubles {
            firsts: HashMap::new(),
            latest_s: f64::NEG_INFINITY,
            columns: columns.collect(),
            rows: 0,
            doubled: 0,
            line,
            hasher: RandomState::new(),
        })
    }

    /// Takes a reading.
    pub fn take(&mut self, t_s: f64, bytes: f64, record: &StringRecord) {
        let is_full = self.firsts.len() >= INSTANTS_MAX;
        if self.columns.is_empty() || (is_full && t_s > self.latest_s) {
            return;
        }
        let key = t_s.to_bits();
        if is_full && !self.firsts.contains_key(&key) {
            return;
        }
        let cells = self.cells(record);
        self.rows += 1;
        let Some(first) = self.firsts.get_mut(&key) else {
            self.latest_s = self.latest_s.max(t_s);
            let first = First {
                bytes,
                cells,
                is_doubled: false,
            };
            self.firsts.insert(key, first);
            return;
        };
        let differs = (first.bytes - bytes).abs() > 0.0;
        self.doubled += usize::from(!first.is_doubled && differs);
        first.is_doubled |= differs;
        for (column, (own, others)) in self.columns.iter_mut().zip(cells.iter().zip(&first.cells)) {
            column.same += usize::from(own == others);
        }
    }

    /// Hashes of the cells, which are counted.
    fn cells(&mut self, record: &StringRecord) -> Vec<u64> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let cell = record.get(column.place).unwrap_or("");
            let hash = self.hasher.hash_one(cell);
            if column.values.len() < VALUES_MAX {
                column.values.insert(hash);
            }
            cells.push(hash);
        }
        cells
    }

    /// At the end: whether most instants had different readings that a column with few values separates.
    ///
    /// # Errors
    /// They had.
    pub fn check(&self, header: &[String]) -> Result<(), ImportError> {
        // Of times that are rounded no column separates the readings: they are of one series.
        // What names a series has about as many values as there are readings at one instant; a measure has more.
        let each = self.rows.div_ceil(self.firsts.len().max(1));
        let are_few = |count: usize| count < VALUES_MAX && count <= VALUES_PER * each;
        let doubles = self.rows - self.firsts.len();
        let separates =
            |column: &&Column| SAME_PER * column.same <= doubles && are_few(column.values.len());
        let separating = self.columns.iter().filter(separates);
        let Some(column) = separating.min_by_key(|column| column.values.len()) else {
            return Ok(());
        };
        if 2 * self.doubled <= self.firsts.len() {
            return Ok(());
        }
        let name = header.get(column.place).map_or("", String::as_str);
        let what = format!(
            "{} of the first {} instants have several readings, and {name} separates them",
            self.doubled,
            self.firsts.len()
        );
        let next = format!("if it names the series, say so with --id-column '{name}'");
        Err(ImportError::new(self.line, column.place, what, next))
    }
}

#[cfg(test)]
mod tests {
    use crate::columns::Wanted;
    use crate::rows::Rows;

    /// Reads to the end; the error that comes there.
    fn error_of(text: &str, wanted: &Wanted) -> Option<String> {
        let mut rows = Rows::open(text.as_bytes(), wanted).unwrap();
        loop {
            match rows.next_row() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    fn table(names: &str, line: impl Fn(usize, usize) -> String) -> String {
        let lines = (0..3).flat_map(|series| (0..40).map(move |t| (series, t)));
        let lines: String = lines.map(|(series, t)| line(series, t) + "\n").collect();
        format!("{names}\n{lines}")
    }

    #[test]
    fn series_that_are_not_separated_are_an_error_that_names_their_column() {
        let machines = table("vm,disk,timestamp,mem_kib", |series, t| {
            let disk = 1000 * series + t;
            // One machine was read twice at the same time, once.
            let t = if (series, t) == (2, 39) { 38 } else { t };
            format!("vm{series},{disk},{},{}", 60 * t, 1000 + series)
        });
        let error = error_of(&machines, &Wanted::default()).unwrap();
        assert!(error.contains("--id-column 'vm'"), "{error}");
        assert!(error.contains("40 of the first 40 instants"), "{error}");
        let id = Wanted {
            id: Some("vm".into()),
            ..Wanted::default()
        };
        assert_eq!(error_of(&machines, &id), None);
    }

    /// Of some doubles, of times that are rounded, and of readings that come twice, the median is taken.
    #[test]
    fn doubles_of_one_series_are_none() {
        let some = table("source,timestamp,mem_kib", |series, t| {
            let t = if t < 15 { t } else { 100 * series + t };
            format!("s{series},{t},{}", 1000 + series)
        });
        assert_eq!(error_of(&some, &Wanted::default()), None);
        let rounded = table("level,timestamp,mem_kib,n", |series, t| {
            format!("info,{t},{},{}", 1000 + series, 40 * series + t)
        });
        assert_eq!(error_of(&rounded, &Wanted::default()), None);
        let twice = table("event,timestamp,mem_kib", |series, t| {
            format!("e{series},{t},1000")
        });
        assert_eq!(error_of(&twice, &Wanted::default()), None);
    }
}

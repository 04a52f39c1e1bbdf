//! A new database, filled with the corpus.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};

use super::access::open_writer;
use super::vectors::{Cells, bytes_of};
use super::{PUBLICATION_INDEX, TABLES, write};
use crate::corpus::{Corpus, Publication};
use crate::fault::{Fault, Faults};

/// Makes the database at `path`, which must not be there yet.
///
/// # Errors
/// When it cannot be written.
pub fn fill(path: &Path, corpus: &Corpus, faults: &Faults) -> Result<()> {
    anyhow::ensure!(
        !path.exists(),
        "{path:?} is there already: name another --data, or remove it"
    );
    let mut connection = open_writer(path)?;
    let transaction = connection.transaction()?;
    transaction
        .execute_batch(TABLES)
        .context("making the tables")?;
    if !faults.has(Fault::MissingIndex) {
        transaction.execute_batch(PUBLICATION_INDEX)?;
    }
    let mut cells = Cells::default();
    for (cell, centre) in (0..).zip(corpus.topics()) {
        transaction.execute(
            "INSERT INTO cells VALUES (?1, ?2)",
            params![cell, bytes_of(centre)],
        )?;
        cells.push(cell, centre.clone());
    }
    for publication in corpus.publications() {
        insert_publication(&transaction, publication)?;
    }
    for number in 0..corpus.len() {
        write::insert_document(&transaction, &corpus.document(number, 0), &cells)?;
    }
    write::refresh_aggregates(&transaction).context("counting")?;
    transaction.commit()?;
    connection
        .execute_batch("INSERT INTO documents_fts(documents_fts) VALUES ('optimize');")
        .context("merging the full text index")?;
    write::checkpoint(&connection)
}

fn insert_publication(connection: &Connection, of: &Publication) -> Result<()> {
    connection.execute(
        "INSERT INTO publications VALUES (?1, ?2, ?3, ?4, ?5)",
        params![of.uri, of.did, of.name, of.description, of.base_path],
    )?;
    connection.execute(
        "INSERT INTO publications_fts VALUES (?1, ?2, ?3, ?4)",
        params![of.uri, of.name, of.description, of.base_path],
    )?;
    Ok(())
}

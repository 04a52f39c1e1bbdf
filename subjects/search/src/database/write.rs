//! What is written while the service runs.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use rustix::fs::{Advice, fadvise};

use super::vectors::{Cells, bytes_of};
use crate::corpus::Document;

/// What the dashboard shows, counted anew from all documents.
const AGGREGATES: &str = "
DELETE FROM aggregates;
INSERT INTO aggregates SELECT 'documents', publication_uri, count(*) FROM documents GROUP BY 2;
INSERT INTO aggregates
    SELECT 'words', publication_uri, sum(length(content) - length(replace(content, ' ', '')))
    FROM documents GROUP BY 2;
INSERT INTO aggregates SELECT 'days', date(created_at, 'unixepoch'), count(*) FROM documents GROUP BY 2;
INSERT INTO aggregates SELECT 'tags', tags, count(*) FROM documents GROUP BY 2 ORDER BY 3 DESC LIMIT 100;
";

/// # Errors
/// When the database refuses it.
pub fn insert_document(connection: &Connection, of: &Document, cells: &Cells) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO documents VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            of.id,
            of.uri,
            of.did,
            of.title,
            of.created_at_s,
            of.tags,
            of.content,
            of.publication_uri
        ])?;
    connection
        .prepare_cached("INSERT INTO vectors VALUES (?1, ?2, ?3)")?
        .execute(params![
            of.id,
            cells.of(&of.embedding),
            bytes_of(&of.embedding)
        ])?;
    Ok(())
}

/// A batch of edited documents, in one transaction.
///
/// # Errors
/// When the database refuses one; then none is written.
pub fn apply_edits(connection: &mut Connection, edits: &[Document]) -> Result<()> {
    let transaction = connection.transaction()?;
    let cells = Cells::read(&transaction)?;
    for of in edits {
        transaction
            .prepare_cached(
                "UPDATE documents SET title = ?2, tags = ?3, content = ?4 WHERE uri = ?1",
            )?
            .execute(params![of.uri, of.title, of.tags, of.content])?;
        transaction
            .prepare_cached("UPDATE vectors SET cell = ?2, embedding = ?3 WHERE id = ?1")?
            .execute(params![
                of.id,
                cells.of(&of.embedding),
                bytes_of(&of.embedding)
            ])?;
    }
    transaction.commit().context("committing a batch of edits")
}

/// # Errors
/// When the database refuses it.
pub fn refresh_aggregates(connection: &Connection) -> Result<()> {
    connection
        .execute_batch(AGGREGATES)
        .context("refreshing the aggregates")
}

/// # Errors
/// When the database refuses it; then nothing is counted.
pub fn add_searches(connection: &mut Connection, counts: &HashMap<String, u64>) -> Result<()> {
    let transaction = connection.transaction()?;
    for (query, count) in counts {
        transaction
            .prepare_cached(
                "INSERT INTO searches VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET count = count + excluded.count",
            )?
            .execute(params![query, *count as i64])?;
    }
    transaction
        .commit()
        .context("committing what was searched for")
}

/// Moves what is in the log to the database, as far as no reader needs it.
///
/// # Errors
/// When the disk refuses it.
pub fn checkpoint(connection: &Connection) -> Result<()> {
    connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .context("moving the log into the database")
}

/// Tells the kernel that the file's pages are not needed, as a tool that has just shipped a snapshot of it does.
/// Pages that someone has mapped stay; all others are read from the disk the next time.
///
/// # Errors
/// When the file cannot be opened.
pub fn drop_from_page_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("opening {path:?}"))?;
    fadvise(&file, 0, None, Advice::DontNeed).context("advising the kernel")
}

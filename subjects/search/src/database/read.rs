//! The queries of the readers.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub id: i64,
    pub uri: String,
    pub did: String,
    pub title: String,
    pub snippet: String,
    /// ISO 8601.
    pub created_at: String,
    pub tags: String,
    pub publication: String,
    pub base_path: String,
}

const COLUMNS: &str =
    "d.id, d.uri, d.did, d.title, strftime('%Y-%m-%dT%H:%M:%SZ', d.created_at, 'unixepoch'),
    d.tags, p.name, p.base_path";

/// Documents whose text matches, the best first.
pub const BY_TEXT: &str = "snippet(documents_fts, 1, '<b>', '</b>', '...', 12)
    FROM documents_fts f JOIN documents d ON d.id = f.rowid
    JOIN publications p ON p.uri = d.publication_uri
    WHERE documents_fts MATCH ?1 ORDER BY f.rank LIMIT ?2";

/// Publications whose name, description or address matches.
pub const PUBLICATIONS: &str =
    "SELECT uri FROM publications_fts WHERE publications_fts MATCH ?1 LIMIT ?2";

/// The newest documents of one publication: asked once for each that matches.
pub const BY_PUBLICATION: &str = "substr(d.content, 1, 120)
    FROM documents d JOIN publications p ON p.uri = d.publication_uri
    WHERE d.publication_uri = ?1 ORDER BY d.created_at DESC LIMIT ?2";

const BY_ID: &str = "substr(d.content, 1, 120)
    FROM documents d JOIN publications p ON p.uri = d.publication_uri WHERE d.id = ?1";

/// A query as SQL, with the columns of a [`Hit`].
pub fn sql(query: &str) -> String {
    format!("SELECT {COLUMNS}, {query}")
}

/// # Errors
/// When the database cannot be read.
pub fn documents_by_text(connection: &Connection, words: &str, limit: usize) -> Result<Vec<Hit>> {
    hits(connection, BY_TEXT, words, limit)
}

/// # Errors
/// When the database cannot be read.
pub fn publications_by_text(
    connection: &Connection,
    words: &str,
    limit: usize,
) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(PUBLICATIONS)?;
    let rows = statement.query_map(params![words, limit as i64], |row| row.get(0))?;
    rows.collect()
}

/// # Errors
/// When the database cannot be read.
pub fn documents_of_publication(
    connection: &Connection,
    uri: &str,
    limit: usize,
) -> Result<Vec<Hit>> {
    hits(connection, BY_PUBLICATION, uri, limit)
}

/// # Errors
/// When the database cannot be read.
pub fn document(connection: &Connection, id: i64) -> Result<Option<Hit>> {
    connection
        .prepare_cached(&sql(BY_ID))?
        .query_row([id], hit)
        .optional()
}

/// Number and whole text of a document.
///
/// # Errors
/// When the database cannot be read.
pub fn content(connection: &Connection, uri: &str) -> Result<Option<(i64, String)>> {
    connection
        .prepare_cached("SELECT id, content FROM documents WHERE uri = ?1")?
        .query_row([uri], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// # Errors
/// When the database cannot be read.
pub fn embedding(connection: &Connection, uri: &str) -> Result<Option<Vec<u8>>> {
    connection
        .prepare_cached(
            "SELECT v.embedding FROM documents d JOIN vectors v ON v.id = d.id WHERE d.uri = ?1",
        )?
        .query_row([uri], |row| row.get(0))
        .optional()
}

/// What the sync writer counted: name, key, value; of each name the largest.
///
/// # Errors
/// When the database cannot be read.
pub fn aggregates(connection: &Connection, name: &str, limit: usize) -> Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT key, value FROM aggregates WHERE name = ?1 ORDER BY value DESC, key LIMIT ?2",
    )?;
    let rows = statement.query_map(params![name, limit as i64], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    rows.collect()
}

/// What was searched for most.
///
/// # Errors
/// When the database cannot be read.
pub fn popular(connection: &Connection, limit: usize) -> Result<Vec<(String, i64)>> {
    let mut statement = connection
        .prepare_cached("SELECT query, count FROM searches ORDER BY count DESC, query LIMIT ?1")?;
    let rows = statement.query_map([limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Reads every page that searches need, so that a mapped file is in memory before the first request.
///
/// # Errors
/// When the database cannot be read.
pub fn warm(connection: &Connection) -> Result<()> {
    let all = [
        ("content", "documents"),
        ("block", "documents_fts_data"),
        ("sz", "documents_fts_docsize"),
        ("embedding", "vectors"),
    ];
    for (column, table) in all {
        // A length alone would be read from the row's header; hex() looks at the value.
        let sql = format!("SELECT sum(length(hex({column}))) FROM {table}");
        connection.query_row(&sql, [], |_| Ok(()))?;
    }
    Ok(())
}

fn hits(connection: &Connection, query: &str, parameter: &str, limit: usize) -> Result<Vec<Hit>> {
    let mut statement = connection.prepare_cached(&sql(query))?;
    let rows = statement.query_map(params![parameter, limit as i64], hit)?;
    rows.collect()
}

fn hit(row: &Row) -> Result<Hit> {
    Ok(Hit {
        id: row.get(0)?,
        uri: row.get(1)?,
        did: row.get(2)?,
        title: row.get(3)?,
        created_at: row.get(4)?,
        tags: row.get(5)?,
        publication: row.get(6)?,
        base_path: row.get(7)?,
        snippet: row.get(8)?,
    })
}

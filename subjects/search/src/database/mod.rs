//! The database: one file, written by one connection, read by one connection for each worker.

pub mod access;
pub mod fill;
pub mod read;
pub mod vectors;
pub mod write;

pub use access::{Access, Reader};

/// All tables. `publication_uri` came last, as it did in the history: to compare it, a scan walks over the content.
pub const TABLES: &str = "
CREATE TABLE publications(
    uri TEXT PRIMARY KEY, did TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, base_path TEXT NOT NULL
);
CREATE VIRTUAL TABLE publications_fts USING fts5(uri UNINDEXED, name, description, base_path);
CREATE TABLE documents(
    id INTEGER PRIMARY KEY, uri TEXT NOT NULL, did TEXT NOT NULL, title TEXT NOT NULL, created_at INTEGER NOT NULL,
    tags TEXT NOT NULL, content TEXT NOT NULL, publication_uri TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_uri ON documents(uri);
CREATE VIRTUAL TABLE documents_fts USING fts5(title, content, content='documents', content_rowid='id');
CREATE TRIGGER documents_inserted AFTER INSERT ON documents BEGIN
    INSERT INTO documents_fts(rowid, title, content) VALUES (new.id, new.title, new.content);
END;
CREATE TRIGGER documents_updated AFTER UPDATE ON documents BEGIN
    INSERT INTO documents_fts(documents_fts, rowid, title, content)
        VALUES ('delete', old.id, old.title, old.content);
    INSERT INTO documents_fts(rowid, title, content) VALUES (new.id, new.title, new.content);
END;
CREATE TABLE vectors(id INTEGER PRIMARY KEY, cell INTEGER NOT NULL, embedding BLOB NOT NULL);
CREATE INDEX vectors_cell ON vectors(cell);
CREATE TABLE cells(cell INTEGER PRIMARY KEY, centre BLOB NOT NULL);
CREATE TABLE aggregates(
    name TEXT NOT NULL, key TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY(name, key)
) WITHOUT ROWID;
CREATE TABLE searches(query TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
";

/// The index whose lack is a fault.
pub const PUBLICATION_INDEX: &str =
    "CREATE INDEX documents_publication_uri ON documents(publication_uri, created_at);";

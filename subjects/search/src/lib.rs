//! A search service over some thousand documents of some hundred publications: the subject of a history in which
//! requests took one to three seconds between two consecutive lines of code, and nobody could see why.
//!
//! - [`corpus`]: the documents, from a seed
//! - [`database`]: SQLite with full text search, vectors, and what is written meanwhile
//! - [`spans`]: what each request did, and the processor that exports it
//! - [`http`]: sixteen workers that answer one request per connection
//! - [`answers`]: what is answered to which address
//! - [`background`]: the threads that are not asked by anyone
//! - [`fault`]: what can be broken on purpose
//! - [`service`]: all of it, from start to end
//! - [`collector`]: the other end of the export

pub mod answers;
pub mod background;
pub mod collector;
pub mod corpus;
pub mod database;
pub mod fault;
pub mod figures;
pub mod http;
pub mod lock;
pub mod quota;
pub mod service;
pub mod spans;

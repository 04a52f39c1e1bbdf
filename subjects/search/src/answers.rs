//! What is answered to which address.

use std::sync::atomic::Ordering::Relaxed;

use rusqlite::Result;
use serde_json::{Value as Json, json};

use crate::database::read::{self, Hit};
use crate::database::{Reader, vectors};
use crate::http::{Request, Response};
use crate::lock::lock;
use crate::service::State;
use crate::spans::{Span, Value};

/// Rows of an answer that match by their text: 21 KB.
pub const BY_TEXT_MAX: usize = 40;
/// Rows that are there for the publication they stand in: with them it is 32 KB.
pub const BY_PUBLICATION_MAX: usize = 20;
/// Publications whose documents are looked at.
const PUBLICATIONS_MAX: usize = 24;
const SIMILAR_MAX: usize = 10;
const WORDS_MAX: usize = 8;
const POPULAR_MAX: usize = 20;
/// Different searches that are counted between two flushes.
const SEARCHES_MAX: usize = 10_000;

/// What one request is answered with; what fails is said and counted.
pub fn answer(request: &Request, reader: &Reader, state: &State, span: &Span) -> Response {
    let of_request = Asked {
        reader,
        state,
        span,
    };
    let answered = match request.path.as_str() {
        "/search" => of_request.search(request.parameter("q").unwrap_or_default()),
        "/similar" => of_request.similar(request.parameter("uri").unwrap_or_default()),
        "/document" => of_request.document(request.parameter("uri").unwrap_or_default()),
        "/dashboard" => of_request.dashboard(),
        "/popular" => of_request.popular(),
        "/activity" => Ok(Response::json(
            &json!({ "perSecond": state.activity.per_second() }),
        )),
        "/health" => Ok(Response::text(200, "ok\n")),
        "/metrics" => Ok(metrics(state)),
        _ => Ok(Response::text(404, "try /search?q=WORD\n")),
    };
    answered.unwrap_or_else(|error| {
        state.figures.failed.fetch_add(1, Relaxed);
        Response::text(500, format!("the database: {error}\n"))
    })
}

fn metrics(state: &State) -> Response {
    Response {
        status: 200,
        content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
        body: state.figures.page(state.processor.as_deref()),
    }
}

struct Asked<'a> {
    reader: &'a Reader,
    state: &'a State,
    span: &'a Span<'a>,
}

impl Asked<'_> {
    fn search(&self, query: &str) -> Result<Response> {
        let Some(words) = match_expression(query) else {
            return Ok(Response::text(400, "q has no word\n"));
        };
        self.count(query);
        let mut hits = self.query("documents_by_text", |connection| {
            read::documents_by_text(connection, &words, BY_TEXT_MAX)
        })?;
        let publications = self.query("publications_by_text", |connection| {
            read::publications_by_text(connection, &words, PUBLICATIONS_MAX)
        })?;
        let more = self.query("documents_of_publications", |connection| {
            newest_of_all(connection, &publications)
        })?;
        let known: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
        hits.extend(more.into_iter().filter(|hit| !known.contains(&hit.id)));
        Ok(Response::json(&Json::Array(hits.iter().map(row).collect())))
    }

    fn similar(&self, uri: &str) -> Result<Response> {
        let embedding = self.query("embedding", |connection| read::embedding(connection, uri))?;
        let Some(embedding) = embedding else {
            return Ok(Response::text(404, "no such document\n"));
        };
        let near = self.span.query("nearest", || self.near(&embedding))?;
        let rows = near.iter().map(|(id, near)| {
            let hit = self.query("document", |connection| read::document(connection, *id))?;
            Ok(hit.map(|hit| {
                let mut row = row(&hit);
                row["near"] = json!(near);
                row
            }))
        });
        let rows: Vec<_> = rows
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        Ok(Response::json(&Json::Array(rows)))
    }

    fn near(&self, embedding: &[u8]) -> Result<Vec<(i64, f64)>> {
        let access = &self.state.access;
        access.near(|connection, cells| {
            if access.brute_force {
                vectors::nearest_of_all(connection, embedding, SIMILAR_MAX)
            } else {
                vectors::nearest_of_cells(connection, cells, embedding, SIMILAR_MAX)
            }
        })
    }

    fn document(&self, uri: &str) -> Result<Response> {
        let found = self.query("content", |connection| read::content(connection, uri))?;
        Ok(match found {
            Some((_, content)) => Response::json(&json!({ "uri": uri, "content": content })),
            None => Response::text(404, "no such document\n"),
        })
    }

    fn dashboard(&self) -> Result<Response> {
        let mut page = serde_json::Map::new();
        for (name, most) in [
            ("documents", 100),
            ("words", 100),
            ("days", 100),
            ("tags", 20),
        ] {
            let rows = self.query("aggregates", |connection| {
                read::aggregates(connection, name, most)
            })?;
            let rows = rows
                .iter()
                .map(|(key, value)| json!({ "key": key, "value": value }));
            page.insert(name.to_string(), rows.collect());
        }
        Ok(Response::json(&Json::Object(page)))
    }

    fn popular(&self) -> Result<Response> {
        let rows = self.query("popular", |connection| {
            read::popular(connection, POPULAR_MAX)
        })?;
        let rows = rows
            .iter()
            .map(|(query, count)| json!({ "query": query, "count": count }));
        Ok(Response::json(&rows.collect()))
    }

    fn query<T>(&self, name: &'static str, work: impl FnOnce(&rusqlite::Connection) -> T) -> T {
        self.span.query(name, || self.reader.read(work))
    }

    /// Counted in memory; the stats flush writes it.
    fn count(&self, query: &str) {
        let mut searches = lock(&self.state.searches);
        if searches.len() < SEARCHES_MAX {
            *searches.entry(query.to_string()).or_default() += 1;
        }
    }
}

/// The newest documents of each publication, and of these the newest.
fn newest_of_all(connection: &rusqlite::Connection, publications: &[String]) -> Result<Vec<Hit>> {
    let mut hits = Vec::new();
    for uri in publications {
        hits.extend(read::documents_of_publication(
            connection,
            uri,
            BY_PUBLICATION_MAX,
        )?);
    }
    hits.sort_by(|a, b| b.created_at.cmp(&a.created_at));
    hits.truncate(BY_PUBLICATION_MAX);
    Ok(hits)
}

/// The words as FTS5 wants them, each in quotes: what a person types is never its syntax. None when there is no word.
pub fn match_expression(query: &str) -> Option<String> {
    let words = query
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX);
    let expression: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
    (!expression.is_empty()).then(|| expression.join(" "))
}

fn row(hit: &Hit) -> Json {
    json!({
        "type": "article",
        "uri": hit.uri,
        "did": hit.did,
        "title": hit.title,
        "snippet": hit.snippet,
        "createdAt": hit.created_at,
        "rkey": hit.uri.rsplit('/').next(),
        "basePath": hit.base_path,
        "publication": hit.publication,
        "tags": hit.tags.split(' ').collect::<Vec<_>>(),
        "platform": "leaflet",
    })
}

/// What the first span says of how the request came in.
pub fn describe(span: &mut Span, request: &Request, queue_ms: f64, receive_ms: f64) {
    span.set("http.route", Value::Text(request.path.clone()));
    span.set("queue_ms", Value::Real(queue_ms));
    span.set("receive_ms", Value::Real(receive_ms));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_is_words_and_never_syntax() {
        assert_eq!(match_expression("two words").unwrap(), "\"two\" \"words\"");
        assert_eq!(
            match_expression("a\"b NOT (x*) title:").unwrap(),
            "\"a\" \"b\" \"NOT\" \"x\" \"title\""
        );
        assert_eq!(match_expression(" \" - "), None);
        assert_eq!(
            match_expression(&"w ".repeat(50))
                .unwrap()
                .matches('w')
                .count(),
            WORDS_MAX
        );
    }
}

//! The database with and without each of its faults: what SQLite does is asked of SQLite.

use rusqlite::Connection;
use search::corpus::{BROAD, Corpus};
use search::database::access::CACHE_PRAGMAS;
use search::database::{Access, fill, read, vectors, write};
use search::fault::{Fault, Faults};

struct Filled {
    access: Access,
    corpus: Corpus,
    _folder: tempfile::TempDir,
}

fn filled(documents: usize, faults: &[Fault]) -> Filled {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("search.db");
    let corpus = Corpus::new(1, documents, 30);
    let faults = Faults(faults.to_vec());
    fill::fill(&path, &corpus, &faults).unwrap();
    Filled {
        access: Access::open(&path, &faults).unwrap(),
        corpus,
        _folder: folder,
    }
}

/// SQLite's plan of a query, a step a line.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let steps = statement
        .query_map(["x", "1"], |row| row.get::<_, String>(3))
        .unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}

#[test]
fn without_the_index_each_publication_is_a_scan() {
    let sql = read::sql(read::BY_PUBLICATION);
    let reader = |filled: &Filled| filled.access.reader().unwrap().read(|c| plan(c, &sql));
    let with = reader(&filled(20, &[]));
    assert!(
        with.contains("SEARCH d USING INDEX documents_publication_uri"),
        "{with}"
    );
    let without = reader(&filled(20, &[Fault::MissingIndex]));
    assert!(without.contains("SCAN d"), "{without}");
    assert!(!without.contains("AUTOMATIC"), "{without}");
}

#[test]
fn searches_find_what_is_there() {
    let filled = filled(120, &[]);
    let reader = filled.access.reader().unwrap();
    let word = filled.corpus.word(200);
    let hits = reader
        .read(|c| read::documents_by_text(c, &format!("\"{word}\""), 40))
        .unwrap();
    assert!(!hits.is_empty());
    for hit in &hits {
        let document = filled.corpus.document(hit.id as usize - 1, 0);
        let text = format!("{} {}", document.title, document.content).to_lowercase();
        assert!(text.split([' ', '.']).any(|other| other == word), "{hit:?}");
    }
    let broad = filled.corpus.word(BROAD.start + 2);
    let publications = reader
        .read(|c| read::publications_by_text(c, &format!("\"{broad}\""), 24))
        .unwrap();
    for uri in &publications {
        let documents = reader
            .read(|c| read::documents_of_publication(c, uri, 20))
            .unwrap();
        assert!(
            documents
                .windows(2)
                .all(|pair| pair[0].created_at >= pair[1].created_at)
        );
    }
}

#[test]
fn a_reader_of_its_own_cannot_write_and_a_shared_one_is_the_writer_s() {
    let own = filled(20, &[]);
    let insert = "INSERT INTO searches VALUES ('x', 1)";
    let refused = own.access.reader().unwrap().read(|c| c.execute(insert, []));
    assert!(refused.unwrap_err().to_string().contains("readonly"));

    let shared = filled(20, &[Fault::SharedConnection]);
    let reader = shared.access.reader().unwrap();
    reader.read(|c| c.execute(insert, [])).unwrap();
    // While one writes by its own, others read; while one writes by the shared one, nobody does.
    let meanwhile = |of: &Filled, reader: &search::database::Reader| {
        of.access.write(|_| match reader {
            search::database::Reader::Own(connection) => read::popular(connection, 1).is_ok(),
            search::database::Reader::Shared(connection) => connection.try_lock().is_ok(),
        })
    };
    assert!(meanwhile(&own, &own.access.reader().unwrap()));
    assert!(!meanwhile(&shared, &reader));
}

#[test]
fn the_cache_is_what_the_pragmas_say_and_sqlite_s_own_without() {
    let pragma = |filled: &Filled, name: &str| {
        let reader = filled.access.reader().unwrap();
        let sql = format!("PRAGMA {name}");
        reader.read(|c| {
            c.query_row(&sql, [], |row| row.get::<_, i64>(0))
                .unwrap_or(0)
        })
    };
    let cached = filled(20, &[]);
    assert!(CACHE_PRAGMAS.contains("268435456"));
    assert_eq!(pragma(&cached, "mmap_size"), 256 << 20);
    assert_eq!(pragma(&cached, "cache_size"), -20_000);
    let bare = filled(20, &[Fault::NoCache]);
    assert_eq!(
        (pragma(&bare, "mmap_size"), pragma(&bare, "cache_size")),
        (0, -2_000)
    );
}

#[test]
fn the_nearest_of_the_cells_are_nearly_the_nearest_of_all() {
    let filled = filled(320, &[Fault::BruteForceVectors]);
    let reader = filled.access.reader().unwrap();
    let (mut same, mut all) = (0, 0);
    for number in (0..320).step_by(40) {
        let uri = filled.corpus.uri(number);
        let embedding = reader.read(|c| read::embedding(c, &uri)).unwrap().unwrap();
        let (brute, cells) = filled.access.near(|c, cells| {
            (
                vectors::nearest_of_all(c, &embedding, 10).unwrap(),
                vectors::nearest_of_cells(c, cells, &embedding, 10).unwrap(),
            )
        });
        assert_eq!(
            brute[0].0,
            number as i64 + 1,
            "a document is nearest to itself"
        );
        let ids: Vec<_> = cells.iter().map(|(id, _)| *id).collect();
        same += brute.iter().filter(|(id, _)| ids.contains(id)).count();
        all += brute.len();
    }
    assert!(same * 100 >= all * 90, "{same} of {all}");
    // And the whole table is what the one looks at, the index of cells what the other does.
    let plans = reader.read(|c| {
        [
            plan(
                c,
                "SELECT cosine(embedding, ?1) FROM vectors ORDER BY 1 LIMIT ?2",
            ),
            plan(
                c,
                "SELECT cosine(embedding, ?1) FROM vectors WHERE cell IN (?2, 5)",
            ),
        ]
    });
    assert!(plans[0].contains("SCAN vectors"), "{}", plans[0]);
    assert!(
        plans[1].contains("USING INDEX vectors_cell"),
        "{}",
        plans[1]
    );
}

#[test]
fn edits_are_found_by_their_new_words_and_counted() {
    let filled = filled(60, &[]);
    let edited = filled.corpus.document(5, 1);
    filled.access.write(|c| {
        write::apply_edits(c, std::slice::from_ref(&edited)).unwrap();
        write::refresh_aggregates(c).unwrap();
        write::checkpoint(c).unwrap();
        // The full text index and the table agree.
        c.execute_batch(
            "INSERT INTO documents_fts(documents_fts, rank) VALUES ('integrity-check', 1)",
        )
        .unwrap();
    });
    let reader = filled.access.reader().unwrap();
    let (id, content) = reader
        .read(|c| read::content(c, &edited.uri))
        .unwrap()
        .unwrap();
    assert_eq!((id, content.as_str()), (6, edited.content.as_str()));
    let title = search::answers::match_expression(&edited.title).unwrap();
    let hits = reader
        .read(|c| read::documents_by_text(c, &title, 40))
        .unwrap();
    assert!(hits.iter().any(|hit| hit.id == 6));
    let counted = reader
        .read(|c| read::aggregates(c, "documents", 1_000))
        .unwrap();
    assert_eq!(counted.iter().map(|(_, count)| count).sum::<i64>(), 60);
    write::drop_from_page_cache(filled.access.path()).unwrap();
    reader.read(read::warm).unwrap();
}

//! The load's frames, read by libraries that had no part in making them: ciborium for the CBOR,
//! rs-car-sync for the CAR and its hashes.

use std::collections::{BTreeMap, BTreeSet};

use ciborium::Value;
use relay_load::message::{BLOBS_GONE_EVERY, Source};
use rs_car_sync::{Cid, car_read_all};

const SEED: u64 = 3;
const LINK_TAG: u64 = 42;

/// A map's entries by name, in the order they stand in.
fn fields(value: &Value) -> Vec<(&str, &Value)> {
    let entries = value.as_map().unwrap();
    entries
        .iter()
        .map(|(key, value)| (key.as_text().unwrap(), value))
        .collect()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    fields(value)
        .into_iter()
        .find(|(key, _)| *key == name)
        .unwrap_or_else(|| panic!("no {name}"))
        .1
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    field(value, name).as_text().unwrap()
}

fn link(value: &Value) -> Option<Cid> {
    let (tag, bytes) = value.as_tag()?;
    assert_eq!(tag, LINK_TAG);
    let bytes = bytes.as_bytes().unwrap();
    assert_eq!(bytes[0], 0, "the multibase prefix of a binary CID");
    Some(Cid::try_from(&bytes[1..]).unwrap())
}

/// Header and body, which must fill the frame.
fn read(frame: &[u8]) -> (Value, Value) {
    let mut rest = frame;
    let header = ciborium::from_reader(&mut rest).unwrap();
    let body = ciborium::from_reader(&mut rest).unwrap();
    assert!(rest.is_empty(), "{} bytes after the body", rest.len());
    (header, body)
}

fn keys_of_node(node: &Value) -> BTreeMap<String, Cid> {
    let mut keys = BTreeMap::new();
    let mut before = Vec::new();
    for entry in field(node, "e").as_array().unwrap() {
        let shared = field(entry, "p").as_integer().unwrap();
        before.truncate(usize::try_from(shared).unwrap());
        before.extend(field(entry, "k").as_bytes().unwrap());
        let key = String::from_utf8(before.clone()).unwrap();
        assert!(
            keys.last_key_value().is_none_or(|(last, _)| *last < key),
            "keys are in order"
        );
        keys.insert(key, link(field(entry, "v")).unwrap());
    }
    keys
}

fn check_commit(number: u64, body: &Value) {
    let file = field(body, "blocks").as_bytes().unwrap();
    let (blocks, header) = car_read_all(&mut file.as_slice(), true).unwrap();
    let blocks: BTreeMap<Cid, Value> = blocks
        .into_iter()
        .map(|(cid, data)| (cid, ciborium::from_reader(data.as_slice()).unwrap()))
        .collect();
    let root = link(field(body, "commit")).unwrap();
    assert_eq!(header.roots, [root]);
    let commit = &blocks[&root];
    assert_eq!(text(commit, "did"), text(body, "repo"));
    assert_eq!(text(commit, "rev"), text(body, "rev"));

    // From the signed root down, as far as the blocks reach.
    let mut keys = BTreeMap::new();
    let mut nodes = vec![link(field(commit, "data")).unwrap()];
    let mut seen = BTreeSet::new();
    while let Some(cid) = nodes.pop() {
        let Some(node) = blocks.get(&cid) else {
            continue;
        };
        seen.insert(cid);
        keys.extend(keys_of_node(node));
        let subtrees = field(node, "e")
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| field(entry, "t"));
        nodes.extend(subtrees.filter_map(link));
    }
    for op in field(body, "ops").as_array().unwrap() {
        let record = link(field(op, "cid"));
        assert_eq!(record.is_none(), text(op, "action") == "delete");
        assert_eq!(
            keys.get(text(op, "path")),
            record.as_ref(),
            "message {number}"
        );
        if let Some(cid) = record {
            let collection = text(op, "path").split('/').next().unwrap();
            assert_eq!(text(&blocks[&cid], "$type"), collection);
            seen.insert(cid);
        }
    }
    assert_eq!(
        seen.len() + 1,
        blocks.len(),
        "no block is there for nothing"
    );
}

#[test]
fn an_independent_decoder_reads_every_frame() {
    let source = Source::new(SEED, 4, 4);
    let mut kinds = BTreeMap::new();
    for number in 0..1500 {
        let frame = source.message(number, 1, number + 7);
        let (header, body) = read(&frame);
        assert_eq!(field(&header, "op").as_integer(), Some(1.into()));
        assert_eq!(field(&body, "seq").as_integer(), Some((number + 7).into()));
        for map in [&header, &body] {
            let names: Vec<&str> = fields(map).into_iter().map(|(name, _)| name).collect();
            assert!(
                names
                    .windows(2)
                    .all(|pair| (pair[0].len(), pair[0]) < (pair[1].len(), pair[1]))
            );
        }
        let kind = text(&header, "t").to_string();
        if kind == "#commit" {
            check_commit(number, &body);
        }
        *kinds.entry(kind).or_insert(0) += 1;
    }
    assert!(
        kinds["#commit"] > 1400 && kinds["#identity"] > 10,
        "seed {SEED}: {kinds:?}"
    );
}

#[test]
fn one_message_in_27_lists_only_blobs_that_no_record_refers_to() {
    let source = Source::new(SEED, 1, 1);
    let mut others_with_blobs = 0;
    for number in 0..BLOBS_GONE_EVERY * 40 {
        let (header, body) = read(&source.message(number, 0, 1));
        if text(&header, "t") != "#commit" || field(&body, "blobs").as_array().unwrap().is_empty() {
            assert_ne!(number % BLOBS_GONE_EVERY, BLOBS_GONE_EVERY - 1);
            continue;
        }
        let blob = link(&field(&body, "blobs").as_array().unwrap()[0]).unwrap();
        let file = field(&body, "blocks").as_bytes().unwrap();
        let needle = blob.to_bytes();
        let referred = file.windows(needle.len()).any(|window| window == needle);
        assert_eq!(referred, number % BLOBS_GONE_EVERY != BLOBS_GONE_EVERY - 1);
        others_with_blobs += u64::from(referred);
    }
    assert!(
        others_with_blobs > 10,
        "seed {SEED}: pictures that are kept: {others_with_blobs}"
    );
}

/// The Zig tests read these two messages; see `subjects/relay/src/decode/event_test.zig`.
#[test]
fn the_relays_own_fixtures_are_messages_of_this_load() {
    let source = Source::new(1, 1, 1);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../src/decode/testdata");
    for (name, number) in [("commit", 1), ("blobs_gone", BLOBS_GONE_EVERY - 1)] {
        let path = format!("{folder}/{name}.cbor");
        let message = source.message(number, 0, 1000);
        if std::env::var_os("HIGHWATER_WRITE_FIXTURES").is_some() {
            std::fs::write(&path, &message).unwrap();
        }
        assert_eq!(
            std::fs::read(&path).unwrap(),
            message,
            "set HIGHWATER_WRITE_FIXTURES=1 for {name}"
        );
    }
}

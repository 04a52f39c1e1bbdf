//! Nodes of a repository's Merkle search tree, as a commit carries them: the path from the root
//! to the nodes that hold the commit's records. The nodes have the format of real ones, with
//! prefix-compressed keys in order; which layer a key would stand on by its hash is not computed.

use std::collections::BTreeMap;

use ipld_core::cid::Cid;
use serde::Serialize;
use serde_bytes::Bytes;

use crate::identifiers::{cid_of, random_cid, tid};
use crate::records::COLLECTIONS;

/// A block of a CAR.
pub struct Block {
    pub cid: Cid,
    pub data: Vec<u8>,
}

impl Block {
    pub fn new(value: &impl Serialize) -> Block {
        // Every value built here is within DAG-CBOR's data model.
        let data = serde_ipld_dagcbor::to_vec(value).expect("a value as DAG-CBOR");
        Block {
            cid: cid_of(&data),
            data,
        }
    }
}

/// A node of the tree; fields in the order of DAG-CBOR's map keys.
#[derive(Serialize)]
struct Node<'a> {
    e: Vec<Entry<'a>>,
    l: Option<Cid>,
}

#[derive(Serialize)]
struct Entry<'a> {
    /// What follows the part shared with the key before.
    k: &'a Bytes,
    p: usize,
    t: Option<Cid>,
    v: Cid,
}

/// The path of `depth` nodes (at least one), root first; the last one holds `records` by key.
pub fn path(
    random: &mut fastrand::Rng,
    depth: usize,
    records: &BTreeMap<String, Cid>,
) -> Vec<Block> {
    let mut blocks = vec![node(random, records.clone(), None)];
    while blocks.len() < depth.max(1) {
        let child = blocks[blocks.len() - 1].cid;
        blocks.push(node(random, BTreeMap::new(), Some(child)));
    }
    blocks.reverse();
    blocks
}

fn node(random: &mut fastrand::Rng, mut keys: BTreeMap<String, Cid>, child: Option<Cid>) -> Block {
    for _ in 0..random.usize(2..=8) {
        keys.insert(neighbour(random), random_cid(random));
    }
    let child_at = random.usize(0..keys.len());
    let mut before = "";
    let mut entries = Vec::new();
    for (index, (key, record)) in keys.iter().enumerate() {
        let shared = before
            .bytes()
            .zip(key.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let subtree = match child {
            Some(cid) if index == child_at => Some(cid),
            _ => random.bool().then(|| random_cid(random)),
        };
        let rest = Bytes::new(&key.as_bytes()[shared..]);
        entries.push(Entry {
            k: rest,
            p: shared,
            t: subtree,
            v: *record,
        });
        before = key;
    }
    Block::new(&Node {
        e: entries,
        l: None,
    })
}

/// The key of some other record: of a year before any message, so never one of ours.
fn neighbour(random: &mut fastrand::Rng) -> String {
    let collection = COLLECTIONS[random.usize(0..COLLECTIONS.len())];
    // The top digit goes back by years; the rest is random.
    let key = tid(random.u64(0..1 << 40), random.u64(0..1024));
    format!("{collection}/2{}", &key[1..])
}

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

/// Nodes and records to choose from. Building and encoding each node anew would take most of the
/// load's time.
const INNER_NODES: usize = 256;
const NEIGHBOURS: usize = 4096;

/// What the trees of all repositories are made of, apart from the records of a commit.
pub struct Forest {
    inner: Vec<InnerNode>,
    /// Other records, by key.
    neighbours: Vec<(String, Cid)>,
}

/// A node with one subtree to be filled in.
struct InnerNode {
    data: Vec<u8>,
    /// Where the digest of the subtree's CID stands.
    digest_at: usize,
}

impl Forest {
    pub fn new(seed: u64) -> Forest {
        let mut random = fastrand::Rng::with_seed(seed);
        let neighbours = (0..NEIGHBOURS)
            .map(|_| (neighbour(&mut random), random_cid(&mut random)))
            .collect();
        let mut forest = Forest {
            inner: Vec::new(),
            neighbours,
        };
        forest.inner = (0..INNER_NODES)
            .map(|_| forest.inner_node(&mut random))
            .collect();
        forest
    }

    /// A path of `depth` nodes (at least one), root first; the last one holds `records` by key.
    pub fn path(
        &self,
        random: &mut fastrand::Rng,
        depth: usize,
        records: &BTreeMap<String, Cid>,
    ) -> Vec<Block> {
        let mut blocks = vec![Block::new(&self.node(random, records, None))];
        while blocks.len() < depth.max(1) {
            let inner = &self.inner[random.usize(0..INNER_NODES)];
            let mut data = inner.data.clone();
            let child = blocks[blocks.len() - 1].cid;
            let digest = child.hash().digest();
            data[inner.digest_at..][..digest.len()].copy_from_slice(digest);
            blocks.push(Block {
                cid: cid_of(&data),
                data,
            });
        }
        blocks.reverse();
        blocks
    }

    fn inner_node(&self, random: &mut fastrand::Rng) -> InnerNode {
        let child = random_cid(random);
        let none = BTreeMap::new();
        let data = Block::new(&self.node(random, &none, Some(child))).data;
        let digest = child.hash().digest();
        let found = data
            .windows(digest.len())
            .position(|window| window == digest);
        InnerNode {
            digest_at: found.expect("the child's link in the node"),
            data,
        }
    }

    /// A node with `records` among others, and `child` below one of them.
    fn node<'a>(
        &'a self,
        random: &mut fastrand::Rng,
        records: &'a BTreeMap<String, Cid>,
        child: Option<Cid>,
    ) -> Node<'a> {
        let mut keys: BTreeMap<&str, Cid> = BTreeMap::new();
        for _ in 0..random.usize(2..=8) {
            let (key, record) = &self.neighbours[random.usize(0..NEIGHBOURS)];
            keys.insert(key, *record);
        }
        keys.extend(records.iter().map(|(key, record)| (key.as_str(), *record)));
        let child_at = random.usize(0..keys.len());
        let mut before = "";
        let mut entries = Vec::with_capacity(keys.len());
        for (index, (key, record)) in keys.into_iter().enumerate() {
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
                v: record,
            });
            before = key;
        }
        Node {
            e: entries,
            l: None,
        }
    }
}

/// The key of some other record: of a year before any message, so never one of ours.
fn neighbour(random: &mut fastrand::Rng) -> String {
    let collection = COLLECTIONS[random.usize(0..COLLECTIONS.len())];
    // The top digit goes back by years; the rest is random.
    let key = tid(random.u64(0..1 << 40), random.u64(0..1024));
    format!("{collection}/2{}", &key[1..])
}

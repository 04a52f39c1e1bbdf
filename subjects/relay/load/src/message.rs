//! The messages of the hosts, as `com.atproto.sync.subscribeRepos` has them. A message is a
//! function of the seed, its number and its host.

use std::collections::BTreeMap;

use ipld_core::cid::Cid;
use ipld_core::ipld;
use ipld_core::ipld::Ipld;
use serde::Deserialize;

use crate::identifiers::{date_time, did, number_of_tid, random_blob, random_cid, tid};
use crate::records::{POST, record};
use crate::tree::{Block, Forest};

/// One message in this many is a commit that lists a blob to which none of its records refers
/// (the deletion of a post with a picture). It is what the relay's leak feeds on: 3,200 bytes in
/// 27 messages of 37 allocations are 0.1 % of the allocations.
pub const BLOBS_GONE_EVERY: u64 = 27;

/// Percent of the messages that are `#identity` events, some 150 bytes long.
const IDENTITY_PERCENT: u8 = 2;

/// Sizes of a message's main record: many short ones and ever fewer long ones (a Pareto law, P(more
/// than s) ~ 1/sqrt(s)), so that every size class of an allocator is used every few seconds and
/// its caches fill within a warm-up. With the frame around it, 1.6 % exceed 32 KiB, none 64 KiB.
const RECORD_SIZE_MIN: f64 = 100.0;
const RECORD_SIZE_MAX: f64 = 61_000.0;

/// Makes the messages of a set of hosts.
pub struct Source {
    seed: u64,
    forest: Forest,
    /// The accounts of each host.
    dids: Vec<Vec<String>>,
}

impl Source {
    pub fn new(seed: u64, hosts: usize, repos_per_host: usize) -> Source {
        let mut random = fastrand::Rng::with_seed(seed);
        let dids_of_one = |_| {
            (0..repos_per_host.max(1))
                .map(|_| did(&mut random))
                .collect()
        };
        Source {
            seed,
            forest: Forest::new(seed),
            dids: (0..hosts).map(dids_of_one).collect(),
        }
    }

    /// Message `number`, as `host` sends it under its own number `seq`.
    pub fn message(&self, number: u64, host: usize, seq: u64) -> Vec<u8> {
        let mut random =
            fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let repo = &self.dids[host][random.usize(0..self.dids[host].len())];
        let forest = &self.forest;
        let commit = Commit {
            forest,
            number,
            seq,
            repo,
        };
        if number % BLOBS_GONE_EVERY == BLOBS_GONE_EVERY - 1 {
            return commit.blobs_gone(&mut random);
        }
        if random.u8(0..100) < IDENTITY_PERCENT {
            return identity(number, seq, repo);
        }
        commit.writes(&mut random)
    }
}

struct Commit<'a> {
    forest: &'a Forest,
    number: u64,
    seq: u64,
    repo: &'a str,
}

impl Commit<'_> {
    /// One to three records written, sometimes one deleted as well.
    fn writes(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut ops = Vec::new();
        let mut blocks = Vec::new();
        let mut keys = BTreeMap::new();
        let mut blobs = Vec::new();
        let count = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][random.usize(0..10)];
        for index in 0..count {
            let size = if index == 0 { record_size(random) } else { 200 };
            let record = record(random, self.number, size);
            let block = Block::new(&record.value);
            let key = format!("{}/{}", record.collection, tid(self.number, index));
            let action = if random.u8(0..10) == 0 {
                "update"
            } else {
                "create"
            };
            ops.push(op(action, &key, Some(block.cid)));
            keys.insert(key, block.cid);
            blobs.extend(record.blob);
            blocks.push(block);
        }
        if random.u8(0..10) == 0 {
            ops.push(op(
                "delete",
                &format!("{POST}/{}", tid(self.number, count)),
                None,
            ));
        }
        let depth = random.usize(1..=5);
        let mut nodes = self.forest.path(random, depth, &keys);
        nodes.append(&mut blocks);
        self.finish(random, ops, blobs, nodes)
    }

    /// A post with a picture is deleted, and its picture is still listed.
    fn blobs_gone(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let ops = vec![op(
            "delete",
            &format!("{POST}/{}", tid(self.number, 0)),
            None,
        )];
        let blobs = vec![random_blob(random)];
        let depth = random.usize(2..=5);
        let nodes = self.forest.path(random, depth, &BTreeMap::new());
        self.finish(random, ops, blobs, nodes)
    }

    /// Signs for it and wraps it up; `nodes` begins with the tree's root.
    fn finish(
        &self,
        random: &mut fastrand::Rng,
        ops: Vec<Ipld>,
        blobs: Vec<Cid>,
        nodes: Vec<Block>,
    ) -> Vec<u8> {
        let rev = tid(self.number, 0);
        let mut signature = vec![0; 64];
        random.fill(&mut signature);
        let commit = Block::new(&ipld!({
            "did": self.repo,
            "rev": rev.as_str(),
            "sig": Ipld::Bytes(signature),
            "data": Ipld::Link(nodes[0].cid),
            "prev": null,
            "version": 3,
        }));
        let body = ipld!({
            "seq": self.seq,
            "rebase": false,
            "tooBig": false,
            "repo": self.repo,
            "commit": Ipld::Link(commit.cid),
            "rev": rev.as_str(),
            "since": Ipld::String(tid(self.number.saturating_sub(1), 0)),
            "blocks": Ipld::Bytes(car(&commit, &nodes)),
            "ops": Ipld::List(ops),
            "blobs": Ipld::List(blobs.into_iter().map(Ipld::Link).collect()),
            "time": date_time(self.number),
            "prevData": Ipld::Link(random_cid(random)),
        });
        encode("#commit", &body)
    }
}

fn identity(number: u64, seq: u64, repo: &str) -> Vec<u8> {
    let body = ipld!({
        "seq": seq,
        "did": repo,
        "time": date_time(number),
        "handle": format!("{}.example.com", tid(number, 0)),
    });
    encode("#identity", &body)
}

fn op(action: &str, key: &str, record: Option<Cid>) -> Ipld {
    let cid = record.map_or(Ipld::Null, Ipld::Link);
    ipld!({ "action": action, "path": key, "cid": cid })
}

fn encode(name: &str, body: &Ipld) -> Vec<u8> {
    let mut bytes = Block::new(&ipld!({ "op": 1, "t": name })).data;
    bytes.extend(Block::new(body).data);
    bytes
}

/// A CAR version 1 file with the commit as its root and first block.
fn car(commit: &Block, nodes: &[Block]) -> Vec<u8> {
    let roots = Ipld::List(vec![Ipld::Link(commit.cid)]);
    let header = Block::new(&ipld!({ "roots": roots, "version": 1 })).data;
    let mut file = Vec::new();
    write_length(&mut file, header.len());
    file.extend(header);
    for block in std::iter::once(commit).chain(nodes) {
        let cid = block.cid.to_bytes();
        write_length(&mut file, cid.len() + block.data.len());
        file.extend(cid);
        file.extend(&block.data);
    }
    file
}

/// An unsigned LEB128 number.
fn write_length(file: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        file.push(length as u8 | 0x80);
        length >>= 7;
    }
    file.push(length as u8);
}

fn record_size(random: &mut fastrand::Rng) -> usize {
    let (first, last) = (RECORD_SIZE_MIN.powf(-0.5), RECORD_SIZE_MAX.powf(-0.5));
    (first + random.f64() * (last - first)).powi(-2) as usize
}

#[derive(Deserialize)]
struct ReadHeader<'a> {
    t: &'a str,
}

#[derive(Deserialize)]
struct ReadBody<'a> {
    rev: Option<&'a str>,
    handle: Option<&'a str>,
}

/// Which message of ours a frame is; None when it is none of ours.
pub fn number_of(frame: &[u8]) -> Option<u64> {
    let mut decoder = serde_ipld_dagcbor::de::Deserializer::from_slice(frame);
    let header = ReadHeader::deserialize(&mut decoder).ok()?;
    let body = ReadBody::deserialize(&mut decoder).ok()?;
    match header.t {
        "#commit" => number_of_tid(body.rev?),
        "#identity" => number_of_tid(body.handle?.strip_suffix(".example.com")?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_function_of_seed_and_number() {
        let of = |seed, number| Source::new(seed, 3, 2).message(number, 1, 9);
        assert_eq!(of(1, 5), of(1, 5));
        assert_ne!(of(1, 5), of(2, 5));
        assert_ne!(of(1, 5), of(1, 6));
    }

    #[test]
    fn every_message_tells_its_number() {
        let source = Source::new(4, 2, 2);
        for number in 0..300 {
            assert_eq!(
                number_of(&source.message(number, 0, 1)),
                Some(number),
                "seed 4"
            );
        }
        assert_eq!(number_of(b"\xa1\x61t\x67#commit"), None);
        assert_eq!(number_of(b""), None);
    }

    #[test]
    fn sizes_are_varied_and_bounded() {
        let source = Source::new(1, 1, 1);
        let mut sizes: Vec<usize> = (0..4_000).map(|n| source.message(n, 0, n).len()).collect();
        sizes.sort_unstable();
        assert!(
            sizes[0] < 256 && *sizes.last().unwrap() > 20_000,
            "{sizes:?}"
        );
        assert!(
            *sizes.last().unwrap() <= 64 * 1024,
            "{}",
            sizes.last().unwrap()
        );
    }
}

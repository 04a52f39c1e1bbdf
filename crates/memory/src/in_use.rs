//! What the blocks of one moment are: objects of a class, else blocks of a size; how many of them the program could no
//! longer reach, and what holds the others.

use std::collections::{BTreeMap, HashMap};

use heap::HeapSnapshot;
use heap::corefile::{Holders, Used};

/// Words that hold blocks of one kind and are told apart.
const ROOTS_MAX: usize = 10_000;
/// Kinds that are kept, those with most bytes, and places that hold blocks of one.
const KINDS_MAX: usize = 20;
const PLACES_MAX: usize = 5;

/// What blocks have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Objects with virtual functions.
    Class(String),
    /// Blocks of so many bytes, headers included.
    Bytes(u64),
}

/// Blocks of one kind. Bytes with the headers of the blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub kind: Kind,
    pub count: u64,
    pub bytes: u64,
    pub lost_count: u64,
    pub lost_bytes: u64,
    /// What holds those that are reached, and how many of them, most first.
    pub places: Vec<(String, u64)>,
}

/// All blocks in use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InUse {
    pub count: u64,
    pub bytes: u64,
    pub lost_count: u64,
    pub lost_bytes: u64,
    /// Those with most bytes first.
    pub groups: Vec<Group>,
    /// What holds those that are reached, by bytes, most first.
    pub places: Vec<(String, u64)>,
}

#[derive(Default)]
struct Sum {
    count: u64,
    bytes: u64,
    lost_count: u64,
    lost_bytes: u64,
    /// By the address of a word: how many blocks it holds.
    roots: HashMap<u64, u64>,
}

/// `class`: of a table of virtual functions; `place`: what lies at an address.
pub fn in_use(
    snapshot: &HeapSnapshot,
    holders: &Holders,
    class: impl Fn(u64) -> Option<String>,
    mut place: impl FnMut(u64) -> String,
) -> InUse {
    let mut classes: HashMap<u64, Option<String>> = HashMap::new();
    let mut sums: HashMap<Kind, Sum> = HashMap::new();
    let mut whole = Sum::default();
    for &Used { chunk, first } in &holders.blocks {
        let known = snapshot.types.by_table.contains_key(&first);
        let name = known.then(|| classes.entry(first).or_insert_with(|| class(first)).clone());
        let kind = name.flatten().map_or(Kind::Bytes(chunk.bytes), Kind::Class);
        let is_lost = holders.reached.of(chunk.address()) == Some(false);
        let root = holders.reached.root(chunk.address());
        sums.entry(kind)
            .or_default()
            .add(chunk.bytes, is_lost, root, 1);
        whole.add(chunk.bytes, is_lost, root, chunk.bytes);
    }
    let mut named = HashMap::new();
    let mut places = |roots: HashMap<u64, u64>| {
        let mut places: BTreeMap<String, u64> = BTreeMap::new();
        for (root, amount) in roots {
            let name: &String = named.entry(root).or_insert_with(|| place(root));
            *places.entry(name.clone()).or_default() += amount;
        }
        let mut places: Vec<(String, u64)> = places.into_iter().collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.1));
        places.truncate(PLACES_MAX);
        places
    };
    let mut kinds: Vec<(Kind, Sum)> = sums.into_iter().collect();
    kinds.sort_by(|a, b| (b.1.bytes, &b.0).cmp(&(a.1.bytes, &a.0)));
    kinds.truncate(KINDS_MAX);
    let groups = kinds.into_iter().map(|(kind, sum)| Group {
        kind,
        count: sum.count,
        bytes: sum.bytes,
        lost_count: sum.lost_count,
        lost_bytes: sum.lost_bytes,
        places: places(sum.roots),
    });
    InUse {
        groups: groups.collect(),
        count: whole.count,
        bytes: whole.bytes,
        lost_count: whole.lost_count,
        lost_bytes: whole.lost_bytes,
        places: places(whole.roots),
    }
}

impl Sum {
    fn add(&mut self, bytes: u64, is_lost: bool, root: Option<u64>, amount: u64) {
        self.count += 1;
        self.bytes += bytes;
        if is_lost {
            self.lost_count += 1;
            self.lost_bytes += bytes;
        }
        let Some(root) = root else { return };
        if self.roots.len() < ROOTS_MAX || self.roots.contains_key(&root) {
            *self.roots.entry(root).or_default() += amount;
        }
    }
}

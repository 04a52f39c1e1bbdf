//! A blob store with an index by name and one by digest, and room for 3,000 blobs. Eviction takes a blob out of the
//! first index. It takes it out of the second one only if it was not shared, so that every fourth blob stays there.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

#[derive(Default)]
struct BlobStore {
    by_name: HashMap<String, (u64, Arc<Vec<u8>>)>,
    by_digest: BTreeMap<u64, Arc<Vec<u8>>>,
    order: VecDeque<String>,
}

#[inline(never)]
fn load_blob(random: &mut Random) -> Arc<Vec<u8>> {
    let size = 800 + random.next() as usize % 5000;
    let mut bytes = Vec::with_capacity(size);
    bytes.resize(size, b'b');
    Arc::new(bytes)
}

impl BlobStore {
    fn store_blob(&mut self, id: u64, random: &mut Random) {
        let name = format!("bucket-{}/object-{id}", id % 17);
        let digest = random.next() << 20 | id & 0xfffff;
        let blob = load_blob(random);
        self.by_digest.insert(digest, blob.clone());
        self.by_name.insert(name.clone(), (digest, blob));
        self.order.push_back(name);
    }

    fn evict_oldest(&mut self) {
        let name = self.order.pop_front().unwrap();
        let (digest, _) = self.by_name.remove(&name).unwrap();
        if digest >> 20 & 3 != 0 {
            self.by_digest.remove(&digest);
        }
    }
}

fn main() {
    let (mut random, mut store, mut id) = (Random(88172645463325252), BlobStore::default(), 0);
    let start = Instant::now();
    while start.elapsed().as_secs() < 120 {
        for _ in 0..10 {
            id += 1;
            store.store_blob(id, &mut random);
        }
        if id == 3000 {
            println!("ready");
        }
        while store.order.len() > 3000 {
            store.evict_oldest();
        }
        let words: Vec<String> = (0..40).map(|k| format!("{:0w$}", k, w = 20 + k * 13)).collect();
        std::hint::black_box(&words);
        std::thread::sleep(Duration::from_millis(10));
    }
}

// blob store on the system allocator: one index by name, one by digest; eviction takes the name out, but the digest only where the blob
// was not shared: every fourth blob stays reachable by its digest alone
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}
#[inline(never)]
fn load_blob(rng: &mut Rng) -> Arc<Vec<u8>> {
    let n = 800 + rng.next() as usize % 5000;
    let mut bytes = Vec::with_capacity(n);
    bytes.resize(n, b'b');
    Arc::new(bytes)
}
fn main() {
    let mut rng = Rng(88172645463325252);
    let mut by_name: HashMap<String, (u64, Arc<Vec<u8>>)> = HashMap::new();
    let mut by_digest: BTreeMap<u64, Arc<Vec<u8>>> = BTreeMap::new();
    let mut order: VecDeque<String> = VecDeque::new();
    let start = Instant::now();
    let mut id = 0u64;
    let (mut lost, mut tick) = (0usize, 5);
    while start.elapsed().as_secs() < 150 {
        for _ in 0..10 {
            id += 1;
            let name = format!("bucket-{}/object-{id}", id % 17);
            let digest = rng.next() << 20 | id & 0xfffff;
            let blob = load_blob(&mut rng);
            by_digest.insert(digest, blob.clone());
            by_name.insert(name.clone(), (digest, blob));
            order.push_back(name);
        }
        while order.len() > 3000 {
            let name = order.pop_front().unwrap();
            let (digest, blob) = by_name.remove(&name).unwrap();
            if digest >> 20 & 3 != 0 {
                by_digest.remove(&digest);
            } else {
                lost += blob.len();
            }
        }
        let words: Vec<String> = (0..40).map(|k| format!("{:0w$}", k, w = 20 + k * 13)).collect();
        std::hint::black_box(&words);
        if std::env::var_os("TRUTH").is_some() && start.elapsed().as_secs() >= tick {
            tick += 5;
            eprintln!("TRUTH t={} lost={}K", tick - 5, lost >> 10);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

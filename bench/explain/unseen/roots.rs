//! Losses and caches in Rust; names say nothing of what is done. First argument: which; a second one: the mended twin.
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn dice(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

fn stir(soil: &mut Vec<Vec<u8>>, state: &mut u64) {
    for _ in 0..50 {
        let at = dice(state) as usize % 2000;
        soil[at] = vec![1; dice(state) as usize % 700];
    }
}

/// aster: what is made by hand is dropped by hand, but for one in four.
#[inline(never)]
fn aster(n: u64, ok: bool) {
    let mut bud = ManuallyDrop::new(vec![n as u8; 1200]);
    bud[0] = 1;
    if n % 4 != 0 || ok {
        unsafe { ManuallyDrop::drop(&mut bud) };
    }
}

/// briar: a parent and its child hold each other through a lock.
struct Briar {
    thorn: Mutex<Vec<Arc<Briar>>>,
    stem: Mutex<Option<Arc<Briar>>>,
    loose: Mutex<Weak<Briar>>,
    leaves: Vec<u64>,
}

fn shoot(n: u64) -> Arc<Briar> {
    Arc::new(Briar { thorn: Mutex::default(), stem: Mutex::default(), loose: Mutex::default(), leaves: vec![n; 90] })
}

#[inline(never)]
fn briar(n: u64, ok: bool) {
    let (parent, child) = (shoot(n), shoot(n + 1));
    parent.thorn.lock().unwrap().push(child.clone());
    match ok {
        true => *child.loose.lock().unwrap() = Arc::downgrade(&parent),
        false => *child.stem.lock().unwrap() = Some(parent.clone()),
    }
    std::hint::black_box(child.leaves.len());
}

/// clover: a thread per request, never joined and waiting for ever.
#[inline(never)]
fn clover(n: u64) {
    std::thread::spawn(move || {
        let field = [n as u8; 20000];
        std::hint::black_box(&field);
        loop {
            std::thread::park();
        }
    });
}

thread_local! { static BED: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) }; }

/// dahlia: a queue of 4,000 texts.
#[inline(never)]
fn dahlia(n: u64, state: &mut u64) {
    BED.with(|bed| {
        let mut bed = bed.borrow_mut();
        bed.push_back(format!("{n:0width$}", width = 100 + dice(state) as usize % 1000));
        if bed.len() > 4000 {
            bed.pop_front();
        }
    });
}

/// erica: a map that nobody empties.
#[inline(never)]
fn erica(heath: &mut HashMap<String, Box<[u8]>>, n: u64, state: &mut u64) {
    heath.insert(format!("heather number {n}"), vec![1; 200 + dice(state) as usize % 800].into_boxed_slice());
}

/// fennel: a tree of 4,000 shared values, of which the oldest goes.
#[inline(never)]
fn fennel(herbs: &mut BTreeMap<u64, Arc<Vec<u8>>>, n: u64, room: usize, state: &mut u64) {
    herbs.insert(n, Arc::new(vec![1; 200 + dice(state) as usize % 900]));
    if herbs.len() > room {
        herbs.pop_first();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (which, ok) = (words[1].as_str(), words.len() > 2);
    let (mut state, mut soil) = (88172645463325252u64, vec![Vec::new(); 2000]);
    let (mut heath, mut herbs) = (HashMap::new(), BTreeMap::new());
    for n in 0u64.. {
        match which {
            "aster" => aster(n, ok),
            "briar" => briar(n, ok),
            "clover" if n % 16 == 0 => clover(n),
            "clover" => {}
            "dahlia" => dahlia(n, &mut state),
            "erica" => erica(&mut heath, n, &mut state),
            "fennel" => fennel(&mut herbs, n, if ok { 400_000 } else { 4000 }, &mut state),
            _ => panic!("which?"),
        }
        if n % 20 == 0 {
            stir(&mut soil, &mut state);
            nap(50);
        }
    }
}

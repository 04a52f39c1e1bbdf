// Leaks and collections in Rust as services have them. First argument: which; a second one: mended.
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn pause_ms(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// Traffic: requests with headers and a body, of which the last 2,000 stay.
#[derive(Default)]
struct Traffic {
    requests: VecDeque<(HashMap<String, String>, Vec<u8>)>,
    seed: u32,
}

impl Traffic {
    fn pick(&mut self) -> u32 {
        self.seed = self.seed.wrapping_mul(1664525).wrapping_add(1013904223);
        self.seed >> 8
    }
    fn serve(&mut self, count: usize) {
        for _ in 0..count {
            let mut headers = HashMap::new();
            headers.insert("host".to_owned(), format!("host-{}", self.pick() % 100));
            headers.insert("length".to_owned(), self.pick().to_string());
            let body = vec![1; 50 + (self.pick() % 1500) as usize];
            self.requests.push_back((headers, body));
            if self.requests.len() > 2000 {
                self.requests.pop_front();
            }
        }
    }
}

struct Tree {
    parent: RefCell<Option<Rc<Tree>>>,
    weak: RefCell<Weak<Tree>>,
    children: RefCell<Vec<Rc<Tree>>>,
    text: String,
}

#[inline(never)]
fn build_tree(mended: bool) -> usize {
    let node = || Tree { parent: RefCell::new(None), weak: RefCell::new(Weak::new()), children: RefCell::new(vec![]), text: "t".repeat(500) };
    let (root, child) = (Rc::new(node()), Rc::new(node()));
    if mended { *child.weak.borrow_mut() = Rc::downgrade(&root) } else { *child.parent.borrow_mut() = Some(root.clone()) }
    root.children.borrow_mut().push(child);
    root.text.len()
}

#[inline(never)]
fn leak_label(n: usize) -> &'static str {
    Box::leak(format!("label-{n}-{}", "x".repeat(200)).into_boxed_str())
}

#[inline(never)]
fn forget_body(n: usize, mended: bool) {
    let body = vec![n as u8; 1200];
    if mended { drop(body) } else { std::mem::forget(body) }
}

#[inline(never)]
fn cache_response(cache: &Mutex<HashMap<usize, Vec<u8>>>, n: usize) {
    cache.lock().unwrap().insert(n, vec![n as u8; 700]);
}

#[inline(never)]
fn publish(to: &Sender<Vec<u8>>, n: usize) {
    let _ = to.send(vec![n as u8; 900]);
}

#[inline(never)]
fn into_raw(n: usize, mended: bool) {
    let raw = Box::into_raw(Box::new([n as u8; 1000]));
    if mended { drop(unsafe { Box::from_raw(raw) }) } else { std::hint::black_box(raw); }
}

#[inline(never)]
fn recent(map: &mut BTreeMap<usize, String>, n: usize) {
    map.insert(n, "r".repeat(600));
    if map.len() > 10_000 {
        map.pop_first();
    }
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let mended = std::env::args().count() > 2;
    let mut traffic = Traffic::default();
    let cache = Arc::new(Mutex::new(HashMap::new()));
    let (to, from) = channel();
    let mut map = BTreeMap::new();
    let mut length = 0;
    if which == "channel" {
        thread::spawn(move || { pause_ms(1_000_000_000); drop(from) });
    }
    if which == "threads" {
        for _ in 0..6 {
            thread::spawn(move || {
                let mut traffic = Traffic::default();
                for n in 0.. {
                    into_raw(n, mended);
                    traffic.serve(10);
                    if n % 4 == 0 { pause_ms(25) }
                }
            });
        }
    }
    for n in 0.. {
        match which.as_str() {
            "tree" => length += build_tree(mended),
            "labels" => length += leak_label(n).len(),
            "forget" => forget_body(n, mended),
            "cache" => cache_response(&cache, n),
            "channel" => publish(&to, n),
            "recent" => recent(&mut map, n),
            _ => {}
        }
        traffic.serve(10);
        if n % 4 == 0 { pause_ms(10) }
    }
    println!("{length}");
}

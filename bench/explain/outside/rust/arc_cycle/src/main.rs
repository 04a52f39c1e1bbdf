// widget tree / scene graph: children keep a strong Arc to their parent
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
struct Node {
    _name: String,
    payload: Vec<u8>,
    parent: Option<Arc<Mutex<Node>>>,
    kids: Vec<Arc<Mutex<Node>>>,
}
#[inline(never)]
fn spawn_child(parent: &Arc<Mutex<Node>>, n: usize, strong: bool) {
    let c = Arc::new(Mutex::new(Node {
        _name: format!("child-{n}"),
        payload: vec![n as u8; 500 + n % 700],
        parent: None,
        kids: vec![],
    }));
    if strong {
        c.lock().unwrap().parent = Some(parent.clone());
    }
    parent.lock().unwrap().kids.push(c);
}
#[inline(never)]
fn build_scene(n: usize) -> Arc<Mutex<Node>> {
    let root = Arc::new(Mutex::new(Node {
        _name: format!("scene-{n}"),
        payload: vec![1; 3000],
        parent: None,
        kids: Vec::new(),
    }));
    let linked = n % 8 == 0;
    for i in 0..10 {
        spawn_child(&root, n * 13 + i, linked);
    }
    root
}
fn linked_count(g: &Node) -> bool {
    g.kids[0].lock().unwrap().parent.is_some()
}
fn main() {
    let t0 = Instant::now();
    let mut scenes = std::collections::VecDeque::new();
    let mut n = 0usize;
    let mut sum = 0usize;
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..4 {
            n += 1;
            let s = build_scene(n);
            {
                let g = s.lock().unwrap();
                sum += g.payload.len() + g.kids[0].lock().unwrap().payload.len();
                if linked_count(&g) {
                    sum += 1;
                }
            }
            scenes.push_back(s);
            if scenes.len() > 1500 {
                scenes.pop_front();
            }
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{sum}");
}

//! A scene service. A scene has ten nodes, and the newest 1,500 scenes are kept. In one scene of eight the nodes
//! hold their scene as well, so that dropping it frees nothing. Mode `strong`: they hold it by an Arc; `weak`
//! (healthy): by a Weak.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

struct Node {
    _name: String,
    payload: Vec<u8>,
    parent: Option<Arc<Mutex<Node>>>,
    weak_parent: Weak<Mutex<Node>>,
    children: Vec<Arc<Mutex<Node>>>,
}

fn new_node(name: String, payload: Vec<u8>) -> Arc<Mutex<Node>> {
    Arc::new(Mutex::new(Node { _name: name, payload, parent: None, weak_parent: Weak::new(), children: Vec::new() }))
}

#[inline(never)]
fn spawn_child(parent: &Arc<Mutex<Node>>, number: usize, linked: bool, strong: bool) {
    let child = new_node(format!("child-{number}"), vec![number as u8; 500 + number % 700]);
    if linked && strong {
        child.lock().unwrap().parent = Some(parent.clone());
    } else if linked {
        child.lock().unwrap().weak_parent = Arc::downgrade(parent);
    }
    parent.lock().unwrap().children.push(child);
}

#[inline(never)]
fn build_scene(number: usize, strong: bool) -> Arc<Mutex<Node>> {
    let root = new_node(format!("scene-{number}"), vec![1; 3000]);
    for i in 0..10 {
        spawn_child(&root, number * 13 + i, number % 8 == 0, strong);
    }
    root
}

fn size_of_scene(scene: &Arc<Mutex<Node>>) -> usize {
    let root = scene.lock().unwrap();
    let child = root.children[0].lock().unwrap();
    root.payload.len() + child.payload.len() + child.parent.is_some() as usize + child.weak_parent.strong_count()
}

fn main() {
    let strong = std::env::args().nth(1).as_deref() == Some("strong");
    let (start, mut scenes, mut number, mut sum) = (Instant::now(), VecDeque::new(), 0, 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..4 {
            number += 1;
            scenes.push_back(build_scene(number, strong));
            sum += size_of_scene(&scenes[scenes.len() - 1]);
            if number == 1500 {
                println!("ready");
            }
            if scenes.len() > 1500 {
                scenes.pop_front();
            }
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{sum}");
}

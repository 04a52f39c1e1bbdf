// Losses in Rust, with mended twins ("ok"); names say nothing of what is done. First argument: which.
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::{env, thread, time::Duration};

fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

fn ripple(pool: &mut VecDeque<Vec<u8>>, n: usize) {
    for i in 0..n {
        pool.push_back(vec![1; 10 + (i * 7919) % 1500]);
        if pool.len() > 2000 {
            pool.pop_front();
        }
    }
}

struct Shell {
    text: String,
    inner: RefCell<Option<Rc<Shell>>>,
}

/// urchin: a shell inside of itself.
#[inline(never)]
fn urchin(ok: bool) {
    let outer = Rc::new(Shell { text: "u".repeat(300), inner: RefCell::new(None) });
    let inner = Rc::new(Shell { text: "i".repeat(200), inner: RefCell::new(None) });
    *outer.inner.borrow_mut() = Some(inner.clone());
    if !ok {
        *inner.inner.borrow_mut() = Some(outer.clone());
    }
    std::hint::black_box(&outer.text);
}

/// anemone: raw pointers that cross a border.
fn anemone(n: usize, ok: bool) {
    let raw = Box::into_raw(Box::new([n as u8; 480]));
    std::hint::black_box(raw);
    if ok {
        drop(unsafe { Box::from_raw(raw) });
    }
}

/// barnacle: one of twelve threads wraps what it should drop.
fn barnacle(ok: bool) {
    for own in 0..12 {
        thread::spawn(move || {
            let mut pool = VecDeque::new();
            loop {
                for _ in 0..20 {
                    let hull: Vec<u64> = (0..200).collect();
                    if own == 5 && !ok {
                        std::hint::black_box(ManuallyDrop::new(hull));
                    } else {
                        std::hint::black_box(hull);
                    }
                }
                ripple(&mut pool, 60);
                nap(100);
            }
        });
    }
    thread::park();
    nap(3_600_000);
}

/// mussel: a queue whose reader is slower than its writers.
fn mussel() {
    let (sender, receiver) = mpsc::channel::<String>();
    let seen = Arc::new(Mutex::new(HashMap::new()));
    for _ in 0..3 {
        let sender = sender.clone();
        thread::spawn(move || {
            for n in 0.. {
                let _ = sender.send(format!("{n:0400}"));
                if n % 10 == 0 {
                    nap(50);
                }
            }
        });
    }
    for word in receiver {
        seen.lock().unwrap().insert(word.len(), word);
        nap(3);
    }
}

fn main() {
    let which = env::args().nth(1).unwrap_or_default();
    let ok = env::args().count() > 2;
    let mut pool = VecDeque::new();
    match which.as_str() {
        "barnacle" => barnacle(ok),
        "mussel" => mussel(),
        _ => {}
    }
    for n in 0.. {
        match which.as_str() {
            "urchin" => urchin(ok),
            "anemone" => anemone(n, ok),
            _ => std::process::exit(2),
        }
        if n % 8 == 0 {
            ripple(&mut pool, 60);
            nap(25);
        }
    }
}

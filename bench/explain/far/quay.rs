// A quay in Rust: a channel that nobody reads, names leaked on purpose, forgotten vectors.
use std::{hint, mem, sync::mpsc, thread::sleep, time::Duration};

struct Parcel {
    label: String,
    weight: [u8; 400],
}

#[inline(never)]
fn publish(sender: &mpsc::Sender<Parcel>, n: u64) {
    let _ = sender.send(Parcel { label: format!("parcel {n}"), weight: [n as u8; 400] });
}

#[inline(never)]
fn intern_name(n: u64) -> &'static str {
    Box::leak(format!("{n:0>700}").into_boxed_str())
}

#[inline(never)]
fn forget_crate(n: u64) {
    mem::forget(hint::black_box(vec![n; 120]));
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let (sender, receiver) = mpsc::channel();
    let mut length = 0;
    for n in 0.. {
        for i in 0..4 {
            match what.as_str() {
                "channel" => publish(&sender, n),
                "names" => length += intern_name(n + i).len(),
                _ => forget_crate(n + i),
            }
        }
        let passing: Vec<String> = (0..50).map(|i| "z".repeat(20 + i)).collect();
        length += passing.len();
        if length == usize::MAX {
            let parcel: Parcel = receiver.recv().unwrap();
            println!("{} {}", parcel.label, parcel.weight[0]);
        }
        sleep(Duration::from_millis(10));
    }
}

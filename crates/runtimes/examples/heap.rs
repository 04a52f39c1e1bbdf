//! Reads the managed heaps of a process twice and prints what grew, and what keeps it alive.
//!
//! `cargo run --release -p highwater-runtimes --example heap -- PID [SECONDS [TYPE...]]`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use runtimes::{Limits, ManagedHeap, Snapshot, TypeCount};

const TYPES_SHOWN: usize = 15;
const TYPES_ASKED: usize = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().and_then(|pid| pid.parse().ok());
    let Some(pid) = pid else {
        eprintln!("usage: heap PID [SECONDS [TYPE...]]");
        std::process::exit(2);
    };
    let seconds = arguments
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(5);
    let types: Vec<String> = arguments.collect();
    let heaps = runtimes::open(pid);
    if heaps.is_empty() {
        eprintln!("no managed runtime that is known is in process {pid}");
    }
    for mut heap in heaps {
        if let Err(error) = show(heap.as_mut(), Duration::from_secs(seconds), &types) {
            eprintln!("{}: {error}", heap.runtime());
        }
    }
}

fn show(
    heap: &mut dyn ManagedHeap,
    between: Duration,
    types: &[String],
) -> Result<(), runtimes::Error> {
    let limits = Limits {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
        pause: Duration::ZERO,
    };
    println!("{}", heap.runtime());
    if let Some(warning) = heap.warning() {
        println!("{warning}");
    }
    let first = heap.snapshot(&limits)?;
    std::thread::sleep(between);
    let second = heap.snapshot(&limits)?;
    let grown = grown(&first, &second);
    print_types(&second, &grown);
    let names = grown
        .iter()
        .take(TYPES_ASKED)
        .map(|(count, _)| count.name.clone());
    let asked: Vec<String> = if types.is_empty() {
        names.collect()
    } else {
        types.to_vec()
    };
    let start = Instant::now();
    let holders = heap.holders(&asked, &limits);
    println!("holders, found in {:?}:", start.elapsed());
    for holder in holders {
        let path = holder.path.join(" ");
        println!(
            "{} {}/{}: {path}",
            holder.type_name, holder.objects, holder.asked
        );
        for user in holder.users {
            println!("    used by {user}");
        }
    }
    Ok(())
}

/// Types with more bytes than before, the most first.
fn grown(first: &Snapshot, second: &Snapshot) -> Vec<(TypeCount, i64)> {
    let before: HashMap<&str, u64> = first
        .types
        .iter()
        .map(|count| (count.name.as_str(), count.bytes))
        .collect();
    let more = second.types.iter().map(|count| {
        let old = before.get(count.name.as_str()).copied().unwrap_or(0);
        (count.clone(), count.bytes.cast_signed() - old.cast_signed())
    });
    let mut more: Vec<(TypeCount, i64)> = more.filter(|(_, bytes)| *bytes > 0).collect();
    more.sort_by_key(|(_, bytes)| -bytes);
    more
}

fn print_types(snapshot: &Snapshot, grown: &[(TypeCount, i64)]) {
    let objects: u64 = snapshot.types.iter().map(|count| count.objects).sum();
    println!(
        "{objects} objects, {:?}, read in {:?}",
        snapshot.heap, snapshot.cost.reading
    );
    for count in snapshot.types.iter().take(TYPES_SHOWN) {
        println!(
            "{:>12} {:>14} B  {}",
            count.objects, count.bytes, count.name
        );
    }
    println!("grown:");
    for (count, bytes) in grown.iter().take(TYPES_SHOWN) {
        println!("{:>12} {bytes:>+14} B  {}", count.objects, count.name);
    }
    for missing in &snapshot.missing {
        println!("not in here: {missing}");
    }
}

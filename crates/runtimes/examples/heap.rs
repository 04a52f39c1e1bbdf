//! What grows in the managed heaps of a running process.
//!
//! `cargo run -p highwater-runtimes --example heap -- PID [SECONDS] [PAUSE_MS]`: two snapshots, and what grew between.

use std::collections::HashMap;
use std::time::Duration;

use runtimes::{Frame, Limits, ManagedHeap, Snapshot};

const SHOWN: usize = 10;

fn main() {
    let number = |at, otherwise| {
        std::env::args()
            .nth(at)
            .map_or(Some(otherwise), |text| text.parse().ok())
    };
    let (Some(pid), Some(seconds), Some(pause)) = (number(1, 0), number(2, 10), number(3, 0))
    else {
        eprintln!("usage: heap PID [SECONDS] [PAUSE_MS]");
        std::process::exit(2);
    };
    let limits = Limits {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
        pause: Duration::from_millis(pause),
    };
    for mut heap in runtimes::open(pid as u32) {
        println!("{} ({:?})", heap.runtime(), heap.touch());
        if let Some(warning) = heap.warning() {
            println!("warning: {warning}");
        }
        if let Err(error) = compare(heap.as_mut(), Duration::from_secs(seconds), &limits) {
            println!("error: {error}");
        }
    }
}

fn compare(
    heap: &mut dyn ManagedHeap,
    apart: Duration,
    limits: &Limits,
) -> Result<(), runtimes::Error> {
    let first = heap.snapshot(limits)?;
    println!("first: {}", summary(&first));
    std::thread::sleep(apart);
    let second = heap.snapshot(limits)?;
    println!("second: {}", summary(&second));
    let types = print_types(&first, &second);
    print_sites(&first, &second);
    print_tasks(&first, &second);
    for holder in heap.holders(&types, limits) {
        println!(
            "{} of {} {} held by {}",
            holder.objects,
            holder.asked,
            holder.type_name,
            holder.path.join(" > ")
        );
        for user in holder.users {
            println!("    used in {user}");
        }
    }
    Ok(())
}

fn summary(snapshot: &Snapshot) -> String {
    format!(
        "{:?}\n  {:?}\n  missing: {:?}",
        snapshot.cost, snapshot.heap, snapshot.missing
    )
}

/// The names of those that grew.
fn print_types(first: &Snapshot, second: &Snapshot) -> Vec<String> {
    let before: HashMap<_, _> = first
        .types
        .iter()
        .map(|kind| (&kind.name, (kind.objects, kind.bytes)))
        .collect();
    let mut grown: Vec<_> = second.types.iter().collect();
    let growth = |kind: &runtimes::TypeCount| {
        let (objects, bytes) = before.get(&kind.name).copied().unwrap_or_default();
        (
            kind.objects as i64 - objects as i64,
            kind.bytes as i64 - bytes as i64,
        )
    };
    grown.sort_by_key(|kind| -growth(kind).1);
    grown.retain(|kind| growth(kind).1 > 0);
    grown.truncate(SHOWN);
    for kind in &grown {
        let (objects, bytes) = growth(kind);
        println!(
            "type {}: {objects:+} objects, {bytes:+} bytes, {} bytes now",
            kind.name, kind.bytes
        );
    }
    grown.into_iter().map(|kind| kind.name.clone()).collect()
}

fn print_sites(first: &Snapshot, second: &Snapshot) {
    let before: HashMap<_, _> = first
        .sites
        .iter()
        .map(|site| (place(&site.frames), site.bytes))
        .collect();
    let growth =
        |site: &runtimes::SiteCount| site.bytes - before.get(&place(&site.frames)).unwrap_or(&0.0);
    let mut grown: Vec<_> = second.sites.iter().collect();
    grown.sort_by(|a, b| growth(b).total_cmp(&growth(a)));
    for site in grown
        .into_iter()
        .filter(|site| growth(site) > 0.0)
        .take(SHOWN)
    {
        println!("site {:+.0} bytes: {}", growth(site), place(&site.frames));
    }
}

fn print_tasks(first: &Snapshot, second: &Snapshot) {
    let key =
        |group: &runtimes::TaskGroup| format!("{} {:?}", place(&group.frames), group.created_by);
    let before: HashMap<_, _> = first
        .tasks
        .iter()
        .map(|group| (key(group), group.tasks))
        .collect();
    for group in &second.tasks {
        let more = group.tasks as i64 - before.get(&key(group)).copied().unwrap_or(0) as i64;
        if more > 0 {
            println!(
                "tasks {more:+} ({:?}): {}",
                group.waits_for,
                place(&group.frames)
            );
        }
    }
}

fn place(frames: &[Frame]) -> String {
    let one = |frame: &Frame| {
        let function = frame.function.as_deref().unwrap_or("?");
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            _ => function.to_owned(),
        }
    };
    frames.iter().map(one).collect::<Vec<_>>().join(" < ")
}

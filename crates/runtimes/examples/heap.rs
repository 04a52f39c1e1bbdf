//! What grew in the managed heaps of a process between two snapshots: `heap PID [SECONDS]`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use runtimes::{Frame, Limits, ManagedHeap, Snapshot};

/// Lines of each table.
const LINES: usize = 10;
const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    bytes: 256 << 20,
    pause: Duration::from_secs(1),
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().ok_or("heap PID [SECONDS]")?.parse()?;
    let seconds = arguments.next().map_or(Ok(10), |seconds| seconds.parse())?;
    for mut heap in runtimes::open(pid) {
        compare(heap.as_mut(), Duration::from_secs(seconds))?;
    }
    Ok(())
}

fn compare(heap: &mut dyn ManagedHeap, time: Duration) -> Result<(), runtimes::Error> {
    println!("{} {}", heap.runtime(), heap.warning().unwrap_or_default());
    let before = heap.snapshot(&LIMITS)?;
    println!("{:?}, {:?}", before.cost, before.heap);
    std::thread::sleep(time);
    let after = heap.snapshot(&LIMITS)?;
    println!("{:?}, {:?}", after.cost, after.heap);
    after
        .missing
        .iter()
        .for_each(|missing| println!("missing: {missing}"));
    let grown = types(&before, &after);
    sites(&before, &after);
    tasks(&before, &after);
    for holder in heap.holders(&grown, &LIMITS) {
        println!(
            "{} of {} {}: {}",
            holder.objects,
            holder.asked,
            holder.type_name,
            holder.path.join(" ")
        );
        holder
            .users
            .iter()
            .for_each(|user| println!("    used by {user}"));
    }
    Ok(())
}

fn types(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let counts = |of: &Snapshot| {
        of.types
            .iter()
            .map(|one| (one.name.clone(), one.bytes as f64))
            .collect()
    };
    let grown = growth(counts(before), counts(after));
    for (name, bytes, grew) in &grown {
        println!("type {name}: {bytes:.0} B, +{grew:.0} B");
    }
    grown.into_iter().map(|(name, ..)| name).collect()
}

fn sites(before: &Snapshot, after: &Snapshot) {
    let counts = |of: &Snapshot| {
        of.sites
            .iter()
            .map(|one| (stack(&one.frames), one.bytes))
            .collect()
    };
    for (stack, bytes, grew) in growth(counts(before), counts(after)) {
        println!("site {bytes:.0} B, +{grew:.0} B{stack}");
    }
}

fn tasks(before: &Snapshot, after: &Snapshot) {
    let counts = |of: &Snapshot| {
        let key = |one: &runtimes::TaskGroup| {
            let by = one.created_by.as_ref().map(name).unwrap_or_default();
            format!(
                "{}, created by {by}{}",
                one.waits_for.as_deref().unwrap_or("runs"),
                stack(&one.frames)
            )
        };
        of.tasks
            .iter()
            .map(|one| (key(one), one.tasks as f64))
            .collect()
    };
    for (key, tasks, grew) in growth(counts(before), counts(after)) {
        println!("tasks {tasks}, +{grew}: {key}");
    }
}

/// (key, after, growth), the most growth first.
fn growth<K: Hash + Eq + Clone>(before: Vec<(K, f64)>, after: Vec<(K, f64)>) -> Vec<(K, f64, f64)> {
    let mut sums: HashMap<K, (f64, f64)> = HashMap::new();
    before
        .into_iter()
        .for_each(|(key, size)| sums.entry(key).or_default().0 += size);
    after
        .into_iter()
        .for_each(|(key, size)| sums.entry(key).or_default().1 += size);
    let grown = sums
        .into_iter()
        .map(|(key, (before, after))| (key, after, after - before));
    let mut grown: Vec<_> = grown.filter(|(.., grew)| *grew > 0.0).collect();
    grown.sort_by(|a, b| b.2.total_cmp(&a.2));
    grown.truncate(LINES);
    grown
}

fn stack(frames: &[Frame]) -> String {
    frames
        .iter()
        .map(|frame| format!("\n    {}", name(frame)))
        .collect()
}

fn name(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} {file}:{line}"),
        _ => format!("{function} {}+{:#x}", frame.module, frame.offset),
    }
}

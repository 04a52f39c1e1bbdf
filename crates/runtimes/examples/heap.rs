//! What grows in the heap of a running process: `heap PID [SECONDS [PAUSE_MS]]`.
//!
//! Takes two snapshots with each reader of the process, and prints what the second has more than the first.

use std::collections::HashMap;
use std::time::Duration;

use runtimes::{Error, Frame, Limits, ManagedHeap, Snapshot};

/// Of each kind.
const ROWS_MAX: usize = 15;

/// Innermost functions of a stack.
const FRAMES_MAX: usize = 6;

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let Some(pid) = arguments.first().and_then(|&pid| u32::try_from(pid).ok()) else {
        eprintln!("usage: heap PID [SECONDS [PAUSE_MS]]");
        std::process::exit(2);
    };
    let between = Duration::from_secs(arguments.get(1).copied().unwrap_or(10));
    let limits = Limits {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
        pause: Duration::from_millis(arguments.get(2).copied().unwrap_or(0)),
    };
    for mut heap in runtimes::open(pid) {
        println!("{}", heap.runtime());
        heap.warning()
            .iter()
            .for_each(|warning| println!("warning: {warning}"));
        if let Err(error) = compare(heap.as_mut(), between, &limits) {
            println!("error: {error}");
        }
    }
}

fn compare(heap: &mut dyn ManagedHeap, between: Duration, limits: &Limits) -> Result<(), Error> {
    let before = heap.snapshot(limits)?;
    std::thread::sleep(between);
    let after = heap.snapshot(limits)?;
    println!("first: {:?}\nlast: {:?}", before.cost, after.cost);
    println!(
        "heap before: {:?}\nheap after: {:?}",
        before.heap, after.heap
    );
    after
        .missing
        .iter()
        .for_each(|sentence| println!("missing: {sentence}"));
    let grown = print_types(&before, &after);
    print_sites(&before, &after);
    print_tasks(&before, &after);
    for holder in heap.holders(&grown, limits) {
        println!("holder: {holder:?}");
    }
    Ok(())
}

/// Their names.
fn print_types(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let objects_before: HashMap<_, _> = before
        .types
        .iter()
        .map(|one| (&one.name, (one.objects, one.bytes)))
        .collect();
    let mut rows: Vec<_> = after
        .types
        .iter()
        .map(|one| {
            let (objects, bytes) = objects_before.get(&one.name).copied().unwrap_or((0, 0));
            (
                one.bytes as i128 - i128::from(bytes),
                one.objects as i128 - i128::from(objects),
                one,
            )
        })
        .filter(|(bytes, _, _)| *bytes > 0)
        .collect();
    rows.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    rows.truncate(ROWS_MAX);
    for (bytes, objects, one) in &rows {
        println!(
            "type: {bytes:+} B {objects:+} objects (now {} B, {}) {}",
            one.bytes, one.objects, one.name
        );
    }
    rows.into_iter()
        .map(|(_, _, one)| one.name.clone())
        .collect()
}

fn print_sites(before: &Snapshot, after: &Snapshot) {
    let bytes_before: HashMap<_, _> = before
        .sites
        .iter()
        .map(|site| (&site.frames, site.bytes))
        .collect();
    let grown = |site: &runtimes::SiteCount| {
        site.bytes - bytes_before.get(&site.frames).copied().unwrap_or(0.0)
    };
    let mut rows: Vec<_> = after
        .sites
        .iter()
        .map(|site| (grown(site), site))
        .filter(|(bytes, _)| *bytes > 0.0)
        .collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (bytes, site) in rows.iter().take(ROWS_MAX) {
        println!(
            "site: {bytes:+.0} B (now {:.0} B, {:.0} objects) {}",
            site.bytes,
            site.objects,
            stack(&site.frames)
        );
    }
}

fn print_tasks(before: &Snapshot, after: &Snapshot) {
    let tasks_before: HashMap<_, _> = before
        .tasks
        .iter()
        .map(|group| ((&group.waits_for, &group.frames), group.tasks))
        .collect();
    for group in after.tasks.iter().take(ROWS_MAX) {
        let earlier = tasks_before
            .get(&(&group.waits_for, &group.frames))
            .copied()
            .unwrap_or(0);
        println!(
            "tasks: {} (before {earlier}), {} B of stacks, {}, {}",
            group.tasks,
            group.bytes,
            group.waits_for.as_deref().unwrap_or("running"),
            stack(&group.frames)
        );
    }
}

fn stack(frames: &[Frame]) -> String {
    let name = |frame: &Frame| frame.function.clone().unwrap_or_else(|| "?".to_owned());
    let inner = frames.iter().take(FRAMES_MAX).map(name);
    let outermost = frames.iter().skip(FRAMES_MAX).last().map(name);
    inner.chain(outermost).collect::<Vec<_>>().join(" < ")
}

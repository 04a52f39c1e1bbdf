//! Prints what the probe in a process has counted: `dump PID`. For working on the probe; `highwater
//! explain` is for users.

use std::fs::File;
use std::os::unix::fs::FileExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = std::env::args().nth(1).ok_or("usage: dump PID")?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let at = abi::find_header(&maps).ok_or("no probe there")?.start;
    let mut copy = vec![0; abi::HEADER_BYTES];
    memory.read_exact_at(&mut copy, at)?;
    copy.resize(abi::read_header(&copy)?.total_bytes as usize, 0);
    memory.read_exact_at(&mut copy, at)?;
    print(&abi::read(&copy)?);
    Ok(())
}

fn print(snapshot: &abi::Snapshot) {
    let header = &snapshot.header;
    println!(
        "{:?}, bytes mode {}, mean {}",
        snapshot.state(),
        header.bytes_mode,
        header.mean_bytes
    );
    let (mut allocs, mut frees, mut usable, mut requested) = (0, 0, 0i64, 0u64);
    for (_, thread) in snapshot.threads() {
        allocs += thread.allocs;
        frees += thread.frees;
        usable += thread.usable_allocated_bytes as i64 - thread.usable_freed_bytes as i64;
        requested = requested
            .wrapping_add(thread.drawn_bytes)
            .wrapping_sub(thread.countdown_bytes);
    }
    println!(
        "allocs {allocs}, frees {frees}, live {}",
        allocs as i64 - frees as i64
    );
    println!("usable live {usable}, requested ever {requested}");
    let estimate: f64 = snapshot
        .samples()
        .map(|(_, sample)| {
            let bytes = sample.requested_bytes as f64;
            bytes / -(-bytes / sample.mean_bytes as f64).exp_m1()
        })
        .sum();
    println!(
        "samples say {estimate:.0} live; torn {}",
        snapshot.torn_samples()
    );
    println!("{:#?}", header.counters);
    println!("{:#?}", header.mappings);
    for (at, role) in snapshot.roles() {
        let name = String::from_utf8_lossy(&role.name);
        println!(
            "role {at} {name} root {:x} threads {}",
            role.root, role.threads
        );
    }
    let mut stacks: Vec<_> = snapshot.stacks().collect();
    stacks.sort_by_key(|(_, stack)| {
        std::cmp::Reverse(stack.allocated_bytes - stack.freed_bytes.min(stack.allocated_bytes))
    });
    println!("{} stacks; those with most left:", stacks.len());
    for (at, stack) in stacks.iter().take(5) {
        let frames: Vec<u64> = snapshot.frames(stack).collect();
        println!(
            "{at}: allocated {} freed {} flags {} {frames:x?}",
            stack.allocated_bytes, stack.freed_bytes, stack.flags
        );
    }
}

//! What a trap costs on this machine, tried on functions of our own.

use std::io;

use rustix::time::ClockId;

use super::attach::Target;
use super::entry::entry;
use super::functions::{Function, Role};
use super::pace::Cost;
use super::{MEAN_MAX, attach};
use crate::observe::clock::read_ns;

/// Calls that tell what a trap costs, and how often they are made: the median counts. The quickest would be too little,
/// for the subject does not have the caches to itself either.
const CALLS: u32 = 200;
const TIMES: usize = 7;

/// Of a function of our own, enough to tell where it is probed.
const CODE_BYTES: usize = 12;

/// Nobody's allocator: probed to learn what a trap costs here.
pub type Probed = extern "C" fn(usize) -> usize;

/// The kernel emulates its first instruction.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub extern "C" fn emulated(bytes: usize) -> usize {
    std::arch::naked_asm!("push rbp", "pop rbp", "mov rax, rdi", "ret")
}

/// The kernel steps its first instruction.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub extern "C" fn stepped(bytes: usize) -> usize {
    std::arch::naked_asm!("mov rax, rdi", "ret")
}

/// It is probed behind its first two instructions, where its argument is in another register.
#[cfg(all(test, target_arch = "x86_64"))]
#[unsafe(naked)]
pub extern "C" fn moved(bytes: usize) -> usize {
    std::arch::naked_asm!(
        "mov rsi, rdi",
        "xor edi, edi",
        "push rbp",
        "pop rbp",
        "mov rax, rsi",
        "ret"
    )
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
pub extern "C" fn emulated(bytes: usize) -> usize {
    std::hint::black_box(bytes)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
pub extern "C" fn stepped(bytes: usize) -> usize {
    std::hint::black_box(bytes)
}

pub fn own_function(probed: Probed) -> io::Result<Function> {
    let address = probed as *const () as u64;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let maps = maps.map_err(io::Error::other)?;
    let map = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address));
    let map = map.ok_or_else(|| io::Error::other("own code is not mapped"))?;
    // SAFETY: code is readable, and more of it follows the smallest function.
    let code = unsafe { std::slice::from_raw_parts(address as *const u8, CODE_BYTES) };
    let entry = entry(code, 1);
    Ok(Function {
        name: "probed".to_owned(),
        role: Role::Give { bytes: 0 },
        throws: false,
        file_offset: address - map.address.0 + map.offset + entry.skip,
        is_emulated: entry.is_emulated,
        arguments: entry.arguments,
        code: address..address + 1,
    })
}

/// What traps cost on this machine; what a step costs is only asked for where the kernel makes some.
pub fn measure_cost(all_emulated: bool) -> io::Result<Cost> {
    let cost = cost_of(emulated)?;
    let step_ns = match all_emulated {
        true => 0.0,
        false => (cost_of(stepped)?.hit_ns - cost.hit_ns).max(0.0),
    };
    Ok(Cost { step_ns, ..cost })
}

fn cost_of(probed: Probed) -> io::Result<Cost> {
    let plain_ns = calls_ns(probed);
    let (maps, _programs, _attached) = attach(&Target::own(), &[own_function(probed)?])?;
    // Every byte is a sample; then none is, for what a CPU drew last goes on until it is reached.
    maps.mean.write(0, 0);
    let samples_ns = calls_ns(probed);
    maps.mean.write(0, MEAN_MAX);
    let hits_ns = calls_ns(probed);
    let each = |more: f64, less: f64| (more - less).max(0.0) / f64::from(CALLS);
    Ok(Cost {
        hit_ns: each(hits_ns, plain_ns),
        step_ns: 0.0,
        sample_ns: each(samples_ns, hits_ns),
    })
}

fn calls_ns(probed: Probed) -> f64 {
    let cpu = || read_ns(ClockId::ThreadCPUTime);
    let time = |_| {
        let begin = cpu();
        for _ in 0..CALLS {
            std::hint::black_box(probed(std::hint::black_box(1)));
        }
        (cpu() - begin) as f64
    };
    let mut times: Vec<f64> = (0..TIMES).map(time).collect();
    times.sort_by(f64::total_cmp);
    times[TIMES / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skipped;

    #[test]
    fn a_trap_costs_something_however_it_is_made() {
        for all_emulated in [true, false] {
            match measure_cost(all_emulated) {
                Ok(cost) => assert!(cost.hit_ns > 0.0, "{cost:?}"),
                Err(error) => skipped(&format!("uprobes cannot be tried: {error}")),
            }
        }
    }
}

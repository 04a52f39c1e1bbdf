//! What a trap costs on this machine, tried on functions of our own.

use std::io;

use rustix::time::ClockId;

use super::attach::Target;
use super::entry::entry;
use super::functions::{Function, Role};
use super::pace::Cost;
use super::{MEAN_MAX, attach};
use crate::observe::clock::read_ns;
use crate::observe::exits::{Exit, Leads, Text, exits};

/// Calls that tell what a trap costs, and how often they are made: the median counts. The quickest would be too little,
/// for the subject does not have the caches to itself either.
const CALLS: u32 = 200;
const TIMES: usize = 7;

/// Of a function of our own, enough to tell where it is probed.
const CODE_BYTES: usize = 12;

/// It allocates a block at the address that is its argument, or it frees it.
pub const GIVE: Role = Role::Give { bytes: 0 };
const TAKE: Role = Role::Take { block: 0 };

/// Our own code.
struct OwnText;

impl Text for OwnText {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        // SAFETY: code is readable, and more of it follows the smallest function.
        into.copy_from_slice(unsafe { code_at(address, into.len()) });
        into.len()
    }
    fn leads(&self, _: u64) -> Leads {
        Leads::Code
    }
    fn leads_by(&self, _: u64) -> Leads {
        Leads::Unknown
    }
    fn is_bound(&self, _: u64) -> bool {
        false
    }
}

/// # Safety
/// So many bytes from there on are readable, and stay as they are.
unsafe fn code_at(address: u64, bytes: usize) -> &'static [u8] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }
}

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

pub fn own_function(probed: Probed, role: Role) -> io::Result<Function> {
    let address = probed as *const () as u64;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let maps = maps.map_err(io::Error::other)?;
    let map = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address));
    let map = map.ok_or_else(|| io::Error::other("own code is not mapped"))?;
    // SAFETY: code is readable, and more of it follows the smallest function.
    let code = unsafe { code_at(address, CODE_BYTES) };
    let entry = entry(code, 1);
    let offset_of = |address: u64| address - map.address.0 + map.offset;
    let exits = exits(&OwnText, address).into_iter().map(|exit| Exit {
        at: offset_of(exit.at),
        ..exit
    });
    Ok(Function {
        name: "probed".to_owned(),
        role,
        file_offset: offset_of(address) + entry.skip,
        exits: exits.filter(|_| role == GIVE).collect(),
        is_emulated: entry.is_emulated,
        arguments: entry.arguments,
        code: address..address + 1,
    })
}

/// What traps cost on this machine.
pub fn measure_cost() -> io::Result<Cost> {
    let hit_ns = hit_ns_of(emulated)?;
    Ok(Cost {
        hit_ns,
        step_ns: (hit_ns_of(stepped)? - hit_ns).max(0.0),
        sample_ns: sample_ns()?,
    })
}

/// Of a function that frees: one hit a call.
fn hit_ns_of(probed: Probed) -> io::Result<f64> {
    let plain_ns = calls_ns(probed);
    let _attached = attach(&Target::own(), &[own_function(probed, TAKE)?])?;
    Ok(each(calls_ns(probed), plain_ns))
}

/// Beyond the hits at entry and exit.
fn sample_ns() -> io::Result<f64> {
    let probed = attach(&Target::own(), &[own_function(emulated, GIVE)?])?;
    let maps = &probed.maps;
    // Every byte is a sample; then none is, for what a CPU drew last goes on until it is reached.
    maps.mean.write(0, 0);
    let samples_ns = calls_ns(emulated);
    maps.mean.write(0, MEAN_MAX);
    Ok(each(samples_ns, calls_ns(emulated)))
}

fn each(more_ns: f64, less_ns: f64) -> f64 {
    (more_ns - less_ns).max(0.0) / f64::from(CALLS)
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
    fn a_trap_costs_something() {
        let _alone = crate::observe::heap::linked::tests::alone();
        match measure_cost() {
            Ok(cost) => assert!(cost.hit_ns > 0.0, "{cost:?}"),
            Err(error) => skipped(&format!("uprobes cannot be tried: {error}")),
        }
    }
}

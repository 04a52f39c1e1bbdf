//! What a trap costs on this machine, tried on functions of our own.

use std::io;

use super::callers::{Callers, Go};
use super::functions::{Function, Role};
use super::layout::ROOM;
use super::pace::Cost;
use super::{MEAN_MAX, attach};
use bpf::python::{FRAMES, Made};
use bpf::uprobes::Target;
use bpf::uprobes::entry::entry;
use bpf::uprobes::own::{
    Probed, calls_ns, code_at, code_of, each, emulated, file_offsets, stepped,
};
use observe::exits::{Exit, Leads, Text, exits};

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
    fn leads(&self, target: u64) -> Leads {
        Leads::Code(target)
    }
    fn leads_by(&self, _: u64) -> Leads {
        Leads::Unknown
    }
    fn is_bound(&self, _: u64) -> bool {
        false
    }
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

pub fn own_function(probed: Probed, role: Role) -> io::Result<Function> {
    let address = probed as *const () as u64;
    let offset_of = file_offsets(probed)?;
    let entry = entry(code_of(probed), 1);
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

/// What traps cost on this machine, and samples of a process with such callers.
pub fn measure_cost(callers: &Callers) -> io::Result<Cost> {
    let hit_ns = hit_ns_of(emulated)?;
    Ok(Cost {
        hit_ns,
        step_ns: (hit_ns_of(stepped)? - hit_ns).max(0.0),
        sample_ns: sample_ns(callers)?,
    })
}

/// Of a function that frees: one hit a call.
fn hit_ns_of(probed: Probed) -> io::Result<f64> {
    let plain_ns = calls_ns(probed);
    let _attached = attach(
        &Target::own()?,
        &[own_function(probed, TAKE)?],
        ROOM,
        &Callers::default,
    )?;
    Ok(each(calls_ns(probed), plain_ns))
}

/// Beyond the hits at entry and exit: with as many frames of Python as are kept, or the longest search for Go's.
fn sample_ns(of: &Callers) -> io::Result<f64> {
    let made = Made::deep(FRAMES as u64);
    let callers = || Callers {
        python: made.interpreter().ok().filter(|_| of.python.is_some()),
        go: of.go.as_ref().map(|_| Go::unfound()),
    };
    let probed = attach(
        &Target::own()?,
        &[own_function(emulated, GIVE)?],
        ROOM,
        &callers,
    )?;
    let maps = &probed.maps;
    // Every byte is a sample; then none is, for what a CPU drew last goes on until it is reached.
    maps.mean.write(0, 0);
    let samples_ns = calls_ns(emulated);
    maps.mean.write(0, MEAN_MAX);
    Ok(each(samples_ns, calls_ns(emulated)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::skipped;

    #[test]
    fn a_trap_costs_something() {
        let _alone = bpf::uprobes::own::alone();
        let go = Some(Go::unfound());
        let callers = Callers { python: None, go };
        match measure_cost(&callers) {
            Ok(cost) => assert!(cost.hit_ns > 0.0, "{cost:?}"),
            Err(error) => skipped(&format!("uprobes cannot be tried: {error}")),
        }
    }
}

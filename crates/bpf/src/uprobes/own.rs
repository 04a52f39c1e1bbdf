//! Functions of highwater's own that are probed to learn what a breakpoint costs here.

use std::io;

use rustix::time::ClockId;

use super::entry::entry;
use observe::clock::read_ns;

/// Calls that tell what a breakpoint costs, and how often they are made: the median counts. The quickest would be too
/// little, for the subject does not have the caches to itself either.
pub const CALLS: u32 = 200;
const TIMES: usize = 7;
/// Of a function of our own, enough to tell where it is probed.
const CODE_BYTES: usize = 12;

/// Probed to learn what a breakpoint costs.
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

/// As above: a branch is emulated.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub extern "C" fn emulated(bytes: usize) -> usize {
    std::arch::naked_asm!("b 2f", "2: ret")
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub extern "C" fn stepped(bytes: usize) -> usize {
    std::arch::naked_asm!("mov x1, x0", "ret")
}

/// # Safety
/// So many bytes from there on are readable, and stay as they are.
pub unsafe fn code_at(address: u64, bytes: usize) -> &'static [u8] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }
}

/// The first bytes of a function of our own.
pub fn code_of(probed: Probed) -> &'static [u8] {
    // SAFETY: code is readable, and more of it follows the smallest function.
    unsafe { code_at(probed as *const () as u64, CODE_BYTES) }
}

/// What turns an address of our own code into an offset of our file.
///
/// # Errors
/// The code is in no mapping.
pub fn file_offsets(probed: Probed) -> io::Result<impl Fn(u64) -> u64> {
    let address = probed as *const () as u64;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let maps = maps.map_err(io::Error::other)?;
    let map = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address));
    let map = map.ok_or_else(|| io::Error::other("own code is not mapped"))?;
    let (start, offset) = (map.address.0, map.offset);
    Ok(move |address: u64| address - start + offset)
}

/// Where such a function is probed in our file.
///
/// # Errors
/// See [`file_offsets`].
pub fn entry_offset(probed: Probed) -> io::Result<u64> {
    let skip = entry(code_of(probed), 0).skip;
    Ok(file_offsets(probed)?(probed as *const () as u64) + skip)
}

/// CPU time of [`CALLS`] calls.
pub fn calls_ns(probed: Probed) -> f64 {
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

/// What one call takes more, nanoseconds.
pub fn each(more_ns: f64, less_ns: f64) -> f64 {
    (more_ns - less_ns).max(0.0) / f64::from(CALLS)
}

/// Tests share the functions that they probe: one runs at a time.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    use std::sync::{Mutex, PoisonError};
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What SIGKILL of highwater leaves in its subject.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::allowed::Allowed;
use crate::uprobes::hits::{Hits, Place};
use crate::uprobes::own::{code_at, file_offsets};
use crate::uprobes::record::Fields;
use crate::uprobes::{Target, Way};
use testkit::skipped;

const PLACES: usize = 1_000;
const NOP: u8 = 0x90;
/// The process to put breakpoints into, again and again.
const SUBJECT: &str = "HIGHWATER_TEST_SUBJECT";
const PATIENCE: Duration = Duration::from_secs(20);

/// Never called.
#[unsafe(naked)]
extern "C" fn nops(_: usize) -> usize {
    std::arch::naked_asm!(".rept 1000", "nop", ".endr", "ret")
}

fn changed() -> usize {
    // SAFETY: the function is so long, and stays mapped.
    let code = unsafe { code_at(nops as *const () as u64, PLACES) };
    let (start, end) = (code.as_ptr(), code.as_ptr().wrapping_add(PLACES));
    let mut at = start;
    let mut changed = 0;
    while at != end {
        // SAFETY: within it. The kernel writes there, so that each byte is read anew.
        changed += usize::from(unsafe { at.read_volatile() } != NOP);
        at = at.wrapping_add(1);
    }
    changed
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "{what}: {} are set", changed());
        sleep(Duration::from_millis(1));
    }
}

fn put_on(subject: u32) -> std::io::Result<Hits> {
    let offset_of = file_offsets(nops)?;
    let first = offset_of(nops as *const () as u64);
    let place = |at| Place {
        kind: 1,
        offset: first + at as u64,
        is_emulated: true,
    };
    let places: Vec<Place> = (0..PLACES).map(place).collect();
    let fields = Fields {
        registers: &[0],
        frames: 0,
    };
    Hits::by(
        Way::Multi,
        &Target::program_of(subject)?,
        &places,
        fields,
        4_096,
    )
}

/// This test in a process of its own, which puts breakpoints into this one.
fn again() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "uprobes::tests::sigkill_leaves_no_breakpoint"]);
    command.env(SUBJECT, std::process::id().to_string());
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn sigkill_leaves_no_breakpoint() {
    if let Ok(subject) = std::env::var(SUBJECT) {
        let subject = subject.parse().unwrap();
        loop {
            drop(put_on(subject).unwrap());
        }
    }
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        return skipped("uprobes with programs on them need root");
    }
    if let Err(error) = put_on(std::process::id()) {
        return skipped(&format!("many places at once: {error}"));
    }
    // A cycle takes some tens of milliseconds: kills come at all moments of it.
    for round in 0..24 {
        let mut highwater = again();
        until("breakpoints", || changed() > 0);
        sleep(Duration::from_millis(7 * round % 60));
        highwater.kill().unwrap();
        highwater.wait().unwrap();
        until("the end of all breakpoints", || changed() == 0);
    }
}

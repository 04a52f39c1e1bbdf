//! Which anonymous areas are stacks of threads.
//!
//! A stack is proved, never guessed from its size: one thread's stack pointer lies in it
//! (`/proc/PID/task/TID/syscall`) and a guard below it, or the thread's control block does, which in
//! glibc on x86-64 holds its own address twice, 16 bytes apart. The block stays in the stacks that
//! glibc keeps for the next thread. Where memory may not be read, the shape must do: an area right
//! above a guard without rights, no larger than a stack is.

use std::collections::HashMap;

use super::pages::{PAGE_BYTES, PageBits};
use super::smaps::Area;
use observe::fact::memory::Memory;
use observe::proc::open::{Folder, Lost};

/// Threads whose stack pointer is asked for at one snapshot; the next snapshot goes on with others.
const THREADS_AT_ONCE: usize = 256;

/// The control block lies within this distance of the end of a stack, thread-local data included.
const TAIL_BYTES: u64 = 4 * PAGE_BYTES;

/// Of glibc's control block on x86-64: the number of its thread.
const TID_OFFSET: u64 = 0x2d0;

/// Larger areas without rights are reserved addresses and no guard.
const GUARD_BYTES_MAX: u64 = 1 << 20;

/// Larger areas are not taken for stacks by their shape alone.
const SHAPE_BYTES_MAX: u64 = 64 << 20;

/// What is known of the stacks of one process, kept between snapshots.
#[derive(Debug, Default)]
pub struct Stacks {
    /// Start and end of areas already decided, and the address that proved them.
    known: HashMap<(u64, u64), u64>,
    /// Where to go on asking threads.
    next: usize,
}

/// An area with the stack of a thread in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackArea {
    pub start: u64,
    /// Where the thread's stack pointer or control block was found; 0 when it is known by its shape.
    pub proof: u64,
}

/// What the decision needs of one snapshot.
pub struct Scene<'a> {
    /// The process's number as it knows it itself.
    pub own_pid: u32,
    pub folder: &'a Folder,
    pub areas: &'a [Area],
    /// Present pages of areas, by their start.
    pub present: &'a HashMap<u64, PageBits>,
    pub memory: Option<&'a dyn Memory>,
}

impl Stacks {
    /// The areas that are stacks of threads.
    pub fn read(&mut self, scene: &Scene<'_>) -> Result<Vec<StackArea>, Lost> {
        let pointers = self.read_pointers(scene.folder)?;
        let mut found = Vec::new();
        for (index, area) in scene.areas.iter().enumerate() {
            if !area.is_anonymous() || !area.writable || area.rss_bytes == 0 {
                continue;
            }
            let guarded = index > 0 && is_guard(&scene.areas[index - 1], area);
            if let Some(proof) = self.proof(scene, area, guarded, &pointers) {
                found.push(StackArea {
                    start: area.start,
                    proof,
                });
            }
        }
        let areas: HashMap<u64, u64> = scene.areas.iter().map(|a| (a.start, a.end)).collect();
        self.known
            .retain(|(start, end), _| areas.get(start) == Some(end));
        Ok(found)
    }

    fn proof(
        &mut self,
        scene: &Scene<'_>,
        area: &Area,
        guarded: bool,
        pointers: &[u64],
    ) -> Option<u64> {
        let key = (area.start, area.end);
        if let Some(&proof) = self.known.get(&key) {
            return Some(proof);
        }
        // Without a guard below, or with several threads in it, it is a runtime's heap with the stacks
        // of coroutines.
        let mut inside = pointers.iter().filter(|&&sp| guarded && area.holds(sp));
        let pointed = inside.next().filter(|_| inside.next().is_none());
        let present = scene.present.get(&area.start);
        let proof = match (pointed, scene.memory, present) {
            (Some(&sp), ..) => Some(sp),
            (None, Some(memory), Some(present)) => {
                control_block(memory, area, present, scene.own_pid)
            }
            _ => return (guarded && area.bytes() <= SHAPE_BYTES_MAX).then_some(0),
        };
        // A control block may be written after the first snapshot: "no" is not remembered.
        if let Some(proof) = proof {
            self.known.insert(key, proof);
        }
        proof
    }

    /// Stack pointers of threads that are blocked in a system call; of running ones the kernel
    /// tells none.
    fn read_pointers(&mut self, folder: &Folder) -> Result<Vec<u64>, Lost> {
        let threads = folder.threads()?;
        let mut buffer = Vec::new();
        let mut pointers = Vec::new();
        let count = threads.len().min(THREADS_AT_ONCE);
        for index in 0..count {
            let thread = threads[(self.next + index) % threads.len()];
            if folder
                .read(&format!("task/{thread}/syscall"), &mut buffer)
                .is_ok()
            {
                pointers.extend(parse_stack_pointer(&buffer));
            }
        }
        self.next = (self.next + count) % threads.len().max(1);
        Ok(pointers)
    }
}

fn is_guard(below: &Area, area: &Area) -> bool {
    let without_rights = !below.readable && !below.writable && below.inode == 0;
    below.end == area.start && without_rights && below.bytes() <= GUARD_BYTES_MAX
}

/// The last but one word of `nr arg .. arg 0xSP 0xPC`, or `-1 0xSP 0xPC`.
pub fn parse_stack_pointer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut words = text.rsplit(' ');
    let (_pc, sp) = (words.next()?, words.next()?);
    u64::from_str_radix(sp.strip_prefix("0x")?, 16).ok()
}

/// The control block near the end of the area, by its own address. That of the first thread lies in
/// memory of the dynamic linker, with which the kernel joins mappings below it: it proves no stack.
fn control_block(
    memory: &dyn Memory,
    area: &Area,
    present: &PageBits,
    own_pid: u32,
) -> Option<u64> {
    let from = area.start.max(area.end.saturating_sub(TAIL_BYTES));
    let mut page = [0; PAGE_BYTES as usize];
    let mut pages = (from..area.end).step_by(PAGE_BYTES as usize);
    let block = pages.find_map(|address| {
        let there = present.has(address) && memory.read(address, &mut page).is_some();
        there.then(|| own_address(&page, address)).flatten()
    })?;
    (memory.u32(block + TID_OFFSET) != Some(own_pid)).then_some(block)
}

/// Address of a word that is its own address.
fn own_address(page: &[u8], start: u64) -> Option<u64> {
    let words: Vec<u64> = page
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| u64::from_le_bytes(*w))
        .collect();
    let at = |index: usize| start + index as u64 * 8;
    // {tcb, dtv, self}. An empty circular list also holds its own address, but not twice at this
    // distance, nor aligned to 64 bytes.
    let is_block = |index: &usize| {
        let own = at(*index);
        words[*index] == own && words.get(index + 2) == Some(&own) && own % 64 == 0
    };
    (0..words.len()).find(is_block).map(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_pointers_are_the_last_word_but_one() {
        // A thread in futex (202) and one that runs, kernel 6.18.
        let futex = b"202 0x7f0 0x189 0x0 0x0 0x0 0xffffffff 0x7fe6c8bfecd0 0x7fe6cb88df16\n";
        assert_eq!(parse_stack_pointer(futex), Some(0x7fe6c8bfecd0));
        assert_eq!(parse_stack_pointer(b"running\n"), None);
        assert_eq!(parse_stack_pointer(b"-1 0x7ffe0 0x4010\n"), Some(0x7ffe0));
        assert_eq!(parse_stack_pointer(b""), None);
    }

    #[test]
    fn a_control_block_holds_its_address_twice() {
        let mut page = vec![0u8; 4096];
        let block: u64 = 0x7f00_0000_0000 + 0x6c0;
        page[0x6c0..0x6c8].copy_from_slice(&block.to_le_bytes());
        assert_eq!(
            own_address(&page, 0x7f00_0000_0000),
            None,
            "an empty list is no thread"
        );
        page[0x6d0..0x6d8].copy_from_slice(&block.to_le_bytes());
        assert_eq!(own_address(&page, 0x7f00_0000_0000), Some(block));
    }
}

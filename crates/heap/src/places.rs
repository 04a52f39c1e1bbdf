//! What holds a block: the name of the place where the pointer to it lies.

use std::fs::File;

use super::HeapSnapshot;
use super::data_symbols::{DataSymbols, Named};
use super::kernel::BEHIND;
use super::smaps::Area;
use super::stacks::StackArea;

/// What is known of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub tid: i32,
    pub stack_pointer: u64,
    /// Where its thread-local data is; 0: not known.
    pub local_data: u64,
}

/// Names places of one process.
#[derive(Debug, Default)]
pub struct Places {
    symbols: DataSymbols,
}

impl Places {
    /// What lies at an address: a variable of the program, a stack, and so on. `open`: a mapped file, if it is the one
    /// that is mapped. `threads`: as far as they are known.
    pub fn name(
        &mut self,
        snapshot: &HeapSnapshot,
        threads: &[Thread],
        open: impl FnOnce(&Area) -> Option<File>,
        address: u64,
    ) -> String {
        if address >= BEHIND {
            return "a register".to_owned();
        }
        let next = snapshot.areas.partition_point(|area| area.end <= address);
        let Some(area) = snapshot.areas.get(next).filter(|area| area.holds(address)) else {
            return "unmapped memory".to_owned();
        };
        if is_stack(snapshot, area) {
            let mut threads = threads.iter();
            return match threads.find(|thread| area.holds(thread.stack_pointer)) {
                Some(thread) if address < thread.stack_pointer => {
                    "remains of calls on a stack".to_owned()
                }
                Some(thread) => format!("the stack of thread {}", thread.tid),
                None => "a stack".to_owned(),
            };
        }
        if threads.iter().any(|thread| area.holds(thread.local_data)) {
            return "thread-local data".to_owned();
        }
        let below = next.checked_sub(1).map(|below| &snapshot.areas[below]);
        // Zero-initialised data.
        let follows = |below: &&Area| below.end == area.start && below.inode != 0 && below.writable;
        let file = Some(area)
            .filter(|area| area.inode != 0)
            .or(below.filter(follows));
        let anonymous = match area.name.as_str() {
            "[heap]" => "heap that is not walked",
            _ => "anonymous memory",
        };
        file.map_or_else(
            || anonymous.to_owned(),
            |file| self.in_file(snapshot, file, open, address, anonymous),
        )
    }

    fn in_file(
        &mut self,
        snapshot: &HeapSnapshot,
        file: &Area,
        open: impl FnOnce(&Area) -> Option<File>,
        address: u64,
        anonymous: &str,
    ) -> String {
        let base = snapshot.areas.iter().find(|area| area.name == file.name);
        let base = base.map_or(0, |area| area.start.saturating_sub(area.offset));
        let found = self.symbols.name(&file.name, || open(file), base, address);
        let file_name = file.name.rsplit('/').next().unwrap_or(&file.name);
        match found {
            Some(Named::Variable(name)) => format!("{name} ({file_name})"),
            Some(Named::Behind) => anonymous.to_owned(),
            Some(Named::Nothing) | None => format!("data of {file_name}"),
        }
    }
}

/// Whether an area is a thread's stack.
pub fn is_stack(snapshot: &HeapSnapshot, area: &Area) -> bool {
    let is_area = |stack: &StackArea| stack.start == area.start;
    area.name == "[stack]" || snapshot.stacks.iter().any(is_area)
}

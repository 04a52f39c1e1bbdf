//! What holds a block: the name of the place where the pointer to it lies.

use super::data_symbols::Named;
use super::{CoreFile, elf};
use crate::HeapLook;
use crate::smaps::Area;
use crate::stacks::StackArea;

impl CoreFile {
    /// What lies at an address that holds a block: a variable of the program, a stack, and so on.
    pub fn place_of(&mut self, look: &HeapLook, address: u64) -> String {
        if address >= self.memory.registers().0 {
            return "a register".to_owned();
        }
        let next = look.areas.partition_point(|area| area.end <= address);
        let Some(area) = look.areas.get(next).filter(|area| area.holds(address)) else {
            return "unmapped memory".to_owned();
        };
        let is_stack = |stack: &StackArea| stack.start == area.start;
        if area.name == "[stack]" || look.stacks.iter().any(is_stack) {
            return match self.thread_on(area) {
                Some(thread) if address < thread.stack_pointer => {
                    "remains of calls on a stack".to_owned()
                }
                Some(thread) => format!("the stack of thread {}", thread.tid),
                None => "a stack".to_owned(),
            };
        }
        if self
            .headers
            .threads
            .iter()
            .any(|thread| area.holds(thread.local_data))
        {
            return "thread-local data".to_owned();
        }
        let below = next.checked_sub(1).map(|below| &look.areas[below]);
        let file = match (self.memory.part_at(address), below) {
            (Some(part), _) => Some(part),
            // Zero-initialised data.
            (None, Some(below)) if below.end == area.start && below.writable => {
                self.memory.part_at(below.start)
            }
            _ => None,
        };
        let anonymous = match area.name.as_str() {
            "[heap]" => "heap that is not walked".to_owned(),
            _ => "anonymous memory".to_owned(),
        };
        let Some(path) = file.map(|part| part.path.clone()) else {
            return anonymous;
        };
        let base = self.headers.mapped.iter().find(|part| part.path == path);
        let base = base.map_or(0, |part| part.start - part.offset.min(part.start));
        let name = self
            .memory
            .file_of(&path)
            .and_then(|file| self.symbols.name(&path, file, base, address));
        let file_name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        match name {
            Some(Named::Variable(name)) => format!("{name} ({file_name})"),
            Some(Named::Behind) => anonymous,
            Some(Named::Nothing) | None => format!("data of {file_name}"),
        }
    }

    fn thread_on(&self, area: &Area) -> Option<&elf::Thread> {
        let mut threads = self.headers.threads.iter();
        threads.find(|thread| area.holds(thread.stack_pointer))
    }
}

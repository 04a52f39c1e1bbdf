//! The functions of a running Go program, by its own tables: it needs no symbols.

use std::fs::File;
use std::io;
use std::ops::Range;

use observe::fact::memory::ProcessMemory;

use super::binary::{Binary, Mapped};
use super::module::Module;
use super::pclntab::{Call, Table};
use super::reasons;
use super::version::{Tables, minor_of};

/// Words of data that are compared with the address of a text: of a stripped program, where the runtime's words are.
const STEPS_MAX: u32 = 1 << 20;

pub struct Functions {
    pub binary: Binary,
    /// Of Go 1.`minor`.
    pub minor: u32,
    memory: ProcessMemory,
    module: Module,
}

impl Functions {
    /// Of the program that a process runs; `Ok(None)`: it is none of Go's, or of a version whose tables are not known
    /// ([`super::version`]).
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn of(pid: u32) -> io::Result<Option<Functions>> {
        let Some(binary) = Binary::open(pid)? else {
            return Ok(None);
        };
        let minor = binary.version.as_deref().and_then(minor_of).unwrap_or(0);
        let Some(tables) = Tables::of(minor) else {
            return Ok(None);
        };
        let memory = ProcessMemory::new(File::open(format!("/proc/{pid}/mem"))?.into());
        let module = Module::find(&memory, &binary, &tables);
        Ok(module.map(|module| Functions {
            binary,
            minor,
            memory,
            module,
        }))
    }

    /// All of Go's code.
    pub fn text(&self) -> Range<u64> {
        self.module.text.clone()
    }

    fn table(&self) -> Table<Mapped<'_>> {
        Table::new(Mapped(&self.binary), self.module.clone())
    }

    /// The functions at an address of an instruction, innermost first, and the code of the outermost.
    pub fn at(&self, address: u64) -> Option<(Vec<Call>, Range<u64>)> {
        let table = self.table();
        let (calls, code) = (table.calls(address), table.code(address)?);
        (!calls.is_empty()).then_some((calls, code))
    }

    /// The code of functions with these names.
    pub fn named(&self, names: &[&str]) -> Vec<Option<Range<u64>>> {
        self.table().named(names)
    }

    /// Why goroutines wait, by number; empty when the words were not found.
    pub fn wait_reasons(&self) -> Vec<String> {
        let mut steps = 0;
        reasons::read(&self.memory, &self.binary, &self.module, &mut || {
            steps += 1;
            steps < STEPS_MAX
        })
    }
}

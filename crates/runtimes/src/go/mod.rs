//! The heap of a Go program: allocation sites, goroutines and sizes, from outside and without a pause.
//!
//! In: the memory of a process and its program file. Out: a [`Snapshot`]. Called by: [`crate::open`].
//!
//! ```text
//! /proc/PID/exe --> symbols::golang: version, variables, address -> functions, frame sizes
//!                   search: variables, stripped                                   |
//! /proc/PID/mem --> profile:    runtime.mbuckets -> stacks, objects, bytes ----> names: frames --> Snapshot
//!               --> goroutines: runtime.allgs    -> stacks, states, creators --/
//!               --> sizes:      runtime.gcController, runtime.memstats
//!               --> roots:      runtime.mheap_, global variables, stacks -> objects by the variable that holds them
//! ```
//!
//! The heap profile is the one that `net/http/pprof` serves. Types of objects are not in it, for Go knows them only
//! while it collects; those of global variables are in the program's DWARF. Memory of plugins and of Go libraries in
//! other programs is not read.

mod budget;
mod goroutines;
mod layout;
mod names;
mod profile;
mod roots;
mod search;
mod sizes;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use observe::fact::memory::ProcessMemory;

use self::goroutines::Machine;
use self::layout::Layout;
use crate::{Cost, Error, Holder, Language, Limits, ManagedHeap, Snapshot, Touch};
use symbols::golang::binary::Binary;
use symbols::golang::module::Module;
use symbols::golang::version;

const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

/// A running Go program.
pub struct Go {
    pid: u32,
    name: String,
    binary: Binary,
    memory: ProcessMemory,
    layout: Layout,
    machine: Machine,
    module: Module,
    found: snapshot::Found,
    globals: Option<roots::Globals>,
}

/// The Go program that a process runs; `None` when it runs another one, or may not be asked which.
pub fn open(pid: u32) -> Option<Result<Go, Error>> {
    let binary = Binary::open(pid).ok()??;
    Some(attach(pid, binary))
}

fn attach(pid: u32, binary: Binary) -> Result<Go, Error> {
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied,
        _ => Error::Gone,
    })?;
    let memory = ProcessMemory::new(memory.into());
    let version = binary
        .version
        .clone()
        .or_else(|| snapshot::version(&memory, &binary));
    let version = version.ok_or_else(|| {
        Error::Unsupported(
            "It is a Go program of a version before 1.18, or of one that it does not name."
                .to_owned(),
        )
    })?;
    let layout = version::minor_of(&version).and_then(Layout::of);
    let layout = layout.ok_or_else(|| unsupported(&version))?;
    let machine = match binary.file.elf.machine {
        EM_X86_64 => Machine::Amd64,
        EM_AARCH64 => Machine::Arm64,
        _ => {
            return Err(Error::Unsupported(
                "Go programs are read on amd64 and arm64 only.".to_owned(),
            ));
        }
    };
    let module = Module::find(&memory, &binary, &layout.tables)
        .ok_or_else(|| gone_or(pid, "runtime.moduledata"))?;
    Ok(Go {
        pid,
        name: format!("Go {}", version.trim_start_matches("go")),
        binary,
        memory,
        layout,
        machine,
        module,
        found: snapshot::Found::default(),
        globals: None,
    })
}

fn unsupported(version: &str) -> Error {
    let (first, last) = (version::MINOR_MIN, version::MINOR_MAX);
    Error::Unsupported(format!(
        "It was built with {version}; the heaps of Go 1.{first} to 1.{last} can be read."
    ))
}

fn gone_or(pid: u32, what: &str) -> Error {
    match Path::new(&format!("/proc/{pid}/maps")).exists() {
        true => Error::Inconsistent(format!("{what} was not found")),
        false => Error::Gone,
    }
}

impl ManagedHeap for Go {
    fn runtime(&self) -> &str {
        &self.name
    }

    fn language(&self) -> Language {
        Language::Go
    }

    fn touch(&self) -> Touch {
        Touch::Reads
    }

    fn snapshot(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let start = Instant::now();
        let mut snapshot = self.read(limits)?;
        let left = limits.time.saturating_sub(start.elapsed());
        self.add_roots(
            &Limits {
                time: left,
                ..*limits
            },
            &mut snapshot,
        );
        snapshot.cost = Cost {
            reading: start.elapsed(),
            ..Cost::default()
        };
        Ok(snapshot)
    }

    /// Names are those of roots ([`crate::RootCount::name`]): Go knows no types of objects.
    fn holders(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        self.holders_of(types, limits)
    }
}

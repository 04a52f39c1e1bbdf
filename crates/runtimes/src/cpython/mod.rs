//! The heap of a running CPython, 3.8 to 3.14, read from outside while the program goes on.
//!
//! ```text
//! find          _PyRuntime, version, layout
//! interpreters  --> the collector's lists      pools --> the rest of the small objects
//!        \             |                         /
//!         census: every object once, with its type; heap: what it refers to; size: its bytes
//!                      |
//!         reach: from the roots to every object, the shortest way --> holders: paths, users
//! ```
//!
//! Nothing of what is read is believed: a pointer leads to an object when the type there is a type, and every walk has
//! an end, a deadline and a limit on memory.

mod addresses;
mod census;
mod describe;
mod dict;
mod frames;
mod heap;
mod holders;
#[cfg(test)]
mod hostile;
mod interpreters;
mod named;
mod names;
mod objects;
mod path;
mod pools;
mod reach;
mod size;
mod types;
mod users;
mod walk;

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use addresses::AddressSet;
use observe::fact::memory::{Memory, ProcessMemory};
use observe::proc::pagemap::Pagemap;
use symbols::python::{find, layout, text};

use crate::memory::areas::Areas;
use crate::memory::source::{PageStates, Source};
use crate::{
    Cost, Error, HeapSize, Holder, Kept, Language, Limits, ManagedHeap, Snapshot, Touch, TypeCount,
};
use census::Census;
use find::Runtime;
use heap::Heap;
use interpreters::Interpreter;

/// Of the memory that may be used, one part in so many is for what was read of the process.
const CACHE_PART: usize = 4;
/// Of our memory, for each object of a snapshot: its address and type, and its slot in the table of addresses.
const SNAPSHOT_BYTES: usize = 14;
/// And where holders are searched: how it is reached, and two rounds of the search.
const HOLDERS_BYTES: usize = 32;
const OBJECTS_MIN: usize = 1_024;

/// Extension modules that are named where native code keeps objects.
const MODULES_MAX: usize = 5;

/// A CPython in a process.
pub struct CPython {
    pid: u32,
    memory: ProcessMemory,
    runtime: Runtime,
    name: String,
    /// Addresses of the objects of the first snapshot: what is not among them is new.
    first: AddressSet,
}

/// Opens the heap of the CPython in a process; `None`: there is none in there.
pub fn open(pid: u32) -> Option<Result<CPython, Error>> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let memory = match File::open(format!("/proc/{pid}/mem")) {
        Ok(memory) => ProcessMemory::new(memory.into()),
        // Without reading, only the names of files show which runtime it is.
        Err(error) => return denied(&maps, &error),
    };
    let runtime = match find::find(&memory, &maps)? {
        Ok(runtime) => runtime,
        Err(unsupported) => return Some(Err(Error::Unsupported(unsupported.0))),
    };
    Some(Ok(CPython {
        pid,
        memory,
        name: find::name_of(runtime.version),
        runtime,
        first: AddressSet::default(),
    }))
}

fn denied(maps: &[u8], error: &std::io::Error) -> Option<Result<CPython, Error>> {
    let text = String::from_utf8_lossy(maps);
    let is_python = text
        .lines()
        .any(|line| line.contains("/libpython3") || line.contains("/python3"));
    let error = match error.kind() {
        ErrorKind::PermissionDenied => Error::Denied,
        _ => Error::Gone,
    };
    is_python.then_some(Err(error))
}

impl CPython {
    /// Reads the heap once and gives it to `use_it`.
    fn read<T>(
        &self,
        limits: &Limits,
        object_bytes: usize,
        use_it: impl FnOnce(&Heap, Census, &[Interpreter]) -> T,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + limits.time.max(Duration::from_millis(1));
        let maps = std::fs::read(format!("/proc/{}/maps", self.pid)).map_err(|_| Error::Gone)?;
        // A process that has ended has no memory left.
        if maps.is_empty() {
            return Err(Error::Gone);
        }
        let pagemap = Pagemap::open(self.pid);
        let states = pagemap.as_ref().map(|pagemap| pagemap as &dyn PageStates);
        let source = Source::new(&self.memory, Areas::parse(&maps), states);
        let heap = Heap::new(&source, self.runtime, limits.bytes / CACHE_PART, deadline);
        let interpreters = interpreters::interpreters(&source, &self.runtime);
        if interpreters.is_empty() {
            let reason = "no interpreter with a collector is where the runtime says";
            return Err(Error::Inconsistent(reason.to_owned()));
        }
        let bytes = limits.bytes - limits.bytes / CACHE_PART;
        let most = (bytes / object_bytes).max(OBJECTS_MIN);
        let census = walk::take(&heap, &source, &interpreters, most);
        Ok(use_it(&heap, census, &interpreters))
    }
}

impl ManagedHeap for CPython {
    fn runtime(&self) -> &str {
        &self.name
    }

    fn language(&self) -> Language {
        Language::Python
    }

    fn touch(&self) -> Touch {
        Touch::Reads
    }

    fn snapshot(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let start = Instant::now();
        let is_first = self.first.is_empty();
        let (mut snapshot, addresses) =
            self.read(limits, SNAPSHOT_BYTES, |heap, census, interpreters| {
                let addresses =
                    is_first.then(|| census.objects.iter().map(|found| found.address).collect());
                (
                    snapshot_of(heap, census, interpreters, heap.pages.source()),
                    addresses,
                )
            })?;
        self.first = addresses.unwrap_or_else(|| std::mem::take(&mut self.first));
        snapshot.cost = Cost {
            reading: start.elapsed(),
            ..Cost::default()
        };
        Ok(snapshot)
    }

    fn holders(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        let found = self.read(limits, HOLDERS_BYTES, |heap, census, interpreters| {
            let source = heap.pages.source();
            let mut found =
                holders::holders(heap, source, &census, interpreters, types, &self.first);
            // What holds an object may be among those that were not seen.
            if census.is_partial || heap.pages.is_late() {
                found.retain(|holder| holder.kept == Kept::Path);
            }
            found
        });
        let mut found = found.unwrap_or_default();
        let native = |holder: &&mut Holder| holder.kept == Kept::Native;
        for holder in found.iter_mut().filter(native) {
            holder.users = self.extension_modules();
        }
        found
    }
}

impl CPython {
    /// Modules in native code that do not come with Python.
    fn extension_modules(&self) -> Vec<String> {
        let maps = std::fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let mut modules = extension_modules(&String::from_utf8_lossy(&maps));
        modules.truncate(MODULES_MAX);
        modules
    }
}

/// By the text of /proc/PID/maps: `multidict/_multidict.so`; of a package with several the package, `numpy`: which of
/// them it is nothing tells.
fn extension_modules(maps: &str) -> Vec<String> {
    let module = |line: &str| {
        let at = ["/site-packages/", "/dist-packages/"];
        let inside = at.iter().find_map(|folder| line.split_once(folder));
        let (_, path) = inside.filter(|(_, path)| path.contains(".so"))?;
        // Of wheels, the libraries that they bring along.
        let is_brought = path
            .split_once('/')
            .is_some_and(|(folder, _)| folder.ends_with(".libs"));
        (!is_brought).then(|| path.to_owned())
    };
    let package = |module: &str| {
        module
            .split_once('/')
            .map(|(package, _)| package.to_owned())
    };
    let mut modules: Vec<String> = maps.lines().filter_map(module).collect();
    modules.dedup();
    let mut named: Vec<String> = Vec::new();
    for module in &modules {
        let own = package(module);
        let alike = modules.iter().filter(|other| package(other) == own).count();
        let name = own.filter(|_| alike > 1).unwrap_or_else(|| module.clone());
        if !named.contains(&name) {
            named.push(name);
        }
    }
    named
}

fn snapshot_of(
    heap: &Heap,
    census: Census,
    interpreters: &[Interpreter],
    live: &dyn Memory,
) -> Snapshot {
    let is_partial = census.is_partial;
    let mut missing = census.missing;
    if !interpreters
        .iter()
        .all(|each| interpreters::is_enabled(live, each.gc))
    {
        missing.push(
            "the garbage collector is disabled: objects in reference cycles are not freed"
                .to_owned(),
        );
    }
    let types = counts(heap, &census.totals);
    let heap_size = HeapSize {
        used_bytes: types
            .iter()
            .fold(0, |bytes, count| bytes.saturating_add(count.bytes)),
        collections: Some(
            interpreters
                .iter()
                .map(|each| interpreters::collections(live, heap.layout(), each.gc))
                .fold(0, u64::saturating_add),
        ),
        ..HeapSize::default()
    };
    Snapshot {
        types,
        heap: Some(heap_size),
        missing,
        is_partial,
        ..Snapshot::default()
    }
}

/// Totals by name, the most bytes first. Types of one name are added up: a class that is made anew again and again has
/// many.
fn counts(heap: &Heap, totals: &[(u64, u64)]) -> Vec<TypeCount> {
    let mut by_name: HashMap<String, (u64, u64)> = HashMap::new();
    for (number, (objects, bytes)) in totals.iter().enumerate().filter(|(_, total)| total.0 > 0) {
        let name = names::of_type(heap, &heap.info(number as u32));
        let total = by_name.entry(name).or_default();
        *total = (total.0 + objects, total.1.saturating_add(*bytes));
    }
    let counts = by_name
        .into_iter()
        .map(|(name, (objects, bytes))| TypeCount {
            name,
            objects,
            bytes,
        });
    let mut counts: Vec<TypeCount> = counts.collect();
    counts.sort_by(|one, other| {
        other
            .bytes
            .cmp(&one.bytes)
            .then_with(|| one.name.cmp(&other.name))
    });
    counts
}

#[cfg(test)]
mod tests {
    use super::extension_modules;

    #[test]
    fn of_a_package_with_several_extension_modules_none_is_named() {
        let map = |path: &str| format!("7f10-7f20 r-xp 0 08:01 7 /venv/lib/python3.11{path}");
        let lines = [
            "/site-packages/numpy/random/mtrand.cpython-311.so",
            "/site-packages/numpy/random/mtrand.cpython-311.so",
            "/site-packages/numpy/core/_multiarray_umath.cpython-311.so",
            "/site-packages/numpy.libs/libgfortran-2e0d59d6.so.5",
            "/site-packages/hiredis/hiredis.cpython-311.so",
            "/site-packages/_yaml.cpython-311.so",
            "/lib-dynload/_json.cpython-311.so",
            "/site-packages/numpy/core/records.py",
        ];
        let maps = lines.map(map).join("\n");
        let named = [
            "numpy",
            "hiredis/hiredis.cpython-311.so",
            "_yaml.cpython-311.so",
        ];
        assert_eq!(extension_modules(&maps), named);
    }
}

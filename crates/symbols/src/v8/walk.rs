//! From a frame of V8's to the one that called it, x86-64 (`frame-constants.h`, `frames.cc`).

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object::{Object, ObjectSegment, ReadCache};
use observe::fact::open_file;
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use super::code::inlined;
use super::dispatch::Dispatch;
use super::elf::symbols;
use super::functions::{Function, address_of};
use super::heap::{Heap, pointer};
use super::layout::{CodeOf, Layout};
use super::shared::Shared;
use crate::memory::Memory;
use crate::tables::FileId;

/// Kinds of frames are small numbers.
const KINDS_MAX: u64 = 64;
const KNOWN_MAX: usize = 8_192;
/// Objects move, and others come to lie in their place.
const KNOWN_FOR: Duration = Duration::from_millis(250);

type Described = Option<(Layout, BuiltIn)>;

/// What a file says of its V8: read once for all processes that run it.
fn described(path: &str) -> Option<Arc<Described>> {
    const FILES_MAX: usize = 64;
    static KNOWN: Mutex<Vec<(FileId, Arc<Described>)>> = Mutex::new(Vec::new());
    let id = FileId::of(path)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = known.iter().find(|(known, _)| *known == id) {
        return Some(found.clone());
    }
    let layout = Layout::read(Path::new(path));
    let found = layout.map(|layout| (layout, BuiltIn::read(Path::new(path)).unwrap_or_default()));
    let found = Arc::new(found);
    if known.len() == FILES_MAX {
        known.remove(0);
    }
    known.push((id, found.clone()));
    Some(found)
}

/// Reads frames of JavaScript of one process.
pub struct V8 {
    heap: Heap,
    /// Code that was made while the program ran, and V8's own that was made before and is in its file.
    code: Vec<Range<u64>>,
    built_in: BuiltIn,
    dispatch: Dispatch,
    shared: Shared,
    /// What stands in a stack for a frame, by its function, bytecode and place in the code.
    known: HashMap<(u64, u64, u64), Vec<u64>>,
    since: Instant,
}

/// What V8's file has itself.
#[derive(Debug, Clone, Default)]
struct BuiltIn {
    path: String,
    /// Of V8's own code, in the file.
    offsets: Range<u64>,
    /// Of the variable with the address of its IsolateGroup, from the beginning of the first segment.
    group: Option<u64>,
}

impl BuiltIn {
    /// By the file's symbols. `None`: it has none.
    fn read(reachable: &Path) -> Option<BuiltIn> {
        const GROUP: &[u8] = b"_ZN2v88internal12IsolateGroup22default_isolate_group_E";
        let cache: ReadCache<std::fs::File> = ReadCache::new(open_file(reachable).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let (mut start, mut end, mut group) = (u64::MAX, 0, None);
        for symbol in symbols(&file, ".symtab", ".strtab") {
            if symbol.name.starts_with(b"Builtins_") {
                start = start.min(symbol.address);
                end = end.max(symbol.address.saturating_add(symbol.bytes));
            } else if symbol.name == GROUP {
                group = Some(symbol.address);
            }
        }
        let first = file.segments().map(|segment| segment.address()).min()?;
        let segment = file.segments().find(|segment| {
            let range = segment.address()..segment.address().saturating_add(segment.size());
            range.contains(&start)
        })?;
        let to_offset = |address: u64| {
            let (offset, _) = segment.file_range();
            offset.saturating_add(address.saturating_sub(segment.address()))
        };
        Some(BuiltIn {
            path: String::new(),
            offsets: to_offset(start)..to_offset(end),
            group: group.and_then(|group| group.checked_sub(first)),
        })
    }

    /// The part of a mapping of the file that is V8's own code.
    fn within(&self, mapped: &Mapped) -> Option<Range<u64>> {
        let place = |offset: u64| {
            let inside = offset.saturating_sub(mapped.offset);
            let address = mapped.range.start.saturating_add(inside);
            address.min(mapped.range.end)
        };
        let (start, end) = (place(self.offsets.start), place(self.offsets.end));
        (start < end).then_some(start..end)
    }
}

/// A mapping of the process.
pub struct Mapped<'a> {
    pub range: Range<u64>,
    pub is_executable: bool,
    /// It may neither be read nor written nor executed.
    pub is_reserved: bool,
    /// `None`: no file is behind it, and it has no name of the kernel's.
    pub path: Option<&'a str>,
    pub offset: u64,
}

impl<'a> From<&'a MemoryMap> for Mapped<'a> {
    fn from(map: &'a MemoryMap) -> Mapped<'a> {
        const ALLOWED: MMPermissions = MMPermissions::READ
            .union(MMPermissions::WRITE)
            .union(MMPermissions::EXECUTE);
        Mapped {
            range: map.address.0..map.address.1,
            is_executable: map.perms.contains(MMPermissions::EXECUTE),
            is_reserved: map.perms.intersection(ALLOWED).is_empty(),
            path: match &map.pathname {
                MMapPath::Path(path) => path.to_str(),
                MMapPath::Anonymous => None,
                // Named by the program itself (prctl, PR_SET_VMA_ANON_NAME).
                MMapPath::Other(name) if name.starts_with("anon:") => None,
                _ => Some(""),
            },
            offset: map.offset,
        }
    }
}

/// Registers of a frame's caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

impl V8 {
    /// `None`: no V8 is in the file, or not one that can be read. `path`: of the file as the process names it;
    /// `reachable`: where it can be opened.
    pub fn of(pid: u32, path: &str, reachable: &str) -> Option<V8> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let (layout, built_in) = (*described(reachable)?).clone()?;
        let built_in = BuiltIn {
            path: path.to_owned(),
            ..built_in
        };
        Some(V8 {
            heap: Heap::new(Memory { pid }, layout),
            code: Vec::new(),
            built_in,
            dispatch: Dispatch::default(),
            shared: Shared::new(),
            known: HashMap::new(),
            since: Instant::now(),
        })
    }

    /// Reads the list of all mappings of the process again, sorted by address. V8 reserves room for the code that it
    /// makes, and has pages of it executable when they are used: what adjoins such a page, and nothing may touch yet,
    /// counts too.
    pub fn reload<'a>(&mut self, mapped: impl Iterator<Item = Mapped<'a>>) {
        self.code.clear();
        let (mut run, mut has_code) = (0..0, false);
        let mut built_in = Vec::new();
        for one in mapped {
            if one.path == Some(self.built_in.path.as_str()) {
                if let (0, 0, Some(group)) = (self.dispatch.group, one.offset, self.built_in.group)
                {
                    self.dispatch.group = one.range.start.saturating_add(group);
                }
                if one.is_executable {
                    built_in.extend(self.built_in.within(&one));
                }
            }
            let is_room = one.path.is_none() && (one.is_executable || one.is_reserved);
            if !is_room || one.range.start != run.end {
                if has_code {
                    self.code.push(run);
                }
                (run, has_code) = (one.range.start..one.range.start, false);
            }
            if is_room {
                has_code |= one.is_executable;
                run.end = one.range.end;
            }
        }
        if has_code {
            self.code.push(run);
        }
        self.code.extend(built_in);
        self.code.sort_by_key(|range| range.start);
    }

    /// Whether V8 made the code at an address.
    pub fn is_code(&self, pc: u64) -> bool {
        let after = self.code.partition_point(|range| range.start <= pc);
        after > 0 && self.code[after - 1].contains(&pc)
    }

    /// The caller of a frame of V8's; its functions are put into `frames`, innermost first. `None`: it is no such
    /// frame. `pc`: within the instruction that runs or called; `read`: a word of the stack.
    pub fn step(
        &mut self,
        pc: u64,
        fp: u64,
        read: &mut dyn FnMut(u64) -> Option<u64>,
        frames: &mut Vec<u64>,
    ) -> Option<Caller> {
        let caller = Caller {
            pc: read(fp.checked_add(8)?)?,
            fp: read(fp)?,
            sp: fp.checked_add(16)?,
        };
        let of = &self.heap.layout.frame;
        let kind = read(fp.checked_add_signed(of.kind)?)?;
        if kind & 1 == 0 {
            let kind = Some(kind >> 1).filter(|kind| (1..KINDS_MAX).contains(kind))?;
            let named = of.named.iter().find(|(named, _)| *named == kind);
            frames.extend(named.map(|(_, name)| of_runtime(name)));
            return Some(caller);
        }
        let function = read(fp.checked_add_signed(of.function)?)?;
        let bytecode = fp.checked_add_signed(of.bytecode).and_then(read);
        let found = self.functions(function, bytecode.unwrap_or_default(), pc);
        frames.extend(found);
        (!found.is_empty()).then_some(caller)
    }

    /// Of a frame with a function; none where the function is none.
    fn functions(&mut self, function: u64, bytecode: u64, pc: u64) -> &[u64] {
        if self.since.elapsed() > KNOWN_FOR || self.known.len() == KNOWN_MAX {
            self.known.clear();
            self.since = Instant::now();
        }
        let key = (function, bytecode, pc);
        if !self.known.contains_key(&key) {
            let found = self.read_functions(function, pc).unwrap_or_default();
            self.known.insert(key, found);
        }
        self.known.get(&key).map_or(&[], Vec::as_slice)
    }

    fn read_functions(&mut self, function: u64, pc: u64) -> Option<Vec<u64>> {
        let function = pointer(function)?;
        let outer = function.checked_add(self.heap.layout.shared_of_function)?;
        let outer = self.heap.word(outer)?;
        let code = self.code_of(function);
        let inlined = code.and_then(|code| inlined(&self.heap, code, pc));
        let (heap, shared) = (&self.heap, &mut self.shared);
        let outer = shared.function(heap, outer)?;
        let inlined = inlined.unwrap_or_default();
        let inlined = inlined
            .iter()
            .filter_map(|word| shared.function(heap, *word));
        let mut found: Vec<u64> = inlined.collect();
        found.push(outer);
        Some(found)
    }

    /// The word that points to the code that a function was given last.
    fn code_of(&self, function: u64) -> Option<u64> {
        match self.heap.layout.code.as_ref()?.of_function {
            CodeOf::Pointer(field) => self.heap.word(function.checked_add(field)?),
            CodeOf::Handle(field) => {
                let handle = self.heap.word(function.checked_add(field)?)? as u32;
                let is_code = |address| self.is_code(address);
                self.dispatch.code(&self.heap, handle, &is_code)
            }
        }
    }
}

/// Work of V8's own.
fn of_runtime(name: &str) -> u64 {
    address_of(Function {
        name: name.to_owned(),
        file: None,
        line: None,
    })
}

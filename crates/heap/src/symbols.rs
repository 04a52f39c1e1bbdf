//! Functions, files and lines of addresses, while the process that they belong to lives.
//!
//! The files are opened through `/proc/PID/root`, so that a subject in another mount namespace is
//! read by its own names. Code that no file stands behind is looked up in `/tmp/perf-PID.map`, which
//! CPython's trampoline, the JVM and Node write when asked to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use abi::PYTHON_CODE;

use super::calls::Calls;
use super::probe::{LoadedObject, python_number};
use super::smaps::Area;
use ::symbols::frame::{Frame, JAVA_MODULE, JAVASCRIPT_MODULE, PYTHON_MODULE};
use ::symbols::golang::functions::Functions;
use ::symbols::golang::pclntab::Call;
use ::symbols::managed::{ManagedNames, is_managed};
use ::symbols::python::{self, functions::PythonFunctions};
use ::symbols::v8::is_javascript;
use symbols::debug_files::{Readable, readable};
use symbols::demangle::demangled;
use symbols::perf_map::PerfMapFile;
use symbols::separate::{self, Reach, Separate};

/// Frames that are remembered; the memory is emptied when it is full.
const KNOWN_MAX: usize = 200_000;

/// Files of which is remembered what may be read; the memory is emptied when it is full.
const FILES_MAX: usize = 4096;

/// Modules without symbols that are listed.
const WITHOUT_SYMBOLS_MAX: usize = 64;

/// What an address is.
#[derive(Debug, Clone, Default)]
struct Named {
    /// Innermost first; all but the last are inlined.
    frames: Vec<Frame>,
    /// Of the address in the last one's function, bytes.
    into: Option<u64>,
}

impl From<Frame> for Named {
    fn from(frame: Frame) -> Named {
        Named {
            frames: vec![frame],
            into: None,
        }
    }
}

/// Looks addresses up; one per process.
pub struct Symbols {
    pid: i32,
    /// Debug information is read, not only symbol tables.
    debug: bool,
    symbolizer: Rc<Symbolizer>,
    known: HashMap<(String, u64), Named>,
    calls: Calls,
    pub perf_map: PerfMapFile,
    files: HashMap<PathBuf, Readable>,
    /// Files with the symbols of those that were stripped of them.
    separate: HashMap<PathBuf, Option<Arc<Separate>>>,
    python: PythonFunctions,
    managed: ManagedNames,
    /// Of a Go program, for code that no symbols name; looked for once.
    go: Option<Option<Functions>>,
    /// Frames of Python that were named when their stacks were sampled.
    pub python_frames: Arc<Vec<Frame>>,
    /// Modules for which the lookup failed as a whole: stripped of everything, or out of reach.
    pub without_symbols: Vec<String>,
}

/// Keeps what it reads of each file, by device and inode.
pub fn symbolizer(debug: bool) -> Symbolizer {
    Symbolizer::builder()
        .enable_demangling(false)
        .enable_inlined_fns(debug)
        .enable_code_info(debug)
        .build()
}

impl Symbols {
    /// With inlined functions, files and lines.
    pub fn new(pid: i32) -> Symbols {
        Symbols::sharing(pid, true, Rc::new(symbolizer(true)))
    }

    /// What is read of files is shared with others. `debug`: as well from debug information, if the symboliser does.
    pub fn sharing(pid: i32, debug: bool, symbolizer: Rc<Symbolizer>) -> Symbols {
        Symbols {
            pid,
            debug,
            symbolizer,
            known: HashMap::new(),
            calls: Calls::default(),
            perf_map: PerfMapFile::of(pid),
            files: HashMap::new(),
            separate: HashMap::new(),
            python: PythonFunctions::default(),
            managed: ManagedNames::default(),
            go: None,
            python_frames: Arc::default(),
            without_symbols: Vec::new(),
        }
    }

    /// Frames of a stack of addresses, innermost first. All but the first are return addresses, and
    /// a call's line is that of the byte before; the first is one too when `first_returns`.
    ///
    /// `objects`: what the probe saw loaded. Code of a library that was closed since has no area any
    /// more, and is looked up in the file that it came from.
    pub fn frames(
        &mut self,
        areas: &[Area],
        objects: &[LoadedObject],
        addresses: &[u64],
        first_returns: bool,
    ) -> Vec<Frame> {
        let is_code = |address: &u64| address & PYTHON_CODE == 0;
        let native = addresses.iter().take_while(|address| is_code(address));
        let (native, python) = addresses.split_at(native.count());
        let mut frames = self.native(areas, objects, native, first_returns);
        let python = python.iter();
        let python: Vec<Frame> = python
            .filter_map(|code| match python_number(*code) {
                Some(number) => self.python_frames.get(number).cloned(),
                None => self.python.at(self.pid, code & !PYTHON_CODE),
            })
            .collect();
        if !python.is_empty() {
            // The interpreter has all of them in the innermost of its own frames that evaluate.
            let at = frames.iter().position(evaluates).unwrap_or(frames.len());
            frames.splice(at..at, python);
        }
        frames
    }

    fn native(
        &mut self,
        areas: &[Area],
        objects: &[LoadedObject],
        addresses: &[u64],
        first_returns: bool,
    ) -> Vec<Frame> {
        let mut frames = Vec::new();
        // Where the function begins that the next one called.
        let mut called = None;
        for (index, &address) in addresses.iter().enumerate() {
            if is_managed(address) {
                frames.push(self.managed_function(address));
                called = None;
                continue;
            }
            let back = u64::from(first_returns || index > 0);
            let at = address.wrapping_sub(back);
            let has_code = area_of(areas, at).is_some_and(|area| area.executable);
            let closed = objects.iter().rev().find(|object| object.holds(at));
            let named = match closed.filter(|_| !has_code) {
                Some(object) => self.in_closed(object, at),
                None => self.at(areas, at),
            };
            if has_code && back == 1 {
                frames.extend(self.left(areas, address, called));
            }
            called = named.into.map(|into| at - into);
            frames.extend(named.frames);
        }
        frames
    }

    /// One frame for each, named or not: addresses and frames go together.
    fn managed_function(&mut self, address: u64) -> Frame {
        let pid = u32::try_from(self.pid).ok();
        let named = pid.and_then(|pid| self.managed.at(pid, address));
        named.unwrap_or_else(|| Frame {
            module: match is_javascript(address) {
                true => JAVASCRIPT_MODULE.to_owned(),
                false => JAVA_MODULE.to_owned(),
            },
            ..Frame::default()
        })
    }

    /// The function that the call in front of a return address called, where that is not the one which begins at
    /// `called`: it jumped there in its last step.
    fn left(&mut self, areas: &[Area], address: u64, called: Option<u64>) -> Option<Frame> {
        let area = area_of(areas, address - 1).filter(|area| area.inode != 0)?;
        let paths = self.paths(area);
        let target = self.calls.target(area, address, &paths)?;
        let is_code = area_of(areas, target).is_some_and(|area| area.executable);
        if !is_code || called == Some(target) {
            return None;
        }
        // What is no beginning of a function with a name is a stub of the linker's, for which no symbol is wanted.
        let without = self.without_symbols.len();
        let named = self.at(areas, target);
        self.without_symbols.truncate(without);
        let mut frame = named.frames.into_iter().last()?;
        frame.left = true;
        let is_known = named.into == Some(0) && frame.function.is_some();
        is_known.then_some(frame)
    }

    /// What the symboliser may open: `None` for what is no regular file, or too large.
    fn source(&mut self, path: &Path) -> Option<Source<'static>> {
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        let known = self.files.get(path).copied();
        let readable = known.unwrap_or_else(|| match readable(path) {
            // Else the library would look for it by the file's link alone.
            Readable::All if !separate::has_debug_info(path) => Readable::SymbolTable,
            readable => readable,
        });
        self.files.insert(path.to_owned(), readable);
        let mut elf = Elf::new(path);
        elf.debug_syms = self.debug && readable == Readable::All;
        (readable != Readable::Nothing).then_some(Source::Elf(elf))
    }

    /// By the symbols of another file. `address`: as they count.
    fn in_separate(
        &mut self,
        path: &Path,
        address: impl FnOnce(&Separate) -> Option<u64>,
        module: &str,
        offset: u64,
    ) -> Option<Named> {
        let reach = match self.debug {
            true => Reach::Servers,
            false => Reach::Local,
        };
        if self.separate.len() >= FILES_MAX && !self.separate.contains_key(path) {
            return None;
        }
        let found = self.separate.entry(path.to_owned());
        let found = found
            .or_insert_with(|| separate::find(path, reach))
            .clone()?;
        let source = self.source(&found.path())?;
        let input = Input::VirtOffset(address(&found)?);
        match self.symbolizer.symbolize_single(&source, input) {
            Ok(Symbolized::Sym(symbol)) => Some(named_of(&symbol, module, offset)),
            _ => None,
        }
    }

    fn remember(&mut self, key: (String, u64), named: &Named) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, named.clone());
    }

    fn in_closed(&mut self, object: &LoadedObject, address: u64) -> Named {
        let offset = address.wrapping_sub(object.bias);
        let key = (format!("closed {}", object.path), offset);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let paths = [
            format!("/proc/{}/root{}", self.pid, object.path),
            object.path.clone(),
        ];
        let found = paths.iter().find_map(|path| {
            let named = self.in_separate(path.as_ref(), |_| Some(offset), &object.path, offset);
            if named.is_some() {
                return named;
            }
            let source = self.source(path.as_ref())?;
            let found = self
                .symbolizer
                .symbolize_single(&source, Input::VirtOffset(offset));
            let Ok(Symbolized::Sym(symbol)) = found else {
                return None;
            };
            Some(named_of(&symbol, &object.path, offset))
        });
        let nameless = Frame {
            module: object.path.clone(),
            offset,
            ..Frame::default()
        };
        let found = found.unwrap_or_else(|| nameless.into());
        self.remember(key, &found);
        found
    }

    fn at(&mut self, areas: &[Area], address: u64) -> Named {
        let Some(area) = area_of(areas, address) else {
            return nameless(areas, address).into();
        };
        if area.inode == 0 {
            return self.in_perf_map(address, area).into();
        }
        let offset = address - area.start + area.offset;
        let key = (area.name.clone(), offset);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = self.in_file(area, offset);
        self.remember(key, &found);
        found
    }

    fn in_file(&mut self, area: &Area, offset: u64) -> Named {
        let module = area.name.trim_end_matches(" (deleted)").to_owned();
        for path in self.paths(area) {
            let address = |found: &Separate| found.address(offset);
            if let Some(named) = self.in_separate(&path, address, &module, offset) {
                return named;
            }
            let Some(source) = self.source(&path) else {
                continue;
            };
            let found = self
                .symbolizer
                .symbolize_single(&source, Input::FileOffset(offset));
            match found {
                Ok(Symbolized::Sym(symbol)) => return named_of(&symbol, &module, offset),
                Ok(Symbolized::Unknown(_)) => break,
                Err(_) => {}
            }
        }
        if let Some(named) = self.in_go(area, offset, &module) {
            return named;
        }
        let is_full = self.without_symbols.len() >= WITHOUT_SYMBOLS_MAX;
        if !is_full && !self.without_symbols.contains(&module) {
            self.without_symbols.push(module.clone());
        }
        let nameless = Frame {
            module,
            offset,
            ..Frame::default()
        };
        nameless.into()
    }

    /// By the tables that a Go program has instead.
    fn in_go(&mut self, area: &Area, offset: u64, module: &str) -> Option<Named> {
        let pid = u32::try_from(self.pid).ok()?;
        let go = self
            .go
            .get_or_insert_with(|| Functions::of(pid).ok().flatten());
        let address = area.start + (offset - area.offset);
        let (calls, code) = go.as_ref()?.at(address)?;
        let frame = |call: Call| Frame {
            function: Some(call.name).filter(|name| !name.is_empty()),
            file: call.file,
            line: call.line,
            module: module.to_owned(),
            offset,
            inlined: call.is_inlined,
            left: false,
        };
        Some(Named {
            frames: calls.into_iter().map(frame).collect(),
            into: Some(address - code.start),
        })
    }

    /// Where the mapped file may be read: through the process, or by its name here.
    fn paths(&self, area: &Area) -> Vec<PathBuf> {
        let process = format!("/proc/{}", self.pid);
        if area.name.ends_with(" (deleted)") {
            return vec![format!("{process}/map_files/{:x}-{:x}", area.start, area.end).into()];
        }
        vec![
            format!("{process}/root{}", area.name).into(),
            area.name.clone().into(),
        ]
    }

    fn in_perf_map(&mut self, address: u64, area: &Area) -> Frame {
        let function = self.perf_map.find(address).map(str::to_owned);
        if let Some((function, file)) = function.as_deref().and_then(parse_python) {
            return Frame {
                function: Some(function),
                file: Some(file),
                module: PYTHON_MODULE.to_owned(),
                offset: address,
                ..Frame::default()
            };
        }
        let module = area.name.clone();
        Frame {
            function,
            module,
            offset: address,
            ..Frame::default()
        }
    }
}

/// CPython's own function that runs code of Python, by its name.
pub fn evaluates(frame: &Frame) -> bool {
    let name = frame.function.as_deref();
    name.is_some_and(python::evaluates)
}

fn area_of(areas: &[Area], address: u64) -> Option<&Area> {
    let index = areas.partition_point(|area| area.end <= address);
    areas.get(index).filter(|area| area.holds(address))
}

/// Module and offset of an address.
pub fn nameless(areas: &[Area], address: u64) -> Frame {
    let area = area_of(areas, address);
    let module = area.map_or("", |area| area.name.trim_end_matches(" (deleted)"));
    let file = area.filter(|area| area.inode != 0);
    Frame {
        module: module.to_owned(),
        offset: file.map_or(address, |area| address - area.start + area.offset),
        ..Frame::default()
    }
}

/// `py::FUNCTION:FILE`, as CPython's trampoline writes it.
fn parse_python(name: &str) -> Option<(String, String)> {
    let (function, file) = name.strip_prefix("py::")?.split_once(':')?;
    Some((function.to_owned(), file.to_owned()))
}

fn named_of(symbol: &Sym<'_>, module: &str, offset: u64) -> Named {
    let frame = |name: &str, code: Option<&CodeInfo<'_>>, inlined| Frame {
        function: Some(demangled(name).into_owned()),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
        line: code.and_then(|code| code.line),
        module: module.to_owned(),
        offset,
        inlined,
        left: false,
    };
    // The library tells inlined functions from the outermost to the innermost.
    let inlined = symbol.inlined.iter().rev();
    let mut frames: Vec<Frame> = inlined
        .map(|inner| frame(&inner.name, inner.code_info.as_ref(), true))
        .collect();
    frames.push(frame(&symbol.name, symbol.code_info.as_deref(), false));
    Named {
        frames,
        into: Some(symbol.offset as u64),
    }
}

#[cfg(test)]
mod tests;

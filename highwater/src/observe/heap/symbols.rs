//! Functions, files and lines of addresses, while the process that they belong to lives.
//!
//! The files are opened through `/proc/PID/root`, so that a subject in another mount namespace is
//! read by its own names. Code that no file stands behind is looked up in `/tmp/perf-PID.map`, which
//! CPython's trampoline, the JVM and Node write when asked to.

use std::collections::HashMap;
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::probe::LoadedObject;
use super::smaps::Area;

/// Frames that are remembered; the memory is emptied when it is full.
const KNOWN_MAX: usize = 200_000;

/// Largest perf map that is read.
const MAP_BYTES_MAX: u64 = 64 << 20;

/// What stands as module of a Python function.
pub const PYTHON_MODULE: &str = "python";

/// One function on a stack. An address may be several: what was inlined comes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// Demangled. `None` where the file has no symbol for the address.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The mapped file; empty for code without one.
    pub module: String,
    /// Of the address in that file, bytes.
    pub offset: u64,
    /// Its code lies within the next frame's.
    pub inlined: bool,
}

/// Looks addresses up; one per process.
pub struct Symbols {
    pid: i32,
    symbolizer: Symbolizer,
    known: HashMap<(String, u64), Vec<Frame>>,
    /// Modules for which the lookup failed as a whole: stripped of everything, or out of reach.
    pub without_symbols: Vec<String>,
}

impl Symbols {
    pub fn new(pid: i32) -> Symbols {
        Symbols {
            pid,
            symbolizer: Symbolizer::builder().enable_inlined_fns(true).build(),
            known: HashMap::new(),
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
        let mut frames = Vec::new();
        for (index, &address) in addresses.iter().enumerate() {
            let back = u64::from(first_returns || index > 0);
            let address = address.wrapping_sub(back);
            let in_area = areas.get(areas.partition_point(|area| area.end <= address));
            let has_code = in_area.is_some_and(|area| area.holds(address) && area.executable);
            let closed = objects.iter().rev().find(|object| object.holds(address));
            match closed.filter(|_| !has_code) {
                Some(object) => frames.extend(self.in_closed(object, address)),
                None => frames.extend(self.at(areas, address)),
            }
        }
        frames
    }

    fn in_closed(&mut self, object: &LoadedObject, address: u64) -> Vec<Frame> {
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
            let source = Source::Elf(Elf::new(path));
            let found = self
                .symbolizer
                .symbolize_single(&source, Input::VirtOffset(offset));
            let Ok(Symbolized::Sym(symbol)) = found else {
                return None;
            };
            Some(frames_of(&symbol, &object.path, offset))
        });
        let nameless = Frame {
            module: object.path.clone(),
            offset,
            ..Frame::default()
        };
        let found = found.unwrap_or_else(|| vec![nameless]);
        self.known.insert(key, found.clone());
        found
    }

    fn at(&mut self, areas: &[Area], address: u64) -> Vec<Frame> {
        let index = areas.partition_point(|area| area.end <= address);
        let Some(area) = areas.get(index).filter(|area| area.holds(address)) else {
            return vec![Frame {
                offset: address,
                ..Frame::default()
            }];
        };
        if area.inode == 0 {
            return vec![self.in_perf_map(address, area)];
        }
        let offset = address - area.start + area.offset;
        let key = (area.name.clone(), offset);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = self.in_file(area, offset);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, found.clone());
        found
    }

    fn in_file(&mut self, area: &Area, offset: u64) -> Vec<Frame> {
        let module = area.name.trim_end_matches(" (deleted)").to_owned();
        for path in self.paths(area) {
            let source = Source::Elf(Elf::new(path));
            let found = self
                .symbolizer
                .symbolize_single(&source, Input::FileOffset(offset));
            match found {
                Ok(Symbolized::Sym(symbol)) => return frames_of(&symbol, &module, offset),
                Ok(Symbolized::Unknown(_)) => break,
                Err(_) => {}
            }
        }
        if !self.without_symbols.contains(&module) {
            self.without_symbols.push(module.clone());
        }
        vec![Frame {
            module,
            offset,
            ..Frame::default()
        }]
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

    fn in_perf_map(&self, address: u64, area: &Area) -> Frame {
        let path = format!("/proc/{0}/root/tmp/perf-{0}.map", self.pid);
        let small = std::fs::metadata(&path).is_ok_and(|data| data.len() <= MAP_BYTES_MAX);
        let text = if small {
            std::fs::read_to_string(&path).ok()
        } else {
            None
        };
        let function = text.and_then(|text| find_in_perf_map(&text, address));
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

/// Sources of the standard libraries of Rust, Zig and C++ (libstdc++ and libc++), wherever they are
/// installed: an inlined function has a short name only. The C library's headers have some too (`getline` of
/// `bits/stdio.h`).
pub fn in_standard_library(file: &str) -> bool {
    (file.contains("/rustc/") && file.contains("/library/"))
        || file.contains("/rustlib/src/rust/library/")
        || (file.contains("/lib/std/") && file.ends_with(".zig"))
        || file.contains("/include/c++/")
        || (file.contains("/include/") && file.contains("/bits/"))
}

/// `py::FUNCTION:FILE`, as CPython's trampoline writes it.
fn parse_python(name: &str) -> Option<(String, String)> {
    let (function, file) = name.strip_prefix("py::")?.split_once(':')?;
    Some((function.to_owned(), file.to_owned()))
}

fn frames_of(symbol: &Sym<'_>, module: &str, offset: u64) -> Vec<Frame> {
    let frame = |name: &str, code: Option<&CodeInfo<'_>>, inlined| Frame {
        function: Some(name.to_owned()),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
        line: code.and_then(|code| code.line),
        module: module.to_owned(),
        offset,
        inlined,
    };
    // The library tells inlined functions from the outermost to the innermost.
    let inlined = symbol.inlined.iter().rev();
    let mut frames: Vec<Frame> = inlined
        .map(|inner| frame(&inner.name, inner.code_info.as_ref(), true))
        .collect();
    frames.push(frame(&symbol.name, symbol.code_info.as_deref(), false));
    frames
}

/// The name in `START SIZE NAME` (hexadecimal) whose range holds the address.
fn find_in_perf_map(text: &str, address: u64) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.splitn(3, ' ');
        let start = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
        let size = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
        let name = words.next()?;
        (start..start.checked_add(size)?)
            .contains(&address)
            .then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::heap::smaps::parse_smaps;

    #[inline(never)]
    fn a_function_with_a_name() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn an_own_function_is_found_with_its_line() {
        let areas = parse_smaps(&std::fs::read("/proc/self/smaps").unwrap()).unwrap();
        let mut symbols = Symbols::new(std::process::id() as i32);
        let address = a_function_with_a_name as *const () as u64;
        let frames = symbols.frames(&areas, &[], &[address], false);
        let frame = frames.last().unwrap();
        assert!(
            frame
                .function
                .as_ref()
                .unwrap()
                .contains("a_function_with_a_name"),
            "{frame:?}"
        );
        assert!(
            frame.file.as_ref().unwrap().ends_with("symbols.rs"),
            "{frame:?}"
        );
        assert!(frame.line.is_some());
    }

    #[test]
    fn an_address_in_nothing_is_a_frame_without_a_name() {
        let mut symbols = Symbols::new(std::process::id() as i32);
        let frames = symbols.frames(&[], &[], &[0x10], true);
        assert_eq!(
            frames,
            [Frame {
                offset: 0xf,
                ..Frame::default()
            }]
        );
    }

    #[test]
    fn perf_maps_are_read_and_strange_lines_left_out() {
        let text = "7f00 10 py::leak:/srv/app.py\nnonsense\n7f10 zz x\n";
        assert_eq!(
            find_in_perf_map(text, 0x7f0f).unwrap(),
            "py::leak:/srv/app.py"
        );
        assert_eq!(find_in_perf_map(text, 0x7f10), None);
        let (function, file) = parse_python("py::leak:/srv/app.py").unwrap();
        assert_eq!((function.as_str(), file.as_str()), ("leak", "/srv/app.py"));
    }
}

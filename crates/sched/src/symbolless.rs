//! Code that no symbols name: of a stripped Go program by its own tables, of other files by the place in the file.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use super::function_names::{dependency, is_borrowed, without_types};
use super::stack::Frame;
use symbols::golang::functions::Functions;
use symbols::golang::pclntab::Call;

pub fn nameless(address: u64) -> Frame {
    Frame {
        name: format!("{address:#x}"),
        module: String::new(),
        start: 0,
        bytes: 0,
        package: String::new(),
        borrowed: false,
        interpreter: false,
    }
}

/// Processes whose files were read; past it they are read anew.
const KEPT_MAX: usize = 64;

/// By process, and what each exec makes anew: its auxiliary vector, which has addresses.
#[derive(Default)]
pub struct Symbolless(HashMap<(u32, u64), Known>);

struct Known {
    /// Of a Go program.
    functions: Option<Functions>,
    /// Where files are mapped to be run.
    code: Vec<Code>,
}

struct Code {
    mapped: Range<u64>,
    offset: u64,
    file: String,
}

impl Symbolless {
    /// Names what no symbols name.
    pub fn name(&mut self, pid: u32, addresses: &[u64], frames: &mut [Vec<Frame>]) {
        let is_nameless = |frames: &[Frame]| matches!(frames, [one] if one.is_nameless());
        let others = addresses.iter().zip(frames);
        let others = others.filter(|(_, frames)| is_nameless(frames));
        let others: Vec<(&u64, &mut Vec<Frame>)> = others.collect();
        if others.is_empty() {
            return;
        }
        let Some(known) = self.of(pid) else {
            return;
        };
        if !others.iter().all(|(at, _)| known.holds(**at)) {
            // Mapped since.
            known.code = code_of(pid);
        }
        for (at, frames) in others {
            if let Some(named) = known.named(*at) {
                *frames = named;
            }
        }
    }

    fn of(&mut self, pid: u32) -> Option<&mut Known> {
        let mut hasher = DefaultHasher::new();
        std::fs::read(format!("/proc/{pid}/auxv"))
            .ok()?
            .hash(&mut hasher);
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        let known = self.0.entry((pid, hasher.finish()));
        Some(known.or_insert_with(|| Known {
            functions: Functions::of(pid).ok().flatten(),
            code: code_of(pid),
        }))
    }
}

impl Known {
    fn holds(&self, address: u64) -> bool {
        self.code.iter().any(|code| code.mapped.contains(&address))
    }

    fn named(&self, address: u64) -> Option<Vec<Frame>> {
        if let Some(program) = &self.functions
            && let Some((calls, code)) = program.at(address)
        {
            let module = file_name(&program.binary.path);
            let frame = |call: &Call| go_frame(call, module, &code);
            return Some(calls.iter().map(frame).collect());
        }
        let code = self
            .code
            .iter()
            .find(|code| code.mapped.contains(&address))?;
        let offset = address - code.mapped.start + code.offset;
        Some(vec![Frame {
            name: format!("{}+{offset:#x}", code.file),
            module: code.file.clone(),
            ..nameless(address)
        }])
    }
}

fn code_of(pid: u32) -> Vec<Code> {
    let maps = Process::new(pid as i32).and_then(|process| process.maps());
    let maps = maps.into_iter().flatten();
    let is_code = |map: &MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
    let code = |map: MemoryMap| match &map.pathname {
        MMapPath::Path(path) => Some(Code {
            mapped: map.address.0..map.address.1,
            offset: map.offset,
            file: file_name(&path.to_string_lossy()).to_owned(),
        }),
        _ => None,
    };
    maps.filter(is_code).filter_map(code).collect()
}

fn file_name(path: &str) -> &str {
    let path = path.trim_end_matches(" (deleted)");
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

fn go_frame(call: &Call, module: &str, code: &Range<u64>) -> Frame {
    let file = call.file.as_deref().unwrap_or_default();
    Frame {
        name: without_types(&call.name),
        module: module.to_owned(),
        start: code.start,
        bytes: code.end.saturating_sub(code.start),
        package: dependency(file),
        borrowed: is_borrowed(&call.name, file),
        interpreter: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_by_its_file() {
        let here = an_address_is_told_by_its_file as *const () as u64;
        let mut frames = [vec![nameless(here)], vec![nameless(1)]];
        let mut symbolless = Symbolless::default();
        symbolless.name(std::process::id(), &[here, 1], &mut frames);
        let [named] = &frames[0][..] else {
            panic!("{frames:?}");
        };
        assert!(
            named.name.starts_with("sched-") && named.name.contains("+0x"),
            "{named:?}"
        );
        assert!(named.is_nameless());
        assert_eq!(frames[1], [nameless(1)]);
    }
}

//! The calls of one function of the subject, from entry to return, by two probes on it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use perf_event_open_sys::bindings as perf;

use super::event::Tid;
use super::events::online_cpus;
use super::kernel::{open_event, uprobe};
use super::requests::Request;
use super::ring::{Ring, Words};
use crate::observe::foreign::open_file;

/// Pages of a ring: 128 KiB, some 3,000 calls between two turns.
const PAGES: usize = 32;
/// Calls kept; later ones are counted.
const CALLS_MAX: usize = 500_000;

pub struct Spans {
    pid: u32,
    function: String,
    rings: Vec<(OwnedFd, Ring, bool)>,
    /// Of each thread, the entries of the calls that have not returned, outermost first.
    open: HashMap<u32, Vec<u64>>,
    pub calls: Vec<Request>,
    pub dropped: u64,
}

impl Spans {
    /// Probes `function` of the program of `pid`. Needs root.
    ///
    /// # Errors
    /// The function is not there or not alone, the program is in Go, or the kernel refuses.
    pub fn watch(pid: u32, function: &str) -> io::Result<Spans> {
        let offset = offset_of(pid, function)?;
        let path = CString::new(format!("/proc/{pid}/exe"))?;
        let mut rings = Vec::new();
        for cpu in online_cpus() {
            for on_return in [false, true] {
                let fd = open_probe(&path, offset, on_return, cpu)?;
                let ring = Ring::map(&fd, PAGES)?;
                rings.push((fd, ring, on_return));
            }
        }
        Ok(Spans {
            pid,
            function: function.to_string(),
            rings,
            open: HashMap::new(),
            calls: Vec::new(),
            dropped: 0,
        })
    }

    /// Takes up the calls that returned since.
    pub fn drain(&mut self) {
        let mut hits = Vec::new();
        for (_, ring, on_return) in &mut self.rings {
            ring.drain_bytes(|bytes| {
                hits.extend(parse(bytes, self.pid).map(|(at_ns, tid)| (at_ns, tid, *on_return)));
            });
        }
        hits.sort_unstable();
        for (at_ns, tid, on_return) in hits {
            let open = self.open.entry(tid).or_default();
            match on_return {
                false => open.push(at_ns),
                true => {
                    if let Some(start_ns) = open.pop() {
                        self.returned(tid, start_ns, at_ns);
                    }
                }
            }
        }
    }

    fn returned(&mut self, tid: u32, start_ns: u64, end_ns: u64) {
        if self.calls.len() == CALLS_MAX {
            self.dropped += 1;
            return;
        }
        self.calls.push(Request {
            name: self.function.clone(),
            start_ns,
            end_ns,
            tid: Some(Tid::from(tid)),
        });
    }
}

/// Where the function's code lies in the program's file: by its name, or by the parts of a path
/// (`search::serve`) in a mangled one.
fn offset_of(pid: u32, function: &str) -> io::Result<u64> {
    let cache = ReadCache::new(open_file(format!("/proc/{pid}/exe").as_ref())?);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    if file.section_by_name(".go.buildinfo").is_some() {
        return Err(io::Error::other(
            "it is a Go program: a probe on a return would end it, for Go moves its stacks",
        ));
    }
    let code = || {
        file.symbols()
            .chain(file.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.address() != 0)
    };
    let exact = |name: &str| name == function;
    let parts: Vec<&str> = function.split("::").collect();
    let mangled = |name: &str| holds_in_order(name, &parts);
    let mut found: Vec<u64> = addresses(code(), exact);
    if found.is_empty() {
        found = addresses(code(), mangled);
    }
    match found[..] {
        [address] => {
            let segment = file.segments().find(|segment| {
                (segment.address()..segment.address() + segment.size()).contains(&address)
            });
            let segment = segment.ok_or_else(|| io::Error::other("no segment holds its code"))?;
            Ok(address - segment.address() + segment.file_range().0)
        }
        [] => Err(io::Error::other(format!(
            "the program has no function {function}: inlined, or stripped of its symbols"
        ))),
        _ => Err(io::Error::other(format!(
            "{} functions of the program go by {function}: name more of the path",
            found.len()
        ))),
    }
}

fn addresses<'a>(
    symbols: impl Iterator<Item = object::Symbol<'a, 'a, &'a ReadCache<File>>>,
    fits: impl Fn(&str) -> bool,
) -> Vec<u64> {
    let fitting = symbols.filter(|symbol| symbol.name().is_ok_and(&fits));
    let mut found: Vec<u64> = fitting.map(|symbol| symbol.address()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Both manglings of Rust and that of C++ write a part's length before it.
fn holds_in_order(mangled: &str, parts: &[&str]) -> bool {
    let mut rest = mangled;
    mangled.starts_with("_")
        && parts.iter().all(|part| {
            let counted = format!("{}{part}", part.len());
            let at = rest.find(&counted);
            at.map(|at| rest = &rest[at + counted.len()..]).is_some()
        })
}

fn open_probe(path: &CStr, offset: u64, on_return: bool, cpu: i32) -> io::Result<OwnedFd> {
    let mut attr = uprobe(path, offset, on_return)?;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.sample_type = u64::from(perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    open_event(&mut attr, -1, cpu)
}

/// Time and thread of a hit; `None` for other records and other processes.
pub fn parse(bytes: &[u8], of: u32) -> Option<(u64, u32)> {
    let (pid, tid, at_ns, _) = Words::of_sample(bytes)?;
    (pid == of).then_some((at_ns, tid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_a_mangled_name() {
        // rustc 1.95, legacy and v0; g++ 12.
        for mangled in [
            "_ZN6search5serve17h0123456789abcdefE",
            "_RNvCsabc_6search5serve",
            "_ZN6search5serveEi",
        ] {
            assert!(holds_in_order(mangled, &["search", "serve"]), "{mangled}");
            assert!(!holds_in_order(mangled, &["serve", "search"]), "{mangled}");
        }
        assert!(!holds_in_order("5serve", &["serve"]), "not mangled");
    }

    #[test]
    fn hits_of_other_processes_are_not_ours() {
        let mut bytes = 9u32.to_ne_bytes().to_vec();
        bytes.extend([0, 0, 24, 0]);
        bytes.extend((42u64 << 32 | 41).to_ne_bytes());
        bytes.extend(1_000u64.to_ne_bytes());
        assert_eq!(parse(&bytes, 41), Some((1_000, 42)));
        assert_eq!(parse(&bytes, 40), None);
        assert_eq!(parse(&bytes[..20], 41), None);
    }
}

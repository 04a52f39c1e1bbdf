//! The calls of one function of the subject, from entry to return, by probes on its start and its returns.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use object::{Object, ObjectSymbol, ReadCache, SymbolKind};
use perf_event_open_sys::bindings as perf;

use super::event::Tid;
use super::events::online_cpus;
use super::kernel::{open_event, uprobe};
use super::requests::Request;
use super::ring::{Ring, Words};
use crate::observe::exits::exits;
use crate::observe::exits::text::FileText;
use crate::observe::foreign::open_file;

/// Pages of a ring: 128 KiB, some 3,000 calls between two turns.
const PAGES: usize = 32;
/// Calls kept; later ones are counted.
const CALLS_MAX: usize = 500_000;

pub struct Spans {
    pid: u32,
    function: String,
    rings: Vec<(Ring, bool)>,
    _probes: Vec<OwnedFd>,
    /// Instructions that are breakpoints.
    places: usize,
    /// Of each thread, the calls that have not returned, outermost first.
    open: HashMap<u32, Vec<Entered>>,
    pub calls: Vec<Request>,
    pub dropped: u64,
}

/// A call that began.
struct Entered {
    at_ns: u64,
    sp: u64,
}

/// Of a probe: the stack pointer is at a return what it was at the start of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    at_ns: u64,
    tid: u32,
    sp: u64,
}

impl Spans {
    /// Instructions of the program that are breakpoints.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Probes `function` of the program of `pid`. Needs root.
    ///
    /// # Errors
    /// The function is not there or not alone, it has no return, the program is in Go, or the kernel refuses.
    pub fn watch(pid: u32, function: &str) -> io::Result<Spans> {
        let (start, returns) = places_of(pid, function)?;
        let path = CString::new(format!("/proc/{pid}/exe"))?;
        let (mut rings, mut probes) = (Vec::new(), Vec::new());
        for cpu in online_cpus() {
            for (places, on_return) in [(&returns[..], true), (&[start], false)] {
                let fds = open_probes(&path, places, cpu)?;
                rings.push((Ring::map(&fds[0], PAGES)?, on_return));
                for other in &fds[1..] {
                    into_ring_of(other, &fds[0])?;
                }
                probes.extend(fds);
            }
        }
        Ok(Spans {
            pid,
            function: function.to_string(),
            rings,
            _probes: probes,
            places: returns.len() + 1,
            open: HashMap::new(),
            calls: Vec::new(),
            dropped: 0,
        })
    }

    /// Takes up the calls that returned since.
    pub fn drain(&mut self) {
        let mut hits = Vec::new();
        for (ring, on_return) in &mut self.rings {
            ring.drain_bytes(|bytes| {
                hits.extend(parse(bytes, self.pid).map(|hit| (hit, *on_return)));
            });
        }
        hits.sort_unstable();
        for (hit, on_return) in hits {
            let open = self.open.entry(hit.tid).or_default();
            // The stack grows downwards. What is left deeper ended without a return: an exception, a longjmp.
            while open.last().is_some_and(|inner| inner.sp < hit.sp) {
                open.pop();
            }
            let same = open.pop_if(|of| of.sp == hit.sp);
            match same {
                Some(entered) if on_return => self.returned(hit.tid, entered.at_ns, hit.at_ns),
                _ if !on_return => open.push(Entered {
                    at_ns: hit.at_ns,
                    sp: hit.sp,
                }),
                _ => {}
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

/// Where the function starts and returns in the program's file: by its name, or by the parts of a path
/// (`search::serve`) in a mangled one.
fn places_of(pid: u32, function: &str) -> io::Result<(u64, Vec<u64>)> {
    let exe = open_file(format!("/proc/{pid}/exe").as_ref())?;
    let cache = ReadCache::new(&exe);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    if file.section_by_name(".go.buildinfo").is_some() {
        return Err(io::Error::other(
            "it is a Go program: a goroutine may start a call in one thread and end it in another",
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
            let text = FileText::new(&exe, &file, BTreeSet::new());
            let start = text.offset_of(address);
            let start = start.ok_or_else(|| io::Error::other("no segment holds its code"))?;
            let returns = exits(&text, address).into_iter();
            let returns: Vec<u64> = returns.filter_map(|exit| text.offset_of(exit.at)).collect();
            if returns.is_empty() {
                return Err(io::Error::other(format!(
                    "{function} has no return that is known"
                )));
            }
            Ok((start, returns))
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
    symbols: impl Iterator<Item = object::Symbol<'a, 'a, &'a ReadCache<&'a File>>>,
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

/// The stack pointer among the registers of a sample (PERF_REG_X86_SP, PERF_REG_ARM64_SP).
#[cfg(target_arch = "x86_64")]
const SP: u32 = 7;
#[cfg(target_arch = "aarch64")]
const SP: u32 = 31;

/// At least one.
fn open_probes(path: &CStr, places: &[u64], cpu: i32) -> io::Result<Vec<OwnedFd>> {
    let open = |place: &u64| {
        let mut attr = uprobe(path, *place)?;
        attr.__bindgen_anon_1.sample_period = 1;
        let kinds = perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME | perf::PERF_SAMPLE_REGS_USER;
        attr.sample_type = u64::from(kinds);
        attr.sample_regs_user = 1 << SP;
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        open_event(&mut attr, -1, cpu)
    };
    places.iter().map(open).collect()
}

fn into_ring_of(event: &OwnedFd, other: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors live; the ioctl takes a descriptor.
    let result =
        unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), other.as_raw_fd()) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `None` for other records and other processes.
pub fn parse(bytes: &[u8], of: u32) -> Option<Hit> {
    let (pid, tid, at_ns, mut words) = Words::of_sample(bytes)?;
    let _abi = words.word()?;
    let sp = words.word()?;
    (pid == of).then_some(Hit { at_ns, tid, sp })
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
        bytes.extend([0, 0, 40, 0]);
        bytes.extend((42u64 << 32 | 41).to_ne_bytes());
        for word in [1_000u64, 2, 0x7ff0] {
            bytes.extend(word.to_ne_bytes());
        }
        let hit = Hit {
            at_ns: 1_000,
            tid: 42,
            sp: 0x7ff0,
        };
        assert_eq!(parse(&bytes, 41), Some(hit));
        assert_eq!(parse(&bytes, 40), None);
        assert_eq!(parse(&bytes[..36], 41), None);
    }
}

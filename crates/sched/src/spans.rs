//! The calls of one function of the subject, from entry to return, by probes on its start and its returns.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;

use object::{Object, ObjectSymbol, ReadCache, SymbolKind};

use super::event::Tid;
use super::requests::Request;
use bpf::uprobes::Target;
use bpf::uprobes::entry::{TELLS, entry};
use bpf::uprobes::hits::{Hits, Place};
use bpf::uprobes::record::{Fields, Hit};
use observe::exits::text::FileText;
use observe::exits::{Text, exits};

/// 16,000 hits between two turns of 40 ms.
const RING_BYTES: u32 = 1 << 20;
/// The stack pointer, which is at a return what it was at the start of the same call.
#[cfg(target_arch = "x86_64")]
const FIELDS: Fields = Fields {
    registers: &[152],
    frames: 0,
};
#[cfg(target_arch = "aarch64")]
const FIELDS: Fields = Fields {
    registers: &[248],
    frames: 0,
};

const START: u32 = 0;
const RETURN: u32 = 1;
/// Calls kept; later ones are counted.
const CALLS_MAX: usize = 500_000;

pub struct Spans {
    function: String,
    hits: Hits,
    /// Hits that did not fit the ring, up to the last turn.
    lost: u64,
    /// Of each thread, the calls that have not returned, outermost first.
    open: HashMap<u32, Vec<Entered>>,
    pub calls: Vec<Request>,
    dropped: u64,
}

/// A call that began.
struct Entered {
    at_ns: u64,
    sp: u64,
}

impl Spans {
    /// Probes `function` of the program of `pid`, in that process alone. Needs root.
    ///
    /// # Errors
    /// The function is not there or not alone, it has no return, the program is in Go, or the kernel refuses.
    pub fn watch(pid: u32, function: &str) -> io::Result<Spans> {
        let target = Target::program_of(pid)?;
        let places = places_of(target.file(), function)?;
        Ok(Spans {
            function: function.to_string(),
            hits: Hits::of(&target, &places, FIELDS, RING_BYTES)?,
            lost: 0,
            open: HashMap::new(),
            calls: Vec::new(),
            dropped: 0,
        })
    }

    pub fn hits(&self) -> &Hits {
        &self.hits
    }

    /// Its probes are on.
    pub fn is_on(&self) -> bool {
        self.hits.is_on()
    }

    /// No further call is timed.
    pub fn take_off(&mut self) {
        self.hits.take_off();
        self.drain();
        self.open.clear();
    }

    /// Takes up the calls that returned since.
    pub fn drain(&mut self) {
        let hits = self.hits.drain();
        let lost = self.hits.counted().lost;
        // Of a call whose return is missing, a later one at the same depth would bring the end: nothing is told of
        // calls that some of the lost hits may belong to.
        if lost > self.lost {
            self.open.clear();
        } else {
            self.follow(&hits);
        }
        self.lost = lost;
    }

    fn follow(&mut self, hits: &[Hit]) {
        for hit in hits {
            let sp = hit.registers[0];
            let open = self.open.entry(hit.tid).or_default();
            // The stack grows downwards. What is left deeper ended without a return: an exception, a longjmp.
            while open.last().is_some_and(|inner| inner.sp < sp) {
                open.pop();
            }
            let same = open.pop_if(|of| of.sp == sp);
            let is_last = open.is_empty() && hit.kind == RETURN;
            match (hit.kind, same) {
                (RETURN, Some(entered)) => self.returned(hit.tid, entered.at_ns, hit.at_ns),
                (START, _) => open.push(Entered {
                    at_ns: hit.at_ns,
                    sp,
                }),
                _ => {}
            }
            // A server may have a thread for each request.
            if is_last {
                self.open.remove(&hit.tid);
            }
        }
    }

    /// Hits and calls that are missing from [`Spans::calls`].
    pub fn missing(&self) -> u64 {
        self.lost + self.dropped
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
fn places_of(exe: &File, function: &str) -> io::Result<Vec<Place>> {
    let cache = ReadCache::new(exe);
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
            let text = FileText::new(exe, &file, BTreeSet::new());
            let mut places = returns_of(&text, address);
            if places.is_empty() {
                return Err(io::Error::other(format!(
                    "{function} has no return that is known"
                )));
            }
            let start = start_of(&text, address);
            places.push(start.ok_or_else(|| io::Error::other("no segment holds its code"))?);
            Ok(places)
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

/// A return goes first: a call that is seen to begin has it.
fn returns_of(text: &FileText, address: u64) -> Vec<Place> {
    let place = |exit: observe::exits::Exit| {
        Some(Place {
            kind: RETURN,
            offset: text.offset_of(exit.at)?,
            is_emulated: exit.is_emulated,
        })
    };
    exits(text, address).into_iter().filter_map(place).collect()
}

/// At the function's start, or soon behind it.
fn start_of(text: &FileText, address: u64) -> Option<Place> {
    let mut code = vec![0; TELLS];
    let read = text.read(address, &mut code);
    let entry = entry(&code[..read], 0);
    Some(Place {
        kind: START,
        offset: text.offset_of(address)? + entry.skip,
        is_emulated: entry.is_emulated,
    })
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
}

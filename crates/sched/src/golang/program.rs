//! A Go program: where its runtime's functions and its table of wait reasons lie.

use std::fs::File;
use std::io;
use std::ops::Range;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};

use bpf::uprobes::Target;
use bpf::uprobes::entry::{Entry, TELLS, entry};
use bpf::uprobes::hits::Place;
use symbols::golang::binary::Binary;
use symbols::golang::functions::Functions;
use symbols::golang::version::{MINOR_MAX, MINOR_MIN};
use symbols::memory::Memory;

/// More reasons than any version has.
const REASONS_MAX: u64 = 64;
/// `struct pollDesc` since Go 1.18: the descriptor, and the two words that gopark is given.
const FD_BEFORE_READER: u64 = 24;
const FD_BEFORE_WRITER: u64 = 32;

/// The probed functions, as a hit's kind.
pub const GOPARK: u32 = 0;
pub const READY: u32 = 1;
pub const EXECUTE: u32 = 2;
pub const EXIT: u32 = 3;

const FUNCTIONS: [(&str, u32); 4] = [
    ("runtime.gopark", GOPARK),
    ("runtime.ready", READY),
    ("runtime.execute", EXECUTE),
    ("runtime.goexit1", EXIT),
];

#[derive(Debug, Clone)]
pub struct Program {
    target: Target,
    places: Vec<Place>,
    reasons: Vec<String>,
}

impl Program {
    /// `None` when the process is no Go program; an error when it is one that cannot be probed.
    pub fn of(pid: u32) -> Option<io::Result<Program>> {
        let target = Target::program_of(pid).ok()?;
        let cache = ReadCache::new(target.file());
        let file = object::File::parse(&cache).ok()?;
        file.section_by_name(".go.buildinfo")?;
        if !cfg!(target_arch = "x86_64") {
            return Some(Err(io::Error::other("only on x86_64 so far")));
        }
        Some(Program::found(pid, &target, &file))
    }

    fn found<'a>(
        pid: u32,
        target: &Target,
        file: &object::File<'a, &'a ReadCache<&File>>,
    ) -> io::Result<Program> {
        let found = match by_symbols(pid, file) {
            Some(found) => found,
            None => by_tables(pid)?,
        };
        let place = |(code, kind): (&Range<u64>, u32)| -> io::Result<Place> {
            let (offset, entry) = probed_at(file, code.start, code.end.saturating_sub(code.start))
                .ok_or_else(|| io::Error::other("no segment holds its code"))?;
            Ok(Place {
                kind,
                offset: offset + entry.skip,
                is_emulated: entry.is_emulated,
            })
        };
        let kinds = FUNCTIONS.map(|(_, kind)| kind);
        let places = found.functions.iter().zip(kinds);
        Ok(Program {
            target: target.clone(),
            places: places.map(place).collect::<io::Result<_>>()?,
            reasons: found.reasons,
        })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    pub fn reason(&self, number: u8) -> &str {
        self.reasons
            .get(usize::from(number))
            .map_or("", String::as_str)
    }

    /// The descriptor of a wait for the network poller, from the word that gopark is given.
    pub fn descriptor(&self, pid: u32, word: u64, writer: bool) -> Option<i32> {
        let before = if writer {
            FD_BEFORE_WRITER
        } else {
            FD_BEFORE_READER
        };
        let low = Memory { pid }.word(word.checked_sub(before)?)?;
        i32::try_from(low).ok()
    }
}

/// Of the probed functions, in their order, the code as the file counts; and the runtime's words.
struct Found {
    functions: Vec<Range<u64>>,
    reasons: Vec<String>,
}

/// `None`: it is stripped, or lacks one of them.
fn by_symbols<'a>(pid: u32, file: &object::File<'a, &'a ReadCache<&File>>) -> Option<Found> {
    let mut names = FUNCTIONS.map(|(name, _)| name).to_vec();
    names.push("runtime.waitReasonStrings");
    let mut found: Vec<Option<Range<u64>>> = vec![None; names.len()];
    for symbol in file.symbols() {
        let number = symbol
            .name()
            .ok()
            .and_then(|name| names.iter().position(|one| *one == name));
        if let Some(number) = number {
            found[number] = Some(symbol.address()..symbol.address() + symbol.size());
        }
    }
    let mut functions = found.into_iter().collect::<Option<Vec<_>>>()?;
    let words = functions.pop()?;
    let count = (words.end - words.start) / 16;
    Some(Found {
        reasons: read_reasons(Memory { pid }, words.start + bias(pid, file), count),
        functions,
    })
}

/// By the tables that a stripped program carries too.
fn by_tables(pid: u32) -> io::Result<Found> {
    let own = Functions::of(pid)?.ok_or_else(|| unknown_version(pid))?;
    let code = own.named(&FUNCTIONS.map(|(name, _)| name));
    let functions = code.into_iter().collect::<Option<Vec<_>>>();
    let functions = functions
        .ok_or_else(|| io::Error::other("not all functions of its scheduler are in its tables"))?;
    let in_file = |code: Range<u64>| {
        let of = |address: u64| address.wrapping_sub(own.binary.bias);
        of(code.start)..of(code.end)
    };
    let reasons = own.wait_reasons();
    if reasons.is_empty() {
        return Err(io::Error::other(
            "why goroutines wait is not in its data: its version has other words",
        ));
    }
    Ok(Found {
        functions: functions.into_iter().map(in_file).collect(),
        reasons,
    })
}

fn unknown_version(pid: u32) -> io::Error {
    let version = Binary::open(pid).ok().flatten().and_then(|own| own.version);
    let version = version
        .as_deref()
        .unwrap_or("a version that it does not name");
    io::Error::other(format!(
        "it has no symbols and was built with {version}; the tables of Go 1.{MINOR_MIN} to 1.{MINOR_MAX} can be read"
    ))
}

/// A function's offset in the file, and where in it the probe goes: behind the check of the stack's size, whose first
/// instruction the kernel would have to step.
fn probed_at<'a>(
    file: &object::File<'a, &'a ReadCache<&File>>,
    address: u64,
    size: u64,
) -> Option<(u64, Entry)> {
    let mut segments = file.segments();
    let segment = segments.find(|segment| {
        (segment.address()..segment.address() + segment.size()).contains(&address)
    })?;
    let offset = address - segment.address() + segment.file_range().0;
    let bytes = size.min(TELLS as u64);
    let code = segment.data_range(address, bytes).ok().flatten()?;
    Some((offset, entry(code, 0)))
}

/// How far a position-independent program was moved: 0 for the usual one.
fn bias<'a>(pid: u32, file: &object::File<'a, &'a ReadCache<&File>>) -> u64 {
    if file.kind() != object::ObjectKind::Dynamic {
        return 0;
    }
    let maps = procfs::process::Process::new(pid as i32).and_then(|process| process.maps());
    let first = maps.ok().and_then(|maps| maps.into_iter().next());
    first.map_or(0, |map| map.address.0)
}

/// An array of Go strings: pointer and length each.
fn read_reasons(memory: Memory, table: u64, count: u64) -> Vec<String> {
    const LONGEST: u32 = 200;
    let word = |address: u64| {
        let mut bytes = [0; 8];
        match memory.read(address, &mut bytes) {
            Ok(8) => u64::from_ne_bytes(bytes),
            _ => 0,
        }
    };
    (0..count.min(REASONS_MAX))
        .map(|at| {
            let place = table + 16 * at;
            let length = word(place + 8).min(u64::from(LONGEST)) as usize;
            let mut text = vec![0; length];
            let read = memory.read(word(place), &mut text).unwrap_or(0);
            String::from_utf8_lossy(&text[..read]).into_owned()
        })
        .collect()
}

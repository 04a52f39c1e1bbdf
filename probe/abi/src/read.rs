//! The reader: every offset, count and index comes from bytes that the subject may have scribbled
//! over.

use core::fmt;
use core::marker::PhantomData;

use crate::layout::{
    DEPTH_MAX, HEADER_BYTES, Header, MAGIC, Section, SectionKind, State, TOTAL_BYTES_MAX, VERSION,
};
use crate::pod::{Pod, pod_at};
use crate::rows::{
    Class, Flow, Latency, Module, Region, Role, Sample, Stack, Thread, sample_check, stack_flag,
};

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Shorter than what they claim to be: bytes there, bytes needed.
    Truncated {
        /// Bytes given.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// The magic is missing: not the probe's mapping, or overwritten.
    NotAProbe,
    /// A probe of another version.
    Version {
        /// Its version; this reader's is [`VERSION`].
        found: u32,
    },
    /// Larger than any probe makes it.
    TooLarge {
        /// Bytes that the header claims; [`TOTAL_BYTES_MAX`] is the most.
        bytes: u64,
    },
    /// A section does not lie inside the mapping, its rows have another size, or there are more of them than
    /// any probe makes.
    Section {
        /// Which ([`SectionKind`] as a number).
        kind: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated { have, need } => {
                write!(
                    out,
                    "the probe's memory is cut short: {have} of {need} bytes"
                )
            }
            Error::NotAProbe => write!(
                out,
                "no probe's header is there, or the program wrote over it"
            ),
            Error::Version { found } => write!(
                out,
                "the probe has layout version {found}, this highwater reads version {VERSION}: \
                 restart the program with the probe of this highwater"
            ),
            Error::TooLarge { bytes } => write!(
                out,
                "the probe's memory claims {bytes} bytes, and no probe has more than \
                 {TOTAL_BYTES_MAX}: the program wrote over it, or imitates a probe"
            ),
            Error::Section { kind } => write!(
                out,
                "section {kind} of the probe's memory does not fit: the program wrote over it"
            ),
        }
    }
}

impl core::error::Error for Error {}

/// The header alone, from the first page: says how much more to copy. Checks magic, version and length.
pub fn read_header(bytes: &[u8]) -> Result<Header, Error> {
    let header: Header = pod_at(bytes, 0).ok_or(Error::Truncated {
        have: bytes.len() as u64,
        need: HEADER_BYTES as u64,
    })?;
    if header.magic != MAGIC {
        return Err(Error::NotAProbe);
    }
    if header.version != VERSION || header.header_bytes as usize != HEADER_BYTES {
        return Err(Error::Version {
            found: header.version,
        });
    }
    if header.total_bytes > TOTAL_BYTES_MAX {
        return Err(Error::TooLarge {
            bytes: header.total_bytes,
        });
    }
    Ok(header)
}

/// A snapshot of a copy of the whole mapping. Checks magic, version, length and the place of every
/// section.
pub fn read(bytes: &[u8]) -> Result<Snapshot<'_>, Error> {
    let header = read_header(bytes)?;
    let have = bytes.len() as u64;
    if header.total_bytes > have {
        return Err(Error::Truncated {
            have,
            need: header.total_bytes,
        });
    }
    let snapshot = Snapshot { bytes, header };
    snapshot.check_sections()?;
    Ok(snapshot)
}

/// A checked copy of the mapping.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    bytes: &'a [u8],
    /// Its header, as it was when copied.
    pub header: Header,
}

impl<'a> Snapshot<'a> {
    /// State of the probe.
    pub fn state(&self) -> State {
        State::of(self.header.state)
    }

    /// Threads, row 0 being the one that surplus threads share. Rows that nobody has had are left
    /// out.
    pub fn threads(&self) -> impl Iterator<Item = (u32, Thread)> + 'a {
        self.rows::<Thread>(SectionKind::Threads)
            .enumerate()
            .filter(|(at, row)| *at == 0 || row.state != crate::thread_state::FREE)
            .map(|(at, row)| (at as u32, row))
    }

    /// Live sampled blocks: (address, sample). Rows being written or torn are left out, see
    /// [`Self::torn_samples`].
    pub fn samples(&self) -> impl Iterator<Item = (u64, Sample)> + 'a {
        self.keyed()
            .filter(|(address, row)| sample_check(*address, row) == row.check)
    }

    /// How many rows of the sample table were being written or changed while they were copied.
    pub fn torn_samples(&self) -> usize {
        let torn = |(address, row): &(u64, Sample)| sample_check(*address, row) != row.check;
        self.keyed().filter(torn).count()
    }

    fn keyed(&self) -> impl Iterator<Item = (u64, Sample)> + 'a {
        let keys = self.rows::<u64>(SectionKind::SampleKeys);
        keys.zip(self.rows::<Sample>(SectionKind::Samples))
            .filter(|(key, _)| *key != 0)
    }

    /// Distinct stacks with their row number, to which `stack` of samples and regions refers.
    pub fn stacks(&self) -> impl Iterator<Item = (u32, Stack)> + 'a {
        let rows = self.rows::<Stack>(SectionKind::Stacks).enumerate();
        rows.filter(|(_, row)| row.hash > 1)
            .map(|(at, row)| (at as u32, row))
    }

    /// One stack by its row number.
    pub fn stack(&self, row: u32) -> Option<Stack> {
        let stack: Stack = self.row(SectionKind::Stacks, row)?;
        (stack.hash > 1).then_some(stack)
    }

    /// Return addresses of a stack, innermost first. Empty for one that is not a stack or points
    /// outside.
    pub fn frames(&self, stack: &Stack) -> Frames<'a> {
        let is_stack = stack.flags & stack_flag::NOT_A_STACK == 0;
        let depth = if is_stack { stack.depth as usize } else { 0 };
        let first = stack.frames_at as usize;
        let rows = self.rows::<u64>(SectionKind::Frames);
        Frames {
            rows: rows.between(first, depth.min(DEPTH_MAX)),
        }
    }

    /// Why a stack is none ([`crate::stack_why`]), or `None` when it is one.
    pub fn why_no_stack(&self, stack: &Stack) -> Option<u64> {
        let none = stack.flags & stack_flag::NOT_A_STACK != 0;
        none.then(|| self.row(SectionKind::Frames, stack.frames_at).unwrap_or(0))
    }

    /// Roles in use, with their number.
    pub fn roles(&self) -> impl Iterator<Item = (u16, Role)> + 'a {
        let rows = self.rows::<Role>(SectionKind::Roles).enumerate();
        rows.filter(|(_, row)| row.state == 2)
            .map(|(at, row)| (at as u16, row))
    }

    /// What role `by` allocated and role `freed_by` freed.
    pub fn flow(&self, by: u16, freed_by: u16) -> Option<Flow> {
        let roles = crate::ROLES as u32;
        let inside = u32::from(by) < roles && u32::from(freed_by) < roles;
        inside.then(|| {
            self.row(
                SectionKind::Matrix,
                u32::from(by) * roles + u32::from(freed_by),
            )
        })?
    }

    /// Size classes from the smallest.
    pub fn classes(&self) -> Rows<'a, Class> {
        self.rows(SectionKind::Classes)
    }

    /// Latency buckets from the shortest.
    pub fn latencies(&self) -> Rows<'a, Latency> {
        self.rows(SectionKind::Latencies)
    }

    /// Objects that frames were seen in, those that are gone included.
    pub fn modules(&self) -> impl Iterator<Item = Module> + 'a {
        self.rows::<Module>(SectionKind::Modules)
            .filter(|row| row.start < row.end)
    }

    /// Mappings made by direct calls that still stand.
    pub fn regions(&self) -> impl Iterator<Item = Region> + 'a {
        self.rows::<Region>(SectionKind::Regions)
            .filter(|row| row.start != 0)
    }

    /// All rows ever used of a section.
    fn rows<T: Pod>(&self, kind: SectionKind) -> Rows<'a, T> {
        let section = self.section(kind);
        let start = section.offset as usize;
        let count = section.used.min(section.capacity) as usize;
        let end = start.saturating_add(count.saturating_mul(size_of::<T>()));
        Rows {
            bytes: self.bytes.get(start..end).unwrap_or(&[]),
            row: PhantomData,
        }
    }

    fn row<T: Pod>(&self, kind: SectionKind, row: u32) -> Option<T> {
        let section = self.section(kind);
        let at = section
            .offset
            .checked_add(u64::from(row) * size_of::<T>() as u64)?;
        (row < section.capacity).then(|| pod_at(self.bytes, at))?
    }

    fn section(&self, kind: SectionKind) -> Section {
        self.header.sections[kind as usize]
    }

    fn check_sections(&self) -> Result<(), Error> {
        for (kind, stride) in STRIDES {
            let section = self.section(kind);
            let length = u64::from(section.capacity) * u64::from(section.stride);
            let end = section.offset.checked_add(length);
            let inside = end.is_some_and(|end| end <= self.header.total_bytes);
            let behind = section.offset >= HEADER_BYTES as u64;
            let possible = section.capacity <= kind.rows_max();
            if section.stride as usize != stride || !inside || !behind || !possible {
                return Err(Error::Section { kind: kind as u32 });
            }
        }
        Ok(())
    }
}

const STRIDES: [(SectionKind, usize); 11] = [
    (SectionKind::Threads, size_of::<Thread>()),
    (SectionKind::SampleKeys, size_of::<u64>()),
    (SectionKind::Samples, size_of::<Sample>()),
    (SectionKind::Stacks, size_of::<Stack>()),
    (SectionKind::Frames, size_of::<u64>()),
    (SectionKind::Roles, size_of::<Role>()),
    (SectionKind::Matrix, size_of::<Flow>()),
    (SectionKind::Classes, size_of::<Class>()),
    (SectionKind::Latencies, size_of::<Latency>()),
    (SectionKind::Modules, size_of::<Module>()),
    (SectionKind::Regions, size_of::<Region>()),
];

/// Rows of a section, copied one by one.
#[derive(Clone)]
pub struct Rows<'a, T> {
    bytes: &'a [u8],
    row: PhantomData<T>,
}

impl<T: Pod> Rows<'_, T> {
    /// `count` rows from row `first`; none when they are not all there.
    fn between(self, first: usize, count: usize) -> Self {
        let start = first.saturating_mul(size_of::<T>());
        let end = start.saturating_add(count.saturating_mul(size_of::<T>()));
        Rows {
            bytes: self.bytes.get(start..end).unwrap_or(&[]),
            row: PhantomData,
        }
    }
}

impl<T: Pod> Iterator for Rows<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let row = pod_at(self.bytes, 0)?;
        self.bytes = &self.bytes[size_of::<T>()..];
        Some(row)
    }
}

/// Return addresses of one stack, innermost first.
#[derive(Clone)]
pub struct Frames<'a> {
    rows: Rows<'a, u64>,
}

impl Iterator for Frames<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.rows.next()
    }
}

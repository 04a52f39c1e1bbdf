//! The piece of code that an address is in: which it is, how large its frame is.

use super::layout::{CodeHeap, Layout, Place};
use crate::memory::Memory;

/// Steps in the map of segments, each over up to 254 of at least 64 bytes: more than the largest method takes.
const HOPS_MAX: usize = 512;
const NAME_BYTES: usize = 32;

/// A CodeBlob, as it was when it was read.
pub struct Blob {
    pub address: u64,
    pub kind: Kind,
    /// Where its code begins.
    pub code: u64,
    /// Of a frame, with return address and saved frame pointer, bytes.
    pub frame_bytes: u64,
    /// From here on the frame is complete, bytes from the beginning of the code; `None`: there is none.
    pub complete: Option<u64>,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a Java method, or what calls a native one.
    Compiled,
    Interpreter,
    /// What C++ enters Java through, and routines that are called from there.
    Stub,
    /// A routine of the runtime with a frame of its own.
    Runtime,
    /// Adapters and tables: no frame.
    Leaf,
}

impl Blob {
    pub fn around(memory: Memory, layout: &Layout, pc: u64) -> Option<Blob> {
        let mut heaps = layout.heaps.iter();
        let heap = heaps.find(|heap| (heap.low..heap.high).contains(&pc))?;
        let address = begin(memory, heap, pc)?.checked_add(heap.header_bytes)?;
        let of = &layout.blob;
        let mut bytes = vec![0; of.bytes];
        let count = memory.read(address, &mut bytes).ok()?;
        bytes.truncate(count);
        let size = u64::from(int(&bytes, of.size)?);
        if !(address..address.checked_add(size)?).contains(&pc) {
            return None;
        }
        let code = match of.code {
            Place::Address(at) => long(&bytes, at)?,
            Place::Offset(at) => address.checked_add(u64::from(int(&bytes, at)?))?,
        };
        let frame_bytes = 8 * u64::from(int(&bytes, of.frame_size)?);
        Some(Blob {
            kind: kind(memory, long(&bytes, of.name)?, frame_bytes),
            address,
            code,
            frame_bytes,
            complete: complete(&bytes, of.frame_complete),
            bytes,
        })
    }

    pub fn word(&self, at: usize) -> Option<u64> {
        long(&self.bytes, at)
    }

    pub fn int(&self, at: usize) -> Option<u32> {
        int(&self.bytes, at)
    }
}

/// The block that the address is in: the map has 0 for its first segment, and for each other one how many segments at
/// most lie between it and the first (`CodeHeap::find_block_for`).
fn begin(memory: Memory, heap: &CodeHeap, pc: u64) -> Option<u64> {
    const FREE: u8 = 0xff;
    let mut segment = (pc - heap.low) >> heap.log2_segment;
    for _ in 0..HOPS_MAX {
        let mut hop = [0];
        memory
            .read(heap.segments.checked_add(segment)?, &mut hop)
            .ok()?;
        match hop[0] {
            0 => return Some(heap.low + (segment << heap.log2_segment)),
            FREE => return None,
            back => segment = segment.checked_sub(u64::from(back))?,
        }
    }
    None
}

fn kind(memory: Memory, name: u64, frame_bytes: u64) -> Kind {
    let mut text = [0; NAME_BYTES];
    let count = memory.read(name, &mut text).unwrap_or(0);
    let name = text[..count].split(|byte| *byte == 0).next().unwrap_or(&[]);
    match name {
        b"nmethod" | b"native nmethod" => Kind::Compiled,
        b"Interpreter" => Kind::Interpreter,
        name if name.starts_with(b"StubRoutines") || name.starts_with(b"Stub Generator") => {
            Kind::Stub
        }
        _ if frame_bytes > 0 => Kind::Runtime,
        _ => Kind::Leaf,
    }
}

fn complete(bytes: &[u8], (at, is_short): (usize, bool)) -> Option<u64> {
    let offset = match is_short {
        true => i64::from(i16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)),
        false => i64::from(int(bytes, at)? as i32),
    };
    u64::try_from(offset).ok()
}

pub fn int(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub fn short(memory: Memory, address: u64) -> Option<u16> {
    let mut bytes = [0; 2];
    let count = memory.read(address, &mut bytes).ok()?;
    (count == 2).then(|| u16::from_le_bytes(bytes))
}

pub fn pointer(memory: Memory, address: u64, offset: usize) -> Option<u64> {
    memory
        .long(address.checked_add(offset as u64)?)
        .filter(|pointer| *pointer != 0)
}

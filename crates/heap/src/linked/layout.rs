//! What programs/heap.bpf.c and highwater share: maps, records, constants, and where the kernel keeps registers.

use std::io;

use bytemuck::{Pod, Zeroable};

use super::callers::{Callers, Go};
use super::functions::{Function, Role};
use bpf::btf::{Field, View};
use bpf::map::{Array, Hash, PerCpu, Ring};
use bpf::object::{self, Object};
use bpf::python::Walks;
use bpf::uprobes::entry::{ARGUMENTS, AT_ENTRY};
use observe::exits::ResultIn;

/// Draws from which the distance to the next sample is taken.
const DRAWS: u32 = 4096;
/// Bits behind the point of a draw, in units of the mean.
const DRAW_BITS: i32 = 16;
/// Functions of an allocator that the programs tell from its callers.
pub const FUNCTIONS_MAX: usize = 256;

/// Live samples; from three quarters of it on they are thinned.
pub const LIVE_MAX: u32 = 32_768;
/// Threads with a sampled call at a time.
const CALLS_MAX: u32 = 16_384;
/// 100 ms of samples at ten times the rate that is aimed at.
const RING_BYTES: u32 = 4 << 20;

/// Numbers of each CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Cpu {
    /// Bytes to the next sample, below zero at one.
    pub left: i64,
    pub hits: u64,
    pub samples: u64,
    /// Of the hits, those for which the kernel made a step.
    pub stepped: u64,
    /// Of the samples, those whose exit was seen.
    pub returned: u64,
    /// Of the hits, those where a block may be freed: at entries that are probed all along.
    pub frees: u64,
}

/// What is kept of a sampled call while it lasts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Call {
    pub return_address: u64,
    pub sp: u64,
    pub bytes: u64,
    pub mean: u64,
    pub place: u64,
    pub function: u64,
}

/// What each record begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Head {
    pub at_ns: u64,
    pub kind: u32,
    pub tid: u32,
    pub block: u64,
}

pub const GIVEN: u32 = 1;
pub const TAKEN: u32 = 2;
pub const GIVEN_BY_GO: u32 = 3;

/// What follows the head of a block that was given: as much of the stack as was copied comes behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct GivenBlock {
    pub bytes: u64,
    pub mean: u64,
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub function: u64,
    pub copied: u64,
}

/// Of the stack, in the record; frames of Python follow where there are any.
pub const STACK_BYTES: usize = 2_048;

/// What follows the stack of a thread that a goroutine called C on: its registers then. Its stack comes behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct GoStack {
    pub sp: u64,
    pub fp: u64,
    pub copied: u64,
}

/// Registers in the kernel's `struct pt_regs`, bytes.
#[cfg(target_arch = "x86_64")]
mod regs {
    pub const RESULT: i16 = 80;
    pub const PC: i16 = 128;
    pub const SP: i16 = 152;
    pub const FP: i16 = 32;
    /// There is none.
    pub const LINK: i16 = PC;
    pub const RETURNS_BY_STACK: u32 = 1;
}
#[cfg(target_arch = "aarch64")]
mod regs {
    pub const RESULT: i16 = 0;
    pub const PC: i16 = 256;
    pub const SP: i16 = 248;
    pub const FP: i16 = 232;
    pub const LINK: i16 = 240;
    pub const RETURNS_BY_STACK: u32 = 0;
}

/// Of the allocator's functions.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Range {
    start: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Family {
    functions: [Range; FUNCTIONS_MAX],
}

pub struct Maps {
    pub cpus: PerCpu<Cpu>,
    /// The mean distance of samples, bytes.
    pub mean: Array,
    /// 1 while the exits are probed; without them no call is sampled.
    pub sampling: Array,
    /// By thread.
    pub calls: Hash<u32, Call>,
    pub live: Hash<u64, u64>,
    pub ring: Ring,
    pub lost: Array,
    /// Where the process runs Python.
    pub python: Option<Walks>,
    /// Where it is a Go program that calls C.
    pub go: Option<Go>,
}

/// How much the maps hold.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Live samples.
    pub live: u32,
    /// Threads with a sampled call at a time.
    pub calls: u32,
    pub ring_bytes: u32,
}

/// For an allocator.
pub const ROOM: Room = Room {
    live: LIVE_MAX,
    calls: CALLS_MAX,
    ring_bytes: RING_BYTES,
};

/// The object of an allocator with these functions, and its maps.
///
/// # Errors
/// No right.
pub fn open(functions: &[Function], room: Room, callers: Callers) -> io::Result<(Object, Maps)> {
    let mut object = Object::parse(object::heap())?;
    object.set("FUNCTIONS", functions.len() as u32);
    object.set("RETURNS_BY_STACK", regs::RETURNS_BY_STACK);
    let mut family = Family::zeroed();
    for (range, function) in family.functions.iter_mut().zip(functions) {
        range.start = function.code.start;
        range.bytes = function.code.end - function.code.start;
    }
    Array::create(&mut object, "families")?.write(0, family);
    let asmcgocall = Array::create(&mut object, "asmcgocall")?;
    object.set("IS_CGO", callers.go.is_some().into());
    object.set("DEPTH_AT", callers.go.as_ref().map_or(1, |go| go.depth_at));
    if let Some(go) = &callers.go {
        let (start, bytes) = (go.asmcgocall.start, go.asmcgocall.end - go.asmcgocall.start);
        asmcgocall.write(0, Range { start, bytes });
    }
    let draws = Array::create(&mut object, "draws")?;
    for draw in 0..DRAWS {
        let even = (f64::from(draw) + 0.5) / f64::from(DRAWS);
        let far = -even.ln() * f64::from(1u32 << DRAW_BITS);
        draws.write(draw, far as u64);
    }
    let maps = Maps {
        cpus: PerCpu::create(&mut object, "cpus")?,
        mean: Array::create(&mut object, "mean")?,
        sampling: Array::create(&mut object, "sampling")?,
        calls: Hash::create(&mut object, "calls", room.calls)?,
        live: Hash::create(&mut object, "live", room.live)?,
        ring: Ring::create(&mut object, "ring", room.ring_bytes)?,
        lost: Array::create(&mut object, "lost")?,
        python: Walks::prepare(&mut object, callers.python)?,
        go: callers.go,
    };
    Ok((object, maps))
}

/// For the entry of one function.
pub fn set_entry(object: &mut Object, function: &Function) {
    let (role, calls_on) = match function.role {
        Role::Give { .. } => (0u32, false),
        Role::GiveMany { .. } => (1, false),
        Role::Again { calls_on, .. } => (2, calls_on),
        Role::GiveInto { .. } => (3, false),
        Role::Take { .. } => (4, false),
    };
    object.set("ROLE", role);
    object.set("CALLS_ON", calls_on.into());
    object.set("IS_STEPPED", (!function.is_emulated).into());
    object.view(view(function.role, &function.arguments, regs::RESULT));
}

/// For exits with the result in such a place.
pub fn set_exit(object: &mut Object, result: ResultIn, is_emulated: bool) {
    let result = match result {
        ResultIn::ReturnRegister => regs::RESULT,
        ResultIn::FirstArgument => AT_ENTRY[0],
    };
    object.set("IS_STEPPED", (!is_emulated).into());
    object.view(view(Role::Give { bytes: 0 }, &AT_ENTRY, result));
}

/// `struct registers`; what a role does not have may lie anywhere.
fn view(role: Role, arguments: &[i16; ARGUMENTS], result: i16) -> View {
    let (block, bytes, count, place) = match role {
        Role::Give { bytes } => (0, bytes, 0, 0),
        Role::GiveMany { count, bytes } => (0, bytes, count, 0),
        Role::Again { block, bytes, .. } => (block, bytes, 0, 0),
        Role::GiveInto { place, bytes } => (0, bytes, 0, place),
        Role::Take { block } => (block, 0, 0, 0),
    };
    let fields = [
        ("block", arguments[block]),
        ("bytes", arguments[bytes]),
        ("count", arguments[count]),
        ("place", arguments[place]),
        ("result", result),
        ("pc", regs::PC),
        ("sp", regs::SP),
        ("fp", regs::FP),
        ("link", regs::LINK),
    ];
    View {
        name: "registers",
        fields: fields
            .map(|(name, offset)| Field::word(name, offset))
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::python::PythonFrame;

    #[test]
    fn all_is_as_the_programs_have_it() {
        let object = Object::parse(object::heap()).unwrap();
        bpf::assert_layout!(
            object,
            "cpu",
            Cpu {
                left,
                hits,
                samples,
                stepped,
                returned,
                frees
            }
        );
        bpf::assert_layout!(
            object,
            "call",
            Call {
                return_address,
                sp,
                bytes,
                mean,
                place,
                function
            }
        );
        bpf::assert_layout!(object, "range", Range { start, bytes });
        bpf::assert_layout!(object, "family", Family { functions });
        bpf::assert_layout!(
            object,
            "taken",
            Head {
                at_ns,
                kind,
                tid,
                block
            }
        );
        let given = object.structure("given").unwrap();
        let names: Vec<&str> = given.fields.iter().map(|(name, _)| name.as_str()).collect();
        let head = ["at_ns", "kind", "tid", "block"];
        let rest = [
            "bytes", "mean", "pc", "sp", "fp", "function", "copied", "stack",
        ];
        assert_eq!(names, [&head[..], &rest[..]].concat());
        let stack = given.fields.last().unwrap().1 as usize;
        assert_eq!(stack, size_of::<Head>() + size_of::<GivenBlock>());
        let by_python = object.structure("given_by_python").unwrap();
        let frames = by_python.fields.last().unwrap().1 as usize;
        assert_eq!(frames, stack + STACK_BYTES);
        let bytes = bpf::python::FRAMES * size_of::<PythonFrame>();
        assert_eq!(by_python.bytes as usize, frames + bytes);
        let by_go = object.structure("given_by_go").unwrap();
        let go = by_go.fields.last().unwrap().1 as usize;
        assert_eq!(go, stack + STACK_BYTES);
        let end = go + size_of::<GoStack>() + STACK_BYTES;
        assert_eq!(by_go.bytes as usize, end);
        let names = object.structure("go_stack").unwrap().fields;
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["sp", "fp", "copied", "stack"]);
    }
}

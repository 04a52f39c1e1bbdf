//! Where the fields of CPython's structures are, by version.
//!
//! Offsets are of 64-bit release builds with the GIL, taken with `offsetof` from the headers of each version. A branch
//! that is released does not change them. What all versions have in the same place is a constant.

mod versions;

use observe::fact::memory::Memory;

/// Of every object.
pub const REFERENCES: u64 = 0;
pub const TYPE: u64 = 8;
/// Of an object with items: how many.
pub const SIZE: u64 = 16;
pub const OBJECT_BYTES: u64 = 16;
/// `PyGC_Head`, which stands before an object that the collector knows.
pub const GC_HEAD_BYTES: u64 = 16;

/// Of a type.
pub const TP_NAME: u64 = 24;
pub const TP_BASICSIZE: u64 = 32;
pub const TP_ITEMSIZE: u64 = 40;
pub const TP_FLAGS: u64 = 168;
pub const TP_MEMBERS: u64 = 240;
pub const TP_BASE: u64 = 256;
pub const TP_DICT: u64 = 264;
pub const TP_DICTOFFSET: u64 = 288;
/// Bytes of a type that are read at once.
pub const TYPE_BYTES: usize = 296;

/// Of `tp_flags`.
pub const INLINE_VALUES: u64 = 1 << 2;
pub const MANAGED_WEAKREF: u64 = 1 << 3;
pub const MANAGED_DICT: u64 = 1 << 4;
pub const HEAPTYPE: u64 = 1 << 9;
pub const READY: u64 = 1 << 12;
pub const HAVE_GC: u64 = 1 << 14;
pub const INT_SUBCLASS: u64 = 1 << 24;
pub const LIST_SUBCLASS: u64 = 1 << 25;
pub const TUPLE_SUBCLASS: u64 = 1 << 26;
pub const BYTES_SUBCLASS: u64 = 1 << 27;
pub const STR_SUBCLASS: u64 = 1 << 28;
pub const DICT_SUBCLASS: u64 = 1 << 29;
pub const TYPE_SUBCLASS: u64 = 1 << 31;

/// Of `struct _gc_runtime_state`.
pub const GC_ENABLED: u64 = 12;
pub const GC_GENERATIONS: u64 = 24;
pub const GC_GENERATION_BYTES: u64 = 24;
/// A pointer to the first generation, up to 3.13.
pub const GC_GENERATION0: u64 = 96;
/// Bytes of a reference that 3.14 marks where a frame only borrows it, and where it is a number.
pub const TAGS: u64 = 0b11;

/// Of a dict, a list, a set, a bytearray, an array.
pub const DICT_KEYS: u64 = 32;
pub const DICT_VALUES: u64 = 40;
pub const LIST_ITEMS: u64 = 24;
pub const LIST_ALLOCATED: u64 = 32;
pub const SET_MASK: u64 = 32;
pub const SET_TABLE: u64 = 40;
pub const SET_SMALL_TABLE: u64 = 64;
pub const BYTEARRAY_ALLOCATED: u64 = 24;
pub const BYTEARRAY_BUFFER: u64 = 32;
pub const ARRAY_ITEMS: u64 = 24;
pub const ARRAY_ALLOCATED: u64 = 32;
pub const ARRAY_DESCRIPTION: u64 = 40;
/// Of a string.
pub const STR_STATE: u64 = 32;
pub const MODULE_DICT: u64 = 16;
/// 3.11 and later, of a frame object: the frame.
pub const FRAME_OF_OBJECT: u64 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub minor: u8,
    pub micro: Option<u8>,
}

/// Offsets that differ between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub minor: u8,
    /// Of `_PyRuntime`: the first interpreter; in 3.8 also the collector.
    pub interpreters: u64,
    pub next_interpreter: u64,
    pub threads: u64,
    /// Of the interpreter (of `_PyRuntime` in 3.8).
    pub gc: u64,
    /// Of the collector's state: the objects that are never collected, the counts of collections, whether one runs.
    pub gc_permanent: u64,
    pub gc_stats: u64,
    pub gc_collecting: u64,
    /// Bytes of an interpreter's state that may refer to objects.
    pub interpreter_bytes: u64,
    pub next_thread: u64,
    /// Of a thread's state: its innermost frame, or (3.11, 3.12) what refers to it.
    pub thread_frame: u64,
    /// 3.11, 3.12: of `_PyCFrame`.
    pub current_frame: Option<u64>,
    pub thread_bytes: u64,
    pub thread_dict: u64,
    /// What `pthread_self` says there; behind it, since 3.11, the kernel's number of the thread.
    pub thread_id: u64,
    pub frame: FrameLayout,
    pub code: CodeLayout,
    pub function: FunctionLayout,
    /// Of a generator: its frame, or (up to 3.10) a pointer to it.
    pub generator_frame: u64,
    pub cached_keys: u64,
    pub qualified_name: u64,
    /// Of a tuple: its first item.
    pub tuple_items: u64,
    /// Of a string: bytes before the characters of one that is ASCII alone, of another, and of one whose characters are
    /// elsewhere.
    pub str_bytes: [u64; 3],
    /// Of a pool of small objects, and of an arena.
    pub pool_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    pub code: u64,
    pub previous: u64,
    pub locals: u64,
    /// Who has the memory of the frame; `None` up to 3.10, where frames are objects.
    pub owner: Option<u64>,
    /// The instruction that runs: a pointer to it, or (up to 3.10) its number.
    pub instruction: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLayout {
    pub names: u64,
    pub file: u64,
    pub name: u64,
    /// 3.11 and later.
    pub qualified_name: Option<u64>,
    pub first_line: u64,
    /// Which line each instruction is of: a bytes object.
    pub lines: u64,
    pub stack: u64,
    pub locals: u64,
    /// Tuples of the names of the slots, in order: one since 3.11.
    pub local_names: [u64; 3],
    /// Of the byte code, in 3.8 to 3.10 a bytes object.
    pub byte_code: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionLayout {
    pub code: u64,
    pub globals: u64,
    pub defaults: u64,
    pub keyword_defaults: u64,
    pub closure: u64,
    pub qualified_name: u64,
    pub module: u64,
}

/// Of `_Py_DebugOffsets`, which stands at the start of `_PyRuntime` since 3.13.
const COOKIE: &[u8; 8] = b"xdebugpy";
const DEBUG_FREE_THREADED: u64 = 16;
const DEBUG_INTERPRETERS: u64 = 40;
const DEBUG_NEXT_INTERPRETER: u64 = 64;
const DEBUG_THREADS: u64 = 72;

/// Where that table has what lies at another place in 3.14.
struct DebugTable {
    gc: u64,
    next_thread: u64,
    current_frame: u64,
}

const DEBUG_3_13: DebugTable = DebugTable {
    gc: 80,
    next_thread: 168,
    current_frame: 184,
};
const DEBUG_3_14: DebugTable = DebugTable {
    gc: 88,
    next_thread: 192,
    current_frame: 208,
};

impl Layout {
    /// `None`: a version that is not known.
    pub fn of(minor: u8) -> Option<Layout> {
        match minor {
            8 => Some(versions::LAYOUT_3_8),
            9 => Some(versions::LAYOUT_3_9),
            10 => Some(versions::LAYOUT_3_10),
            11 => Some(versions::LAYOUT_3_11),
            12 => Some(versions::LAYOUT_3_12),
            13 => Some(versions::LAYOUT_3_13),
            14 => Some(versions::LAYOUT_3_14),
            _ => None,
        }
    }

    /// With what the process itself says of its structures (3.13 and later).
    pub fn corrected(mut self, memory: &dyn Memory, runtime: u64) -> Layout {
        let Some(offsets) = debug_offsets(memory, runtime) else {
            return self;
        };
        let table = match self.minor {
            ..=13 => DEBUG_3_13,
            _ => DEBUG_3_14,
        };
        self.interpreters = offsets(DEBUG_INTERPRETERS).unwrap_or(self.interpreters);
        self.next_interpreter = offsets(DEBUG_NEXT_INTERPRETER).unwrap_or(self.next_interpreter);
        self.threads = offsets(DEBUG_THREADS).unwrap_or(self.threads);
        self.gc = offsets(table.gc).unwrap_or(self.gc);
        self.next_thread = offsets(table.next_thread).unwrap_or(self.next_thread);
        self.thread_frame = offsets(table.current_frame).unwrap_or(self.thread_frame);
        self
    }

    /// Whether instances may keep attributes in an array of their own instead of a dict.
    pub fn has_values(&self) -> bool {
        self.minor >= 11
    }

    /// The object that a frame refers to: without the bits by which 3.14 marks the reference.
    pub fn untagged(&self, reference: u64) -> u64 {
        match self.minor {
            ..=13 => reference,
            // A number, not a reference.
            _ if reference & TAGS == TAGS => 0,
            _ => reference & !TAGS,
        }
    }
}

/// Whether the process says that it runs without the GIL.
pub fn is_free_threaded(memory: &dyn Memory, runtime: u64) -> bool {
    let offsets = debug_offsets(memory, runtime);
    offsets.is_some_and(|offsets| offsets(DEBUG_FREE_THREADED).is_some())
}

/// Reads one number of the table; zero and what cannot be an offset are `None`.
fn debug_offsets(memory: &dyn Memory, runtime: u64) -> Option<impl Fn(u64) -> Option<u64>> {
    const OFFSET_MAX: u64 = 1 << 24;
    let cookie = memory.bytes(runtime, 8, 8)?;
    let is_there = cookie == COOKIE;
    let offset = move |at: u64| memory.u64(runtime.checked_add(at)?);
    is_there.then_some(move |at| offset(at).filter(|offset| (1..OFFSET_MAX).contains(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    #[test]
    fn the_process_corrects_the_table() {
        let mut bytes = vec![0; 512];
        bytes[..8].copy_from_slice(COOKIE);
        bytes[40..48].copy_from_slice(&640_u64.to_le_bytes());
        bytes[80..88].copy_from_slice(&u64::MAX.to_le_bytes());
        let made = Made { at: 0x1000, bytes };
        let layout = Layout::of(13).unwrap().corrected(&made, 0x1000);
        assert_eq!((layout.interpreters, layout.gc), (640, 7_400));
        assert!(!is_free_threaded(&made, 0x1000));
        assert_eq!(
            Layout::of(13).unwrap().corrected(&made, 8),
            versions::LAYOUT_3_13
        );
        let bytes = [&made.bytes[..88], &7_500_u64.to_le_bytes(), &[0; 400]].concat();
        let made = Made { at: 0x1000, bytes };
        assert_eq!(Layout::of(14).unwrap().corrected(&made, 0x1000).gc, 7_500);
        assert_eq!((Layout::of(7), Layout::of(15)), (None, None));
    }

    #[test]
    fn references_of_frames_have_tags_since_3_14() {
        let untagged = |minor, reference| Layout::of(minor).unwrap().untagged(reference);
        assert_eq!(untagged(13, 0x7001), 0x7001);
        assert_eq!(untagged(14, 0x7001), 0x7000);
        assert_eq!(untagged(14, 0x7003), 0);
    }
}

//! Bytes of an object, with the buffers that it owns alone.

use observe::fact::memory::Memory;

use super::dict;
use super::heap::Heap;
use super::layout::{
    ARRAY_ALLOCATED, ARRAY_DESCRIPTION, ARRAY_ITEMS, BYTEARRAY_ALLOCATED, BYTEARRAY_BUFFER,
    DICT_KEYS, GC_HEAD_BYTES, HEAPTYPE, INLINE_VALUES, LIST_ALLOCATED, LIST_ITEMS, MANAGED_DICT,
    MANAGED_WEAKREF, OBJECT_BYTES, SET_MASK, SET_SMALL_TABLE, SET_TABLE, SIZE, STR_STATE,
};
use super::text::parse_state;
use super::types::{Kind, TypeInfo};

/// No object is larger than this, and than all memory that the program may write.
const BYTES_MAX: u64 = 1 << 40;
/// An object in memory that was mapped after the areas were read, or that has grown since: at most.
const UNSEEN_BYTES_MAX: u64 = 1 << 30;
/// From here on the end of an object is checked.
const CHECKED_BYTES_MIN: u64 = 4_096;

/// Bytes of the object, its header for the collector, and its own buffers.
pub fn bytes(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    let own = own(heap, object, info);
    let buffers = buffers(heap, object, info);
    let buffers = if buffers < CHECKED_BYTES_MIN || buffers <= heap.writable_bytes {
        buffers
    } else {
        0
    };
    own + before(heap, info, object) + buffers + values_apart(heap, object, info)
}

/// From the start of the object to its end.
pub fn own(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    let own = match info.kind {
        Kind::Str => str_bytes(heap, object, info),
        Kind::Int => int_bytes(heap, object, info),
        Kind::Generator if heap.layout().minor >= 11 => {
            info.basic_bytes + frame_slots(heap, object) * 8
        }
        // The size of a frame is in its code.
        Kind::Frame if heap.layout().minor >= 11 => info.basic_bytes,
        _ => info.basic_bytes + items(heap, object, info) + values_inside(heap, object, info),
    };
    if is_mapped(heap, object, own) {
        own
    } else {
        info.basic_bytes
    }
}

fn believed(bytes: u64) -> u64 {
    if bytes < BYTES_MAX { bytes } else { 0 }
}

/// Whether something large lies in memory that the program may write. What is small, as most objects, is not checked.
fn is_mapped(heap: &Heap, start: u64, bytes: u64) -> bool {
    bytes < CHECKED_BYTES_MIN
        || heap.pages.source().areas.holds(start, bytes)
        || bytes <= UNSEEN_BYTES_MAX && heap.pages.word(start.wrapping_add(bytes - 8)).is_some()
}

/// What stands before the object: the collector's header, and since 3.11 two words for attributes and weak references.
pub fn before(heap: &Heap, info: &TypeInfo, object: u64) -> u64 {
    // A static type is no object of the collector's, other than the types that are made at run time.
    let is_static = info.kind == Kind::Type
        && heap
            .pages
            .word(object.wrapping_add(super::layout::TP_FLAGS))
            .is_some_and(|flags| flags & HEAPTYPE == 0);
    let head = if info.is_tracked() && !is_static {
        GC_HEAD_BYTES
    } else {
        0
    };
    let managed = match heap.layout().minor {
        ..=10 => false,
        11 => info.has(MANAGED_DICT),
        _ => info.has(MANAGED_DICT | MANAGED_WEAKREF),
    };
    head + if managed { 16 } else { 0 }
}

fn items(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    if info.item_bytes == 0 {
        return 0;
    }
    let count = heap.pages.word(object.wrapping_add(SIZE)).unwrap_or(0);
    believed(
        count
            .cast_signed()
            .unsigned_abs()
            .saturating_mul(info.item_bytes),
    )
}

fn buffers(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    let word = |offset: u64| heap.pages.word(object.wrapping_add(offset)).unwrap_or(0);
    match info.kind {
        Kind::List => {
            let bytes = word(LIST_ALLOCATED).saturating_mul(8);
            mapped(heap, word(LIST_ITEMS), bytes)
        }
        Kind::ByteArray => mapped(heap, word(BYTEARRAY_BUFFER), word(BYTEARRAY_ALLOCATED)),
        Kind::Dict => {
            let embedded = dict::is_embedded(&heap.pages, heap.layout(), object);
            let bytes = dict::table_bytes(&heap.pages, heap.layout(), object, embedded);
            // The values of a table that is shared are few, and elsewhere.
            mapped(heap, word(DICT_KEYS), bytes)
        }
        Kind::Set if word(SET_TABLE) != object.wrapping_add(SET_SMALL_TABLE) => {
            let bytes = word(SET_MASK).saturating_add(1).saturating_mul(16);
            mapped(heap, word(SET_TABLE), bytes)
        }
        Kind::Deque => deque_bytes(word(SIZE), word(40)),
        Kind::Array => {
            // {char typecode; int itemsize; ...}
            let item = heap
                .pages
                .u32(word(ARRAY_DESCRIPTION).wrapping_add(4))
                .unwrap_or(0);
            let bytes = word(ARRAY_ALLOCATED).saturating_mul(u64::from(item).min(16));
            mapped(heap, word(ARRAY_ITEMS), bytes)
        }
        Kind::Type => heap.cached_keys_of_type(object),
        _ => 0,
    }
}

/// Bytes of a buffer; zero: it does not lie in memory.
fn mapped(heap: &Heap, start: u64, bytes: u64) -> u64 {
    if is_mapped(heap, start, bytes) {
        bytes
    } else {
        0
    }
}

/// Blocks of 64 items and two pointers; an empty deque has one.
fn deque_bytes(length: u64, first: u64) -> u64 {
    const BLOCK_BYTES: u64 = 66 * 8;
    let blocks = length.saturating_add(first.min(63)).div_ceil(64).max(1);
    blocks.saturating_mul(BLOCK_BYTES)
}

fn str_bytes(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    let state = heap.pages.u32(object.wrapping_add(STR_STATE)).unwrap_or(0);
    let state = parse_state(state);
    let length = heap.pages.word(object.wrapping_add(SIZE)).unwrap_or(0);
    let letters = believed(length.saturating_add(1).saturating_mul(state.width));
    let [ascii, others, _] = heap.layout().str_bytes;
    match (state.is_compact, state.is_ascii) {
        (true, true) => ascii + letters,
        (true, false) => others + letters,
        (false, _) => info.basic_bytes + letters,
    }
}

/// Digits of 30 bits.
fn int_bytes(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    let word = heap.pages.word(object.wrapping_add(SIZE)).unwrap_or(0);
    let digits = match heap.layout().minor {
        ..=11 => word.cast_signed().unsigned_abs(),
        _ => (word >> 3).max(1),
    };
    believed(info.basic_bytes.min(24).max(info.basic_bytes & !7) + digits.min(1 << 32) * 4)
}

fn frame_slots(heap: &Heap, generator: u64) -> u64 {
    let layout = heap.layout();
    let frame = generator.wrapping_add(layout.generator_frame);
    let Some(code) = heap.code_of_frame(frame) else {
        return 0;
    };
    let stack = heap
        .pages
        .u32(code.wrapping_add(layout.code.stack))
        .unwrap_or(0);
    let count = heap.local_count(code);
    if count == 0 {
        0
    } else {
        count + u64::from(stack.min(4_096))
    }
}

/// Values that an instance keeps in an array of its own (3.11, 3.12).
fn values_apart(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    if !info.has(MANAGED_DICT) || !matches!(heap.layout().minor, 11 | 12) {
        return 0;
    }
    let values = heap.managed(object, info).values;
    let bytes = |values, keys| dict::values_bytes(&heap.pages, heap.layout(), &keys, values);
    values
        .and_then(|values| heap.shared_keys(info).map(|keys| bytes(values, keys)))
        .unwrap_or(0)
}

/// Values that are part of the instance, used or not (3.13).
fn values_inside(heap: &Heap, object: u64, info: &TypeInfo) -> u64 {
    if !info.has(INLINE_VALUES) || heap.layout().minor < 13 {
        return 0;
    }
    let inside = object.wrapping_add(OBJECT_BYTES);
    let keys = heap.shared_keys(info);
    keys.map_or(0, |keys| {
        dict::values_bytes(&heap.pages, heap.layout(), &keys, inside)
    })
}

impl Heap<'_> {
    /// Bytes of the table of keys that the instances of a class share: it belongs to the class.
    fn cached_keys_of_type(&self, of_type: u64) -> u64 {
        let flags = self
            .pages
            .word(of_type.wrapping_add(super::layout::TP_FLAGS))
            .unwrap_or(0);
        let keys = self.pages.pointer(of_type, self.layout().cached_keys);
        let keys = keys.filter(|_| flags & HEAPTYPE != 0);
        let keys = keys.and_then(|keys| dict::Keys::read(&self.pages, self.layout(), keys));
        keys.map_or(0, |keys| keys.bytes())
    }
}

//! The structures of HotSpot that a walk reads, as the process itself describes them.

use super::tables::{Tables, published};
use crate::memory::Memory;

const TYPES: [&str; 19] = [
    "Abstract_VM_Version",
    "CodeBlob",
    "CodeCache",
    "CodeHeap",
    "CompiledMethod",
    "ConstMethod",
    "ConstantPool",
    "GenericGrowableArray",
    "GrowableArray<int>",
    "GrowableArrayBase",
    "HeapBlock",
    "HeapBlock::Header",
    "InstanceKlass",
    "Klass",
    "Method",
    "PcDesc",
    "Symbol",
    "VirtualSpace",
    "nmethod",
];
/// Code heaps: three where the code cache is segmented.
const HEAPS_MAX: usize = 16;
/// From this version on no byte of a compressed number is zero (JDK-8292758).
const WITHOUT_ZEROS: u32 = 20;

/// What is read of a process's HotSpot.
#[derive(Debug)]
pub struct Layout {
    pub heaps: Vec<CodeHeap>,
    /// Of code that the JVM makes.
    pub low: u64,
    pub high: u64,
    pub blob: BlobLayout,
    pub pc_desc: PcDescLayout,
    pub method: MethodLayout,
    /// Compressed numbers have no byte of zero.
    pub without_zeros: bool,
}

/// A part of the code cache.
#[derive(Debug, Clone, Copy)]
pub struct CodeHeap {
    pub low: u64,
    pub high: u64,
    pub segments: u64,
    pub log2_segment: u32,
    pub header_bytes: u64,
}

/// Offsets in CodeBlob and nmethod.
#[derive(Debug, Clone)]
pub struct BlobLayout {
    /// What is read of a blob at once.
    pub bytes: usize,
    pub name: usize,
    pub size: usize,
    pub frame_size: usize,
    pub frame_complete: (usize, bool),
    pub code: Place,
    pub method: usize,
    pub scopes: Option<ScopesLayout>,
}

/// Where something begins: at an address that is in a field, or at an offset from the blob that is in one.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Address(usize),
    Offset(usize),
}

/// Where an nmethod has its PcDescs, its scopes and its metadata.
#[derive(Debug, Clone)]
pub enum ScopesLayout {
    /// All of it in the blob: JDK 11 to 22.
    Inside {
        pcs: usize,
        pcs_end: usize,
        data: usize,
        metadata: usize,
    },
    /// JDK 23 and later.
    Apart {
        immutable: usize,
        pcs: usize,
        data: usize,
        /// Mutable data, and the bytes of relocations at its beginning; metadata follow.
        mutable: Option<(usize, usize)>,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct PcDescLayout {
    pub bytes: usize,
    pub pc: usize,
    pub scope: usize,
}

/// Offsets in Method, ConstMethod, ConstantPool, Klass and Symbol.
#[derive(Debug, Clone)]
pub struct MethodLayout {
    pub const_method: usize,
    pub constants: usize,
    pub code_size: usize,
    pub name_index: usize,
    pub const_method_bytes: usize,
    pub flags: usize,
    pub pool_holder: usize,
    pub pool_bytes: usize,
    pub source_file: Option<SourceFile>,
    pub klass_name: usize,
    pub symbol_length: usize,
    pub symbol_body: usize,
}

/// Where the index of a class's file is.
#[derive(Debug, Clone, Copy)]
pub enum SourceFile {
    InPool(usize),
    /// JDK 11.
    InClass(usize),
}

impl Layout {
    /// `None`: no HotSpot, one that has not begun yet, or one that describes itself in another way.
    pub fn of(pid: u32) -> Option<Layout> {
        let memory = Memory { pid };
        let tables = published(pid, &TYPES)?;
        let major = tables
            .address("Abstract_VM_Version", "_vm_major_version")
            .and_then(|at| memory.word(at))?;
        let bound = |field: &str| memory.long(tables.address("CodeCache", field)?);
        Some(Layout {
            heaps: code_heaps(memory, &tables)?,
            low: bound("_low_bound")?,
            high: bound("_high_bound")?,
            blob: BlobLayout::of(&tables)?,
            pc_desc: PcDescLayout {
                bytes: tables.size("PcDesc")?,
                pc: tables.offset("PcDesc", "_pc_offset")?,
                scope: tables.offset("PcDesc", "_scope_decode_offset")?,
            },
            method: MethodLayout::of(&tables)?,
            without_zeros: major >= WITHOUT_ZEROS,
        })
    }
}

impl BlobLayout {
    fn of(tables: &Tables) -> Option<BlobLayout> {
        let blob = |field: &str| tables.offset("CodeBlob", field);
        let nmethod = |field: &str| {
            let compiled = tables.offset("CompiledMethod", field);
            tables.offset("nmethod", field).or(compiled)
        };
        let address = blob("_code_begin").map(Place::Address);
        let offset = || blob("_code_offset").map(Place::Offset);
        let inside = || {
            Some(ScopesLayout::Inside {
                pcs: nmethod("_scopes_pcs_offset")?,
                pcs_end: nmethod("_dependencies_offset")?,
                data: nmethod("_scopes_data_begin")?,
                metadata: nmethod("_metadata_offset")?,
            })
        };
        let apart = || {
            Some(ScopesLayout::Apart {
                immutable: nmethod("_immutable_data")?,
                pcs: nmethod("_scopes_pcs_offset")?,
                data: nmethod("_scopes_data_offset")?,
                mutable: blob("_mutable_data").zip(blob("_relocation_size")),
            })
        };
        Some(BlobLayout {
            bytes: tables.size("CodeBlob")?.max(tables.size("nmethod")?),
            name: blob("_name")?,
            size: blob("_size")?,
            frame_size: blob("_frame_size")?,
            // Two bytes where the code's beginning is an offset.
            frame_complete: (blob("_frame_complete_offset")?, address.is_none()),
            code: address.or_else(offset)?,
            method: nmethod("_method")?,
            scopes: inside().or_else(apart),
        })
    }
}

impl MethodLayout {
    fn of(tables: &Tables) -> Option<MethodLayout> {
        let of_const = |field: &str| tables.offset("ConstMethod", field);
        let source_file = |of: &str| tables.offset(of, "_source_file_name_index");
        Some(MethodLayout {
            const_method: tables.offset("Method", "_constMethod")?,
            constants: of_const("_constants")?,
            code_size: of_const("_code_size")?,
            name_index: of_const("_name_index")?,
            const_method_bytes: tables.size("ConstMethod")?,
            flags: of_const("_flags").or_else(|| of_const("_flags._flags"))?,
            pool_holder: tables.offset("ConstantPool", "_pool_holder")?,
            pool_bytes: tables.size("ConstantPool")?,
            source_file: source_file("ConstantPool")
                .map(SourceFile::InPool)
                .or_else(|| source_file("InstanceKlass").map(SourceFile::InClass)),
            klass_name: tables.offset("Klass", "_name")?,
            symbol_length: tables.offset("Symbol", "_length")?,
            symbol_body: tables.offset("Symbol", "_body")?,
        })
    }
}

fn code_heaps(memory: Memory, tables: &Tables) -> Option<Vec<CodeHeap>> {
    let list = memory.long(tables.address("CodeCache", "_heaps")?)?;
    let length = tables
        .offset("GrowableArrayBase", "_len")
        .or_else(|| tables.offset("GenericGrowableArray", "_len"))?;
    let data = tables.offset("GrowableArray<int>", "_data")?;
    let count = memory.word(list.checked_add(length as u64)?)? as usize;
    let items = memory.long(list.checked_add(data as u64)?)?;
    let of_heap = |field: &str| Some(tables.offset("CodeHeap", field)? as u64);
    let of_space = |field: &str| Some(tables.offset("VirtualSpace", field)? as u64);
    let heap = |index: usize| {
        let heap = memory.long(items.checked_add(8 * index as u64)?)?;
        let at = |offset: u64| memory.long(heap.checked_add(offset)?);
        let log2 = heap.checked_add(of_heap("_log2_segment_size")?)?;
        Some(CodeHeap {
            low: at(of_heap("_memory")? + of_space("_low_boundary")?)?,
            high: at(of_heap("_memory")? + of_space("_high_boundary")?)?,
            segments: at(of_heap("_segmap")? + of_space("_low_boundary")?)?,
            log2_segment: memory.word(log2).filter(|log2| (4..=20).contains(log2))?,
            header_bytes: tables.size("HeapBlock")? as u64,
        })
    };
    (0..count.min(HEAPS_MAX)).map(heap).collect()
}

//! Where HotSpot has what a reading needs, as libjvm.so publishes it (`vmStructs.cpp`), JDK 11 to 25.

use observe::fact::memory::Memory;
use symbols::hotspot::Tables;

use super::flags::Flags;
use super::spaces::Parts;

const TYPES: [&str; 47] = [
    "ClassLoaderData",
    "ClassLoaderDataGraph",
    "CollectedHeap",
    "CompressedKlassPointers",
    "CompressedOops",
    "ConstMethod",
    "ConstantPool",
    "ConstantPoolCache",
    "ConstantPoolCacheEntry",
    "ContiguousSpace",
    "DefNewGeneration",
    "G1CollectedHeap",
    "G1ContiguousSpace",
    "G1HeapRegion",
    "G1HeapRegionManager",
    "G1HeapRegionTable",
    "GenCollectedHeap",
    "HeapRegion",
    "HeapRegionManager",
    "ImmutableSpace",
    "InstanceKlass",
    "JNIHandleBlock",
    "JNIHandles",
    "JavaFrameAnchor",
    "JavaThread",
    "Klass",
    "MemRegion",
    "Method",
    "MutableSpace",
    "OopStorage",
    "PSOldGen",
    "PSYoungGen",
    "ParallelScavengeHeap",
    "ResolvedFieldEntry",
    "ResolvedMethodEntry",
    "SerialHeap",
    "ShenandoahHeap",
    "ShenandoahHeapRegion",
    "Space",
    "Symbol",
    "TenuredGeneration",
    "Thread",
    "Threads",
    "ThreadsList",
    "ThreadsSMRSupport",
    "Universe",
    "java_lang_Class",
];
/// Of `_fields` before JDK 21, six numbers of two bytes a field (`fieldInfo.hpp`).
pub const FIELD_SLOTS: u64 = 6;
/// Objects are numbered by their place in units of eight bytes.
const HEAP_BYTES_MAX: u64 = 32 << 30;

/// Offsets in bytes, unless a field says more.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What the heap may extend over: first address, and the one behind the last.
    pub heap: (u64, u64),
    pub parts: Parts,
    pub collections: Collections,
    /// Of references in objects, where they have four bytes.
    pub oops: Option<Narrow>,
    pub header: Header,
    pub klass: Klass,
    pub instance: Instance,
    pub loader: Loader,
    pub mirror: Mirror,
    pub symbol: Symbol,
    pub pool: Pool,
    pub method: Method,
    pub threads: Threads,
    /// Address of the pointer to the storage of global JNI handles.
    pub global_handles: Option<u64>,
}

/// Addresses of what shows that the JVM collects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Collections {
    /// Their number, four bytes.
    pub count: u64,
    /// One byte: one is going on.
    pub is_active: Option<u64>,
}

/// Base and shift of compressed pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrow {
    pub base: u64,
    pub shift: u32,
}

/// Where an object has its class.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    /// A whole pointer behind the mark word.
    Wide,
    Narrow(Narrow),
    /// In the upper 22 bits of the mark word (JEP 450).
    InMark(Narrow),
}

impl Header {
    /// Where an array has its length.
    pub fn length_at(self) -> u64 {
        match self {
            Header::Wide => 16,
            Header::Narrow(_) => 12,
            Header::InMark(_) => 8,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Klass {
    pub layout_helper: u64,
    pub name: u64,
    pub super_class: u64,
    pub mirror: u64,
    pub next: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Instance {
    pub fields: Fields,
    pub constants: u64,
    pub methods: u64,
}

/// How a class has its fields.
#[derive(Debug, Clone, Copy)]
pub enum Fields {
    /// JDK 11 to 20: an array of two-byte numbers, and how many fields are Java's.
    Slots { at: u64, count_at: u64 },
    /// Compressed numbers.
    Stream { at: u64 },
}

#[derive(Debug, Clone, Copy)]
pub struct Loader {
    /// Address of the first one.
    pub head: u64,
    pub next: u64,
    pub classes: u64,
    pub object: u64,
}

/// Of a java.lang.Class.
#[derive(Debug, Clone, Copy)]
pub struct Mirror {
    pub klass: u64,
    /// Words that the object has.
    pub size: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    pub length: u64,
    pub body: u64,
}

/// Of a constant pool and its cache.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    pub bytes: u64,
    pub length: u64,
    pub cache: u64,
    pub references: u64,
    pub fields: Entries,
    pub methods: Entries,
}

/// Where the index in a bytecode leads to the one in the constant pool: an entry has so many bytes, and the index is
/// there.
#[derive(Debug, Clone, Copy)]
pub enum Entries {
    /// In a table behind the cache, which begins there.
    Inside { begin: u64, bytes: u64, index: u64 },
    /// In an array of their own, to which a pointer is there in the cache.
    Apart { array: u64, bytes: u64, index: u64 },
}

#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub const_method: u64,
    pub code_size: u64,
    pub const_method_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Threads {
    pub list: ThreadList,
    pub object: u64,
    pub stack_base: u64,
    pub stack_bytes: u64,
    /// Of the innermost frame of Java, while the thread is outside of Java: stack pointer, pc and frame pointer.
    pub last_java: [u64; 3],
    pub handles: Option<Handles>,
}

#[derive(Debug, Clone, Copy)]
pub enum ThreadList {
    /// Address of the first one, and where each has the next.
    Linked { first: u64, next: u64 },
    /// Address of the pointer to the list; length and threads in it.
    Array {
        list: u64,
        length: u64,
        threads: u64,
    },
}

/// Blocks of local JNI handles: where a thread has the first one; number and next in a block.
#[derive(Debug, Clone, Copy)]
pub struct Handles {
    pub at: u64,
    pub top: u64,
    pub next: u64,
}

impl Layout {
    /// An error says in words why the heap cannot be read.
    pub fn of(pid: u32, memory: &dyn Memory, libjvm: u64) -> Result<Layout, String> {
        let tables = symbols::hotspot::published(pid, &TYPES)
            .ok_or("the JVM does not publish its structures, or has not started yet")?;
        let flags = Flags::read(memory, libjvm)?;
        let found = Layout::from(&tables, memory, flags);
        let found = found.ok_or("the JVM publishes its structures in a way that is not known")?;
        let bytes = found.heap.1 - found.heap.0;
        match bytes <= HEAP_BYTES_MAX {
            true => Ok(found),
            false => Err("the heap may extend over more than 32 GiB".to_owned()),
        }
    }

    fn from(tables: &Tables, memory: &dyn Memory, flags: Flags) -> Option<Layout> {
        let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
        let narrow = |of: &str, field: &str| narrow(tables, memory, of, field);
        let heap = memory.u64(tables.address("Universe", "_collectedHeap")?)?;
        let parts = Parts::of(tables, flags.collector, heap)?;
        let reserved = heap.checked_add(at("CollectedHeap", "_reserved")?)?;
        let region = |field: &str| memory.u64(reserved.checked_add(at("MemRegion", field)?)?);
        let (start, words) = (region("_start")?, region("_word_size")?);
        let end = start.checked_add(words.checked_mul(8)?)?;
        let of_heap = |field: &str| heap.checked_add(at("CollectedHeap", field)?);
        let classes = || narrow("CompressedKlassPointers", "_narrow_klass.");
        let number = |field: &str| {
            let value = memory.u32(tables.address("java_lang_Class", field)?)?;
            (1..4_096).contains(&value).then_some(u64::from(value))
        };
        Some(Layout {
            heap: (start != 0 && start.is_multiple_of(8)).then_some((start, end))?,
            parts,
            collections: Collections {
                count: of_heap("_total_collections")?,
                is_active: of_heap("_is_gc_active").or_else(|| of_heap("_is_stw_gc_active")),
            },
            oops: match flags.has_narrow_oops {
                true => Some(narrow("CompressedOops", "_narrow_oop.")?),
                false => None,
            },
            header: match (flags.has_compact_headers, flags.has_narrow_classes) {
                (true, _) => Header::InMark(classes()?),
                (_, true) => Header::Narrow(classes()?),
                _ => Header::Wide,
            },
            klass: klass(tables)?,
            instance: instance(tables)?,
            loader: Loader {
                head: tables.address("ClassLoaderDataGraph", "_head")?,
                next: at("ClassLoaderData", "_next")?,
                classes: at("ClassLoaderData", "_klasses")?,
                object: at("ClassLoaderData", "_class_loader")?,
            },
            mirror: Mirror {
                klass: number("_klass_offset")?,
                size: number("_oop_size_offset")?,
            },
            symbol: Symbol {
                length: at("Symbol", "_length")?,
                body: at("Symbol", "_body")?,
            },
            pool: pool(tables)?,
            method: Method {
                const_method: at("Method", "_constMethod")?,
                code_size: at("ConstMethod", "_code_size")?,
                const_method_bytes: tables.size("ConstMethod")? as u64,
            },
            threads: threads(tables)?,
            global_handles: tables.address("JNIHandles", "_global_handles"),
        })
    }
}

/// Base and shift, which are variables of the class `of`, and before JDK 13 of Universe.
fn narrow(tables: &Tables, memory: &dyn Memory, of: &str, field: &str) -> Option<Narrow> {
    let pair = |of: &str, field: &str| {
        let base = tables.address(of, &format!("{field}_base"))?;
        Some((base, tables.address(of, &format!("{field}_shift"))?))
    };
    let found = pair(of, field).or_else(|| pair(of, ""));
    let (base, shift) = found.or_else(|| pair("Universe", field))?;
    Some(Narrow {
        base: memory.u64(base)?,
        shift: memory.u32(shift).filter(|shift| *shift <= 16)?,
    })
}

fn klass(tables: &Tables) -> Option<Klass> {
    let at = |field: &str| Some(tables.offset("Klass", field)? as u64);
    Some(Klass {
        layout_helper: at("_layout_helper")?,
        name: at("_name")?,
        super_class: at("_super")?,
        mirror: at("_java_mirror")?,
        next: at("_next_link")?,
    })
}

fn instance(tables: &Tables) -> Option<Instance> {
    let at = |field: &str| Some(tables.offset("InstanceKlass", field)? as u64);
    let slots = || {
        Some(Fields::Slots {
            at: at("_fields")?,
            count_at: at("_java_fields_count")?,
        })
    };
    let stream = at("_fieldinfo_stream").map(|at| Fields::Stream { at });
    Some(Instance {
        fields: stream.or_else(slots)?,
        constants: at("_constants")?,
        methods: at("_methods")?,
    })
}

fn pool(tables: &Tables) -> Option<Pool> {
    let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
    let size = |of: &str| Some(tables.size(of)? as u64);
    let apart = |field: &str, of: &str| {
        Some(Entries::Apart {
            array: at("ConstantPoolCache", field)?,
            bytes: size(of)?,
            index: at(of, "_cpool_index")?,
        })
    };
    let inside = || {
        Some(Entries::Inside {
            begin: size("ConstantPoolCache")?,
            bytes: size("ConstantPoolCacheEntry")?,
            index: at("ConstantPoolCacheEntry", "_indices")?,
        })
    };
    // Both in the cache's table up to JDK 21, fields apart from 22 on, methods from 23 on.
    let fields = apart("_resolved_field_entries", "ResolvedFieldEntry");
    let methods = apart("_resolved_method_entries", "ResolvedMethodEntry");
    Some(Pool {
        bytes: size("ConstantPool")?,
        length: at("ConstantPool", "_length")?,
        cache: at("ConstantPool", "_cache")?,
        references: at("ConstantPoolCache", "_resolved_references")?,
        fields: fields.or_else(inside)?,
        methods: methods.or_else(inside)?,
    })
}

fn threads(tables: &Tables) -> Option<Threads> {
    let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
    let of_thread = |field: &str| at("JavaThread", field).or_else(|| at("Thread", field));
    let anchor = |field: &str| {
        let anchor = at("JavaThread", "_anchor")?;
        anchor.checked_add(at("JavaFrameAnchor", field)?)
    };
    let array = || {
        Some(ThreadList::Array {
            list: tables.address("ThreadsSMRSupport", "_java_thread_list")?,
            length: at("ThreadsList", "_length")?,
            threads: at("ThreadsList", "_threads")?,
        })
    };
    let linked = || {
        Some(ThreadList::Linked {
            first: tables.address("Threads", "_thread_list")?,
            next: at("JavaThread", "_next")?,
        })
    };
    let handles = || {
        Some(Handles {
            at: of_thread("_active_handles")?,
            top: at("JNIHandleBlock", "_top")?,
            next: at("JNIHandleBlock", "_next")?,
        })
    };
    Some(Threads {
        list: array().or_else(linked)?,
        object: at("JavaThread", "_threadObj")?,
        stack_base: of_thread("_stack_base")?,
        stack_bytes: of_thread("_stack_size")?,
        last_java: [
            anchor("_last_Java_sp")?,
            anchor("_last_Java_pc")?,
            anchor("_last_Java_fp")?,
        ],
        handles: handles(),
    })
}

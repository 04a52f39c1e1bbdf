//! Whether a loaded object defines a symbol, or refers to one: read in its tables.
//!
//! A look-up by dlsym that fails allocates its error on the subject's heap, and what the program allocates afterwards
//! lies elsewhere than without the probe.

use std::ffi::{CStr, c_int, c_void};

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// One entry of a dynamic section: `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// Which objects are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Those that stand behind this library in the order of look-ups.
    Next,
    /// All but this library.
    Others,
}

struct Search<'a> {
    name: &'a CStr,
    among: Among,
    has_passed_us: bool,
    is_found: bool,
}

/// True when one of the objects defines the name, or one of them cannot be asked.
pub fn may_exist(among: Among, name: &CStr) -> bool {
    let mut search = Search {
        name,
        among,
        has_passed_us: false,
        is_found: false,
    };
    // SAFETY: the callback's data is the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(ask), (&raw mut search).cast()) };
    search.is_found || (among == Among::Next && !search.has_passed_us)
}

/// Whether an object has no table in which names can be looked up here, so that it may or may not define any.
pub fn is_any_unreadable() -> bool {
    // No object defines a symbol without a name.
    may_exist(Among::Others, c"")
}

unsafe extern "C" fn ask(info: *mut libc::dl_phdr_info, _bytes: usize, data: *mut c_void) -> c_int {
    // SAFETY: both are the caller's for the time of the call; the headers belong to a loaded object.
    let (search, bias, headers) = unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum as usize);
        (&mut *data.cast::<Search>(), (*info).dlpi_addr, headers)
    };
    if holds(headers, bias, (&raw const OURS) as u64) {
        search.has_passed_us = true;
        return 0;
    }
    if search.among == Among::Next && !search.has_passed_us {
        return 0;
    }
    // SAFETY: a loaded object.
    let is_found = unsafe { Tables::of(headers, bias) }
        .is_some_and(|tables| tables.hashes.is_null() || tables.has(search.name));
    search.is_found |= is_found;
    c_int::from(is_found)
}

/// Something of this library's alone.
static OURS: u8 = 0;

/// Whether the object has this address.
fn holds(headers: &[libc::Elf64_Phdr], bias: u64, address: u64) -> bool {
    headers.iter().any(|header| {
        let start = bias.wrapping_add(header.p_vaddr);
        let end = start.wrapping_add(header.p_memsz);
        header.p_type == libc::PT_LOAD && (start..end).contains(&address)
    })
}

struct References<'a> {
    address: u64,
    names: &'a [&'a CStr],
    are_found: bool,
}

/// Whether the object around an address has one of these names looked up by the loader, as its calls of other objects'
/// functions and of its own that may be interposed are. True when it cannot be read.
pub fn may_refer(address: usize, names: &[&CStr]) -> bool {
    let mut references = References {
        address: address as u64,
        names,
        are_found: true,
    };
    // SAFETY: the callback's data outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(ask_references), (&raw mut references).cast()) };
    references.are_found
}

unsafe extern "C" fn ask_references(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as in `ask`.
    unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum as usize);
        let (references, bias) = (&mut *data.cast::<References>(), (*info).dlpi_addr);
        if !holds(headers, bias, references.address) {
            return 0;
        }
        if let Some(tables) = Tables::of(headers, bias) {
            references.are_found = tables.refers(references.names);
        }
    }
    1
}

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    place: u64,
    info: u64,
    addend: i64,
}

/// What a look-up reads of an object.
struct Tables {
    names: *const u8,
    symbols: *const libc::Elf64_Sym,
    /// Null: it has none of GNU's.
    hashes: *const u32,
    /// Those of data and of calls: address and bytes.
    relocations: [(u64, u64); 2],
}

impl Tables {
    /// `None`: the object is not linked dynamically.
    ///
    /// # Safety
    /// The program headers of a loaded object, and its load bias.
    unsafe fn of(headers: &[libc::Elf64_Phdr], bias: u64) -> Option<Tables> {
        let header = headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut at = bias.wrapping_add(header.p_vaddr) as *const Dynamic;
        let (mut names, mut symbols, mut hashes) = (0, 0, 0);
        let mut relocations = [(0, 0); 2];
        // SAFETY: the section ends with DT_NULL.
        while let Some(&Dynamic { tag, value }) = unsafe { at.as_ref() }
            && tag != DT_NULL
        {
            // The loader has made addresses of these offsets, but for objects that it may not write (the vDSO).
            let address = if value < bias { value + bias } else { value };
            match tag {
                DT_STRTAB => names = address,
                DT_SYMTAB => symbols = address,
                DT_GNU_HASH => hashes = address,
                DT_RELA => relocations[0].0 = address,
                DT_RELASZ => relocations[0].1 = value,
                DT_JMPREL => relocations[1].0 = address,
                DT_PLTRELSZ => relocations[1].1 = value,
                _ => {}
            }
            // SAFETY: not the last entry.
            at = unsafe { at.add(1) };
        }
        (names != 0 && symbols != 0).then_some(Tables {
            names: names as *const u8,
            symbols: symbols as *const libc::Elf64_Sym,
            hashes: hashes as *const u32,
            relocations,
        })
    }

    /// Whether one of the names is looked up for it.
    fn refers(&self, names: &[&CStr]) -> bool {
        self.relocations.iter().any(|(start, bytes)| {
            let count = *bytes as usize / size_of::<Relocation>();
            if *start == 0 || count == 0 {
                return false;
            }
            // SAFETY: the object's table of relocations, and symbols that it names.
            unsafe {
                let all = std::slice::from_raw_parts(*start as *const Relocation, count);
                all.iter().any(|relocation| {
                    let symbol = relocation.info >> 32;
                    symbol != 0 && names.contains(&self.name(symbol as u32))
                })
            }
        })
    }

    /// Whether it defines the name, in any version.
    fn has(&self, name: &CStr) -> bool {
        // SAFETY: the layout of DT_GNU_HASH: four words, a Bloom filter, buckets, and a chain for each symbol from
        // `first` on, whose last entry has its lowest bit set.
        unsafe {
            let [buckets, first, filter_words, _] = self.hashes.cast::<[u32; 4]>().read_unaligned();
            if buckets == 0 {
                return false;
            }
            let hash = gnu_hash(name);
            let bucket = self.hashes.add(4 + 2 * filter_words as usize);
            let chain = bucket.add(buckets as usize);
            let mut index = bucket.add((hash % buckets) as usize).read();
            while index >= first {
                let entry = chain.add((index - first) as usize).read();
                if entry | 1 == hash | 1 && self.is(index, name) {
                    return true;
                }
                if entry & 1 != 0 {
                    break;
                }
                index += 1;
            }
        }
        false
    }

    /// # Safety
    /// A symbol of the table.
    unsafe fn is(&self, index: u32, name: &CStr) -> bool {
        // SAFETY: as the caller says.
        unsafe { (*self.symbols.add(index as usize)).st_shndx != 0 && self.name(index) == name }
    }

    /// # Safety
    /// A symbol of the table.
    unsafe fn name(&self, index: u32) -> &CStr {
        // SAFETY: as the caller says; its name is a string of the object's.
        unsafe {
            let symbol = &*self.symbols.add(index as usize);
            CStr::from_ptr(self.names.add(symbol.st_name as usize).cast())
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.to_bytes().iter().fold(5381, step)
}

//! Whether a loaded object defines a symbol: asked before dlsym.
//!
//! A look-up by dlsym that fails allocates its error on the subject's heap, and what the program allocates afterwards
//! lies elsewhere than without the probe.

use std::ffi::{CStr, c_int, c_void};

const DT_NULL: i64 = 0;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
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

unsafe extern "C" fn ask(info: *mut libc::dl_phdr_info, _bytes: usize, data: *mut c_void) -> c_int {
    // SAFETY: both are the caller's for the time of the call; the headers belong to a loaded object.
    let (search, bias, headers) = unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum as usize);
        (&mut *data.cast::<Search>(), (*info).dlpi_addr, headers)
    };
    let ours = (&raw const OURS) as u64;
    let holds = |header: &libc::Elf64_Phdr| {
        let start = bias.wrapping_add(header.p_vaddr);
        header.p_type == libc::PT_LOAD
            && (start..start.wrapping_add(header.p_memsz)).contains(&ours)
    };
    if headers.iter().any(holds) {
        search.has_passed_us = true;
        return 0;
    }
    if search.among == Among::Next && !search.has_passed_us {
        return 0;
    }
    let dynamic = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC);
    // SAFETY: the dynamic section of a loaded object.
    let is_found = dynamic.is_some_and(|header| unsafe {
        let at = bias.wrapping_add(header.p_vaddr) as *const Dynamic;
        Tables::of(at, bias).is_none_or(|tables| tables.has(search.name))
    });
    search.is_found |= is_found;
    c_int::from(is_found)
}

/// Something of this library's alone.
static OURS: u8 = 0;

/// What a look-up reads of an object.
struct Tables {
    names: *const u8,
    symbols: *const libc::Elf64_Sym,
    hashes: *const u32,
}

impl Tables {
    /// `None`: the object has no table of GNU hashes.
    ///
    /// # Safety
    /// The dynamic section of a loaded object.
    unsafe fn of(mut at: *const Dynamic, bias: u64) -> Option<Tables> {
        let (mut names, mut symbols, mut hashes) = (0, 0, 0);
        // SAFETY: ends with DT_NULL.
        while let Some(&Dynamic { tag, value }) = unsafe { at.as_ref() }
            && tag != DT_NULL
        {
            // The loader has made addresses of these offsets, but for objects that it may not write (the vDSO).
            let address = if value < bias { value + bias } else { value };
            match tag {
                DT_STRTAB => names = address,
                DT_SYMTAB => symbols = address,
                DT_GNU_HASH => hashes = address,
                _ => {}
            }
            // SAFETY: not the last entry.
            at = unsafe { at.add(1) };
        }
        (names != 0 && symbols != 0 && hashes != 0).then_some(Tables {
            names: names as *const u8,
            symbols: symbols as *const libc::Elf64_Sym,
            hashes: hashes as *const u32,
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
        // SAFETY: as the caller says; its name is a string of the object's.
        unsafe {
            let symbol = &*self.symbols.add(index as usize);
            symbol.st_shndx != 0
                && CStr::from_ptr(self.names.add(symbol.st_name as usize).cast()) == name
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.to_bytes().iter().fold(5381, step)
}

//! Loaded objects and their unwind tables, found without a lock of the loader.
//!
//! glibc 2.35 and later answer `_dl_find_object` for any address without locking or allocating. On
//! older ones the objects that were there at the start are listed once; frames in later ones end a
//! stack.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::readable::{is_range_readable, is_readable};

/// Objects of the start that are kept for old C libraries.
const LISTED_MAX: usize = 256;

/// Words of an unwind table that are part of its object's fingerprint.
const FINGERPRINT_WORDS: usize = 8;

/// A loaded object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// First address.
    pub start: u64,
    /// Last address + 1.
    pub end: u64,
    /// Where its .eh_frame_hdr begins; 0 when it has none.
    pub eh_frame_hdr: u64,
    /// The loader's record of it, or 0.
    pub link_map: u64,
}

/// Unwind tables of an object, as memory.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// .eh_frame_hdr: (start, length).
    pub eh_frame_hdr: (u64, u64),
    /// .eh_frame with whatever follows it in its segment.
    pub eh_frame: (u64, u64),
    /// Executable segment.
    pub text: (u64, u64),
}

/// glibc's `struct dl_find_object` (elf/dl-find_object.h; the same on x86_64 and aarch64).
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: u64,
    map_end: u64,
    link_map: u64,
    eh_frame: u64,
    reserved: [u64; 7],
}

type DlFind = unsafe extern "C" fn(*mut c_void, *mut DlFindObject) -> c_int;

static DL_FIND: AtomicUsize = AtomicUsize::new(0);
static LISTED: AtomicUsize = AtomicUsize::new(0);
static mut LIST: [Object; LISTED_MAX] = [Object {
    start: 0,
    end: 0,
    eh_frame_hdr: 0,
    link_map: 0,
}; LISTED_MAX];

/// Finds out how objects can be found. Once, at the start, while there is one thread.
///
/// # Safety
/// No other thread runs.
pub unsafe fn prepare() {
    // SAFETY: by the caller one thread; a name that is looked up.
    unsafe {
        let find = libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr());
        DL_FIND.store(find as usize, Relaxed);
        if find.is_null() {
            libc::dl_iterate_phdr(Some(list), std::ptr::null_mut());
        }
    }
}

/// The object that an address lies in.
pub fn find(address: u64) -> Option<Object> {
    let dl_find = DL_FIND.load(Relaxed);
    if dl_find == 0 {
        let count = LISTED.load(Relaxed);
        // SAFETY: written by `prepare` only.
        let listed =
            unsafe { std::slice::from_raw_parts((&raw const LIST).cast::<Object>(), count) };
        return listed
            .iter()
            .find(|object| (object.start..object.end).contains(&address))
            .copied();
    }
    // SAFETY: glibc's own function, of the type that its header gives.
    unsafe {
        let dl_find: DlFind = std::mem::transmute(dl_find);
        let mut found: DlFindObject = std::mem::zeroed();
        if dl_find(address as *mut c_void, &mut found) != 0 || found.map_start >= found.map_end {
            return None;
        }
        Some(Object {
            start: found.map_start,
            end: found.map_end,
            eh_frame_hdr: found.eh_frame,
            link_map: found.link_map,
        })
    }
}

unsafe extern "C" fn list(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    let at = LISTED.load(Relaxed);
    if at == LISTED_MAX {
        return 1;
    }
    // SAFETY: the loader calls with a record, and headers, that are valid until this returns.
    unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum as usize);
        let bias = (*info).dlpi_addr;
        let loads = || {
            headers
                .iter()
                .filter(|header| header.p_type == libc::PT_LOAD)
        };
        let start = loads().map(|load| bias + load.p_vaddr).min().unwrap_or(0);
        let end = loads()
            .map(|load| bias + load.p_vaddr + load.p_memsz)
            .max()
            .unwrap_or(0);
        let hdr = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
        let eh_frame_hdr = hdr.map_or(0, |hdr| bias + hdr.p_vaddr);
        LIST[at] = Object {
            start: start & !0xfff,
            end,
            eh_frame_hdr,
            link_map: 0,
        };
    }
    LISTED.store(at + 1, Relaxed);
    0
}

impl Object {
    /// Its path as the loader knows it (empty for the program itself) and its load bias.
    pub fn name_and_bias(&self, path: &mut [u8]) -> (usize, u64) {
        let map = self.link_map;
        if map == 0 || !is_readable(map) || !is_readable(map + 8) {
            return (0, 0);
        }
        // SAFETY: l_addr and l_name, the first two words of the public struct link_map; both just
        // found readable.
        let (bias, name) = unsafe { (*(map as *const u64), *((map + 8) as *const u64)) };
        if !is_readable(name) {
            return (0, bias);
        }
        // SAFETY: the loader's string, NUL-terminated while the object is loaded.
        let name = unsafe { CStr::from_ptr(name as *const c_char) }.to_bytes();
        let kept = &name[name.len().saturating_sub(path.len())..];
        path[..kept.len()].copy_from_slice(kept);
        (kept.len(), bias)
    }

    /// Its unwind tables, if it has any in the form that every linker writes.
    pub fn tables(&self) -> Option<Tables> {
        let hdr = self.eh_frame_hdr;
        let headers = self.program_headers()?;
        let inside = |at: u64| (self.start..self.end).contains(&at);
        // The load bias: the program header table says where .eh_frame_hdr would be without it.
        let own = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let bias = hdr.wrapping_sub(own.p_vaddr);
        if !inside(hdr) || own.p_memsz < 12 || !is_range_readable(hdr, own.p_memsz) {
            return None;
        }
        let eh_frame = eh_frame_start(hdr)?;
        let loads = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        let segment = |load: &libc::Elf64_Phdr| {
            let start = bias.wrapping_add(load.p_vaddr);
            (start, start.saturating_add(load.p_filesz))
        };
        let holds = |(start, end): &(u64, u64)| (*start..*end).contains(&eh_frame);
        let (_, end) = loads.clone().map(segment).find(holds)?;
        let text = loads
            .clone()
            .find(|load| load.p_flags & libc::PF_X != 0)
            .map(segment)?;
        let all_inside = inside(eh_frame) && end <= self.end;
        all_inside.then_some(Tables {
            eh_frame_hdr: (hdr, own.p_memsz),
            eh_frame: (eh_frame, end - eh_frame),
            text: (text.0, text.1.saturating_sub(text.0)),
        })
    }

    /// What tells it from another object at the same addresses: a hash of its program headers and of the start of its
    /// unwind table. 0 when they cannot be read.
    pub fn fingerprint(&self) -> u64 {
        let Some(headers) = self.program_headers() else {
            return 0;
        };
        // SAFETY: the bytes of what was just found readable; plain integers.
        let headers = unsafe {
            std::slice::from_raw_parts(headers.as_ptr().cast::<u64>(), size_of_val(headers) / 8)
        };
        let mix = |hash: u64, word: &u64| {
            (hash ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let hash = headers.iter().fold(1, mix);
        let table = (
            self.eh_frame_hdr.next_multiple_of(8),
            FINGERPRINT_WORDS as u64 * 8,
        );
        if !(self.start..self.end).contains(&table.0) || !is_range_readable(table.0, table.1) {
            return hash;
        }
        // SAFETY: aligned, and just found readable.
        let table = unsafe { std::slice::from_raw_parts(table.0 as *const u64, FINGERPRINT_WORDS) };
        table.iter().fold(hash, mix)
    }

    /// Whether Go's linker made it: it has a note of Go's with its build id.
    pub fn is_go(&self) -> bool {
        let Some(headers) = self.program_headers() else {
            return false;
        };
        let lowest = headers.iter().find(|header| header.p_type == libc::PT_LOAD);
        let bias = self
            .start
            .wrapping_sub(lowest.map_or(0, |load| load.p_vaddr & !0xfff));
        let notes = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_NOTE);
        notes
            .map(|note| bias.wrapping_add(note.p_vaddr))
            .any(|note| {
                let inside = note >= self.start && note.saturating_add(16) <= self.end;
                // SAFETY: 16 bytes inside the object, just found readable: the sizes of name and
                // contents, the kind, the name.
                inside
                    && is_range_readable(note, 16)
                    && unsafe {
                        let words = note as *const [u32; 4];
                        let [name_bytes, _, _, name] = words.read_unaligned();
                        name_bytes == 4 && name.to_ne_bytes() == *b"Go\0\0"
                    }
            })
    }

    fn program_headers(&self) -> Option<&'static [libc::Elf64_Phdr]> {
        let bytes = size_of::<libc::Elf64_Ehdr>() as u64;
        if !self.start.is_multiple_of(8) || !is_range_readable(self.start, bytes) {
            return None;
        }
        // SAFETY: just found readable; plain integers.
        let header = unsafe { &*(self.start as *const libc::Elf64_Ehdr) };
        let (at, count) = (
            self.start.checked_add(header.e_phoff)?,
            header.e_phnum as usize,
        );
        let table_bytes = (count * size_of::<libc::Elf64_Phdr>()) as u64;
        let is_elf = header.e_ident[..4] == *b"\x7fELF";
        let good = is_elf
            && count <= 64
            && at.is_multiple_of(8)
            && at.saturating_add(table_bytes) <= self.end;
        if !good || !is_range_readable(at, table_bytes.max(1)) {
            return None;
        }
        // SAFETY: inside the object, just found readable; it stays while code of it is on the
        // stack.
        Some(unsafe { std::slice::from_raw_parts(at as *const libc::Elf64_Phdr, count) })
    }
}

/// Where .eh_frame begins, from a header of version 1 with the pointer relative to itself in four
/// bytes.
fn eh_frame_start(hdr: u64) -> Option<u64> {
    const RELATIVE_S4: u8 = 0x1b;
    // SAFETY: the caller found 12 bytes readable.
    let (version, encoding, offset) = unsafe {
        let bytes = hdr as *const u8;
        (
            *bytes,
            *bytes.add(1),
            bytes.add(4).cast::<i32>().read_unaligned(),
        )
    };
    (version == 1 && encoding == RELATIVE_S4)
        .then(|| (hdr + 4).wrapping_add_signed(i64::from(offset)))
}

impl Tables {
    /// Start of the function that holds an address, from the sorted table of .eh_frame_hdr.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        const DATA_RELATIVE_S4: u8 = 0x3b;
        const UNSIGNED_4: u8 = 0x03;
        let (hdr, bytes) = self.eh_frame_hdr;
        // SAFETY: the tables' constructor found the whole header readable.
        let table = unsafe { std::slice::from_raw_parts(hdr as *const u8, bytes as usize) };
        if table.get(2..4)? != [UNSIGNED_4, DATA_RELATIVE_S4] {
            return None;
        }
        let count = u32::from_le_bytes(table.get(8..12)?.try_into().ok()?) as usize;
        let rows = table.get(12..)?.get(..count.checked_mul(8)?)?;
        let start_of = |row: usize| {
            let word = rows
                .get(row * 8..row * 8 + 4)
                .and_then(|word| word.try_into().ok())
                .unwrap_or([0; 4]);
            hdr.wrapping_add_signed(i64::from(i32::from_le_bytes(word)))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if start_of(middle) <= address {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low.checked_sub(1).map(start_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_found_with_its_tables_and_name() {
        // SAFETY: tests prepare the same again.
        unsafe { prepare() };
        let here = this_test_is_found_with_its_tables_and_name as *const () as u64;
        let object = find(here).expect("the test program is an object");
        let tables = object.tables().expect("a Rust program has unwind tables");
        assert!(
            tables.eh_frame.1 > 0 && (tables.text.0..tables.text.0 + tables.text.1).contains(&here)
        );
        assert_eq!(tables.function_start(here + 1), Some(here));
        let mut path = [0; 64];
        let libc_object = find(libc::getpid as *const () as u64).unwrap();
        let (bytes, _) = libc_object.name_and_bias(&mut path);
        assert!(
            String::from_utf8_lossy(&path[..bytes]).contains("libc"),
            "{path:?}"
        );
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        // SAFETY: tests prepare the same again.
        unsafe { prepare() };
        let stack = 0u64;
        assert_eq!(find(0), None);
        assert_eq!(find(&raw const stack as u64), None);
    }

    #[test]
    fn an_object_of_wrong_addresses_has_no_tables() {
        let object = Object {
            start: 4096,
            end: 8192,
            eh_frame_hdr: 4100,
            link_map: 4096,
        };
        assert!(object.tables().is_none());
        assert_eq!(object.name_and_bias(&mut [0; 8]), (0, 0));
    }

    #[test]
    fn the_list_for_old_libraries_agrees_with_the_new_way() {
        // SAFETY: tests prepare the same again; the callback gets the record that it is for.
        unsafe {
            prepare();
            let here = the_list_for_old_libraries_agrees_with_the_new_way as *const () as u64;
            let new = find(here);
            LISTED.store(0, Relaxed);
            libc::dl_iterate_phdr(Some(list), std::ptr::null_mut());
            let count = LISTED.load(Relaxed);
            let listed = std::slice::from_raw_parts((&raw const LIST).cast::<Object>(), count)
                .iter()
                .find(|o| (o.start..o.end).contains(&here));
            assert_eq!(
                listed.map(|o| (o.start, o.eh_frame_hdr)),
                new.map(|o| (o.start, o.eh_frame_hdr))
            );
        }
    }
}

//! One loaded object, seen through its dynamic section: what it exports, and the slots that the
//! dynamic linker fills in with the functions it calls.
//!
//! Works on memory, not on a file, because memory is what runs: the file may be deleted, replaced,
//! or out of sight in another mount namespace. A file can be read as memory too
//! ([`super::memory::FileMemory`]), so there is one reader for both.

use super::memory::{Memory, PT_DYNAMIC, PT_LOAD, parse_elf_header, read_program_headers};

/// Entries of a dynamic section that are read; real ones have about 40.
const DYNAMIC_MAX: u64 = 512;
/// Largest table (symbols, names, relocations) that is read: twice what a large C++ program has.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Steps along one hash chain.
const CHAIN_MAX: u32 = 100_000;

const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;

// Tags of the dynamic section, from the ELF specification and its GNU supplement.
const DT_NEEDED: u64 = 1;
const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_DEBUG: u64 = 21;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_RELACOUNT: u64 = 0x6fff_fff9;

/// Relocations that hold the address of a function for calls through them: GLOB_DAT and JUMP_SLOT
/// of x86-64 (6, 7) and aarch64 (1025, 1026). Plain pointers in data (ABS64) are left out: the
/// program may have put another function there itself.
const CALL_SLOTS: [u32; 4] = [6, 7, 1025, 1026];

/// A loaded object.
pub struct Image<'m> {
    memory: &'m dyn Memory,
    bias: u64,
    /// Where the dynamic section says that DT_DEBUG is; 0 before the dynamic linker filled it in.
    debug: Option<u64>,
    symbols: u64,
    names: u64,
    names_bytes: u64,
    gnu_hash: Option<u64>,
    hash: Option<u64>,
    /// (address, bytes) of the relocation tables.
    relocations: [(u64, u64); 2],
    needed: Vec<u64>,
}

/// A symbol that an object offers to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Before the load bias.
    pub address: u64,
    /// Its address is decided at load time by a function at `address` (STT_GNU_IFUNC).
    pub indirect: bool,
}

impl<'m> Image<'m> {
    /// Of the object whose file is mapped from `start` on, and its load bias.
    pub fn mapped_at(memory: &'m dyn Memory, start: u64) -> Option<(Image<'m>, u64)> {
        let mut bytes = [0; 64];
        memory.read(start, &mut bytes)?;
        let header = parse_elf_header(&bytes).ok()?;
        let table = start.checked_add(header.headers_offset)?;
        let headers = read_program_headers(memory, table, header.headers.into())?;
        let address = |kind| Some(headers.iter().find(|header| header.kind == kind)?.address);
        let bias = start.wrapping_sub(address(PT_LOAD)? & !0xfff);
        let dynamic = bias.wrapping_add(address(PT_DYNAMIC)?);
        Some((Image::read(memory, bias, dynamic)?, bias))
    }

    /// `dynamic` is the address of the dynamic section, bias included. `None` when it is not one.
    pub fn read(memory: &'m dyn Memory, bias: u64, dynamic: u64) -> Option<Image<'m>> {
        let mut image = Image {
            memory,
            bias,
            debug: None,
            symbols: 0,
            names: 0,
            names_bytes: 0,
            gnu_hash: None,
            hash: None,
            relocations: [(0, 0); 2],
            needed: Vec::new(),
        };
        let mut relative = 0;
        for index in 0..DYNAMIC_MAX {
            let entry = dynamic.checked_add(index * 16)?;
            let (tag, value) = (memory.u64(entry)?, memory.u64(plus(entry, 8))?);
            match tag {
                0 => break,
                DT_NEEDED => image.needed.push(value),
                DT_DEBUG => image.debug = Some(value),
                DT_SYMTAB => image.symbols = image.address(value),
                DT_STRTAB => image.names = image.address(value),
                DT_STRSZ => image.names_bytes = value,
                DT_GNU_HASH => image.gnu_hash = Some(image.address(value)),
                DT_HASH => image.hash = Some(image.address(value)),
                DT_JMPREL => image.relocations[0].0 = image.address(value),
                DT_PLTRELSZ => image.relocations[0].1 = value,
                DT_RELA => image.relocations[1].0 = image.address(value),
                DT_RELASZ => image.relocations[1].1 = value,
                DT_RELACOUNT => relative = value,
                _ => {}
            }
        }
        // The linker sorts relocations without a symbol to the front and tells their number.
        let skip = relative
            .checked_mul(RELOCATION_BYTES)?
            .min(image.relocations[1].1);
        image.relocations[1].0 = image.relocations[1].0.checked_add(skip)?;
        image.relocations[1].1 -= skip;
        (image.symbols != 0 && image.names != 0).then_some(image)
    }

    /// glibc adds the bias to the addresses in the dynamic section in place; musl, and files, do
    /// not. Addresses below the bias can only be the latter.
    fn address(&self, value: u64) -> u64 {
        if value < self.bias {
            value.wrapping_add(self.bias)
        } else {
            value
        }
    }

    /// The dynamic linker's `r_debug`: `None` when the object has no place for it, 0 before it is
    /// filled in.
    pub fn debug(&self) -> Option<u64> {
        self.debug
    }

    /// Libraries that it asks for by name.
    pub fn needed(&self) -> Vec<String> {
        let name = |&offset: &u64| self.memory.name(self.names.checked_add(offset)?);
        self.needed.iter().filter_map(name).collect()
    }

    /// What a lookup of `name` finds in this object.
    pub fn export(&self, name: &str) -> Option<Export> {
        match (self.gnu_hash, self.hash) {
            (Some(table), _) => self.find_gnu(table, name),
            (None, Some(table)) => self.find_sysv(table, name),
            (None, None) => None,
        }
    }

    /// GNU hash table: {buckets, first symbol, words of the bloom filter, shift}, bloom filter,
    /// buckets, chains of hashes that end with the lowest bit set.
    fn find_gnu(&self, table: u64, name: &str) -> Option<Export> {
        let (buckets, first) = (self.memory.u32(table)?, self.memory.u32(plus(table, 4))?);
        let bloom = self.memory.u32(plus(table, 8))?;
        if buckets == 0 {
            return None;
        }
        let hash = gnu_hash(name);
        let bucket_table = plus(table, 16 + u64::from(bloom) * 8);
        let chains = plus(bucket_table, u64::from(buckets) * 4);
        let start = self
            .memory
            .u32(plus(bucket_table, u64::from(hash % buckets) * 4))?;
        for index in start..start.saturating_add(CHAIN_MAX) {
            let entry = self
                .memory
                .u32(plus(chains, u64::from(index.checked_sub(first)?) * 4))?;
            if entry | 1 == hash | 1
                && let Some(export) = self.symbol(index, name)
            {
                return Some(export);
            }
            if entry & 1 == 1 {
                return None;
            }
        }
        None
    }

    /// System V hash table: {buckets, chains}, buckets, chains of symbol numbers that end with 0.
    fn find_sysv(&self, table: u64, name: &str) -> Option<Export> {
        let (buckets, chain_count) = (self.memory.u32(table)?, self.memory.u32(plus(table, 4))?);
        if buckets == 0 {
            return None;
        }
        let bucket = u64::from(sysv_hash(name) % buckets);
        let chains = plus(table, 8 + u64::from(buckets) * 4);
        let mut index = self.memory.u32(plus(table, 8 + bucket * 4))?;
        for _ in 0..chain_count.min(CHAIN_MAX) {
            if index == 0 {
                return None;
            }
            if let Some(export) = self.symbol(index, name) {
                return Some(export);
            }
            index = self.memory.u32(plus(chains, u64::from(index) * 4))?;
        }
        None
    }

    /// Symbol `index`, if it is `name` and others can bind to it.
    fn symbol(&self, index: u32, name: &str) -> Option<Export> {
        let mut entry = [0; SYMBOL_BYTES as usize];
        self.memory.read(
            plus(self.symbols, u64::from(index) * SYMBOL_BYTES),
            &mut entry,
        )?;
        let name_offset = u64::from(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
        let (binding, kind) = (entry[4] >> 4, entry[4] & 0xf);
        let visibility = entry[5] & 3;
        let section = u16::from_le_bytes([entry[6], entry[7]]);
        let mut value = [0; 8];
        value.copy_from_slice(&entry[8..16]);
        let address = u64::from_le_bytes(value);
        // GLOBAL, WEAK or GNU_UNIQUE; DEFAULT or PROTECTED; defined here.
        let offered = matches!(binding, 1 | 2 | 10) && matches!(visibility, 0 | 3);
        if !offered || section == 0 || address == 0 {
            return None;
        }
        let mut found = vec![0; name.len() + 1];
        self.memory
            .read(self.names.checked_add(name_offset)?, &mut found)?;
        let same = &found[..name.len()] == name.as_bytes() && found[name.len()] == 0;
        same.then_some(Export {
            address,
            indirect: kind == 10,
        })
    }

    /// Addresses (before the bias) of the slots through which this object calls `name`. Empty when
    /// it does not, or when a table is larger than is read.
    pub fn call_slots(&self, name: &str) -> Vec<u64> {
        self.find_call_slots(name).unwrap_or_default()
    }

    fn find_call_slots(&self, name: &str) -> Option<Vec<u64>> {
        let mut slots: Vec<(u64, u32)> = Vec::new();
        for (address, length) in self.relocations {
            if length == 0 {
                continue;
            }
            let table = self.memory.bytes(address, length, TABLE_BYTES_MAX)?;
            slots.extend(
                table
                    .chunks_exact(RELOCATION_BYTES as usize)
                    .filter_map(parse_call_slot),
            );
        }
        let last = slots.iter().map(|&(_, symbol)| symbol).max()?;
        let bytes = (u64::from(last) + 1) * SYMBOL_BYTES;
        let symbols = self.memory.bytes(self.symbols, bytes, TABLE_BYTES_MAX)?;
        let names = self
            .memory
            .bytes(self.names, self.names_bytes, TABLE_BYTES_MAX)?;
        slots.retain(|&(_, symbol)| symbol_is(&symbols, &names, symbol, name));
        Some(slots.into_iter().map(|(slot, _)| slot).collect())
    }
}

/// Addresses come from foreign memory and may be anything; a wrapped one is just not readable.
fn plus(address: u64, offset: u64) -> u64 {
    address.wrapping_add(offset)
}

/// (slot, symbol number) of a relocation entry, if it is one for calls.
fn parse_call_slot(entry: &[u8]) -> Option<(u64, u32)> {
    let word = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
    let (offset, info) = (word(0)?, word(8)?);
    CALL_SLOTS
        .contains(&(info as u32))
        .then_some((offset, (info >> 32) as u32))
}

/// Whether symbol `index` of a table has this name. Names may share their ends in the table.
fn symbol_is(symbols: &[u8], names: &[u8], index: u32, name: &str) -> bool {
    let at = index as usize * SYMBOL_BYTES as usize;
    let Some(start) = symbols.get(at..at + 4) else {
        return false;
    };
    let start = u32::from_le_bytes([start[0], start[1], start[2], start[3]]) as usize;
    let found = names.get(start..start + name.len() + 1);
    found.is_some_and(|found| found.starts_with(name.as_bytes()) && found[name.len()] == 0)
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    })
}

fn sysv_hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes() {
        // Worked by hand: 5381 * 33 + 'a' (97); System V: 'a' << 4 plus 'b'.
        assert_eq!(gnu_hash(""), 5381);
        assert_eq!(gnu_hash("a"), 177_670);
        assert_eq!(sysv_hash("ab"), 97 * 16 + 98);
    }

    #[test]
    fn names_may_share_their_ends() {
        let names = b"\0xmalloc\0mallocx\0";
        let symbol = |start: u32| {
            let mut entry = [0u8; 24];
            entry[..4].copy_from_slice(&start.to_le_bytes());
            entry
        };
        assert!(symbol_is(&symbol(2), names, 0, "malloc"));
        assert!(!symbol_is(&symbol(1), names, 0, "malloc"));
        assert!(!symbol_is(&symbol(9), names, 0, "malloc"));
        assert!(!symbol_is(&symbol(16), names, 0, "malloc"));
        assert!(!symbol_is(&symbol(2), names, 1, "malloc"));
    }
}

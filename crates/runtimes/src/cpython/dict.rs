//! Dicts, and the arrays in which instances keep their attributes (3.11 and later).

use observe::fact::memory::Memory;

use super::layout::{DICT_KEYS, DICT_VALUES, Layout};
use crate::memory::pages::Pages;

/// The largest table that is believed.
const LOG2_SIZE_MAX: u8 = 40;
/// `SHARED_KEYS_MAX_SIZE` and some: entries of a table that instances share.
const SHARED_MAX: u64 = 256;

/// Keys of a dict: `PyDictKeysObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    sharers: u64,
    /// Of the header, the table of indices, and each entry.
    index_at: u64,
    index_bytes: u64,
    entry_bytes: u64,
    /// Entries that there is room for, and that are used.
    usable: u64,
    used: u64,
    address: u64,
}

impl Keys {
    pub fn read(pages: &Pages, layout: &Layout, address: u64) -> Option<Keys> {
        let mut header = [0; 40];
        let header_bytes = if layout.minor >= 11 { 32 } else { 40 };
        pages.read(address, &mut header[..header_bytes as usize])?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let size = match layout.minor {
            11.. => 1_u64.checked_shl(header[8].min(LOG2_SIZE_MAX).into())?,
            _ => word(8),
        };
        if !size.is_power_of_two() || size > 1 << LOG2_SIZE_MAX {
            return None;
        }
        let usable = (size << 1) / 3;
        let (index_bytes, used) = match layout.minor {
            11.. => (
                1_u64.checked_shl(header[9].min(LOG2_SIZE_MAX + 3).into())?,
                word(24),
            ),
            _ => (size * index_width(size), word(32)),
        };
        Some(Keys {
            sharers: word(0),
            index_at: header_bytes,
            index_bytes,
            // Kind 0 keeps the hash of each key: not all of them are strings.
            entry_bytes: if layout.minor >= 11 && header[10] != 0 {
                16
            } else {
                24
            },
            usable,
            used: used.min(usable),
            address,
        })
    }

    /// Of the table alone.
    pub fn bytes(&self) -> u64 {
        self.index_at + self.index_bytes + self.usable * self.entry_bytes
    }

    pub fn is_owned(&self) -> bool {
        self.sharers == 1
    }

    fn entries(&self) -> u64 {
        self.address.wrapping_add(self.index_at + self.index_bytes)
    }

    /// Each key with its value; the value of a deleted key is null and is left out.
    fn each(&self, pages: &Pages, each: &mut dyn FnMut(u64, u64)) {
        let words = self.entry_bytes / 8;
        let (mut key, last) = (0, words - 1);
        pages.words(self.entries(), self.used * words, &mut |index, word| {
            if index % words == last {
                if word != 0 {
                    each(key, word);
                }
            } else if index % words == last - 1 {
                key = word;
            }
        });
    }

    /// Keys alone, for values that are elsewhere.
    fn names(&self, pages: &Pages) -> Vec<u64> {
        let (words, mut names) = (self.entry_bytes / 8, Vec::new());
        let count = self.usable.min(SHARED_MAX);
        pages.words(self.entries(), count * words, &mut |index, word| {
            if index % words == words - 2 {
                names.push(word);
            }
        });
        names
    }
}

/// Up to 3.10: bytes of an index, by how many entries the table has.
fn index_width(size: u64) -> u64 {
    match size {
        ..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x1_0000_0000 => 4,
        _ => 8,
    }
}

/// Each key and value of a dict.
pub fn entries(
    pages: &Pages,
    layout: &Layout,
    dict: u64,
    each: &mut dyn FnMut(u64, u64),
) -> Option<()> {
    let keys = Keys::read(pages, layout, pages.pointer(dict, DICT_KEYS)?)?;
    match pages.pointer(dict, DICT_VALUES) {
        None => keys.each(pages, each),
        Some(values) => each_value(pages, layout, &keys, values, each),
    }
    Some(())
}

/// Attributes of an instance: keys that its class has, and values in an array of its own.
pub fn attributes(
    pages: &Pages,
    layout: &Layout,
    keys: u64,
    values: u64,
    each: &mut dyn FnMut(u64, u64),
) {
    if let Some(keys) = Keys::read(pages, layout, keys) {
        each_value(pages, layout, &keys, values, each);
    }
}

fn each_value(
    pages: &Pages,
    layout: &Layout,
    keys: &Keys,
    values: u64,
    each: &mut dyn FnMut(u64, u64),
) {
    let names = keys.names(pages);
    let name = |index: u64| names.get(index as usize).copied().unwrap_or(0);
    match layout.minor {
        ..=10 => pages.words(values, names.len() as u64, &mut |index, value| {
            if value != 0 {
                each(name(index), value);
            }
        }),
        11 | 12 => {
            for index in order(pages, values) {
                if let Some(value) = pages.pointer(values, u64::from(index) * 8) {
                    each(name(index.into()), value);
                }
            }
        }
        _ => {
            let capacity = pages.word(values).map_or(0, |word| word & 0xff);
            pages.words(values.wrapping_add(8), capacity, &mut |index, value| {
                if value != 0 {
                    each(name(index), value);
                }
            });
        }
    }
}

/// 3.11 and 3.12: which values are set, by number. The bytes stand before the array, last first: how many bytes these
/// are, how many values are set, and their numbers.
fn order(pages: &Pages, values: u64) -> Vec<u8> {
    let mut bytes = [0; 2];
    let Some(()) = pages.read(values.wrapping_sub(2), &mut bytes) else {
        return Vec::new();
    };
    let [used, before] = bytes;
    let used = usize::from(used.min(before.saturating_sub(2)));
    let mut order = vec![0; used];
    match pages.read(values.wrapping_sub(2 + used as u64), &mut order) {
        Some(()) => order,
        None => Vec::new(),
    }
}

/// Bytes of a dict's tables: those that it has for itself alone.
pub fn table_bytes(pages: &Pages, layout: &Layout, dict: u64, embedded: bool) -> u64 {
    let keys = pages
        .pointer(dict, DICT_KEYS)
        .and_then(|keys| Keys::read(pages, layout, keys));
    let Some(keys) = keys else {
        return 0;
    };
    let owned = if keys.is_owned() { keys.bytes() } else { 0 };
    match pages.pointer(dict, DICT_VALUES) {
        Some(values) if !embedded => owned + values_bytes(pages, layout, &keys, values),
        _ => owned,
    }
}

/// Bytes of an array of values, with what stands before it.
pub fn values_bytes(pages: &Pages, layout: &Layout, keys: &Keys, values: u64) -> u64 {
    match layout.minor {
        ..=10 => keys.usable * 8,
        11 | 12 => {
            let before = pages
                .word(values.wrapping_sub(8))
                .map_or(0, |word| word >> 56);
            // The bytes before are two more than there is room for, made a multiple of 8.
            let room = keys
                .used
                .clamp(before.saturating_sub(9), before.saturating_sub(2).max(1));
            before + room * 8
        }
        _ => {
            let capacity = pages.word(values).map_or(0, |word| word & 0xff);
            8 + capacity * 8 + capacity.next_multiple_of(8)
        }
    }
}

/// Whether a dict's values are inside the instance that it belongs to (3.13).
pub fn is_embedded(pages: &Pages, layout: &Layout, dict: u64) -> bool {
    let values = pages.pointer(dict, DICT_VALUES);
    layout.minor >= 13
        && values
            .and_then(|values| pages.word(values))
            .is_some_and(|word| word >> 16 & 0xff != 0)
}

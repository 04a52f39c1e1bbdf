//! Why goroutines wait, in the runtime's words: by its variable, or in a stripped program by the words themselves.

use observe::fact::memory::Memory;

use super::binary::{Binary, read_text};
use super::module::Module;
use super::paged::Paged;
use super::words::find_word;

/// More than any version has.
const REASONS_MAX: u64 = 64;
/// The first reasons of every version: none, then these.
const FIRST: [&[u8]; 2] = [b"GC assist marking", b"IO wait"];
/// Addresses of a program are between these.
const ADDRESS_MIN: u64 = 0x1_0000;
const ADDRESS_MAX: u64 = 1 << 48;
/// Variables that are searched.
const DATA_BYTES_MAX: u64 = 64 << 20;

/// By number; empty when they were not found, or `step` did not allow as many steps.
pub fn read(
    memory: &dyn Memory,
    binary: &Binary,
    module: &Module,
    step: &mut dyn FnMut() -> bool,
) -> Vec<String> {
    let named = binary.sized("runtime.waitReasonStrings");
    let at = named.or_else(|| Some((search(memory, module, step)?, 16 * REASONS_MAX)));
    at.map_or_else(Vec::new, |(at, bytes)| texts(memory, at, bytes / 16))
}

/// The address of `runtime.waitReasonStrings`.
fn search(memory: &dyn Memory, module: &Module, step: &mut dyn FnMut() -> bool) -> Option<u64> {
    let paged = &Paged::new(memory);
    let end = module.data.start.saturating_add(DATA_BYTES_MAX);
    let range = module.data.start..module.data.end.min(end);
    find_word(memory, range, &mut |at, word| {
        // Two words of the first string, which is empty, are in front.
        let is = |at: u64, text: &[u8]| {
            let mut bytes = [0; 32];
            let bytes = &mut bytes[..text.len()];
            if paged.u64(at.checked_add(8)?)? != text.len() as u64 {
                return None;
            }
            // Of no other text a page is read: it may be one that the process has not touched for long.
            paged.read(paged.u64(at)?, bytes)?;
            (bytes == text).then_some(())
        };
        if !(ADDRESS_MIN..ADDRESS_MAX).contains(&word)
            || !module.data.contains(&at.checked_sub(16)?)
            || !step()
        {
            return None;
        }
        is(at, FIRST[0])?;
        is(at.checked_add(16)?, FIRST[1])?;
        Some(at - 16)
    })
}

/// An array of Go strings, up to the first that is none.
fn texts(memory: &dyn Memory, at: u64, count: u64) -> Vec<String> {
    let read = |index: u64| {
        let at = at.checked_add(16 * index)?;
        let (start, length) = (memory.u64(at)?, memory.u64(at.checked_add(8)?)?);
        let text = read_text(memory, start, length)?;
        (index == 0 || !text.is_empty()).then_some(text)
    };
    // The first is empty, and has no address.
    (0..count.min(REASONS_MAX))
        .map_while(|index| match index {
            0 => Some(String::new()),
            _ => read(index),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    fn made(words: &[u64]) -> Made {
        Made {
            at: 0x10_0000,
            bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }
    }

    #[test]
    fn at_the_end_of_the_address_space() {
        let made = made(&[0, 0, 0x10_0020, 1, u64::from(b'a')]);
        assert_eq!(texts(&made, 0x10_0000, 64).len(), 2);
        assert_eq!(texts(&made, u64::MAX - 20, 64), [String::new()]);
    }

    /// Behind a string of other words, and one of the same beginning.
    #[test]
    fn a_stripped_program_has_them_among_its_data() {
        let text = |text: &[u8]| {
            let mut bytes = text.to_vec();
            bytes.resize(24, 0);
            let (words, _) = bytes.as_chunks();
            words.iter().map(|word| u64::from_le_bytes(*word)).collect()
        };
        let texts: [Vec<u64>; 2] = [text(b"GC assist marking"), text(b"IO wait")];
        let at = |index: u64| 0x10_0000 + 8 * index;
        let mut words = vec![at(12), 17, at(12), 9, 0, 0, at(12), 17, at(15), 7, 0, 0];
        words.extend(texts.concat());
        let module = Module {
            data: at(0)..at(12),
            ..Module::default()
        };
        let memory = made(&words);
        let found = search(&memory, &module, &mut || true);
        assert_eq!(found, Some(at(4)));
        let read = super::texts(&memory, at(4), 64);
        assert_eq!(read, ["", "GC assist marking", "IO wait"]);
        assert_eq!(search(&memory, &module, &mut || false), None);
    }
}

//! The name of a Java method, its file and its lines.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::blob::{pointer, short};
use super::layout::{Layout, MethodLayout, SourceFile};
use super::scopes::Numbers;
use super::{is_java, untagged};
use crate::frame::{Frame, JAVA_MODULE};
use crate::memory::Memory;

const NAME_BYTES: usize = 512;
const LINES_BYTES: usize = 16 * 1024;
const KNOWN_MAX: usize = 65_536;
/// The memory of classes that were unloaded is used again for others.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// Of `ConstMethodFlags`, from JDK 11 on.
const HAS_LINES: u32 = 1;

/// Names of the methods of one process.
#[derive(Default)]
pub struct JavaMethods {
    /// The process, and what was found of its HotSpot; asked again after a time.
    of: Option<(u32, Option<Layout>)>,
    known: HashMap<u64, Option<Method>>,
    since: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Method {
    /// `com.shop.Orders.take`.
    name: String,
    file: Option<String>,
    /// From a bytecode on; sorted.
    lines: Vec<(u32, u32)>,
}

impl JavaMethods {
    /// A method on a stack ([`super::JAVA_METHOD`]); `None`: it is gone, or the address is none.
    pub fn at(&mut self, pid: u32, address: u64) -> Option<Frame> {
        let is_old = self.since.is_none_or(|since| since.elapsed() > KNOWN_FOR);
        let is_other = self.of.as_ref().is_none_or(|(of, _)| *of != pid);
        let has_none = self.of.as_ref().is_none_or(|(_, layout)| layout.is_none());
        if is_other || has_none && is_old {
            self.of = Some((pid, Layout::of(pid)));
        }
        if is_other || is_old || self.known.len() == KNOWN_MAX {
            self.known.clear();
            self.since = Some(Instant::now());
        }
        let (_, layout) = self.of.as_ref().filter(|_| is_java(address))?;
        let layout = layout.as_ref()?;
        let (method, bytecode) = untagged(address);
        let known = self.known.entry(method);
        let method =
            known.or_insert_with(|| Method::read(Memory { pid }, &layout.method, layout, method));
        let method = method.as_ref()?;
        Some(Frame {
            function: Some(method.name.clone()),
            file: method.file.clone(),
            line: bytecode.and_then(|bytecode| method.line(bytecode)),
            module: JAVA_MODULE.to_owned(),
            ..Frame::default()
        })
    }
}

/// Whether an address is that of a method, as far as can be seen.
pub fn is_method(memory: Memory, layout: &Layout, method: u64) -> bool {
    method.is_multiple_of(8)
        && method >> super::ADDRESS_BITS == 0
        && name(memory, &layout.method, method).is_some()
}

/// Of a method that is interpreted, the index of the bytecode at an address.
pub fn index_of(memory: Memory, layout: &Layout, method: u64, bytecode: u64) -> Option<u64> {
    let of = &layout.method;
    let const_method = pointer(memory, method, of.const_method)?;
    let code = const_method.checked_add(of.const_method_bytes as u64)?;
    let size = short(memory, const_method.checked_add(of.code_size as u64)?)?;
    let index = bytecode.checked_sub(code)?;
    (index < u64::from(size)).then_some(index)
}

impl Method {
    fn read(memory: Memory, of: &MethodLayout, layout: &Layout, method: u64) -> Option<Method> {
        let (class, function) = name(memory, of, method)?;
        let const_method = pointer(memory, method, of.const_method)?;
        let pool = pointer(memory, const_method, of.constants)?;
        let file = of.source_file.and_then(|place| {
            let place = match place {
                SourceFile::InPool(at) => pool.checked_add(at as u64)?,
                SourceFile::InClass(at) => {
                    pointer(memory, pool, of.pool_holder)?.checked_add(at as u64)?
                }
            };
            constant(memory, of, pool, short(memory, place)?)
        });
        Some(Method {
            name: format!("{}.{function}", class.replace('/', ".")),
            file,
            lines: lines(memory, of, layout.without_zeros, const_method).unwrap_or_default(),
        })
    }

    fn line(&self, bytecode: u64) -> Option<u32> {
        let after = self
            .lines
            .partition_point(|(from, _)| u64::from(*from) <= bytecode);
        Some(self.lines.get(after.checked_sub(1)?)?.1)
    }
}

/// Class and function.
fn name(memory: Memory, of: &MethodLayout, method: u64) -> Option<(String, String)> {
    let const_method = pointer(memory, method, of.const_method)?;
    let pool = pointer(memory, const_method, of.constants)?;
    let index = short(memory, const_method.checked_add(of.name_index as u64)?)?;
    let function = constant(memory, of, pool, index)?;
    let holder = pointer(memory, pool, of.pool_holder)?;
    let class = symbol(memory, of, pointer(memory, holder, of.klass_name)?)?;
    Some((class, function))
}

/// A name in the pool of a class; 0: none.
fn constant(memory: Memory, of: &MethodLayout, pool: u64, index: u16) -> Option<String> {
    let place = pool.checked_add(of.pool_bytes as u64 + 8 * u64::from(index))?;
    let name = pointer(memory, place, 0).filter(|_| index != 0)?;
    symbol(memory, of, name)
}

fn symbol(memory: Memory, of: &MethodLayout, symbol: u64) -> Option<String> {
    let length = usize::from(short(memory, symbol.checked_add(of.symbol_length as u64)?)?);
    let mut bytes = vec![0; length.min(NAME_BYTES)];
    let count = memory
        .read(symbol.checked_add(of.symbol_body as u64)?, &mut bytes)
        .ok()?;
    let text = String::from_utf8(bytes).ok().filter(|_| count > 0)?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// The table behind the bytecodes: pairs of steps in one byte, 0xff before two numbers, 0 at the end
/// (`CompressedLineNumberReadStream`).
fn lines(
    memory: Memory,
    of: &MethodLayout,
    without_zeros: bool,
    const_method: u64,
) -> Option<Vec<(u32, u32)>> {
    let flags = memory.word(const_method.checked_add(of.flags as u64)?)?;
    if flags & HAS_LINES == 0 {
        return None;
    }
    let size = short(memory, const_method.checked_add(of.code_size as u64)?)?;
    let table = const_method.checked_add(of.const_method_bytes as u64 + u64::from(size))?;
    let bytes = memory.stretch(table, LINES_BYTES);
    parse_lines(&bytes, without_zeros)
}

fn parse_lines(bytes: &[u8], without_zeros: bool) -> Option<Vec<(u32, u32)>> {
    let mut numbers = Numbers {
        bytes,
        without_zeros,
    };
    let (mut bytecode, mut line, mut lines) = (0_u32, 0_u32, Vec::new());
    loop {
        match numbers.byte()? {
            0 => break,
            0xff => {
                bytecode = bytecode.checked_add_signed(numbers.signed()?)?;
                line = line.checked_add_signed(numbers.signed()?)?;
            }
            step => {
                bytecode = bytecode.checked_add(u32::from(step >> 3))?;
                line = line.checked_add(u32::from(step & 7))?;
            }
        }
        lines.push((bytecode, line));
    }
    lines.sort_by_key(|(bytecode, _)| *bytecode);
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_steps_and_in_numbers() {
        // 0 -> 12 (numbers 0 and 24: twice 12), then 4 bytecodes and 1 line, then 3 and back by 2.
        let bytes = [0xff, 0, 24, 4 << 3 | 1, 0xff, 6, 3, 0, 99];
        let lines = parse_lines(&bytes, false).unwrap();
        assert_eq!(lines, [(0, 12), (4, 13), (7, 11)]);
        let method = Method {
            name: String::new(),
            file: None,
            lines,
        };
        assert_eq!(
            [0, 3, 4, 6, 90].map(|at| method.line(at)),
            [12, 12, 13, 13, 11].map(Some)
        );
        assert_eq!(parse_lines(&bytes[..4], false), None, "no end");
    }
}

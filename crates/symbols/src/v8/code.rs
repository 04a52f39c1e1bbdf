//! Functions that the compiler put into another one's code: by the code's table of positions
//! (`source-position-table.h`, `source-position.h`).

use super::heap::{Heap, pointer, small};

const CODE_BYTES: usize = 128;
const TABLE_BYTES: usize = 256 * 1024;
const INLINED_MAX: usize = 32;
const INDICES_MAX: usize = 16;
/// `{ SourcePosition position; int inlined_function_id; }`
const INLINING_BYTES: usize = 16;

/// A place in the source, and in which inlined call it is: 0 in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position(u64);

impl Position {
    /// From 1.
    fn inlining(self) -> Option<usize> {
        usize::from((self.0 >> 31) as u16).checked_sub(1)
    }
}

/// What was inlined at `pc` into code, innermost first: words that point to SharedFunctionInfos. `code`: the word that
/// points to the code that the function was given last; it may still run other code.
pub fn inlined(heap: &Heap, code: u64, pc: u64) -> Option<Vec<u64>> {
    let of = heap.layout.code.as_ref()?;
    let (code, own_type) = heap.object(code)?;
    if own_type != of.own_type {
        return None;
    }
    let bytes = heap.bytes(code, CODE_BYTES)?;
    let field = |offset: u64| number(&bytes, usize::try_from(offset).ok()?, 8);
    let start = match of.is_apart {
        true => field(of.start)?,
        false => code.checked_add(of.start)?,
    };
    let offset = pc.checked_sub(start)?;
    if offset >= number(&bytes, usize::try_from(of.size).ok()?, 4)? {
        return None;
    }
    let (data, count) = heap.array(field(of.deoptimisation)?)?;
    let data = heap.words(data, count.min(INDICES_MAX))?;
    let functions = small(*data.get(of.inlined_count)?)?;
    if functions <= 0 {
        return None;
    }
    let functions = usize::try_from(functions).ok()?;
    let (literals, count) = heap.array(*data.get(of.literals)?)?;
    let literal = |index: usize| {
        let at = literals.checked_add(8 * index as u64)?;
        (index < functions.min(count)).then(|| heap.word(at))?
    };
    let inlinings = table(heap, *data.get(of.inlining)?)?;
    let positions = table(heap, field(of.positions)?)?;
    let mut position = at(&positions, offset)?;
    let mut found = Vec::new();
    while let Some(index) = position.inlining() {
        let entry = inlinings.get(index.checked_mul(INLINING_BYTES)?..)?;
        let inlined = number(entry, 8, 4)? as u32;
        // Negative: of a function that has no object of its own.
        if let Some(word) = usize::try_from(inlined as i32).ok().and_then(literal) {
            found.push(word & !2);
        }
        let outer = Position(number(entry, 0, 8)?);
        // An outer call has a smaller number.
        if found.len() == INLINED_MAX || outer.inlining().is_some_and(|outer| outer >= index) {
            break;
        }
        position = outer;
    }
    Some(found)
}

fn table(heap: &Heap, word: u64) -> Option<Vec<u8>> {
    pointer(word)?;
    let (start, count) = heap.array(word)?;
    (count <= TABLE_BYTES).then(|| heap.bytes(start, count))?
}

/// Of up to 8 bytes, the lowest first.
fn number(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

/// The position that code at an offset is of: pairs of differences, of the code's offset and of the position.
fn at(table: &[u8], offset: u64) -> Option<Position> {
    let offset = i64::try_from(offset).ok()?;
    let mut rest = table;
    let (mut code, mut position, mut found) = (-1_i64, 0_i64, None);
    while !rest.is_empty() {
        let difference = signed(&mut rest)?;
        // The sign says whether it is a statement.
        code = code.checked_add(match difference < 0 {
            true => -(difference + 1),
            false => difference,
        })?;
        if code > offset {
            break;
        }
        position = position.checked_add(signed(&mut rest)?)?;
        found = Some(Position(position as u64));
    }
    found
}

/// A number of seven bits a byte, its lowest bit its sign (`vlq.h`).
fn signed(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(number: i64, into: &mut Vec<u8>) {
        let mut rest = ((number << 1) ^ (number >> 63)) as u64;
        while rest >= 0x80 {
            into.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        into.push(rest as u8);
    }

    #[test]
    fn the_position_of_code_is_that_of_the_last_entry_before_it() {
        let inlined = |script: i64, inlining: i64| (inlining << 31) | (script << 1);
        let entries = [
            (0, inlined(7, 0)),
            (12, inlined(300, 1)),
            (40, inlined(9, 2)),
        ];
        let (mut table, mut before) = (Vec::new(), (-1, 0));
        for (index, (code, position)) in entries.into_iter().enumerate() {
            let difference = code - before.0;
            // Every other one is no statement.
            let difference = if index % 2 == 0 {
                difference
            } else {
                -difference - 1
            };
            encode(difference, &mut table);
            encode(position - before.1, &mut table);
            before = (code, position);
        }
        for (offset, expected) in [
            (0, None),
            (11, None),
            (12, Some(0)),
            (39, Some(0)),
            (400, Some(1)),
        ] {
            let found = at(&table, offset).map(Position::inlining);
            assert_eq!(found, Some(expected), "{offset}");
        }
        assert_eq!(at(&[], 3), None);
        assert_eq!(at(&[0xff; 20], 3), None, "without an end");
    }
}

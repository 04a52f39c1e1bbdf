//! Lines of instructions, from the tables of code objects.
//!
//! Three formats: `co_lnotab` (3.8, 3.9: Objects/lnotab_notes.txt), `co_linetable` of 3.10 (PEP 626), and that of 3.11
//! and later (Objects/locations.md), which has columns too.

/// What stands for instructions of no line, in 3.10.
const NO_LINE: i8 = -128;
/// Of the first byte of an entry, since 3.11.
const ENTRY: u8 = 1 << 7;
/// Forms of entries, since 3.11.
const ONE_LINE: std::ops::RangeInclusive<u8> = 10..=12;
const WITHOUT_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NOTHING: u8 = 15;
/// Bytes of an instruction.
const UNIT_BYTES: u64 = 2;

/// The line of the instruction that is so many bytes into its code. `None`: it has none, or the table ends before it.
pub fn line(minor: u8, table: &[u8], first_line: u32, offset: u64) -> Option<u32> {
    let line = match minor {
        ..=9 => Some(of_increments(table, first_line, offset)),
        10 => of_ranges(table, first_line, offset),
        _ => of_locations(table, first_line, offset),
    };
    line.and_then(|line| u32::try_from(line).ok())
        .filter(|line| *line > 0)
}

/// Pairs of how far the address and the line go on. What is behind the table is of its last line.
fn of_increments(table: &[u8], first_line: u32, offset: u64) -> i64 {
    let (mut line, mut address) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        address += u64::from(pair[0]);
        if address > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    line
}

/// Pairs of how many bytes of code there are, and how far their line is from the one before.
fn of_ranges(table: &[u8], first_line: u32, offset: u64) -> Option<i64> {
    let (mut line, mut end) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        let by = pair[1] as i8;
        end += u64::from(pair[0]);
        if by != NO_LINE {
            line += i64::from(by);
        }
        if end > offset {
            return (by != NO_LINE).then_some(line);
        }
    }
    None
}

/// Entries of one to eight instructions.
fn of_locations(table: &[u8], first_line: u32, offset: u64) -> Option<i64> {
    let (mut line, mut end) = (i64::from(first_line), 0);
    let mut rest = table;
    while let Some((&first, after)) = rest.split_first() {
        if first & ENTRY == 0 {
            return None;
        }
        let length = after.iter().take_while(|byte| *byte & ENTRY == 0).count();
        let (own, next) = after.split_at(length);
        let form = first >> 3 & 0b1111;
        line += match form {
            WITHOUT_COLUMNS | LONG => signed(own),
            form if ONE_LINE.contains(&form) => i64::from(form - ONE_LINE.start()),
            _ => 0,
        };
        end += (u64::from(first & 0b111) + 1) * UNIT_BYTES;
        if end > offset {
            return (form != NOTHING).then_some(line);
        }
        rest = next;
    }
    None
}

/// A number in pieces of six bits, the lowest first; its lowest bit is the sign.
fn signed(bytes: &[u8]) -> i64 {
    const MORE: u8 = 1 << 6;
    /// Of 32 bits.
    const PIECES_MAX: usize = 6;
    let (mut number, mut shift) = (0u64, 0);
    for byte in bytes.iter().take(PIECES_MAX) {
        number |= u64::from(byte & (MORE - 1)) << shift;
        shift += 6;
        if byte & MORE == 0 {
            break;
        }
    }
    let half = (number >> 1) as i64;
    if number & 1 == 0 { half } else { -half }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this function, at line 10, as each version compiles it:
    ///
    /// ```python
    /// def f(a):
    ///     b = (a +
    ///          1)
    ///
    ///     return b
    /// ```
    #[test]
    fn tables_that_interpreters_wrote() {
        // 3.9: LOAD_FAST, LOAD_CONST, BINARY_ADD, STORE_FAST, LOAD_FAST, RETURN_VALUE.
        let in_3_9 = [0, 1, 2, 1, 2, 255, 4, 3];
        let lines = [0, 2, 4, 6, 8, 10].map(|at| line(9, &in_3_9, 10, at));
        assert_eq!(lines, [11, 12, 11, 11, 14, 14].map(Some));
        let in_3_10 = [2, 1, 2, 1, 4, 255, 4, 3];
        let lines = [0, 2, 4, 6, 8, 10, 12].map(|at| line(10, &in_3_10, 10, at));
        assert_eq!(
            lines,
            [
                Some(11),
                Some(12),
                Some(11),
                Some(11),
                Some(14),
                Some(14),
                None
            ]
        );
        let in_3_11 = [
            128, 0, 216, 9, 10, 216, 9, 10, 241, 3, 1, 10, 11, 128, 65, 240, 6, 0, 12, 13, 128, 72,
        ];
        let lines = [0, 2, 4, 6, 8, 10, 12, 14].map(|at| line(11, &in_3_11, 10, at));
        assert_eq!(lines, [10, 11, 12, 11, 11, 11, 14, 14].map(Some));
        assert_eq!(line(11, &in_3_11, 10, 16), None, "behind the end");
    }

    #[test]
    fn garbage_has_an_end() {
        let mut state = 7u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        for length in 0..400 {
            let table: Vec<u8> = (0..length).map(|_| byte()).collect();
            for minor in [8, 10, 11, 14] {
                for offset in [0, 1, 100, u64::MAX] {
                    let found = line(minor, &table, 1, offset);
                    assert!(found.is_none_or(|line| line > 0));
                }
            }
        }
        assert_eq!(line(11, &[0xff; 64], 1, 0), None, "of no line");
        assert_eq!(line(11, &[0x7f; 64], 1, 0), None, "no entry");
        assert_eq!(line(10, &[2, 0x80], 5, 0), None);
        assert_eq!(line(9, &[0, 0x81, 0, 0x81], 5, 0), None, "before line 1");
    }
}

//! The instructions of a method (JVM specification, chapter 6), as the interpreter has rewritten them
//! (`bytecodes.hpp`): which fields they use, which methods they call, which objects they make.

/// Instructions of a method that are read.
const CODE_BYTES_MAX: usize = 65_535;

/// Bytes of each instruction by its number; 0: it varies, or there is none.
const LENGTHS: [(std::ops::RangeInclusive<u8>, usize); 36] = [
    (0..=15, 1),
    (16..=16, 2),
    (17..=17, 3),
    (18..=18, 2),
    (19..=20, 3),
    (21..=25, 2),
    (26..=53, 1),
    (54..=58, 2),
    (59..=131, 1),
    (132..=132, 3),
    (133..=152, 1),
    (153..=168, 3),
    (169..=169, 2),
    (172..=177, 1),
    (178..=184, 3),
    (185..=186, 5),
    (187..=187, 3),
    (188..=188, 2),
    (189..=189, 3),
    (190..=191, 1),
    (192..=193, 3),
    (194..=195, 1),
    (197..=197, 4),
    (198..=199, 3),
    (200..=201, 5),
    (202..=202, 1),
    (203..=219, 3),
    // Those from 221 to 223, and 225, are followed by the instructions that they stand for.
    (220..=223, 1),
    (224..=226, 2),
    (227..=227, 3),
    (230..=230, 2),
    (231..=231, 3),
    (232..=232, 1),
    (233..=235, 3),
    (236..=236, 1),
    (237..=237, 2),
];
const TABLESWITCH: u8 = 170;
const LOOKUPSWITCH: u8 = 171;
const WIDE: u8 = 196;
const IINC: u8 = 132;
const FAST_LINEARSWITCH: u8 = 228;
const FAST_BINARYSWITCH: u8 = 229;

/// What an instruction does that matters here, with the number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Reads a field.
    Get(u16),
    /// Writes a field.
    Put(u16),
    Call(u16),
    /// In the class file's byte order.
    New(u16),
}

/// All of them with their places in the code. Ends where an instruction is not known.
pub fn uses(code: &[u8]) -> Vec<(u16, Use)> {
    let (mut uses, mut at) = (Vec::new(), 0);
    while let Some(length) = length(code, at) {
        let operand = |from: usize| Some([*code.get(at + from)?, *code.get(at + from + 1)?]);
        let number = operand(1).unwrap_or_default();
        let (native, file) = (u16::from_le_bytes(number), u16::from_be_bytes(number));
        let found = match code[at] {
            178 | 180 | 203..=210 | 234 => Some(Use::Get(native)),
            179 | 181 | 211..=219 | 235 => Some(Use::Put(native)),
            182..=185 | 227 | 233 => Some(Use::Call(native)),
            187 => Some(Use::New(file)),
            _ => None,
        };
        uses.extend(found.map(|found| (at as u16, found)));
        at += length;
    }
    uses
}

/// Of the instruction at a place; `None`: there is none that is known.
fn length(code: &[u8], at: usize) -> Option<usize> {
    let operation = *code.get(at).filter(|_| at < CODE_BYTES_MAX)?;
    let padded = (at + 4) & !3;
    let number = |from: usize| {
        let bytes = code.get(from..from.checked_add(4)?)?;
        usize::try_from(i32::from_be_bytes(bytes.try_into().ok()?)).ok()
    };
    let signed = |from: usize| {
        let bytes = code.get(from..from.checked_add(4)?)?;
        Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))
    };
    let length = match operation {
        TABLESWITCH => {
            let (low, high) = (signed(padded + 4)?, signed(padded + 8)?);
            let count = usize::try_from(high.checked_sub(low)?).ok()? + 1;
            padded + 12 + 4 * count - at
        }
        LOOKUPSWITCH | FAST_LINEARSWITCH | FAST_BINARYSWITCH => {
            padded + 8 + 8 * number(padded + 4)? - at
        }
        WIDE if code.get(at + 1) == Some(&IINC) => 6,
        WIDE => 4,
        _ => {
            let of = LENGTHS
                .iter()
                .find(|(range, _)| range.contains(&operation))?;
            of.1
        }
    };
    (length <= CODE_BYTES_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_code_uses() {
        // aload_0, fast_agetfield 5, aload_1, new 300, dup, invokespecial 2, invokeinterface 7, pop, return
        let code = [
            42, 203, 5, 0, 43, 187, 1, 44, 89, 183, 2, 0, 185, 7, 0, 3, 0, 87, 177,
        ];
        assert_eq!(
            uses(&code),
            [
                (1, Use::Get(5)),
                (5, Use::New(300)),
                (9, Use::Call(2)),
                (12, Use::Call(7))
            ]
        );
    }

    /// A constant text (`fast_aldc`, `fast_aldc_w`), `nofast_getfield` of an archived class, `fast_aaccess_0`.
    #[test]
    fn instructions_of_the_interpreter_are_passed() {
        assert_eq!(uses(&[230, 7, 203, 5, 0]), [(2, Use::Get(5))]);
        assert_eq!(uses(&[231, 1, 9, 179, 6, 0]), [(3, Use::Put(6))]);
        let archived = [236, 234, 3, 0, 237, 1, 233, 4, 0, 232];
        assert_eq!(uses(&archived), [(1, Use::Get(3)), (6, Use::Call(4))]);
        assert_eq!(
            uses(&[222, 203, 8, 0, 226, 1, 52, 182, 2, 0])[1],
            (7, Use::Call(2))
        );
    }

    #[test]
    fn switches_are_passed() {
        let mut table = vec![26, 170, 0, 0];
        for number in [20_i32, 5, 6, 24, 28] {
            table.extend(number.to_be_bytes());
        }
        table.extend([178, 1, 0]);
        assert_eq!(uses(&table), [(24, Use::Get(1))]);
        let mut lookup = vec![26, 229, 0, 0];
        for number in [20_i32, 1, 9, 24] {
            lookup.extend(number.to_be_bytes());
        }
        lookup.extend([WIDE, IINC, 1, 0, 0, 1, 179, 2, 0]);
        assert_eq!(uses(&lookup), [(26, Use::Put(2))]);
    }

    #[test]
    fn bytes_that_are_no_code_end() {
        let hostile = [[TABLESWITCH; 64], [LOOKUPSWITCH; 64], [255; 64], [WIDE; 64]];
        for code in hostile {
            uses(&code);
        }
        let mut backwards = vec![TABLESWITCH, 0, 0, 0];
        for number in [0, i32::MAX, i32::MIN] {
            backwards.extend(number.to_be_bytes());
        }
        assert_eq!(uses(&backwards), []);
    }
}

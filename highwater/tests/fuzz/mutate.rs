//! Good input, damaged: bytes flipped, cut, doubled, spliced, and the words that break parsers put in.

/// SplitMix64: the same numbers on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x243f_6a88_85a3_08d3)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 when `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

const WORDS: &[&[u8]] = &[
    b"NaN",
    b"-1",
    b"1e999",
    b"-0",
    b"99999999999999999999999999",
    b"9223372036854775807",
    b"\"",
    b"\"\"",
    b",",
    b",,,,,,,,",
    b";",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[[",
    b"null",
    b"\\u0000",
    b"inf",
    b"9999-99-99T99:99:99+99:99",
    b"2026-02-30T25:61:61Z",
    b"#",
    b"\xf0\x9f\x92\xa9",
    b" ",
    b"  ",
    b"|",
    b"\t",
    b"1,234",
    b"1.234,5",
    b" KiB",
    b"120M",
    b"sep=;",
    b"3/4/2026",
    b"23:59:59",
    b"\x1f\x8b",
];

/// One damaged input.
pub fn mutate(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut out = seeds[dice.below(seeds.len())].clone();
    for _ in 0..1 + dice.below(6) {
        damage(dice, &mut out, seeds);
    }
    out
}

fn damage(dice: &mut Dice, out: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = dice.below(out.len() + 1);
    let to = at + dice.below(64.min(out.len() - at + 1));
    match dice.below(8) {
        0 if at < out.len() => out[at] ^= 1 << dice.below(8),
        1 if at < out.len() => out[at] = dice.next() as u8,
        2 => out.truncate(at),
        3 => drop(out.drain(at..to)),
        4 => {
            let copy = out[at..to].to_vec();
            for _ in 0..1 + dice.below(30) {
                out.splice(at..at, copy.iter().copied());
            }
        }
        5 => {
            let word = WORDS[dice.below(WORDS.len())];
            out.splice(at..at, word.iter().copied());
        }
        6 => {
            let word = WORDS[dice.below(WORDS.len())];
            out.splice(at..to, word.iter().copied());
        }
        _ => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len() + 1);
            out.truncate(at);
            out.extend_from_slice(&other[from..]);
        }
    }
}

//! What differs between versions of Go in the tables that lead to functions.

/// The versions whose tables are known, as minor versions of Go 1.
pub const MINOR_MIN: u32 = 18;
pub const MINOR_MAX: u32 = 27;

/// From the DWARF of programs built with go1.18.10, 1.19.13, 1.20.14, 1.21.13, 1.22.12, 1.23.12, 1.24.13, 1.25.7,
/// 1.26.8 and 1.27.0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tables {
    /// The number by which `struct _func` and `struct inlinedCall` tell that a function is a wrapper.
    pub wrapper: u8,
    /// Offset in `struct moduledata`.
    pub gofunc: u64,
    /// Size of `struct _func`. Its last four bytes are its number, its flags, none, and how many tables it has.
    pub function_bytes: usize,
    pub inlined: Inlined,
}

/// `struct inlinedCall`: its size, and offsets in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inlined {
    pub bytes: usize,
    pub kind: usize,
    pub name: usize,
    pub parent: usize,
}

impl Tables {
    /// Of Go 1.`minor`; `None` when it is not known.
    pub fn of(minor: u32) -> Option<Tables> {
        // 1.20 moved the line of a function from `struct inlinedCall` to `struct _func`.
        let is_first = minor < 20;
        (MINOR_MIN..=MINOR_MAX).contains(&minor).then_some(Tables {
            wrapper: match minor {
                ..=21 => 21,
                22..=24 => 22,
                _ => 23,
            },
            gofunc: match minor {
                ..=19 => 304,
                20..=26 => 320,
                _ => 344,
            },
            function_bytes: if is_first { 40 } else { 44 },
            inlined: match is_first {
                true => Inlined {
                    bytes: 20,
                    kind: 2,
                    name: 12,
                    parent: 16,
                },
                false => Inlined {
                    bytes: 16,
                    kind: 0,
                    name: 4,
                    parent: 8,
                },
            },
        })
    }
}

/// The minor version in what `runtime.Version` gives: 26 for `go1.26.8`, `go1.26rc1` and `devel go1.26-4fa2`.
pub fn minor_of(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("go1.")?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit());
    rest[..digits.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let cases = [
            ("go1.26.8", Some(26)),
            ("go1.27rc1", Some(27)),
            ("devel go1.24-4fa2 X:nodwarf5", Some(24)),
            ("go1.20", Some(20)),
            ("go2", None),
            ("", None),
        ];
        for (version, minor) in cases {
            assert_eq!(minor_of(version), minor, "{version}");
        }
        assert_eq!((Tables::of(17), Tables::of(28)), (None, None));
    }
}

//! What differs between versions of Go in the tables that lead to functions.

/// The versions whose tables are known, as minor versions of Go 1.
pub const MINOR_MIN: u32 = 20;
pub const MINOR_MAX: u32 = 27;

/// From the DWARF of programs built with go1.20.14, 1.21.13, 1.22.12, 1.23.12, 1.24.13, 1.25.7, 1.26.8 and 1.27.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// The number by which `struct _func` and `struct inlinedCall` tell that a function is a wrapper.
    pub wrapper: u8,
    /// Offset in `struct moduledata`.
    pub gofunc: u64,
}

impl Tables {
    /// Of Go 1.`minor`; `None` when it is not known.
    pub fn of(minor: u32) -> Option<Tables> {
        (MINOR_MIN..=MINOR_MAX).contains(&minor).then_some(Tables {
            wrapper: match minor {
                ..=21 => 21,
                22..=24 => 22,
                _ => 23,
            },
            gofunc: if minor >= 27 { 344 } else { 320 },
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
        assert_eq!((Tables::of(19), Tables::of(28)), (None, None));
    }
}

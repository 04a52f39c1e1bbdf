//! `HIGHWATER_METER` in the environment: `off`, or a list like `mean=512k,seed=7`.

use core::ffi::CStr;

/// Mean distance of samples unless the environment says another, requested bytes: at 300,000 allocations of 8 bytes
/// a second, five samples a second.
pub(crate) const MEAN_BYTES: u64 = 512 * 1024;
const MEAN_BYTES_MIN: u64 = 64;
const MEAN_BYTES_MAX: u64 = 1 << 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) is_on: bool,
    pub(crate) mean_bytes: u64,
    pub(crate) seed: u64,
}

/// Reads the environment; what it cannot use is said on stderr and left at its default.
pub(crate) fn read() -> Settings {
    // SAFETY: a NUL-terminated name. The first allocation of a Rust program comes before its threads.
    let value = unsafe { libc::getenv(c"HIGHWATER_METER".as_ptr()) };
    if value.is_null() {
        return parse(b"").0;
    }
    // SAFETY: getenv's texts end with NUL and stay.
    let (settings, is_clear) = parse(unsafe { CStr::from_ptr(value) }.to_bytes());
    if !is_clear {
        let words = b"highwater-alloc: HIGHWATER_METER has a part that is not `off`, `mean=BYTES` (64 to 1024g) or \
            `seed=NUMBER`; that part is ignored\n";
        // SAFETY: a valid buffer. Nothing can be done when it fails.
        unsafe { libc::write(2, words.as_ptr().cast(), words.len()) };
    }
    settings
}

/// The settings, and whether every part of the text was understood.
fn parse(text: &[u8]) -> (Settings, bool) {
    let mut settings = Settings {
        is_on: true,
        mean_bytes: MEAN_BYTES,
        seed: 1,
    };
    let mut is_clear = true;
    for part in text
        .split(|byte| *byte == b',')
        .filter(|part| !part.is_empty())
    {
        match part.strip_prefix(b"mean=").map(bytes) {
            Some(Some(mean)) if (MEAN_BYTES_MIN..=MEAN_BYTES_MAX).contains(&mean) => {
                settings.mean_bytes = mean;
                continue;
            }
            _ => {}
        }
        match part.strip_prefix(b"seed=").map(number) {
            Some(Some(seed)) => settings.seed = seed,
            _ if part == b"off" => settings.is_on = false,
            _ => is_clear = false,
        }
    }
    (settings, is_clear)
}

fn bytes(text: &[u8]) -> Option<u64> {
    let (digits, unit) = match text.split_last()? {
        (b'k', digits) => (digits, 1 << 10),
        (b'm', digits) => (digits, 1 << 20),
        (b'g', digits) => (digits, 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(unit)
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_defaults() {
        let whole = Settings {
            is_on: true,
            mean_bytes: 65_536,
            seed: 7,
        };
        assert_eq!(parse(b"mean=64k,seed=7"), (whole, true));
        assert_eq!(
            parse(b""),
            (
                Settings {
                    mean_bytes: MEAN_BYTES,
                    seed: 1,
                    ..whole
                },
                true
            )
        );
        assert!(!parse(b"off").0.is_on);
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let plain = parse(b"").0;
        let long = b"9".repeat(1000);
        for text in [
            &b"mean=0"[..],
            b"mean=",
            b"mean=-1",
            b"mean=99999999999g",
            b"seed=x",
            b"OFF",
            b"\xff",
            b"=",
            &long,
        ] {
            assert_eq!(
                parse(text),
                (plain, false),
                "{:?}",
                text.escape_ascii().to_string()
            );
        }
    }
}

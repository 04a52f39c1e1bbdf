//! Names of functions as their source has them.
//!
//! Only a name that begins as the two manglings do is taken for one: to the C++ ABI a lone `w` is `wchar_t`, and a
//! function of C may be called so.

use std::borrow::Cow;
use std::fmt;

/// What compilers call the copies that they make of a function, each with a number: GCC's of a part of it, of some
/// arguments, of one translation unit among many (`gcc/cgraphclones.cc`), and LLVM's of a local one.
const COPIES: [&str; 5] = ["constprop", "isra", "part", "lto_priv", "llvm"];

/// Longest name. What a C++ name says once may stand for twice what it said before, so that 230 bytes make 70 MB and
/// 400 more than there is memory, and names are those of any user's program. (rustc-demangle has a limit of its own.)
const BYTES_MAX: usize = 65_536;

/// As much text as a name may have; more is an error.
#[derive(Default)]
struct Name(String);

impl fmt::Write for Name {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Of a symbol: Rust's without its hash, C++'s with its parameters, any other as it is, each without the words of a
/// compiler's copy. Sources: the Itanium C++ ABI (5.1), and Rust's RFC 2603.
pub fn demangled(symbol: &str) -> Cow<'_, str> {
    let symbol = original(symbol);
    // Go's linker writes the dots of a package's last element so (`cmd/internal/objabi.PathToPrefix`).
    if symbol.contains("%2e") {
        return Cow::Owned(symbol.replace("%2e", "."));
    }
    if !symbol.starts_with("_Z") && !symbol.starts_with("_R") {
        return Cow::Borrowed(symbol);
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return Cow::Owned(format!("{name:#}"));
    }
    cpp(symbol).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

fn cpp(symbol: &str) -> Option<String> {
    let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
    let mut name = Name::default();
    let options = cpp_demangle::DemangleOptions::default();
    parsed.structured_demangle(&mut name, &options).ok()?;
    Some(name.0)
}

/// A symbol without what tells a copy of its function: `sort.part.0.constprop.0.cold` is `sort`'s. A lone `.cold` may
/// be a function of Go's, `main.cold`, and stays.
fn original(symbol: &str) -> &str {
    let hot = symbol.strip_suffix(".cold").unwrap_or(symbol);
    let Some((copied, number)) = hot.rsplit_once('.') else {
        return symbol;
    };
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    match copied.rsplit_once('.') {
        Some((function, word)) if is_number && !function.is_empty() && COPIES.contains(&word) => {
            original(function)
        }
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_goes_by_its_own_names() {
        let cases = [
            (
                "_ZN6search4nearEPKfm",
                "search::near(float const*, unsigned long)",
            ),
            ("_ZN5relay4pump17h0123456789abcdefE", "relay::pump"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("w", "w"),
            ("f", "f"),
            ("St", "St"),
            ("Run", "Run"),
            ("_Zone", "_Zone"),
            ("main.(*weir).flush", "main.(*weir).flush"),
            ("sort_all.constprop.0", "sort_all"),
            ("sort_all.part.0.isra.12.cold", "sort_all"),
            (
                "_ZN6search4nearEPKfm.constprop.0",
                "search::near(float const*, unsigned long)",
            ),
            ("flush.llvm.1234567890123", "flush"),
            ("main.cold", "main.cold"),
            ("main.part", "main.part"),
            ("main.init.0", "main.init.0"),
            (".part.0", ".part.0"),
        ];
        for (symbol, name) in cases {
            assert_eq!(demangled(symbol), name);
        }
    }

    /// `A<int, int>`, then of each two of the one before: with 60 of them as much text as nobody has room for.
    #[test]
    fn a_name_that_doubles_with_every_word_stays_as_it_is() {
        const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let seen = |index: usize| {
            let digit = |at: usize| char::from(DIGITS[at]);
            match index - 1 {
                small @ 0..36 => format!("S{}_", digit(small)),
                large => format!("S{}{}_", digit(large / 36), digit(large % 36)),
            }
        };
        let doubling = |words: usize| {
            let twice = |word: usize| format!("1AI{0}{0}E", seen(2 * word));
            let all: String = (1..words).map(twice).collect();
            format!("_ZTS1AI1AIiiE{all}E")
        };
        assert!(
            demangled(&doubling(3))
                .ends_with("A<A<A<int, int>, A<int, int> >, A<A<int, int>, A<int, int> > > >")
        );
        let long = doubling(60);
        assert_eq!(demangled(&long), long);
    }
}

//! Names of functions as their source has them.
//!
//! Only a name that begins as the two manglings do is taken for one: to the C++ ABI a lone `w` is `wchar_t`, and a
//! function of C may be called so.

use std::borrow::Cow;

/// Of a symbol: Rust's without its hash, C++'s with its parameters, any other as it is. Sources: the Itanium C++ ABI
/// (5.1), and Rust's RFC 2603.
pub fn demangled(symbol: &str) -> Cow<'_, str> {
    if !symbol.starts_with("_Z") && !symbol.starts_with("_R") {
        return Cow::Borrowed(symbol);
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return Cow::Owned(format!("{name:#}"));
    }
    let name = cpp_demangle::Symbol::new(symbol).ok();
    let name = name.and_then(|name| name.demangle().ok());
    name.map_or(Cow::Borrowed(symbol), Cow::Owned)
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
        ];
        for (symbol, name) in cases {
            assert_eq!(demangled(symbol), name);
        }
    }
}

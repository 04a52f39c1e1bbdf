//! Names of functions as a sentence can hold them.

use super::wrappers::path_of;

/// Longer names lose what a reader can do without.
const CHARS_MAX: usize = 48;

/// A long C++ name without return type and arguments, `<..>` for what its templates were given:
/// `Cabinet<long, std::string, Row>::pull(long, std::string)` is `Cabinet<..>::pull`.
pub fn brief(name: &str) -> String {
    let is_plain = name.chars().count() <= CHARS_MAX;
    if is_plain || name.starts_with('<') || name.contains("operator") {
        return name.to_owned();
    }
    let mut out = String::new();
    let mut depth = 0usize;
    for letter in path_of(name).chars() {
        match letter {
            '<' => {
                if depth == 0 {
                    out.push_str("<..>");
                }
                depth += 1;
            }
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments() {
        let string =
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        assert_eq!(
            brief(&format!(
                "atelier::Cabinet<long, {string}>::pull(long, {string})"
            )),
            "atelier::Cabinet<..>::pull"
        );
        assert_eq!(
            brief(&format!(
                "void varnish<atelier::Cabinet<long, {string}> >(int)"
            )),
            "varnish<..>"
        );
        let nested =
            "v8impl::(anonymous namespace)::CallbackWrapperBase::InvokeCallback(v8::Local)";
        assert_eq!(
            brief(nested),
            "v8impl::(anonymous namespace)::CallbackWrapperBase::InvokeCallback"
        );
        for kept in [
            "shop::Desk::open(int)",
            "forget",
            "<alloc::vec::Vec<T> as Clone>::clone",
        ] {
            assert_eq!(brief(kept), kept);
        }
    }
}

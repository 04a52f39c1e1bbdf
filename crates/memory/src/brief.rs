//! Names of functions as a sentence can hold them.

use super::wrappers::path_of;

/// Longer names lose what a reader can do without.
const CHARS_MAX: usize = 48;

/// A long C++ name without return type and arguments, `<..>` for what its templates were given:
/// `Cabinet<long, std::string, Row>::pull(long, std::string)` is `Cabinet<..>::pull`. A long name of a Rust method
/// by its type and itself: `<shop::till::Drawer as shop::Open>::open::{{closure}}` is `Drawer::open`.
pub fn brief(name: &str) -> String {
    let is_plain = name.chars().count() <= CHARS_MAX;
    if let Some(method) = name.strip_prefix('<').filter(|_| !is_plain) {
        return method_of_trait(method).unwrap_or_else(|| name.to_owned());
    }
    // A constructor of Java's: no template.
    let is_java = name.ends_with(".<init>") || name.ends_with(".<clinit>");
    if is_plain || is_java || name.contains("operator") {
        return name.to_owned();
    }
    without_templates(path_of(name))
}

/// `method` is `TYPE as TRAIT>::NAME`, or `TYPE>::NAME`.
fn method_of_trait(method: &str) -> Option<String> {
    let (of_type, name) = method.rsplit_once(">::")?;
    let of_type = of_type.split(" as ").next()?;
    let of_type = without_templates(of_type);
    let last = of_type.rsplit("::").next()?;
    let name = name.trim_end_matches("::{{closure}}");
    (!last.is_empty() && !name.is_empty()).then(|| format!("{last}::{name}"))
}

fn without_templates(path: &str) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    for letter in path.chars() {
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
        let method = "<opentelemetry_sdk::trace::span_processor::SimpleSpanProcessor as \
                      opentelemetry_sdk::trace::span_processor::SpanProcessor>::on_end::{{closure}}";
        assert_eq!(brief(method), "SimpleSpanProcessor::on_end");
        let of_go = "gopkg.in/natefinch/lumberjack.v2.(*Logger).millRun.func1.2";
        assert_eq!(brief(of_go), of_go);
        let own =
            "<parking::garage::levels::Level<parking::vehicles::Vehicle>>::take_the_first_free";
        assert_eq!(brief(own), "Level<..>::take_the_first_free");
        for kept in [
            "shop::Desk::open(int)",
            "forget",
            "<alloc::vec::Vec<T> as Clone>::clone",
        ] {
            assert_eq!(brief(kept), kept);
        }
    }
}

//! Which names are of a language and its standard library, and which of the program and its libraries.

use symbols::golang;
use symbols::hotspot::in_platform;

/// The language that most programs of a runtime are written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Language {
    #[default]
    Python,
    Go,
    Java,
    JavaScript,
}

impl Language {
    pub fn word(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::Go => "Go",
            Language::Java => "Java",
            Language::JavaScript => "JavaScript",
        }
    }
}

/// Modules of Python's standard library (`sys.stdlib_module_names`) whose types are made by programs in large numbers.
/// Modules that begin with an underscore are parts of it, but for `__main__`.
const PYTHON_STANDARD: [&str; 56] = [
    "abc",
    "array",
    "asyncio",
    "base64",
    "builtins",
    "codecs",
    "collections",
    "concurrent",
    "contextlib",
    "contextvars",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "email",
    "enum",
    "fractions",
    "functools",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "http",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "logging",
    "multiprocessing",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "queue",
    "random",
    "re",
    "selectors",
    "socket",
    "sqlite3",
    "ssl",
    "string",
    "subprocess",
    "tempfile",
    "threading",
    "traceback",
    "types",
    "typing",
    "urllib",
    "uuid",
    "weakref",
    "xml",
    "zipfile",
];

/// Constructors of JavaScript and Node.
const CONSTRUCTORS: [&str; 14] = [
    "Array",
    "Object",
    "Map",
    "Set",
    "WeakMap",
    "WeakSet",
    "Promise",
    "Function",
    "ArrayBuffer",
    "Uint8Array",
    "Buffer",
    "Timeout",
    "Immediate",
    "system",
];

/// Whether a type is of a language or of its standard library, by its name as in [`crate::TypeCount::name`]: Python's
/// built-in types have no module, Java's have one of the platform's packages, V8 puts internal ones in parentheses.
pub fn is_of_the_language(language: Language, type_name: &str) -> bool {
    let element = type_name.trim_end_matches("[]");
    let first = element.split(['.', ' ']).next().unwrap_or(element);
    let has_module = element.contains('.');
    match language {
        Language::Python => {
            let is_part = first.starts_with('_') && first != "__main__";
            !has_module || is_part || PYTHON_STANDARD.contains(&first)
        }
        Language::Java => {
            let is_primitive =
                !has_module && element.starts_with(|first: char| first.is_lowercase());
            is_primitive || in_platform(element)
        }
        Language::JavaScript => element.starts_with('(') || CONSTRUCTORS.contains(&first),
        Language::Go => false,
    }
}

/// Whether a function is of a runtime or of a language's standard library, by its name and file.
pub fn is_of_the_standard_library(function: &str, file: Option<&str>) -> bool {
    let file = file.unwrap_or_default();
    if file.ends_with(".go") || file.is_empty() && function.starts_with("runtime.") {
        return golang::is_standard(function);
    }
    in_platform(function) || file.starts_with("node:") || symbols::python::in_standard_library(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_language() {
        use Language::*;
        for (language, name) in [
            (Python, "dict"),
            (Python, "ValueError"),
            (Python, "_asyncio.Task"),
            (Python, "collections.deque"),
            (Java, "byte[]"),
            (Java, "java.util.HashMap$Node"),
            (Java, "java.lang.String[]"),
            (JavaScript, "(string)"),
            (JavaScript, "Array"),
            (JavaScript, "system / Context"),
        ] {
            assert!(is_of_the_language(language, name), "{name}");
        }
        for (language, name) in [
            (Python, "__main__.Order"),
            (Python, "multidict._multidict.istr"),
            (Java, "com.shop.Session"),
            (Java, "io.netty.buffer.PoolChunk"),
            (Java, "App$Session"),
            (Java, "Order[]"),
            (JavaScript, "Session"),
            (JavaScript, "session"),
        ] {
            assert!(!is_of_the_language(language, name), "{name}");
        }
    }

    #[test]
    fn functions_of_the_standard_library() {
        let go = "/usr/local/go/src/net/http/server.go";
        assert!(is_of_the_standard_library(
            "net/http.(*conn).serve",
            Some(go)
        ));
        assert!(is_of_the_standard_library("runtime.mallocgc", None));
        assert!(is_of_the_standard_library("go/ast.Walk", Some("walk.go")));
        assert!(!is_of_the_standard_library(
            "go.uber.org/zap.New",
            Some("logger.go")
        ));
        assert!(!is_of_the_standard_library(
            "main.handle",
            Some("/home/me/app/main.go")
        ));
        assert!(!is_of_the_standard_library(
            "github.com/a/b.(*Pool).Get",
            Some("/go/pkg/mod/b.go")
        ));
        assert!(is_of_the_standard_library(
            "java.util.HashMap.put",
            Some("HashMap.java")
        ));
        assert!(is_of_the_standard_library(
            "__init__",
            Some("/usr/lib/python3.11/queue.py")
        ));
        assert!(!is_of_the_standard_library("handle", Some("/srv/app.py")));
    }
}

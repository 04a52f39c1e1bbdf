//! The tables that every Go program carries, stripped or not: from addresses to functions and back.
//!
//! ```text
//! /proc/PID/exe --> binary: version, variables --> module: moduledata --> pclntab: address -> functions, frame sizes
//! ```

pub mod binary;
pub mod functions;
pub mod module;
pub mod paged;
pub mod pclntab;
pub mod reasons;
pub mod version;
pub mod words;

/// Between Go and C, and neither: what cgo and the runtime put there for a call (`main._Cfunc_CString`,
/// `main._cgo_cmalloc`).
pub fn is_glue(function: &str) -> bool {
    let of_runtime = ["runtime.cgocall", "runtime.asmcgocall"];
    function.contains("._Cfunc_")
        || function.contains("._cgo_")
        || (function.starts_with("_cgo_") && function.contains("_Cfunc_"))
        || of_runtime.iter().any(|name| function.starts_with(name))
}

/// First elements of the import paths of Go's standard library (`go list std`).
const STANDARD: [&str; 49] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "vendor",
    "weak",
];

/// Of the standard library, by its name in the program's tables.
pub fn is_standard(function: &str) -> bool {
    STANDARD.contains(&root(function))
}

/// The first element of the import path in a Go name: `net` of `net/http.(*conn).serve`, `go.uber.org` of
/// `go.uber.org/zap.New`, `main` of `main.handle`.
fn root(name: &str) -> &str {
    match name.split_once('/') {
        Some((first, _)) => first,
        None => name.split('.').next().unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::is_glue;

    #[test]
    fn a_call_of_c_has_frames_that_are_nobodys() {
        let glue = [
            "main._Cfunc_picture_scaled",
            "github.com/mattn/go-sqlite3._Cfunc_sqlite3_step",
            "runtime.cgocall",
            "runtime.asmcgocall.abi0",
            "runtime.asmcgocall_landingpad.abi0",
            "_cgo_ef9ceaaf32cb_Cfunc_picture_scaled",
            "main._cgo_cmalloc",
        ];
        assert!(glue.iter().all(|name| is_glue(name)));
        let others = [
            "main.serveOrders",
            "picture_scaled",
            "runtime.chanrecv",
            "_cgo_release",
        ];
        assert!(!others.iter().any(|name| is_glue(name)));
    }
}

//! Functions that are nobody's own: of the standard libraries, and of the system's.

/// Sources of the standard libraries of Rust, Zig, Go and C++ (libstdc++ and libc++), wherever they are
/// installed: an inlined function has a short name only. The C library's headers have some too (`getline` of
/// `bits/stdio.h`).
pub fn in_standard_library(file: &str) -> bool {
    (file.contains("/rustc/") && file.contains("/library/"))
        || file.contains("/rustlib/src/rust/library/")
        || (file.contains("/lib/std/") && file.ends_with(".zig"))
        || file.contains("/include/c++/")
        || (file.contains("/include/") && file.contains("/bits/"))
        || (file.ends_with(".go") && in_gos(file))
}

/// The folders of Go's `src`, up to Go 1.27, without those that a program has too: `internal`, `vendor`.
const OF_GO: [&str; 48] = [
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
    "unsafe",
    "weak",
];

/// `/usr/local/go/src/os/exec/exec.go`, of any version's folder, or `os/exec/exec.go` where the build left the folder
/// out (`-trimpath`).
fn in_gos(file: &str) -> bool {
    let path = match file.rsplit_once("/src/") {
        Some((root, path)) if root.rsplit('/').next().is_some_and(is_a_go) => path,
        Some(_) => return false,
        None => file,
    };
    let folder = path.split_once('/').map(|(folder, _)| folder);
    folder.is_some_and(|folder| OF_GO.contains(&folder))
}

/// `go`, `go1.22.3`, `go-1.19`, `toolchain@v0.0.1-go1.22.0.linux-amd64`.
fn is_a_go(folder: &str) -> bool {
    let version = folder
        .strip_prefix("go")
        .map(|rest| rest.trim_start_matches('-'));
    let is_version =
        |rest: &str| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit());
    version.is_some_and(is_version) || folder.starts_with("toolchain@")
}

/// Folders of libraries, and parents of folders that are named after a machine (`x86_64-linux-gnu`). What lies
/// deeper is a plugin of somebody.
const FOLDERS: [&str; 6] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// A library where the system keeps them, by its path.
pub fn is_system_library(path: &str) -> bool {
    let Some((folder, file)) = path.rsplit_once('/') else {
        return false;
    };
    let parent = folder.rsplit_once('/');
    let of_machine = parent.filter(|(_, name)| name.ends_with("-linux-gnu"));
    let folder = of_machine.map_or(folder, |(parent, _)| parent);
    FOLDERS.contains(&folder) && file.contains(".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gos_own_sources_are_known_wherever_it_is_installed() {
        let own = [
            "/usr/local/go/src/os/exec/exec.go",
            "/root/sdk/go1.26.8/src/net/http/server.go",
            "/usr/lib/go-1.19/src/io/pipe.go",
            "/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.22.0.linux-amd64/src/time/sleep.go",
            "database/sql/sql.go",
            "/root/src/go/src/net/http/server.go",
        ];
        let others = [
            "/go/src/orders/main.go",
            "/go/src/github.com/lib/pq/conn.go",
            "/go/pkg/mod/github.com/lib/pq@v1.10.9/conn.go",
            "/home/me/src/net/server.go",
            "github.com/lib/pq@v1.10.9/conn.go",
            "main.go",
            "internal/orders/handler.go",
            "/go/src/internal/store/db.go",
            "/usr/local/go/src/os/exec/exec.c",
        ];
        assert!(own.iter().all(|file| in_standard_library(file)));
        assert!(!others.iter().any(|file| in_standard_library(file)));
    }
}

//! Functions that are nobody's own: of the standard libraries.

/// Sources of the standard libraries of Rust, Zig and C++ (libstdc++ and libc++), wherever they are
/// installed: an inlined function has a short name only. The C library's headers have some too (`getline` of
/// `bits/stdio.h`).
pub fn in_standard_library(file: &str) -> bool {
    (file.contains("/rustc/") && file.contains("/library/"))
        || file.contains("/rustlib/src/rust/library/")
        || (file.contains("/lib/std/") && file.ends_with(".zig"))
        || file.contains("/include/c++/")
        || (file.contains("/include/") && file.contains("/bits/"))
}

//! Functions that are nobody's own: of the standard libraries, and of the system's.

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

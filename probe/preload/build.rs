//! Links the library so that it drags in and shows as little as possible.

fn main() {
    // Own calls stay inside; debug information of the Rust library stays out of the subject's page
    // cache.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--strip-debug");
    link_unwinder();
    println!("cargo:rerun-if-changed=build.rs");
}

/// The unwinder of the probe's own panics is part of the library, where the compiler has it as an archive. Otherwise
/// libgcc_s.so.1 comes with the probe into programs without it: more memory, and pthread_cancel works where the program
/// could not have opened that library.
fn link_unwinder() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let found = std::process::Command::new(compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let Ok(found) = found else { return };
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    // Without such a file the compiler prints the bare name.
    if let Some((folder, _)) = path.rsplit_once('/') {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
    }
}

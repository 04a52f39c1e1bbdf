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
    // What links: an archive of another compiler may be for another machine.
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let found = std::process::Command::new(&linker)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let path = found.map_or(String::new(), |found| {
        String::from_utf8_lossy(&found.stdout).trim().to_owned()
    });
    // Without such a file the compiler prints the bare name.
    match path.rsplit_once('/') {
        Some((folder, _)) => {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
        }
        None => println!(
            "cargo:warning={linker} has no libgcc_eh.a: the probe will bring libgcc_s.so.1"
        ),
    }
}

//! The clock of the program stands in front of the C library's: allocators find it by its name, so it has to be among
//! the names that the program exports.

fn main() {
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    // zig's linker cannot export a single name.
    let flag = match linker.contains("zig") {
        true => "-rdynamic",
        false => "-Wl,--export-dynamic-symbol=clock_gettime",
    };
    println!("cargo:rustc-link-arg-bins={flag}");
    println!("cargo:rerun-if-changed=build.rs");
}

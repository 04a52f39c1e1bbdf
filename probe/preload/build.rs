//! Links the library so that it drags in and shows as little as possible.

fn main() {
    // Own calls stay inside; debug information of the Rust library stays out of the subject's page
    // cache.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--strip-debug");
    println!("cargo:rerun-if-changed=build.rs");
}

//! The clock of the program stands in front of the C library's: allocators find it by its name. It has to be among the
//! names that the program exports; all linkers know the flag for all of them, and not all the one for a single name.

fn main() {
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    println!("cargo:rerun-if-changed=build.rs");
}

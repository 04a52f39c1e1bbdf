fn main() {
    println!("cargo:rerun-if-changed=src/codec.c");
    cc::Build::new()
        .file("src/codec.c")
        .opt_level(2)
        .debug(true)
        .compile("codec");
}

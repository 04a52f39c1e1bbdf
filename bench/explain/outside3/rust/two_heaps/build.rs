fn main() {
    println!("cargo:rerun-if-changed=src/glyph.c");
    cc::Build::new().file("src/glyph.c").opt_level(2).debug(true).compile("glyph");
}

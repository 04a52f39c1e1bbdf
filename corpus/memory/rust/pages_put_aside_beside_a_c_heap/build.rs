fn main() {
    println!("cargo:rerun-if-changed=glyph.c");
    cc::Build::new().file("glyph.c").opt_level(2).debug(true).compile("glyph");
}

fn main() {
    println!("cargo:rerun-if-changed=codec.c");
    cc::Build::new().file("codec.c").opt_level(2).debug(true).compile("codec");
}

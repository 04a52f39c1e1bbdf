//! Packs the letters of pictures, a third of their size: they are needed for a PNG alone.

use std::io::Write;
use std::path::Path;

use lzma_rust2::{Lzma2Options, Lzma2Writer};

/// Of the encoder's presets; of the better ones the packed letters are as large.
const PRESET: u32 = 6;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let fonts = [dejavu::sans::regular(), dejavu::sans::bold()];
    let mut writer = Lzma2Writer::new(Vec::new(), Lzma2Options::with_preset(PRESET));
    for font in fonts {
        let bytes = u32::try_from(font.len()).expect("a font is small");
        writer
            .write_all(&bytes.to_le_bytes())
            .expect("a Vec takes all");
        writer.write_all(font).expect("a Vec takes all");
    }
    let packed = writer.finish().expect("a Vec takes all");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("fonts.lzma2"), packed).expect("OUT_DIR can be written");
}

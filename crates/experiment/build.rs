//! Makes files a part of the program where `HIGHWATER_FORMS` names a folder with them, as `make dist` does: a folder
//! for each C library, with everything that is linked with one. Otherwise they lie beside the program.
//!
//! The files of a form are one LZMA2 stream, a sixth of their size: they share most of their code.

use std::io::Write;
use std::path::{Path, PathBuf};

use lzma_rust2::{Lzma2Options, Lzma2Writer};

const LIBCS: [&str; 2] = ["glibc", "musl"];
const FILES: [&str; 3] = [
    "libhighwater_probe.so",
    "highwater-time-pairs",
    "highwater-replayer",
];
/// Of the encoder's presets the one that packs best.
const PRESET: u32 = 9;
/// All files of a form fit, so that each finds what is alike in those before.
const DICTIONARY_BYTES: u32 = 8 << 20;

fn main() {
    println!("cargo:rerun-if-env-changed=HIGHWATER_FORMS");
    println!("cargo:rerun-if-changed=build.rs");
    let forms = std::env::var_os("HIGHWATER_FORMS").map(PathBuf::from);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let entries: String = forms
        .iter()
        .flat_map(|forms| LIBCS.map(|libc| entry(forms, libc, &out)))
        .collect();
    std::fs::write(out.join("forms.rs"), format!("&[{entries}]")).expect("OUT_DIR can be written");
}

fn entry(forms: &Path, libc: &str, out: &Path) -> String {
    let mut content = Vec::new();
    let mut file = |name: &str| {
        let file = forms.join(libc).join(name);
        println!("cargo:rerun-if-changed={}", file.display());
        let bytes =
            std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        content.extend_from_slice(&bytes);
        format!("({name:?}, {}),", bytes.len())
    };
    let files: String = FILES.iter().map(|name| file(name)).collect();
    let packed = out.join(format!("{libc}.lzma2"));
    std::fs::write(&packed, pack(&content)).expect("OUT_DIR can be written");
    let path = packed.display().to_string();
    format!(
        "Form {{ libc: {libc:?}, files: &[{files}], dictionary_bytes: {DICTIONARY_BYTES}, \
         packed: include_bytes!({path:?}) }},"
    )
}

fn pack(content: &[u8]) -> Vec<u8> {
    let mut options = Lzma2Options::with_preset(PRESET);
    options.lzma_options.dict_size = DICTIONARY_BYTES;
    let mut writer = Lzma2Writer::new(Vec::new(), options);
    writer.write_all(content).expect("a Vec takes all");
    writer.finish().expect("a Vec takes all")
}

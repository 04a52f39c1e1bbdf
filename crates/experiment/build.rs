//! Makes files a part of the program where `HIGHWATER_FORMS` names a folder with them, as `make dist` does: a folder
//! for each C library, with everything that is linked with one. Otherwise they lie beside the program.

use std::path::Path;

const LIBCS: [&str; 2] = ["glibc", "musl"];
const FILES: [&str; 3] = [
    "libhighwater_probe.so",
    "highwater-time-pairs",
    "highwater-replayer",
];

fn main() {
    println!("cargo:rerun-if-env-changed=HIGHWATER_FORMS");
    println!("cargo:rerun-if-changed=build.rs");
    let forms = std::env::var_os("HIGHWATER_FORMS").map(std::path::PathBuf::from);
    let entries: String = forms
        .iter()
        .flat_map(|forms| LIBCS.map(|libc| entry(forms, libc)))
        .collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let file = Path::new(&out).join("forms.rs");
    std::fs::write(&file, format!("&[{entries}]")).expect("OUT_DIR can be written");
}

fn entry(forms: &Path, libc: &str) -> String {
    let file = |name: &str| {
        let file = forms.join(libc).join(name);
        println!("cargo:rerun-if-changed={}", file.display());
        assert!(file.is_file(), "{}: no such file", file.display());
        let path = file.display().to_string();
        format!("({name:?}, include_bytes!({path:?}) as &[u8]),")
    };
    let files: String = FILES.iter().map(|name| file(name)).collect();
    format!("Form {{ libc: {libc:?}, files: &[{files}] }},")
}

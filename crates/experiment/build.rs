//! Makes the probe a part of the program where `HIGHWATER_PROBE_FORMS` names a folder with its forms, as `make dist`
//! does: a folder for each C library, with the library and the program that times it. Otherwise they lie beside it.

use std::path::Path;

const LIBCS: [&str; 2] = ["glibc", "musl"];
const LIBRARY: &str = "libhighwater_probe.so";
const TIMER: &str = "highwater-time-pairs";

fn main() {
    println!("cargo:rerun-if-env-changed=HIGHWATER_PROBE_FORMS");
    println!("cargo:rerun-if-changed=build.rs");
    let forms = std::env::var_os("HIGHWATER_PROBE_FORMS").map(std::path::PathBuf::from);
    let entries: String = forms
        .iter()
        .flat_map(|forms| LIBCS.map(|libc| entry(forms, libc)))
        .collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let file = Path::new(&out).join("forms.rs");
    std::fs::write(&file, format!("&[{entries}]")).expect("OUT_DIR can be written");
}

fn entry(forms: &Path, libc: &str) -> String {
    let bytes = |name: &str| {
        let file = forms.join(libc).join(name);
        println!("cargo:rerun-if-changed={}", file.display());
        assert!(file.is_file(), "{}: no such file", file.display());
        format!("include_bytes!({:?})", file.display().to_string())
    };
    format!(
        "Form {{ libc: {libc:?}, library: {}, timer: {} }},",
        bytes(LIBRARY),
        bytes(TIMER)
    )
}

//! Embeds the recipes of `allocators/` in the binary, so that the installed tool needs no
//! repository.
//!
//! Writes `$OUT_DIR/allocators.rs` with three lists of (file name, text). Adding a recipe is adding
//! a file: nothing here names one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../allocators")
        .canonicalize()?;
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut code = String::new();
    for (list, folder) in [
        ("RECIPES", folder.clone()),
        ("LOCKS", folder.join("locks")),
        ("FILES", folder.join("files")),
    ] {
        write_list(&mut code, list, &files_of(&folder)?);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    fs::write(out.join("allocators.rs"), code)
}

/// The plain files of a folder in the order of their names: the same binary from the same tree.
fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let documents = path.extension().is_some_and(|e| e == "md");
        if path.is_file() && !documents {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn write_list(code: &mut String, list: &str, files: &[PathBuf]) {
    writeln!(code, "pub(super) static {list}: &[(&str, &str)] = &[").expect("a String");
    for file in files {
        let name = file.file_name().expect("a file").to_string_lossy();
        let path = file.to_str().expect("the repository's path is UTF-8");
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("a String");
    }
    writeln!(code, "];").expect("a String");
}

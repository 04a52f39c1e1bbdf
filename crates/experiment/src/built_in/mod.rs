//! Files that a released highwater has inside: the probe and the programs that preload something, in a form for each C
//! library. In: the C library and a name; out: a path, of the file unpacked, or of the one beside this program.

mod unpack;

use std::path::{Path, PathBuf};

pub use unpack::UnpackError;

/// The C library that a form is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForLibc {
    /// 2.17 and later.
    Glibc,
    Musl,
}

impl ForLibc {
    fn word(self) -> &'static str {
        match self {
            ForLibc::Glibc => "glibc",
            ForLibc::Musl => "musl",
        }
    }
}

/// All that is linked with one C library.
#[derive(Debug)]
struct Form {
    libc: &'static str,
    /// Name and content of each file.
    files: &'static [(&'static str, &'static [u8])],
}

/// None in a build that has them beside it.
static FORMS: &[Form] = include!(concat!(env!("OUT_DIR"), "/forms.rs"));

/// Whether this program brings its files with it.
pub fn is_complete() -> bool {
    !FORMS.is_empty()
}

/// The unpacked file for a C library; `None`: this program does not bring it.
///
/// # Errors
/// There is no place where it can be unpacked to.
pub fn unpacked(libc: ForLibc, name: &str) -> Result<Option<PathBuf>, UnpackError> {
    let Some(form) = FORMS.iter().find(|form| form.libc == libc.word()) else {
        return Ok(None);
    };
    if !form.files.iter().any(|(there, _)| *there == name) {
        return Ok(None);
    }
    unpack::unpack(libc.word(), form.files).map(|folder| Some(folder.join(name)))
}

/// The file beside this program, as a build leaves it or as an installation with a `lib` folder has it.
pub fn beside(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?;
    // A test binary lies one folder deeper than what its build makes.
    let places: [&Path; 3] = [
        Path::new(""),
        Path::new("../lib/highwater"),
        Path::new(".."),
    ];
    let mut files = places.iter().map(|place| folder.join(place).join(name));
    files.find(|path| path.is_file())
}

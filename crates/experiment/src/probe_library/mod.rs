//! The probe's library for a program: where it lies, or where it was unpacked to. In: the program's C library; out: a
//! path that a dynamic linker can take, and that no other user can replace.

mod unpack;

use std::path::{Path, PathBuf};

use crate::writable::{Writable, writable_by_others};
pub use unpack::UnpackError;

/// File name of the probe's library: processes that have it are known by this name.
pub const LIBRARY: &str = "libhighwater_probe.so";
/// File name of the program that times the probe.
const TIMER: &str = "highwater-time-pairs";
/// Names a library to take instead of any other.
pub const OVERRIDE: &str = "HIGHWATER_PROBE_LIBRARY";

/// The C library that a form of the probe is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForLibc {
    /// 2.17 and later.
    Glibc,
    Musl,
}

/// The probe as a part of this program.
#[derive(Debug)]
struct Form {
    libc: &'static str,
    library: &'static [u8],
    timer: &'static [u8],
}

/// None in a build that has them beside it.
static FORMS: &[Form] = include!(concat!(env!("OUT_DIR"), "/forms.rs"));

/// The probe's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeLibrary {
    pub library: PathBuf,
    /// Runs with the library and without, and prints what a call costs. `None`: highwater itself can.
    pub timer: Option<PathBuf>,
}

/// Why the probe's library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeLibraryError {
    #[error(
        "the probe {} is not loaded: {writable}, so another user could replace it. Install highwater in a folder \
         that only root or you can write, or remove that right (chmod go-w), or name another copy in {OVERRIDE}",
        library.display()
    )]
    Writable {
        library: PathBuf,
        writable: Writable,
    },
    #[error(transparent)]
    Unpack(#[from] UnpackError),
}

/// By [`OVERRIDE`]; or the form for this C library, unpacked, where this program has it; or beside this program.
/// `None`: none of them.
///
/// # Errors
/// Another user can replace it (it would run with the rights of the program that it is loaded into), or there is no
/// place where it can be unpacked to.
pub fn find(libc: ForLibc) -> Result<Option<ProbeLibrary>, ProbeLibraryError> {
    let Some(found) = locate(libc)? else {
        return Ok(None);
    };
    match writable_by_others(&found.library) {
        Some(writable) => Err(ProbeLibraryError::Writable {
            library: found.library,
            writable,
        }),
        None => Ok(Some(found)),
    }
}

/// Whether this program brings the probe's forms with it.
pub fn is_built_in() -> bool {
    !FORMS.is_empty()
}

fn locate(libc: ForLibc) -> Result<Option<ProbeLibrary>, UnpackError> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        let named = Some(PathBuf::from(path)).filter(|path| path.is_file());
        // The timer is for the same C library, whatever library it times.
        let timer = named.as_ref().and_then(|_| built_in(libc).ok().flatten());
        return Ok(named.map(|library| ProbeLibrary {
            library,
            timer: timer.and_then(|found| found.timer),
        }));
    }
    match built_in(libc)? {
        Some(found) => Ok(Some(found)),
        None => Ok(beside().map(|library| ProbeLibrary {
            library,
            timer: None,
        })),
    }
}

fn built_in(libc: ForLibc) -> Result<Option<ProbeLibrary>, UnpackError> {
    let name = match libc {
        ForLibc::Glibc => "glibc",
        ForLibc::Musl => "musl",
    };
    let Some(form) = FORMS.iter().find(|form| form.libc == name) else {
        return Ok(None);
    };
    let files = [(LIBRARY, form.library), (TIMER, form.timer)];
    let folder = unpack::unpack(name, &files)?;
    Ok(Some(ProbeLibrary {
        library: folder.join(LIBRARY),
        timer: Some(folder.join(TIMER)),
    }))
}

/// Beside this program, as a build leaves it or as an installation with a `lib` folder has it.
fn beside() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?;
    // A test binary lies one folder deeper than the libraries of its build.
    let places: [&Path; 3] = [
        Path::new(""),
        Path::new("../lib/highwater"),
        Path::new(".."),
    ];
    let mut libraries = places.iter().map(|place| folder.join(place).join(LIBRARY));
    libraries.find(|path| path.is_file())
}

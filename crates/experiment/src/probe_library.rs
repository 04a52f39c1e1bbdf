//! The probe's library for a program: where it lies, or where it was unpacked to. In: the program's C library; out: a
//! path that a dynamic linker can take, and that no other user can replace.

use std::path::PathBuf;

use crate::built_in::{self, ForLibc, UnpackError};
use crate::writable::{Writable, writable_by_others};

/// File name of the probe's library: processes that have it are known by this name.
pub const LIBRARY: &str = "libhighwater_probe.so";
/// File name of the program that times the probe.
const TIMER: &str = "highwater-time-pairs";
/// Names a library to take instead of any other.
pub const OVERRIDE: &str = "HIGHWATER_PROBE_LIBRARY";

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

fn locate(libc: ForLibc) -> Result<Option<ProbeLibrary>, UnpackError> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        let named = Some(PathBuf::from(path)).filter(|path| path.is_file());
        // The timer is for the same C library, whatever library it times.
        return Ok(named.map(|library| ProbeLibrary {
            library,
            timer: built_in::unpacked(libc, TIMER).ok().flatten(),
        }));
    }
    if let Some(library) = built_in::unpacked(libc, LIBRARY)? {
        let timer = built_in::unpacked(libc, TIMER)?;
        return Ok(Some(ProbeLibrary { library, timer }));
    }
    Ok(built_in::beside(LIBRARY).map(|library| ProbeLibrary {
        library,
        timer: None,
    }))
}

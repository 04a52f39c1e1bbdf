//! Whether a process runs what its arm says.

use std::path::Path;

use crate::snapshot::Expected;

use super::library::{FileKey, Identity, Libraries};
use super::proof::{Answer, Proof};

/// In words, why a process does not run its arm; `None` when it does.
///
/// The rule. An arm with an allocator: the file that answers malloc must be that library, by inode
/// or by sha256 (a copy of it in a container is the same library). An arm of the system's: the C
/// library must answer. An arm that names none is the program as it comes. A static program runs its
/// own allocator, which no preload changes.
pub fn not_the_arm(
    expected: &Expected,
    proof: &Proof,
    pid: i32,
    libraries: &mut Libraries,
) -> Option<String> {
    match expected {
        Expected::Library(library) => not_the_library(library, proof, pid, libraries),
        Expected::System => not_the_system(proof, pid),
        Expected::Any => None,
    }
}

fn not_the_system(proof: &Proof, pid: i32) -> Option<String> {
    let Answer::Library {
        path,
        identity,
        is_program,
        ..
    } = &proof.answer
    else {
        return None;
    };
    if is_system_libc(path) {
        return None;
    }
    let who = named(path, identity.as_deref());
    let cause = if *is_program {
        "the program was linked with an allocator of its own: give the arm that name, or a program \
         without it"
    } else {
        "it was preloaded (LD_PRELOAD, /etc/ld.so.preload) or the program is linked with it"
    };
    Some(format!(
        "pid {pid} should run the system's allocator, but malloc is answered by {who}; {cause}"
    ))
}

fn not_the_library(
    library: &Path,
    proof: &Proof,
    pid: i32,
    libraries: &mut Libraries,
) -> Option<String> {
    let wanted = library.display();
    let (key, identity) = match libraries.identity_of(library) {
        Ok(known) => known,
        Err(error) => {
            return Some(format!(
                "pid {pid}: the arm's library {wanted} cannot be read: {error}"
            ));
        }
    };
    let who = match &proof.answer {
        Answer::Library {
            key: found,
            identity: other,
            path,
            ..
        } => {
            if is_same(key, &identity, *found, other.as_deref()) {
                return None;
            }
            named(path, other.as_deref())
        }
        Answer::Static { inside } => {
            return Some(format!(
                "pid {pid} should run {wanted}, but its program {} is static: nothing can be \
                 preloaded into it; its own allocator: {inside}",
                proof.exe
            ));
        }
        Answer::Nobody { .. } => "nothing: no loaded object exports it".to_owned(),
    };
    let cause = if is_mapped(key, library, proof) {
        "that library is mapped, but it exports no malloc or stands behind another one in the \
         lookup order"
    } else {
        "that library is not mapped: the loader goes on without a library that it cannot load \
         (look for `cannot be preloaded` in the stderr log of the process)"
    };
    Some(format!(
        "pid {pid} should run {wanted}, but malloc is answered by {who}; {cause}"
    ))
}

fn is_same(
    key: FileKey,
    identity: &Identity,
    found: Option<FileKey>,
    other: Option<&Identity>,
) -> bool {
    let same_bytes =
        |other: &Identity| identity.sha256.is_some() && identity.sha256 == other.sha256;
    found == Some(key) || other.is_some_and(same_bytes)
}

fn is_mapped(key: FileKey, library: &Path, proof: &Proof) -> bool {
    let real = library
        .canonicalize()
        .unwrap_or_else(|_| library.to_path_buf());
    proof
        .code
        .iter()
        .any(|file| file.key == Some(key) || Path::new(&file.path) == real)
}

/// `path (jemalloc 5.3.0)`, as far as it is known.
fn named(path: &str, identity: Option<&Identity>) -> String {
    let family = identity.and_then(|identity| identity.family);
    let version = identity.and_then(|identity| identity.version.as_deref());
    match (family, version) {
        (Some(family), Some(version)) => format!("{path} ({family}, {version})"),
        (Some(family), None) => format!("{path} ({family})"),
        (None, Some(version)) => format!("{path} ({version})"),
        (None, None) => path.to_owned(),
    }
}

/// glibc's or musl's C library, by the name that each gives itself; `libc.so` is the file of musl's on Debian (glibc's
/// file of that name is a text for the linker).
pub fn is_system_libc(path: &str) -> bool {
    let name = name_of(path);
    is_glibc(path)
        || name == "libc.so"
        || name.starts_with("ld-musl-")
        || name.starts_with("libc.musl-")
}

/// See [`is_system_libc`].
pub fn is_glibc(path: &str) -> bool {
    let name = name_of(path);
    name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so"))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_libraries_by_name() {
        for libc in [
            "/usr/lib/libc.so.6",
            "/lib/libc-2.31.so",
            "/lib/ld-musl-x86_64.so.1",
            "/usr/lib/x86_64-linux-musl/libc.so",
        ] {
            assert!(is_system_libc(libc), "{libc}");
        }
        for other in ["/lib/libjemalloc.so.2", "/lib/libc++.so.1", "/x/libc.so.60"] {
            assert!(!is_system_libc(other), "{other}");
        }
        assert!(is_glibc("/usr/lib/libc.so.6") && !is_glibc("/lib/ld-musl-x86_64.so.1"));
    }
}

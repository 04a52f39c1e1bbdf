//! Where the functions of an allocator may be that no library comes before.

use std::path::{Path, PathBuf};

use crate::smaps::Area;
use observe::fact::arm::is_system_libc;
use observe::fact::program::{Libc, read_program};

/// A file that is mapped into the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// By which it is opened and probed.
    pub file: PathBuf,
    /// Its first address.
    pub base: u64,
    /// It is the C library, and not the program.
    pub is_libc: bool,
}

/// The program first, then musl's C library: the probe is built for glibc, and would keep a program on musl from
/// starting. `process`: /proc/PID.
pub fn places(process: &Path, areas: &[Area]) -> Vec<Place> {
    let link = process.join("exe");
    let exe = std::fs::read_link(&link).unwrap_or_default();
    let base = areas.iter().find(|area| Path::new(path_of(area)) == exe);
    let program = Place {
        file: link.clone(),
        base: base.map_or(0, |area| area.start),
        is_libc: false,
    };
    let is_musl = read_program(&link).is_ok_and(|program| program.libc == Libc::Musl);
    let libc = is_musl.then(|| c_library(process, areas)).flatten();
    [Some(program), libc].into_iter().flatten().collect()
}

/// musl's linker is the C library itself: it is mapped from the first moment on.
fn c_library(process: &Path, areas: &[Area]) -> Option<Place> {
    let is_libc = |area: &&Area| area.inode != 0 && is_system_libc(path_of(area));
    let area = areas.iter().find(is_libc)?;
    let path = path_of(area).trim_start_matches('/');
    Some(Place {
        file: process.join("root").join(path),
        base: area.start,
        is_libc: true,
    })
}

fn path_of(area: &Area) -> &str {
    area.name.trim_end_matches(" (deleted)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_by_the_name_that_it_is_mapped_under() {
        let area = |name: &str, start, inode| Area {
            name: name.into(),
            start,
            inode,
            ..Area::default()
        };
        let libc = |name: &str| {
            let areas = [
                area("/srv/app", 0x1000, 7),
                area("libc.so", 0x5000, 0),
                area(name, 0x7000, 9),
                area(name, 0x9000, 9),
            ];
            c_library(Path::new("/proc/12"), &areas).map(|place| (place.file, place.base))
        };
        for name in [
            "/usr/lib/x86_64-linux-musl/libc.so",
            "/lib/ld-musl-aarch64.so.1",
        ] {
            let file = PathBuf::from(format!("/proc/12/root{name}"));
            assert_eq!(libc(name), Some((file, 0x7000)));
        }
        assert_eq!(libc("/usr/lib/libz.so.1"), None);
    }

    /// Tests run on glibc.
    #[test]
    fn of_this_program_there_is_no_place_but_itself() {
        let places = places(Path::new("/proc/self"), &[]);
        assert!(matches!(&places[..], [own] if !own.is_libc), "{places:?}");
    }
}

//! What this machine is: decides which route of a recipe fits.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::elf::parse_major_minor;
use super::recipe::Route;

/// The machine and the programs that are within reach.
#[derive(Debug, Clone)]
pub struct Machine {
    /// As the kernel names it: `x86_64`, `aarch64`.
    pub architecture: String,
    /// `ID` of os-release: `debian`.
    pub os: String,
    /// `VERSION_ID`: `12`.
    pub os_version: String,
    /// `VERSION_CODENAME`: `bookworm`.
    pub codename: String,
    /// Where programs are searched.
    pub path: OsString,
    /// Variables for the clients and builders, over what the process has.
    pub environment: Vec<(OsString, OsString)>,
}

impl Machine {
    /// Reads os-release and `PATH`. A system without os-release fits the routes that ask for none.
    pub fn here() -> Machine {
        let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let (os, os_version, codename) = parse_os_release(&text);
        Machine {
            architecture: std::env::consts::ARCH.to_owned(),
            os,
            os_version,
            codename,
            path: std::env::var_os("PATH").unwrap_or_default(),
            environment: Vec::new(),
        }
    }

    /// The first program of these that is on the path.
    pub fn find(&self, names: &[&str]) -> Option<PathBuf> {
        names.iter().find_map(|name| {
            std::env::split_paths(&self.path)
                .map(|d| d.join(name))
                .find(|p| is_executable(p))
        })
    }

    /// The compiler of a variable (`CC`), or the first of these names that is there.
    pub fn compiler(&self, variable: &str, names: &[&str]) -> Option<PathBuf> {
        match self.chosen(variable) {
            Some(program) if Path::new(&program).is_absolute() => {
                Some(PathBuf::from(program)).filter(|p| is_executable(p))
            }
            Some(program) => self.find(&[&*program.to_string_lossy()]),
            None => self.find(names),
        }
    }

    fn chosen(&self, variable: &str) -> Option<OsString> {
        self.variable(variable).filter(|c| !c.is_empty())
    }

    /// What `CC` or `CXX` names although it is not here, in words; `None` when all is well.
    pub fn absent_choice(&self) -> Option<String> {
        let absent =
            |name: &&str| self.chosen(name).is_some() && self.compiler(name, &[]).is_none();
        let name = ["CC", "CXX"].into_iter().find(absent)?;
        let program = self.chosen(name)?;
        Some(format!(
            "{name} names {}, and there is no such program; next: unset {name}, or name the program \
             alone, without arguments",
            program.to_string_lossy()
        ))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let own = self
            .environment
            .iter()
            .find(|(key, _)| key.as_os_str() == OsStr::new(name));
        own.map(|(_, value)| value.clone())
            .or_else(|| std::env::var_os(name))
    }

    /// Why a route does not serve this machine; `None` when it does.
    pub fn refuses(&self, route: &Route) -> Option<String> {
        let architectures = &route.architectures;
        if !architectures.is_empty() && !architectures.contains(&self.architecture) {
            return Some(format!("it is for {} only", architectures.join(" and ")));
        }
        let debian = &route.debian;
        if !debian.is_empty() && (self.os != "debian" || !debian.contains(&self.os_version)) {
            return Some(format!("it is for Debian {} only", debian.join(" and ")));
        }
        None
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// `ID`, `VERSION_ID` and `VERSION_CODENAME`; empty where the file does not say.
fn parse_os_release(text: &str) -> (String, String, String) {
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim().trim_matches('"').to_owned()
    };
    (value("ID"), value("VERSION_ID"), value("VERSION_CODENAME"))
}

/// Folders in which a machine has its C library, for programs of this processor.
const LIBRARY_FOLDERS: [&str; 5] = [DEBIAN_FOLDER, "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

const DEBIAN_FOLDER: &str = match cfg!(target_arch = "aarch64") {
    true => "/lib/aarch64-linux-gnu",
    false => "/lib/x86_64-linux-gnu",
};

/// The file of the glibc that this machine's programs run on: the one that this process has mapped, or, of a static
/// highwater, the one that lies where the dynamic linker looks first. `None` on another C library.
pub fn libc_file() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut mapped = maps
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(5));
    let own = mapped.find(|path| path.ends_with("/libc.so.6"));
    let standard = || {
        let mut files = LIBRARY_FOLDERS
            .map(|folder| Path::new(folder).join("libc.so.6"))
            .into_iter();
        files.find(|path| path.is_file())
    };
    own.map(PathBuf::from).or_else(standard)
}

/// The machine's glibc, such as `2.36`; `None` on another C library.
pub fn glibc_version() -> Option<String> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let read = || banner_version(&std::fs::read(libc_file()?).ok()?);
    VERSION.get_or_init(read).clone()
}

/// From the line that the library prints when it is run: "GNU C Library (...) stable release version 2.36."
fn banner_version(file: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b" release version ";
    let at = file
        .windows(BEFORE.len())
        .position(|bytes| bytes == BEFORE)?
        + BEFORE.len();
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let version: Vec<u8> = file[at..].iter().copied().take_while(is_part).collect();
    let version = String::from_utf8(version).ok()?;
    Some(version.trim_end_matches('.').to_owned()).filter(|version| !version.is_empty())
}

/// The same as numbers.
pub(super) fn glibc_numbers() -> Option<(u32, u32)> {
    parse_major_minor(&glibc_version()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_of_the_librarys_own_line() {
        let line = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright";
        assert_eq!(banner_version(line).as_deref(), Some("2.36"));
        assert_eq!(banner_version(b"another library"), None);
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: the function takes nothing and returns a static, terminated string.
            let own = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
            assert_eq!(glibc_version().as_deref(), own.to_str().ok());
        }
    }
    use crate::recipe::{Build, Source};

    // Debian 12's own file, three of its lines.
    const BOOKWORM: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\n\
        VERSION_CODENAME=bookworm\nID=debian\n";

    fn machine(text: &str, architecture: &str) -> Machine {
        let (os, os_version, codename) = parse_os_release(text);
        let architecture = architecture.to_owned();
        Machine {
            architecture,
            os,
            os_version,
            codename,
            path: "".into(),
            environment: vec![],
        }
    }

    fn route(architectures: &[&str], debian: &[&str]) -> Route {
        Route {
            architectures: architectures.iter().map(|a| (*a).to_owned()).collect(),
            debian: debian.iter().map(|d| (*d).to_owned()).collect(),
            source: Source::System,
            build: Build::System,
            licence_files: Vec::new(),
        }
    }

    #[test]
    fn routes_are_chosen_by_system_and_architecture() {
        let bookworm = machine(BOOKWORM, "x86_64");
        let other = machine("ID=fedora\nVERSION_ID=12\n", "aarch64");
        assert_eq!(bookworm.codename, "bookworm");
        for (machine, route, fits) in [
            (&bookworm, route(&[], &[]), true),
            (&bookworm, route(&["x86_64"], &["12", "13"]), true),
            (&bookworm, route(&["aarch64"], &[]), false),
            (&bookworm, route(&[], &["13"]), false),
            (&other, route(&[], &[]), true),
            (&other, route(&[], &["12"]), false),
        ] {
            assert_eq!(
                machine.refuses(&route).is_none(),
                fits,
                "{machine:?} {route:?}"
            );
        }
    }

    #[test]
    fn a_machine_without_os_release_fits_plain_routes_only() {
        let bare = machine("", "x86_64");
        assert!(bare.refuses(&route(&[], &[])).is_none());
        assert!(bare.refuses(&route(&[], &["12"])).is_some());
    }
}

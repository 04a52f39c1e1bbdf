//! Where tor is: installed, or fetched from Debian without root into the user's cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// What to do when there is no tor and none can be fetched.
const ADVICE: &str = "install Debian's package tor (apt-get install tor; it need not run as a service), or put tor and \
                      tor-gencert on the PATH";
/// Folders that an ordinary user's PATH leaves out.
const MORE_FOLDERS: &[&str] = &["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];
/// As highwater itself takes it.
const CACHE_VARIABLE: &str = "HIGHWATER_CACHE";

/// A tor that can be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tor {
    pub tor: PathBuf,
    pub gencert: PathBuf,
    /// Where the libraries are that came with it; empty for an installed one.
    pub libraries: Vec<PathBuf>,
    /// Which country an address is in: the database of a relay in production, 36 MB once it is read.
    #[serde(default)]
    pub geoip: Option<[PathBuf; 2]>,
}

impl Tor {
    /// A command whose libraries are found.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(path) = self.library_path() {
            command.env("LD_LIBRARY_PATH", path);
        }
        command.stdin(Stdio::null());
        command
    }

    /// For `LD_LIBRARY_PATH`: the fetched libraries, then what is there already.
    pub fn library_path(&self) -> Option<String> {
        let own = self.libraries.iter().map(|path| path.display().to_string());
        let own: Vec<String> = own.collect();
        if own.is_empty() {
            return None;
        }
        let before = env::var("LD_LIBRARY_PATH").ok();
        let before = before.filter(|before| !before.is_empty());
        Some(own.into_iter().chain(before).collect::<Vec<_>>().join(":"))
    }

    /// Lines of a torrc that make a relay read the database.
    ///
    /// # Errors
    /// When there is none.
    pub fn geoip_lines(&self) -> Result<[String; 2]> {
        let [four, six] = self.geoip.as_ref().with_context(|| {
            format!(
                "{} has no GeoIP database beside it: install Debian's package tor-geoipdb",
                self.tor.display()
            )
        })?;
        Ok([
            format!("GeoIPFile {}", four.display()),
            format!("GeoIPv6File {}", six.display()),
        ])
    }

    /// "Tor version 0.4.9.11"
    ///
    /// # Errors
    /// When it does not run.
    pub fn version(&self) -> Result<String> {
        let output = self.command(&self.tor).arg("--version").output();
        let output = output.with_context(|| self.tor.display().to_string())?;
        ensure!(
            output.status.success(),
            "{} --version: {}",
            self.tor.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned())
    }
}

/// The installed tor, else the one in the cache, else a freshly fetched one.
///
/// # Errors
/// When there is none and none can be fetched: why, and what to do.
pub fn find_or_fetch() -> Result<Tor> {
    if let Some(tor) = installed(&search_path()) {
        return Ok(tor);
    }
    let folder = cache_folder()?;
    if let Some(tor) = unpacked(&folder.join("root")) {
        return Ok(tor);
    }
    fetch(&folder)
        .with_context(|| format!("there is no tor here, and it could not be fetched; {ADVICE}"))
}

fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = MORE_FOLDERS.iter().map(PathBuf::from);
    env::split_paths(&path).chain(more).collect()
}

fn installed(folders: &[PathBuf]) -> Option<Tor> {
    let find = |name: &str| {
        let paths = folders.iter().map(|folder| folder.join(name));
        paths.into_iter().find(|path| path.is_file())
    };
    Some(Tor {
        tor: find("tor")?,
        gencert: find("tor-gencert")?,
        libraries: Vec::new(),
        geoip: geoip("/".as_ref()),
    })
}

/// Both files, or none.
fn geoip(root: &Path) -> Option<[PathBuf; 2]> {
    let files = ["geoip", "geoip6"].map(|name| root.join("usr/share/tor").join(name));
    files.iter().all(|file| file.is_file()).then_some(files)
}

/// What `dpkg-deb -x` left in `root`.
fn unpacked(root: &Path) -> Option<Tor> {
    let bin = root.join("usr/bin");
    let mut libraries: Vec<PathBuf> = ["lib", "usr/lib"]
        .iter()
        .filter_map(|folder| root.join(folder).read_dir().ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with("-linux-gnu"))
        .collect();
    libraries.sort();
    Some(Tor {
        libraries,
        geoip: geoip(root),
        ..installed(&[bin])?
    })
}

fn cache_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os(CACHE_VARIABLE).filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder).join("tor"));
    }
    let folders = directories::ProjectDirs::from("", "", "highwater");
    let folders =
        folders.with_context(|| format!("this user has no home folder; set {CACHE_VARIABLE}"))?;
    Ok(folders.cache_dir().join("tor"))
}

/// Fetches Debian's package and the libraries that it lacks here, without installing anything.
fn fetch(folder: &Path) -> Result<Tor> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let fresh = folder.join(format!("new-{}", std::process::id()));
    fs::create_dir_all(&fresh).with_context(|| fresh.display().to_string())?;
    let fetched = fetch_into(&fresh).and_then(|()| {
        let root = folder.join("root");
        // Somebody else may have been quicker; then theirs is as good.
        match fs::rename(fresh.join("root"), &root) {
            Err(error) if !root.is_dir() => Err(error).context(root.display().to_string()),
            _ => unpacked(&root).context("Debian's package tor has no tor and tor-gencert in it"),
        }
    });
    let _ = fs::remove_dir_all(&fresh);
    fetched
}

fn fetch_into(fresh: &Path) -> Result<()> {
    eprintln!("fetching Debian's package tor into the cache; nothing is installed");
    let package = download("tor", fresh)?;
    let depends = run(Command::new("dpkg-deb")
        .arg("-f")
        .arg(&package)
        .arg("Depends"))?;
    let mut packages = vec![package, download("tor-geoipdb", fresh)?];
    for name in parse_libraries(&depends) {
        if !is_installed(&name) {
            packages.push(download(&name, fresh)?);
        }
    }
    let root = fresh.join("root");
    for package in &packages {
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    }
    let tor = unpacked(&root).context("Debian's package tor has no tor and tor-gencert in it")?;
    eprintln!("{}", tor.version()?);
    Ok(())
}

/// The libraries among a package's dependencies, the C library excepted: that one is here, or nothing would run.
fn parse_libraries(depends: &str) -> Vec<String> {
    let first_word = |part: &str| part.split_whitespace().next().map(str::to_owned);
    let names = depends.split(',').filter_map(first_word);
    names
        .map(|name| name.split(':').next().unwrap_or_default().to_owned())
        .filter(|name| name.starts_with("lib") && name != "libc6" || name == "zlib1g")
        .collect()
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Status}", package]);
    run(&mut query).is_ok_and(|status| status.ends_with(" installed"))
}

/// `apt-get download`, which checks the archive's signatures and needs no root.
fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    let mut apt = Command::new("apt-get");
    run(apt.args(["download", "-q", package]).current_dir(folder))?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with(&format!("{package}_")))
    };
    let entries = folder
        .read_dir()
        .with_context(|| folder.display().to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(is_it);
    found.with_context(|| format!("apt-get download {package} left no file"))
}

/// Its stdout.
fn run(command: &mut Command) -> Result<String> {
    let words = format!("{command:?}");
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => bail!("{words}: {error} (only Debian and its kin have it)"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    ensure!(
        output.status.success(),
        "{words}: {}. Without package lists, apt-get update fetches them",
        last.unwrap_or("failed").trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_real_package() {
        // dpkg-deb -f tor_0.4.9.11-0+deb12u1_amd64.deb Depends
        let depends = "libc6 (>= 2.34), libcap2 (>= 1:2.10), libevent-2.1-7 (>= 2.1.8-stable), liblzma5 \
                       (>= 5.1.1alpha+20120614), libseccomp2 (>= 0.0.0~20120605), libssl3 (>= 3.0.0), libsystemd0, \
                       libzstd1 (>= 1.5.2), zlib1g (>= 1:1.1.4), adduser, runit-helper (>= 2.14.0~), lsb-base";
        let expected = [
            "libcap2",
            "libevent-2.1-7",
            "liblzma5",
            "libseccomp2",
            "libssl3",
            "libsystemd0",
            "libzstd1",
            "zlib1g",
        ];
        assert_eq!(parse_libraries(depends), expected);
        assert!(parse_libraries("").is_empty());
    }

    #[test]
    fn both_programs_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        fs::write(folder.path().join("tor"), "").unwrap();
        assert_eq!(installed(&folders), None);
        fs::write(folder.path().join("tor-gencert"), "").unwrap();
        assert_eq!(
            installed(&folders).unwrap().libraries,
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn fetched_libraries_are_looked_for_first() {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "usr/bin",
            "usr/lib/x86_64-linux-gnu",
            "lib/x86_64-linux-gnu",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for name in ["tor", "tor-gencert"] {
            fs::write(root.path().join("usr/bin").join(name), "").unwrap();
        }
        let tor = unpacked(root.path()).unwrap();
        let path = tor.library_path().unwrap();
        assert!(path.contains("lib/x86_64-linux-gnu:"), "{path}");
        assert!(path.contains("usr/lib/x86_64-linux-gnu"), "{path}");
    }
}

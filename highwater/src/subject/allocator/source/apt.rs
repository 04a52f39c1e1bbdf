//! A Debian package of one exact version, through a private apt folder.
//!
//! Own lists, cache, status and sources: nothing of the system's apt is read but its settings, its
//! mirror and its keys, nothing is changed, no root is needed. A newer suite comes from the mirror
//! that the machine already uses, checked against the archive's own signature.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Fetch, check_sha256};
use crate::subject::allocator::cache::{Lock, lock};
use crate::subject::allocator::machine::Machine;
use crate::subject::allocator::recipe::{Package, SourcePackage};
use crate::subject::allocator::run::builder;

/// Where Debian's package `debian-archive-keyring` puts the keys of all its suites.
const ARCHIVE_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches and unpacks a package; the returned folder is the root of its files.
pub fn fetch(package: &Package, with: &mut Fetch<'_>) -> Result<PathBuf> {
    let (private, _lock) = private_folder(with.shared, &package.suite)?;
    let apt = Apt {
        machine: with.machine,
        folder: &private,
    };
    apt.prepare("deb", &package.suite)?;
    let root = with.folder.join("root");
    fs::create_dir(&root)?;
    for (name, version, sha256) in wanted(package) {
        let words = ["download", &format!("{name}={version}")];
        apt.get(&words, with)
            .with_context(|| moved_on(name, version))?;
        let deb = downloaded(with.folder, &format!("{name}_"), ".deb")?;
        check_sha256(&deb, sha256)?;
        let dpkg = with
            .machine
            .find(&["dpkg-deb"])
            .context("dpkg-deb is not on PATH")?;
        let mut unpack = builder(with.machine, &dpkg);
        unpack.arg("--extract").arg(&deb).arg(&root);
        with.log
            .run(&mut unpack)
            .with_context(|| format!("unpacking {name}"))?;
    }
    Ok(root)
}

/// Fetches the upstream archive of a source package and unpacks it; Debian's patches are left out.
pub fn fetch_source(package: &SourcePackage, with: &mut Fetch<'_>) -> Result<PathBuf> {
    let (private, _lock) = private_folder(with.shared, &format!("{}-source", package.suite))?;
    let apt = Apt {
        machine: with.machine,
        folder: &private,
    };
    apt.prepare("deb-src", &package.suite)?;
    let wanted = format!("{}={}", package.package, package.version);
    apt.get(
        &["source", "--download-only", "--only-source", &wanted],
        with,
    )
    .with_context(|| moved_on(&package.package, &package.version))?;
    let archive = downloaded(with.folder, &package.file, "")?;
    check_sha256(&archive, &package.sha256)?;
    let tar = with.machine.find(&["tar"]).context("tar is not on PATH")?;
    let mut unpack = builder(with.machine, &tar);
    unpack
        .arg("--extract")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(with.folder);
    with.log
        .run(&mut unpack)
        .with_context(|| format!("unpacking {}", package.file))?;
    Ok(with.folder.join(&package.folder))
}

/// The private apt of one suite. Adds share its lists: one at a time.
fn private_folder(shared: &Path, name: &str) -> Result<(PathBuf, Lock)> {
    let folder = shared.join("apt").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let held = lock(&folder.join("lock"), || {})?;
    Ok((folder, held))
}

fn moved_on(name: &str, version: &str) -> String {
    format!(
        "fetching {name} {version}; if apt says that the version was not found, the archive has \
         moved on: `highwater allocators list` shows other routes and versions"
    )
}

fn wanted(package: &Package) -> impl Iterator<Item = (&str, &str, &str)> {
    let first = (&*package.package, &*package.version, &*package.sha256);
    let further = package
        .with
        .iter()
        .map(|p| (&*p.package, &*p.version, &*p.sha256));
    std::iter::once(first).chain(further)
}

struct Apt<'a> {
    machine: &'a Machine,
    /// Everything of one suite: settings, lists, cache.
    folder: &'a Path,
}

impl Apt<'_> {
    /// Writes the settings and sources of the private folder.
    fn prepare(&self, kind: &str, suite: &str) -> Result<()> {
        for folder in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        fs::write(self.folder.join("status"), "")?;
        let mirror = self.mirror()?;
        let keys = if Path::new(ARCHIVE_KEYRING).exists() {
            format!(" [signed-by={ARCHIVE_KEYRING}]")
        } else {
            String::new()
        };
        let sources = format!("{kind}{keys} {mirror} {suite} main\n");
        fs::write(self.folder.join("sources.list"), sources)?;
        fs::write(self.folder.join("apt.conf"), settings(self.folder))?;
        Ok(())
    }

    /// The mirror of the machine's own release, as apt itself understands its sources.
    fn mirror(&self) -> Result<String> {
        let apt = self
            .machine
            .find(&["apt-get"])
            .context("apt-get is not on PATH")?;
        let output = builder(self.machine, &apt)
            .args(["indextargets", "--no-release-info", "Created-By: Packages"])
            .output()
            .context("asking apt for its sources")?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse_mirror(&text, &self.machine.codename).with_context(|| {
            format!(
                "apt has no source for {} main, so there is no mirror to take packages from; \
                 see /etc/apt/sources.list.d",
                self.machine.codename
            )
        })
    }

    fn command(&self) -> Result<Command> {
        let apt = self
            .machine
            .find(&["apt-get"])
            .context("apt-get is not on PATH")?;
        let mut command = builder(self.machine, &apt);
        command
            .arg("--config-file")
            .arg(self.folder.join("apt.conf"));
        Ok(command)
    }

    /// Runs apt-get in the fetch folder, with the lists at hand if they still lead to what is
    /// wanted, else with fresh ones.
    fn get(&self, words: &[&str], with: &mut Fetch<'_>) -> Result<()> {
        let mut get = self.command()?;
        get.args(words).current_dir(with.folder);
        // A lock file and the folder of partial downloads are there from the start.
        let listed = fs::read_dir(self.folder.join("lists"))?.count() > 2;
        if listed && with.log.run(&mut get).is_ok() {
            return Ok(());
        }
        with.log
            .run(self.command()?.arg("update"))
            .context("fetching the package lists")?;
        with.log.run(&mut get)
    }
}

/// The settings that make an apt private. `#clear` takes away the system's hooks after an update.
fn settings(folder: &Path) -> String {
    let own = folder.display();
    // Root's apt would hand the download to a user who may not enter this folder.
    let user = if rustix::process::geteuid().is_root() {
        "APT::Sandbox::User \"root\";\n"
    } else {
        ""
    };
    format!(
        "#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear APT::Update::Pre-Invoke;\n\
         Dir::State \"{own}/state\";\n\
         Dir::State::lists \"{own}/lists\";\n\
         Dir::State::status \"{own}/status\";\n\
         Dir::Cache \"{own}/cache\";\n\
         Dir::Etc::sourcelist \"{own}/sources.list\";\n\
         Dir::Etc::sourceparts \"/dev/null\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         Acquire::Languages \"none\";\n\
         {user}"
    )
}

/// The repository address of a release's `main`, from `apt-get indextargets --no-release-info`:
/// blocks of `Key: value` lines, an empty line between two.
fn parse_mirror(text: &str, codename: &str) -> Option<String> {
    text.split("\n\n").find_map(|block| {
        let value = |key: &str| {
            block
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        };
        let ours = value("Release") == Some(codename) && value("Component") == Some("main");
        value("Repo-URI")
            .filter(|_| ours)
            .map(|uri| uri.trim().to_owned())
    })
}

fn downloaded(folder: &Path, start: &str, end: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(start) && file.ends_with(end) {
            return Ok(path);
        }
    }
    bail!("apt-get ended well but left no {start}*{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // From apt 2.6.1 on Debian 12 with empty lists, the lines that matter, addresses replaced.
    const TARGETS: &str = "MetaKey: main/binary-amd64/Packages\nComponent: main\nRelease: \
        bookworm-security\n\
        Repo-URI: http://mirror.example/debian-security/\nSourcesentry: debian.sources:2\n\n\
        MetaKey: contrib/binary-amd64/Packages\nComponent: contrib\nRelease: bookworm\n\
        Repo-URI: http://other.example/debian/\n\n\
        MetaKey: main/binary-amd64/Packages\nComponent: main\nRelease: bookworm\n\
        Repo-URI: http://mirror.example/debian/\nSite: http://mirror.example/debian\n";

    #[test]
    fn the_mirror_is_the_one_of_the_release() {
        assert_eq!(
            parse_mirror(TARGETS, "bookworm").unwrap(),
            "http://mirror.example/debian/"
        );
        assert_eq!(parse_mirror(TARGETS, "trixie"), None);
        assert_eq!(parse_mirror("", "bookworm"), None);
    }
}

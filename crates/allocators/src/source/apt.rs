//! A Debian package of one exact version, through a private apt folder.
//!
//! Own lists, cache, status and sources: nothing of the system's apt is read but its settings, its
//! mirror and its keys, nothing is changed, no root is needed. A newer suite comes from the mirror
//! that the machine already uses, checked against the archive's own signature.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::successor::{Listed, Pin, moved_on, parse_listed, succeed};
use super::{Fetch, Fetched, check_sha256};
use crate::cache::{Lock, lock};
use crate::machine::Machine;
use crate::recipe::{Package, SourcePackage};
use crate::run::builder;

/// Where Debian's package `debian-archive-keyring` puts the keys of all its suites.
const ARCHIVE_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches and unpacks a package; the folder is the root of its files.
pub fn fetch(package: &Package, words: &str, with: &mut Fetch<'_>) -> Result<Fetched> {
    let (private, _lock) = private_folder(with.shared, &package.suite)?;
    let apt = Apt {
        machine: with.machine,
        folder: &private,
    };
    apt.prepare("deb", &package.suite)?;
    let root = with.folder.join("root");
    fs::create_dir(&root)?;
    let mut words = words.to_owned();
    for pin in wanted(package) {
        let found = apt.download(&pin, package.successors.as_deref(), with)?;
        words.push_str(&found.note);
        let dpkg = with
            .machine
            .find(&["dpkg-deb"])
            .context("dpkg-deb is not on PATH")?;
        let mut unpack = builder(with.machine, &dpkg);
        unpack.arg("--extract").arg(&found.file).arg(&root);
        with.log
            .run(&mut unpack)
            .with_context(|| format!("unpacking {}", pin.name))?;
    }
    Ok(Fetched {
        folder: root,
        words,
    })
}

/// Fetches the upstream archive of a source package and unpacks it; Debian's patches are left out.
pub fn fetch_source(package: &SourcePackage, words: &str, with: &mut Fetch<'_>) -> Result<Fetched> {
    let (private, _lock) = private_folder(with.shared, &format!("{}-source", package.suite))?;
    let apt = Apt {
        machine: with.machine,
        folder: &private,
    };
    apt.prepare("deb-src", &package.suite)?;
    let pin = Pin {
        name: &package.package,
        version: &package.version,
        sha256: &package.sha256,
    };
    let note = apt.download_source(&pin, package.successors.as_deref(), with)?;
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
    Ok(Fetched {
        folder: with.folder.join(&package.folder),
        words: format!("{words}{note}"),
    })
}

/// The private apt of one suite. Adds share its lists: one at a time.
fn private_folder(shared: &Path, name: &str) -> Result<(PathBuf, Lock)> {
    let folder = shared.join("apt").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let held = lock(&folder.join("lock"), || {})?;
    Ok((folder, held))
}

fn wanted(package: &Package) -> impl Iterator<Item = Pin<'_>> {
    let first = Pin {
        name: &package.package,
        version: &package.version,
        sha256: &package.sha256,
    };
    let further = package.with.iter().map(|p| Pin {
        name: &p.package,
        version: &p.version,
        sha256: &p.sha256,
    });
    std::iter::once(first).chain(further)
}

/// A package file, and what is to be said of it beside the recipe's words.
struct Downloaded {
    file: PathBuf,
    note: String,
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

    /// A package at its pin, or what took its place.
    fn download(
        &self,
        pin: &Pin<'_>,
        successors: Option<&str>,
        with: &mut Fetch<'_>,
    ) -> Result<Downloaded> {
        let ask = |version: &str| ["download".to_owned(), format!("{}={version}", pin.name)];
        let file = |with: &Fetch<'_>| downloaded(with.folder, &format!("{}_", pin.name), ".deb");
        let Err(failed) = self.get(&ask(pin.version), with) else {
            let file = file(with)?;
            check_sha256(&file, pin.sha256)?;
            let note = String::new();
            return Ok(Downloaded { file, note });
        };
        let listed = self.listed("show", pin.name, with);
        let next = succeed(pin, successors, listed, failed)?;
        self.get(&ask(&next.version), with)
            .with_context(|| moved_on(pin))?;
        let file = file(with)?;
        check_sha256(&file, &next.sha256)?;
        Ok(Downloaded {
            file,
            note: next.note(pin),
        })
    }

    /// The files of a source package at its pin, or of what took its place; the answer says which.
    fn download_source(
        &self,
        pin: &Pin<'_>,
        successors: Option<&str>,
        with: &mut Fetch<'_>,
    ) -> Result<String> {
        let ask = |version: &str| {
            let words = ["source", "--download-only", "--only-source"];
            let mut words: Vec<String> = words.map(str::to_owned).into();
            words.push(format!("{}={version}", pin.name));
            words
        };
        let Err(failed) = self.get(&ask(pin.version), with) else {
            return Ok(String::new());
        };
        let listed = self.listed("showsrc", pin.name, with);
        let next = succeed(pin, successors, listed, failed)?;
        self.get(&ask(&next.version), with)
            .with_context(|| moved_on(pin))?;
        Ok(format!(
            "; Debian's revision is {}, its upstream archive the recipe's",
            next.version
        ))
    }

    /// What the signed index of the suite has of a package now.
    fn listed(&self, question: &str, name: &str, with: &Fetch<'_>) -> Vec<Listed> {
        let Some(cache) = with.machine.find(&["apt-cache"]) else {
            return Vec::new();
        };
        let mut show = builder(with.machine, &cache);
        show.arg("--config-file")
            .arg(self.folder.join("apt.conf"))
            .args([question, name]);
        let output = show.output().map(|o| o.stdout).unwrap_or_default();
        parse_listed(&String::from_utf8_lossy(&output))
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
    fn get(&self, words: &[String], with: &mut Fetch<'_>) -> Result<()> {
        let mut get = self.command()?;
        get.args(words).current_dir(with.folder);
        // A lock file and the folder of partial downloads are there from the start.
        let listed = fs::read_dir(self.folder.join("lists"))?.count() > 2;
        if listed && with.log.run(&mut get).is_ok() {
            return Ok(());
        }
        let updated = with.log.run(self.command()?.arg("update"));
        if updated.is_err() {
            // What a full disk cut off would keep it full.
            let _ = fs::remove_dir_all(self.folder.join("lists/partial"));
        }
        updated.context("fetching the package lists")?;
        with.log.run(&mut get)
    }
}

/// The settings that make an apt private. `#clear` takes away the system's hooks after an update and what else
/// it downloads with the lists (descriptions, icons, the owners of commands), which nobody here reads.
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
         #clear Acquire::IndexTargets::deb::DEP-11;\n\
         #clear Acquire::IndexTargets::deb::CNF;\n\
         #clear Acquire::IndexTargets::deb::Contents-deb;\n\
         Dir::State \"{own}/state\";\n\
         Dir::State::lists \"{own}/lists\";\n\
         Dir::State::status \"{own}/status\";\n\
         Dir::Cache \"{own}/cache\";\n\
         Dir::Etc::sourcelist \"{own}/sources.list\";\n\
         Dir::Etc::sourceparts \"/dev/null\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         Acquire::Languages \"none\";\n\
         APT::Update::Error-Mode \"any\";\n\
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

//! An allocator's library as a Debian package: the bytes that were verified here, at a path that
//! stays the same, with their licence and where they came from.
//!
//! Built twice from one library, a package is the same bytes: fixed times, modes and owners, and
//! nothing of the machine in it. `dpkg-deb` writes the archive.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cache::{Cache, Manifest, State};
use super::elf::Elf;
use super::recipe::Recipe;
use super::run::{Log, builder};
use super::verify::read_elf;

/// Where the packages install libraries: `FOLDER/NAME-VERSION/`.
const STABLE_FOLDER: &str = "usr/lib/highwater/allocators";
/// The time of every file in a package, seconds since 1970: the first of January 2026. tar finds
/// older ones implausible.
const PACKAGED_AT: &str = "1767225600";
/// Who is named where nobody was.
const NOBODY: &str = "highwater (built on this machine) <root@localhost>";

/// Debian's packages of the libraries that an allocator may need beside libc.
const DEBIAN_PACKAGES: &[(&str, &str)] = &[
    ("libstdc++.so.6", "libstdc++6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libatomic.so.1", "libatomic1"),
];
/// What libc6 itself brings.
const LIBC_PARTS: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
];

impl Cache {
    /// Writes the package of an allocator that is installed; the answer is its path.
    ///
    /// # Errors
    /// One that is not installed, a library that needs what no known package has, a missing
    /// dpkg-deb, a folder that cannot be written.
    pub fn package(
        &self,
        recipe: &Recipe,
        folder: &Path,
        maintainer: Option<&str>,
    ) -> Result<PathBuf> {
        let label = recipe.label();
        let manifest = match self.state(recipe)? {
            State::Ready(manifest) => *manifest,
            State::Corrupt(why) => {
                bail!("{label} is damaged: {why}. Repair it with: highwater allocators add {label}")
            }
            State::Absent | State::Outdated => {
                bail!("{label} is not installed. Add it with: highwater allocators add {label}")
            }
        };
        let dpkg = self
            .machine
            .find(&["dpkg-deb"])
            .context("dpkg-deb is not on PATH, and it writes the package; next: install dpkg")?;
        let scratch = self.scratch("package")?;
        let root = scratch.path().join("root");
        let plan = Plan {
            recipe,
            manifest: &manifest,
            place: &self.place(recipe),
            maintainer: maintainer.unwrap_or(NOBODY),
        };
        plan.lay_out(&root)?;
        let half = scratch.path().join("package.deb");
        let mut build = builder(&self.machine, &dpkg);
        // gzip: one thread, the same bytes from every dpkg.
        build
            .args(["--root-owner-group", "-Zgzip", "--build"])
            .arg(&root)
            .arg(&half);
        build.env("SOURCE_DATE_EPOCH", PACKAGED_AT);
        let log = self.log_file(recipe).with_extension("package.log");
        fs::create_dir_all(log.parent().expect("a log lies in a folder"))?;
        Log::create(&log)?.run(&mut build)?;
        let file = folder.join(plan.file_name()?);
        // Copied beside it first: whoever looks sees all of the package or nothing.
        let beside = file.with_extension(format!("deb.{}~", std::process::id()));
        let written = fs::copy(&half, &beside).and_then(|_| fs::rename(&beside, &file));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written.with_context(|| format!("writing {}", file.display()))?;
        Ok(file)
    }
}

struct Plan<'a> {
    recipe: &'a Recipe,
    manifest: &'a Manifest,
    place: &'a Path,
    maintainer: &'a str,
}

impl Plan<'_> {
    /// Everything that the package holds, with its control file.
    fn lay_out(&self, root: &Path) -> Result<()> {
        let libraries = self.stable_folder();
        let documents = format!("usr/share/doc/{}", self.package_name());
        for name in self.files() {
            let mode = if Some(name) == self.loader() {
                0o755
            } else {
                0o644
            };
            let bytes = fs::read(self.place.join(name))
                .with_context(|| format!("reading {}", self.place.join(name).display()))?;
            put(root, &format!("{libraries}/{name}"), &bytes, mode)?;
        }
        put(
            root,
            &format!("{documents}/copyright"),
            self.copyright()?.as_bytes(),
            0o644,
        )?;
        let provenance = serde_json::to_vec_pretty(&self.provenance()?)?;
        put(
            root,
            &format!("{documents}/provenance.json"),
            &provenance,
            0o644,
        )?;
        put(
            root,
            "DEBIAN/control",
            self.control(root)?.as_bytes(),
            0o644,
        )?;
        plain_folders(root)
    }

    fn files(&self) -> impl Iterator<Item = &str> {
        let companions = self.manifest.companions.iter().map(|c| c.file.as_str());
        std::iter::once(self.manifest.library.as_str())
            .chain(companions)
            .chain(self.loader())
    }

    fn loader(&self) -> Option<&str> {
        self.manifest.loader.as_ref().map(|l| l.file.as_str())
    }

    fn stable_folder(&self) -> String {
        format!(
            "{STABLE_FOLDER}/{}-{}",
            self.recipe.name, self.recipe.version
        )
    }

    /// The version is part of the name: two versions are installed side by side.
    fn package_name(&self) -> String {
        let name = format!(
            "highwater-allocator-{}-{}",
            self.recipe.name, self.recipe.version
        );
        name.replace('_', "-")
    }

    fn file_name(&self) -> Result<String> {
        let (name, version) = (self.package_name(), debian_version(&self.recipe.version));
        Ok(format!("{name}_{version}_{}.deb", self.architecture()?))
    }

    fn architecture(&self) -> Result<&'static str> {
        Ok(match self.manifest.architecture.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => bail!("Debian's name of the architecture {other} is not known here"),
        })
    }

    fn control(&self, root: &Path) -> Result<String> {
        let mut control = format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\n",
            self.package_name(),
            debian_version(&self.recipe.version),
            self.architecture()?,
            one_line(self.maintainer),
            kib(root)?,
        );
        let depends = self.depends()?;
        if !depends.is_empty() {
            writeln!(control, "Depends: {depends}")?;
        }
        write!(
            control,
            "Section: libs\nPriority: optional\n{}",
            self.description()
        )?;
        Ok(control)
    }

    /// The packages whose libraries it needs, by the tables of the libraries themselves.
    fn depends(&self) -> Result<String> {
        // A whole C library brings everything.
        if self.loader().is_some() {
            return Ok(String::new());
        }
        let elves = self.files().map(|name| read_elf(&self.place.join(name)));
        let elves = elves.collect::<Result<Vec<Elf>>>()?;
        let own: BTreeSet<&str> = self.files().collect();
        let mut depends = BTreeSet::new();
        for needed in elves.iter().flat_map(|elf| &elf.needed) {
            let known = DEBIAN_PACKAGES
                .iter()
                .find(|(library, _)| library == needed);
            if let Some((_, package)) = known {
                depends.insert((*package).to_owned());
            } else if !is_libc(needed)
                && !own.contains(needed.as_str())
                && !is_companion(needed, &own)
            {
                bail!(
                    "{} needs {needed}, and it is not known which package has it",
                    self.recipe.label()
                );
            }
        }
        if let Some((major, minor)) = elves.iter().filter_map(|elf| elf.glibc_needed).max() {
            depends.insert(format!("libc6 (>= {major}.{minor})"));
        }
        Ok(depends.into_iter().collect::<Vec<_>>().join(", "))
    }

    fn description(&self) -> String {
        let (name, version) = (&self.recipe.name, &self.recipe.version);
        let form = match self.loader() {
            Some(_) => "a C library with its own loader",
            None => "a library to preload",
        };
        let mut text = format!(
            "Description: allocator {name} {version} as {form}\n {}.\n .\n",
            one_line(&self.recipe.summary)
        );
        let folder = self.stable_folder();
        let _ = match self.loader() {
            Some(loader) => writeln!(
                text,
                " Start a program on it:\n  /{folder}/{loader} --library-path /{folder} PROGRAM"
            ),
            None => writeln!(
                text,
                " Start a program on it:\n  LD_PRELOAD={} PROGRAM",
                self.preload()
            ),
        };
        for defect in &self.recipe.defects {
            let _ = writeln!(
                text,
                " .\n Known defect ({}): {}",
                defect.id,
                one_line(&defect.text)
            );
        }
        text
    }

    fn preload(&self) -> String {
        let folder = self.stable_folder();
        let companions = self.manifest.companions.iter().map(|c| c.file.as_str());
        let files = companions.chain([self.manifest.library.as_str()]);
        let paths: Vec<String> = files.map(|file| format!("/{folder}/{file}")).collect();
        paths.join(":")
    }

    fn copyright(&self) -> Result<String> {
        let mut text = format!(
            "{} {}\nSource: {}\nLicence: {}\nBuilt by highwater from that source, unchanged but for \
             what its recipe lays in.\n",
            self.recipe.name, self.recipe.version, self.manifest.source, self.manifest.licence
        );
        for file in &self.manifest.licence_files {
            let licence = fs::read(self.place.join(file))
                .with_context(|| format!("reading the licence text {file}"))?;
            write!(
                text,
                "\n--- {file}\n\n{}",
                String::from_utf8_lossy(&licence)
            )?;
        }
        Ok(text)
    }

    /// The manifest without the times of its making.
    fn provenance(&self) -> Result<serde_json::Value> {
        let mut value = serde_json::to_value(self.manifest)?;
        if let Some(fields) = value.as_object_mut() {
            fields.shift_remove("built_at");
            fields.shift_remove("seconds");
        }
        Ok(value)
    }
}

fn is_libc(needed: &str) -> bool {
    LIBC_PARTS.contains(&needed) || needed.starts_with("ld-linux")
}

/// A library that lies beside it under its full name: `libtbbmalloc.so.2` is `libtbbmalloc.so.2.8`.
fn is_companion(needed: &str, own: &BTreeSet<&str>) -> bool {
    own.iter()
        .any(|file| file.starts_with(&format!("{needed}.")))
}

/// A version as Debian takes it: a digit first, and a hyphen only before the revision.
fn debian_version(version: &str) -> String {
    let plain = version.replace(['-', '_'], "+");
    let digit = plain.starts_with(|c: char| c.is_ascii_digit());
    format!("{}{plain}-1", if digit { "" } else { "0+" })
}

/// Who answers for a package, as Debian's policy wants it: `NAME <ADDRESS>`.
///
/// # Errors
/// Any other form, in words.
pub fn parse_maintainer(text: &str) -> Result<String> {
    let text = one_line(text);
    let parts = text.strip_suffix('>').and_then(|t| t.split_once(" <"));
    let good = parts.is_some_and(|(name, address)| {
        !name.trim().is_empty()
            && !name.contains(['<', '>'])
            && !address.contains(['<', '>', ' '])
            && address
                .split_once('@')
                .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
    });
    anyhow::ensure!(
        good,
        "it is not of the form NAME <ADDRESS>, such as \"Jo Doe <jo@example.org>\""
    );
    Ok(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn put(root: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let path = root.join(name);
    let what = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).with_context(what)?;
    fs::write(&path, bytes).with_context(what)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).with_context(what)
}

/// Whoever builds may have an umask; the package has not.
fn plain_folders(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            plain_folders(&path)?;
        }
    }
    Ok(())
}

/// What the files of a tree take, in KiB, as Debian counts it.
fn kib(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        sum += if path.is_dir() {
            kib(&path)?
        } else {
            path.metadata()?.len().div_ceil(1024)
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maintainer_has_a_name_and_an_address() {
        assert_eq!(
            parse_maintainer(" Jo  Doe <jo@example.org>").unwrap(),
            "Jo Doe <jo@example.org>"
        );
        for text in [
            "nobody",
            "",
            "<jo@example.org>",
            "Jo <jo>",
            "Jo <@x>",
            "Jo <a@b> <c@d>",
            "Jo a@b.c",
        ] {
            assert!(parse_maintainer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_are_debian_s() {
        for (ours, theirs) in [
            ("2.0.9", "2.0.9-1"),
            ("2.0.9-secure", "2.0.9+secure-1"),
            ("1.4.3+b097fd0", "1.4.3+b097fd0-1"),
            ("crate-0.2.2", "0+crate+0.2.2-1"),
        ] {
            assert_eq!(debian_version(ours), theirs);
        }
    }

    #[test]
    fn a_companion_is_known_by_its_soname() {
        let own = BTreeSet::from(["libtbbmalloc.so.2.8"]);
        assert!(is_companion("libtbbmalloc.so.2", &own));
        assert!(!is_companion("libtbbmalloc.so.3", &own));
    }
}

//! Proves that a library can be preloaded before anybody relies on it: a preload that fails is
//! silent (the loader prints one line and the program runs on glibc with exit code 0).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::elf::{Elf, Libc, misfit, parse_elf};
use super::machine::glibc_numbers;
use super::recipe::{Says, SourceText, VersionProof};
use super::run::{outcome, run_limited};

/// Small programs that every system has; the first that has a loader is started under the library.
const SMALL_PROGRAMS: &[&str] = &["/bin/true", "/usr/bin/true", "/bin/sh"];
/// A library that needs longer to start `true` is not usable.
const START_LIMIT: Duration = Duration::from_secs(20);
/// A preload without these takes over only half of the heap.
const REQUIRED_EXPORTS: &[&str] = &["malloc", "free", "calloc", "realloc"];

/// A library that is to be tried.
#[derive(Debug)]
pub struct Trial {
    pub library: PathBuf,
    /// Preloaded before it.
    pub companions: Vec<PathBuf>,
    /// Started through, instead of a preload.
    pub loader: Option<PathBuf>,
}

impl Trial {
    /// Reads the library, compares it with this machine's programs, starts one under it and sees
    /// that `malloc` leads into it.
    ///
    /// # Errors
    /// Another architecture or libc, missing exports, a library that does not load: in words.
    pub fn verify(&self) -> Result<Elf> {
        let elf = read_elf(&self.library)?;
        let (_, program) = small_program()?;
        let shown = self.library.display();
        if let Some(why) = misfit(&elf, &program) {
            bail!("{shown} {why}");
        }
        if !elf.shared {
            bail!("{shown} is a program or an object file, not a shared library");
        }
        if self.loader.is_none() {
            check_glibc(&self.library, &elf)?;
        }
        let missing: Vec<&str> = REQUIRED_EXPORTS
            .iter()
            .copied()
            .filter(|n| !exports(&elf, n))
            .collect();
        if !missing.is_empty() {
            bail!(
                "{shown} does not export {}: preloading it would change nothing, or only half",
                missing.join(", ")
            );
        }
        self.check_loads()?;
        Ok(elf)
    }

    /// A small program, to be started on the library.
    fn command(&self) -> Result<Command> {
        let (program, _) = small_program()?;
        let mut command = match &self.loader {
            Some(loader) => {
                let mut command = Command::new(loader);
                let folder = self
                    .library
                    .parent()
                    .context("a library lies in a folder")?;
                command.arg("--library-path").arg(folder).arg(&program);
                command
            }
            None => {
                let mut command = Command::new(&program);
                command.env(
                    "LD_PRELOAD",
                    preload_value(&self.library, &self.companions)?,
                );
                command
            }
        };
        if program.ends_with("sh") {
            command.args(["-c", ":"]);
        }
        command.env("LC_ALL", "C");
        Ok(command)
    }

    fn check_loads(&self) -> Result<()> {
        let mut command = self.command()?;
        // The loader itself tells where each symbol leads, with all of them bound at the start.
        command.env("LD_DEBUG", "bindings").env("LD_BIND_NOW", "1");
        let shown = self.library.display();
        let finished =
            run_limited(&mut command, START_LIMIT).with_context(|| format!("starting {shown}"))?;
        let said = String::from_utf8_lossy(&finished.stderr);
        let Some(status) = finished.status else {
            bail!("a small program did not end within {START_LIMIT:?} under {shown}");
        };
        if let Some(line) = said
            .lines()
            .find(|line| line.contains("cannot be preloaded"))
        {
            bail!("the loader refuses {shown}: {}", line.trim());
        }
        if !status.success() {
            let word = said.lines().rfind(|line| !is_debug(line));
            let word = word.map(|w| format!(": {}", w.trim())).unwrap_or_default();
            bail!("a small program {} under {shown}{word}", outcome(status));
        }
        let targets = parse_bindings(&said, "malloc");
        let ours = self.library.to_string_lossy();
        match targets.iter().find(|target| **target != ours) {
            Some(other) => bail!("under {shown}, malloc leads into {other}"),
            None if targets.is_empty() => bail!("under {shown}, the loader bound no malloc at all"),
            None => Ok(()),
        }
    }

    /// Sees the recipe's version in the built library; the answer says how, for the manifest.
    ///
    /// # Errors
    /// A library that shows another version, or none.
    pub fn prove_version(&self, proof: &VersionProof, source: &Path) -> Result<String> {
        let mut shown = Vec::new();
        if !proof.strings.is_empty() {
            let bytes = std::fs::read(&self.library)?;
            for text in &proof.strings {
                if !holds(&bytes, text.as_bytes()) {
                    bail!("the built library does not hold its version {text:?}");
                }
                shown.push(format!("the library holds {text:?}"));
            }
        }
        if let Some(says) = &proof.says {
            shown.push(self.hear(says)?);
        }
        if let Some(line) = &proof.source {
            shown.push(read_line(line, source)?);
        }
        shown.extend(proof.because.clone());
        Ok(shown.join("; "))
    }

    fn hear(&self, says: &Says) -> Result<String> {
        let finished = run_limited(self.command()?.envs(&says.environment), START_LIMIT)?;
        let said = String::from_utf8_lossy(&finished.stderr);
        if !said.contains(&says.text) {
            let first = said.lines().next().unwrap_or("nothing");
            bail!(
                "the built library does not say its version {:?}; it says {first:?}",
                says.text
            );
        }
        Ok(format!("the library says {:?}", says.text))
    }
}

/// Reads a library's ELF tables.
pub fn read_elf(path: &Path) -> Result<Elf> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    parse_elf(&bytes).with_context(|| format!("{} cannot be preloaded", path.display()))
}

fn exports(elf: &Elf, name: &str) -> bool {
    elf.exports
        .binary_search_by(|e| e.as_str().cmp(name))
        .is_ok()
}

fn small_program() -> Result<(PathBuf, Elf)> {
    for program in SMALL_PROGRAMS {
        let path = PathBuf::from(program);
        let Ok(elf) = read_elf(&path) else { continue };
        if elf.interpreter.is_some() {
            return Ok((path, elf));
        }
    }
    bail!(
        "no dynamic program ({}) is here to try the library with",
        SMALL_PROGRAMS.join(", ")
    )
}

fn check_glibc(library: &Path, elf: &Elf) -> Result<()> {
    if let (Libc::Glibc, Some(needs), Some(has)) = (elf.libc, elf.glibc_needed, glibc_numbers())
        && needs > has
    {
        bail!(
            "{} needs glibc {}.{}, and this machine has {}.{}",
            library.display(),
            needs.0,
            needs.1,
            has.0,
            has.1
        );
    }
    Ok(())
}

/// The value of `LD_PRELOAD` that brings in a library and its companions.
///
/// # Errors
/// A path that `LD_PRELOAD` cannot hold: it has no way to quote a space or a colon.
pub(super) fn preload_value(library: &Path, companions: &[PathBuf]) -> Result<OsString> {
    let mut value = OsString::new();
    for path in companions.iter().map(PathBuf::as_path).chain([library]) {
        if path
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|b| b" :\t\n".contains(b))
        {
            bail!(
                "{} has a space or a colon in its path, which LD_PRELOAD cannot hold; move it",
                path.display()
            );
        }
        if !value.is_empty() {
            value.push(":");
        }
        value.push(path);
    }
    Ok(value)
}

/// The files that a symbol was bound to, from the loader's `LD_DEBUG=bindings` lines:
/// ``PID: binding file FROM [0] to TARGET [0]: normal symbol `malloc' [VERSION]``.
fn parse_bindings<'a>(text: &'a str, symbol: &str) -> Vec<&'a str> {
    let quoted = format!("normal symbol `{symbol}'");
    let lines = text.lines().filter(|line| line.contains(&quoted));
    lines
        .filter_map(|line| {
            let (_, rest) = line.split_once("binding file ")?;
            let (_, target) = rest.split_once(" to ")?;
            Some(target.split_once(" [")?.0)
        })
        .collect()
}

/// A line of `LD_DEBUG`: the pid, a colon, a tab.
fn is_debug(line: &str) -> bool {
    let (start, _) = line
        .split_once(":\t")
        .unwrap_or((line.trim_end_matches(':'), ""));
    let start = start.trim();
    start.is_empty() || start.bytes().all(|b| b.is_ascii_digit())
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

fn read_line(line: &SourceText, source: &Path) -> Result<String> {
    let file = source.join(&line.file);
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", line.file))?;
    if !text.contains(&line.text) {
        bail!("the source's {} does not hold {:?}", line.file, line.text);
    }
    Ok(format!("its source {} holds {:?}", line.file, line.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_read_from_the_loader() {
        // Three of the lines of `LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD=... /bin/true` on
        // glibc 2.36, the pid 10024.
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        let line = |from: &str, to: &str, symbol: &str| {
            format!(
                "     10024:\tbinding file {from} [0] to {to} [0]: normal symbol `{symbol}' \
                 [GLIBC_2.2.5]\n"
            )
        };
        let text = line(libc, libc, "free")
            + &line("/bin/true", "/tmp/libmi.so", "malloc")
            + &line(libc, "/tmp/libmi.so", "malloc");
        let text = text.as_str();
        assert_eq!(
            parse_bindings(text, "malloc"),
            ["/tmp/libmi.so", "/tmp/libmi.so"]
        );
        assert_eq!(parse_bindings(text, "mallo"), [""; 0]);
        assert!(text.lines().all(is_debug) && is_debug("      8597:\t"));
        assert!(!is_debug(
            "/bin/true: symbol lookup error: ./x.so: undefined symbol: f"
        ));
    }

    #[test]
    fn a_path_that_a_preload_cannot_hold_is_refused() {
        let value = preload_value(Path::new("/a/b.so"), &[PathBuf::from("/a/c.so")]).unwrap();
        assert_eq!(value, "/a/c.so:/a/b.so");
        for path in ["/a b/c.so", "/a:b/c.so"] {
            assert!(preload_value(Path::new(path), &[]).is_err());
        }
    }
}

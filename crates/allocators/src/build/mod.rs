//! Making the library from its source, as the recipe's data says.

mod cmake;
mod compile;
mod configure;
mod copy;
mod loader;
mod zig;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::machine::Machine;
use super::recipe::{Build, Language};
use super::run::{Log, builder};

/// What a build needs to know.
pub struct Work<'a> {
    pub machine: &'a Machine,
    /// The recipe's paths are relative to it.
    pub source: &'a Path,
    /// An empty folder for what is built on the way.
    pub scratch: &'a Path,
    pub log: &'a mut Log,
}

/// What a build made.
#[derive(Debug)]
pub struct Built {
    pub library: PathBuf,
    /// What must be preloaded before it, or lie beside it where there is a loader.
    pub companions: Vec<PathBuf>,
    /// The loader to start programs through, instead of a preload.
    pub loader: Option<PathBuf>,
}

impl Built {
    fn library(library: PathBuf) -> Built {
        Built {
            library,
            companions: Vec::new(),
            loader: None,
        }
    }
}

/// Builds; the files named in the answer lie inside the source or scratch folder.
///
/// # Errors
/// A compiler that fails, with the last lines of its log, and an output that is not there after.
pub fn build(step: &Build, work: &mut Work<'_>) -> Result<Built> {
    let built = match step {
        Build::System => bail!("what the machine has needs no building"),
        Build::Compile(compile) => compile::build(compile, work)?,
        Build::Configure(configure) => configure::build(configure, work)?,
        Build::Cmake(cmake) => cmake::build(cmake, work)?,
        Build::Copy(copy) => copy::build(copy, work)?,
        Build::Loader(loader) => loader::build(loader, work)?,
        Build::Zig(zig) => zig::build(zig, work)?,
    };
    for file in std::iter::once(&built.library)
        .chain(&built.companions)
        .chain(&built.loader)
    {
        if !file.is_file() {
            bail!("the build ended well but left no {}", file.display());
        }
    }
    Ok(built)
}

const C_COMPILERS: &[&str] = &["cc", "gcc", "clang"];
const CXX_COMPILERS: &[&str] = &["c++", "g++", "clang++"];

/// What the build cannot do without and the machine does not have: (program, what to install).
pub fn missing_tools(step: &Build, machine: &Machine) -> Vec<(&'static str, &'static str)> {
    let c = ("a C compiler (cc, gcc or clang)", "gcc");
    let cxx = ("a C++ compiler (c++, g++ or clang++)", "g++");
    let need = |there: bool, what| if there { None } else { Some(what) };
    let has_c = || c_compiler(machine).is_some();
    let has_cxx = || cxx_compiler(machine).is_some();
    let has = |name: &str| machine.find(&[name]).is_some();
    let needs = match step {
        Build::System | Build::Copy(_) | Build::Loader(_) | Build::Zig(_) => vec![],
        Build::Compile(compile) => match compile.language {
            Language::C => vec![need(has_c(), c)],
            Language::Cxx => vec![need(has_cxx(), cxx)],
        },
        Build::Configure(_) => vec![need(has_c(), c), need(has("make"), ("make", "make"))],
        Build::Cmake(_) => vec![
            need(has_cxx(), cxx),
            need(has("cmake"), ("cmake", "cmake")),
            need(
                has("ninja") || has("make"),
                ("ninja or make", "ninja-build"),
            ),
        ],
    };
    needs.into_iter().flatten().collect()
}

fn c_compiler(machine: &Machine) -> Option<PathBuf> {
    machine.compiler("CC", C_COMPILERS)
}

fn cxx_compiler(machine: &Machine) -> Option<PathBuf> {
    machine.compiler("CXX", CXX_COMPILERS)
}

/// The compiler a step uses and its first line of `--version`; `None` for a copied library.
pub fn compiler_version(step: &Build, machine: &Machine) -> Option<String> {
    let program = match step {
        // Zig comes with the source, whose line in the manifest names its version.
        Build::System | Build::Copy(_) | Build::Loader(_) | Build::Zig(_) => return None,
        Build::Compile(compile) if compile.language == Language::C => c_compiler(machine)?,
        Build::Configure(_) => c_compiler(machine)?,
        Build::Compile(_) | Build::Cmake(_) => cxx_compiler(machine)?,
    };
    let output = builder(machine, &program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned)
}

/// The compiler for a language, ready for arguments.
pub(super) fn compiler(language: Language, machine: &Machine) -> Result<Command> {
    let (program, what) = match language {
        Language::C => (c_compiler(machine), "C"),
        Language::Cxx => (cxx_compiler(machine), "C++"),
    };
    let program = program.with_context(|| format!("no {what} compiler is on PATH"))?;
    Ok(builder(machine, &program))
}

/// Keeps the scratch folder's random name out of the library: twice the same bytes.
fn same_bytes(folder: &Path) -> String {
    format!("-ffile-prefix-map={}=.", folder.display())
}

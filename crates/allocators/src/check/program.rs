//! Compiles the probes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::build::compiler;
use crate::elf::hex;
use crate::machine::Machine;
use crate::recipe::Language;
use crate::run::Log;

const FILES: &[(&str, &str)] = &[
    ("probes.h", include_str!("probes/probes.h")),
    ("main.c", include_str!("probes/main.c")),
    ("watch.c", include_str!("probes/watch.c")),
    ("blocks.c", include_str!("probes/blocks.c")),
    ("threads.c", include_str!("probes/threads.c")),
    ("limits.c", include_str!("probes/limits.c")),
    ("protections.c", include_str!("probes/protections.c")),
    ("plugin.c", include_str!("probes/plugin.c")),
    ("new.cpp", include_str!("probes/new.cpp")),
];

/// The compiled probes.
#[derive(Debug)]
pub struct Programs {
    /// Where they are started: the plug-in lies in it.
    pub folder: PathBuf,
    pub probes: PathBuf,
    /// `None` without a C++ compiler.
    pub new: Option<PathBuf>,
}

/// Identity of the probes: of all their sources.
pub fn sha256() -> String {
    let mut hasher = Sha256::new();
    for (name, text) in FILES {
        hasher.update(name);
        hasher.update(text);
    }
    hex(&hasher.finalize())
}

/// Compiles the probes into a folder (1 s, 3 s with those in C++).
///
/// # Errors
/// No C compiler; a compiler that fails, with its words.
pub fn compile(folder: &Path, machine: &Machine, with_cxx: bool) -> Result<Programs> {
    for (name, text) in FILES {
        fs::write(folder.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    let mut log = Log::create(&folder.join("compile.log"))?;
    // -fno-builtin: the compiler must not leave out a malloc that nobody seems to need.
    let common = ["-O1", "-g0", "-w", "-fno-builtin", "-pthread"];
    let sources = FILES.iter().map(|(name, _)| *name);
    let sources = sources.filter(|name| name.ends_with(".c") && *name != "plugin.c");
    let mut cc = compiler(Language::C, machine).context(
        "the probes of a check are compiled on this machine; next: install gcc or clang",
    )?;
    cc.current_dir(folder)
        .args(common)
        .args(sources)
        .args(["-o", "probes", "-ldl"]);
    log.run(&mut cc)?;
    let mut cc = compiler(Language::C, machine)?;
    cc.current_dir(folder)
        .args(common)
        .args(["-shared", "-fPIC", "plugin.c", "-o", "plugin.so"]);
    log.run(&mut cc)?;
    let new = match compiler(Language::Cxx, machine) {
        _ if !with_cxx => None,
        Err(_) => None,
        Ok(mut cxx) => {
            cxx.current_dir(folder)
                .args(common)
                .args(["-std=c++17", "new.cpp", "-o", "new"]);
            log.run(&mut cxx)?;
            Some(folder.join("new"))
        }
    };
    Ok(Programs {
        folder: folder.to_owned(),
        probes: folder.join("probes"),
        new,
    })
}

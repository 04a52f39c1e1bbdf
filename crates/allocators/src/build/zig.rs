//! One call of the Zig compiler that a wheel carries.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};

use super::{Built, Work};
use crate::recipe::Zig;
use crate::run::builder;

pub fn build(zig: &Zig, work: &mut Work<'_>) -> Result<Built> {
    let program = work.source.join("ziglang/zig");
    // Unpacking a wheel by zipfile loses the executable bit.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("no Zig compiler at {}", program.display()))?;
    for own in &zig.files {
        let to = work.scratch.join(&own.to);
        fs::write(&to, &own.text).with_context(|| format!("writing {}", to.display()))?;
    }
    let root = zig
        .files
        .first()
        .context("the recipe names no file for Zig")?;
    let library = work.scratch.join(&zig.library);
    let mut command = builder(work.machine, &program);
    command
        .current_dir(work.scratch)
        .args(["build-lib", "-dynamic", "-lc", "-fPIC", "-fstrip"]);
    command
        .args(&zig.flags)
        .arg(format!("-fsoname={}", zig.library));
    // The oldest processor and a fixed glibc: the same bytes on every machine.
    command.arg("-mcpu=baseline").arg("-target");
    command.arg(format!("{}-{}", work.machine.architecture, zig.target));
    command.args(["--cache-dir", "cache", "--global-cache-dir", "global-cache"]);
    command
        .arg(format!("-femit-bin={}", zig.library))
        .arg(&root.to);
    work.log.run(&mut command)?;
    Ok(Built::library(library))
}

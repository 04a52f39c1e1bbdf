//! A `configure` script and `make`.

use std::path::Path;
use std::thread;

use anyhow::{Context, Result};

use super::{Built, Work, c_compiler, same_bytes};
use crate::recipe::Configure;
use crate::run::builder;

pub fn build(configure: &Configure, work: &mut Work<'_>) -> Result<Built> {
    let folder = work.source.join(&configure.folder);
    let script = folder.join("configure");
    if folder.join(&configure.script) != script {
        let from = work.source.join(&configure.script);
        std::fs::copy(&from, &script).with_context(|| format!("copying {}", from.display()))?;
    }
    let compiler = c_compiler(work.machine).context("no C compiler is on PATH")?;
    let flags = format!("{} {}", configure.cflags, same_bytes(work.source));
    // Through the shell: a vendored file has lost its executable bit.
    let mut prepare = builder(work.machine, Path::new("/bin/sh"));
    prepare
        .arg("./configure")
        .args(&configure.arguments)
        .current_dir(&folder);
    prepare
        .env("CC", &compiler)
        .env("CFLAGS", &flags)
        .env("CXXFLAGS", &flags);
    work.log.run(&mut prepare)?;
    let make = work
        .machine
        .find(&["make"])
        .context("make is not on PATH")?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut command = builder(work.machine, &make);
    command
        .arg(format!("-j{jobs}"))
        .args(&configure.targets)
        .current_dir(&folder);
    work.log.run(&mut command)?;
    Ok(Built::library(folder.join(&configure.output)))
}

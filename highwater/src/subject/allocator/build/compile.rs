//! One call of the compiler.

use anyhow::{Context, Result};

use super::{Built, Work, compiler};
use crate::subject::allocator::recipe::Compile;

pub fn build(compile: &Compile, work: &mut Work<'_>) -> Result<Built> {
    let folder = work.source.join(&compile.folder);
    for own in &compile.files {
        let to = folder.join(&own.to);
        std::fs::write(&to, &own.text).with_context(|| format!("writing {}", to.display()))?;
    }
    let library = work.scratch.join(&compile.library);
    let mut command = compiler(compile.language, work.machine)?;
    // Relative paths from inside the folder: the library does not remember where it was built.
    command.current_dir(&folder).args(["-shared", "-fPIC"]);
    command.arg(format!("-Wl,-soname,{}", compile.library));
    command.args(&compile.flags);
    command.args(compile.define.iter().map(|d| format!("-D{d}")));
    command.args(compile.include.iter().map(|i| format!("-I{i}")));
    command.args(&compile.sources).arg("-o").arg(&library);
    command.args(compile.link.iter().map(|l| format!("-l{l}")));
    work.log.run(&mut command)?;
    Ok(Built::library(library))
}

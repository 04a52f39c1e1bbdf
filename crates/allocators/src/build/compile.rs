//! The compiler, by one call, or by one for each source and a link.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

use anyhow::{Context, Result, bail};

use super::{Built, Work, compiler};
use crate::recipe::Compile;
use crate::run::outcome;

pub fn build(compile: &Compile, work: &mut Work<'_>) -> Result<Built> {
    let folder = work.source.join(&compile.folder);
    for own in &compile.files {
        let to = folder.join(&own.to);
        std::fs::write(&to, &own.text).with_context(|| format!("writing {}", to.display()))?;
    }
    let library = work.scratch.join(&compile.library);
    let objects = if compile.separately {
        objects(compile, &folder, work)?
    } else {
        compile.sources.iter().map(PathBuf::from).collect()
    };
    let mut command = begin(compile, &folder, work)?;
    command
        .arg("-shared")
        .arg(format!("-Wl,-soname,{}", compile.library));
    command.args(&objects).arg("-o").arg(&library);
    command.args(compile.link.iter().map(|l| format!("-l{l}")));
    work.log.run(&mut command)?;
    Ok(Built::library(library))
}

/// The compiler with what every call of it has.
fn begin(compile: &Compile, folder: &Path, work: &Work<'_>) -> Result<Command> {
    let mut command = compiler(compile.language, work.machine)?;
    // Relative paths from inside the folder: the library does not remember where it was built.
    command.current_dir(folder).arg("-fPIC");
    command.args(&compile.flags);
    command.args(compile.define.iter().map(|d| format!("-D{d}")));
    command.args(compile.include.iter().map(|i| format!("-I{i}")));
    Ok(command)
}

/// Compiles each source by itself; the answer is in the order of the sources, so that the link is
/// the same every time.
fn objects(compile: &Compile, folder: &Path, work: &mut Work<'_>) -> Result<Vec<PathBuf>> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut running = Running(Vec::new());
    let mut objects = Vec::new();
    for (number, source) in compile.sources.iter().enumerate() {
        let object = work.scratch.join(format!("{number}.o"));
        let mut command = begin(compile, folder, work)?;
        command.arg("-c").arg(source).arg("-o").arg(&object);
        if running.0.len() >= jobs {
            running.wait_for_oldest(work)?;
        }
        // From this thread, which waits for it: a builder ends with the thread that started it.
        running
            .0
            .push((source.clone(), work.log.start(&mut command)?));
        objects.push(object);
    }
    while !running.0.is_empty() {
        running.wait_for_oldest(work)?;
    }
    Ok(objects)
}

/// Compilers at work, the oldest first. Those that are left when one fails are ended.
struct Running(Vec<(String, Child)>);

impl Running {
    fn wait_for_oldest(&mut self, work: &Work<'_>) -> Result<()> {
        let (source, mut child) = self.0.remove(0);
        let status = child.wait().context("waiting for the compiler")?;
        if !status.success() {
            bail!(
                "compiling {source} {}{}",
                outcome(status),
                work.log.last_lines()
            );
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

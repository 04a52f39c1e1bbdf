//! One target of a CMake project, by ninja where it is, else by make.

use std::thread;

use anyhow::{Context, Result};

use super::{Built, Work, c_compiler, cxx_compiler, same_bytes};
use crate::recipe::Cmake;
use crate::run::builder;

pub fn build(cmake: &Cmake, work: &mut Work<'_>) -> Result<Built> {
    let program = work
        .machine
        .find(&["cmake"])
        .context("cmake is not on PATH")?;
    let compiler = cxx_compiler(work.machine).context("no C++ compiler is on PATH")?;
    let folder = work.scratch.join("cmake");
    let flags = [&cmake.flags[..], &[same_bytes(work.source)]]
        .concat()
        .join(" ");
    let mut prepare = builder(work.machine, &program);
    prepare
        .arg("-S")
        .arg(work.source.join(&cmake.folder))
        .arg("-B")
        .arg(&folder);
    prepare
        .arg("-DCMAKE_BUILD_TYPE=Release")
        .arg(format!("-DCMAKE_CXX_FLAGS={flags}"));
    prepare.env("CXX", compiler).args(&cmake.arguments);
    if work.machine.find(&["ninja"]).is_some() {
        prepare.args(["-G", "Ninja"]);
    }
    if let Some(compiler) = c_compiler(work.machine) {
        prepare.env("CC", compiler);
    }
    work.log.run(&mut prepare)?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut command = builder(work.machine, &program);
    command
        .arg("--build")
        .arg(&folder)
        .args(["--target", &cmake.target]);
    command.arg(format!("-j{jobs}"));
    work.log.run(&mut command)?;
    Ok(Built::library(folder.join(&cmake.output)))
}

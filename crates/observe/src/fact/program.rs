//! A program before it is started: can a library be preloaded into it at all?
//!
//! Measured before this project: a musl library stops a glibc program from starting; a library in a
//! static program is silently ignored.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::image::Image;
use super::memory::{FileMemory, Memory, PT_DYNAMIC, PT_INTERP};
use super::sanitizer::{Sanitizer, read_sanitizer};

/// Interpreters of interpreters that are followed, as the kernel does.
const SCRIPTS_MAX: usize = 4;

/// Which C library a program or library works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    Glibc,
    Musl,
    /// Static: none that a preload could work with.
    None,
    Unknown,
}

/// What matters of a program for preloading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file that is executed: for a script, its interpreter.
    pub path: PathBuf,
    /// The script, when the command is one.
    pub script: Option<PathBuf>,
    /// PT_INTERP: the dynamic linker that the program asks for. `None`: static.
    pub interpreter: Option<String>,
    pub libc: Libc,
    /// e_machine of its ELF header.
    pub machine: u16,
    /// It gains rights at its start (setuid or setgid of another user, file capabilities), so the
    /// dynamic linker ignores LD_PRELOAD.
    pub gains_rights: bool,
    /// It exports malloc itself, so that a preload comes after it in lookup order.
    pub exports_malloc: bool,
    /// Libraries that it asks for by name.
    pub needed: Vec<String>,
}

impl Program {
    /// Reads the program's symbols, which takes a while where they are many.
    pub fn sanitizer(&self) -> Option<Sanitizer> {
        read_sanitizer(&self.path, &self.needed)
    }
}

/// Reads the program that `path` would run; a script is followed to its interpreter.
pub fn read_program(path: &Path) -> Result<Program> {
    let mut program = path.to_path_buf();
    let mut script = None;
    for _ in 0..SCRIPTS_MAX {
        match read_shebang(&program)? {
            Some(interpreter) => {
                script.get_or_insert_with(|| program.clone());
                program = interpreter;
            }
            None => return read_elf(&program, script),
        }
    }
    bail!(
        "{}: a script of a script of a script ...; name the program itself",
        path.display()
    )
}

fn read_elf(path: &Path, script: Option<PathBuf>) -> Result<Program> {
    let file = super::open_file(path).with_context(|| format!("cannot read {}", path.display()))?;
    let data = file
        .metadata()
        .with_context(|| format!("cannot read {}", path.display()))?;
    let memory = FileMemory::open(file)
        .map_err(|why| anyhow::anyhow!("{} cannot be a program: {why}", path.display()))?;
    let interpreter = memory
        .header(PT_INTERP)
        .and_then(|header| memory.name(header.address));
    let image = image_of(&memory);
    let libc = match &interpreter {
        None => Libc::None,
        Some(name) => libc_of(std::slice::from_ref(name)),
    };
    Ok(Program {
        path: path.to_path_buf(),
        script,
        interpreter,
        libc,
        machine: memory.elf.machine,
        gains_rights: gains_rights(path, data.mode(), data.uid(), data.gid()),
        exports_malloc: image
            .as_ref()
            .is_some_and(|image| image.export("malloc").is_some()),
        needed: image.map_or(Vec::new(), |image| image.needed()),
    })
}

/// In words, why preloading `library` into `program` cannot work; `None` when nothing speaks
/// against it. The running process is proved anyway ([`super::proof`]).
pub fn preload_problem(program: &Program, library: &Path) -> Option<String> {
    let name = program.path.display();
    let wanted = library.display();
    if program.interpreter.is_none() {
        return Some(format!(
            "{name} is a static program: no library can be preloaded into it, so {wanted} would \
             have no effect. Link it dynamically, or build the arm's allocator into it"
        ));
    }
    if program.gains_rights {
        return Some(format!(
            "{name} gains rights when it starts (setuid, setgid or file capabilities): the dynamic \
             linker ignores LD_PRELOAD then. Use a copy without them"
        ));
    }
    if let Some(sanitizer) = program.sanitizer() {
        return Some(sanitizer.problem());
    }
    let memory = match super::open_file(library).map_err(|error| error.to_string()) {
        Ok(file) => FileMemory::open(file),
        Err(error) => Err(error),
    };
    let memory = match memory {
        Ok(memory) => memory,
        Err(why) => return Some(format!("{wanted} cannot be preloaded: {why}")),
    };
    if memory.elf.machine != program.machine {
        return Some(format!(
            "{wanted} is for another processor ({}) than {name} ({})",
            machine_words(memory.elf.machine),
            machine_words(program.machine)
        ));
    }
    let Some(image) = image_of(&memory) else {
        return Some(format!(
            "{wanted} cannot be preloaded: it is no shared library"
        ));
    };
    if image.export("malloc").is_none() {
        return Some(format!(
            "{wanted} exports no malloc: {name} would run on the allocator that it has without it"
        ));
    }
    libc_problem(program, libc_of(&image.needed()), library)
}

fn libc_problem(program: &Program, library_libc: Libc, library: &Path) -> Option<String> {
    let (name, wanted) = (program.path.display(), library.display());
    match (program.libc, library_libc) {
        (Libc::Glibc, Libc::Musl) => Some(format!(
            "{wanted} is built for musl and {name} runs on glibc: it would not start. Use a \
             build of the allocator for glibc"
        )),
        (Libc::Musl, Libc::Glibc) => Some(format!(
            "{wanted} is built for glibc and {name} runs on musl. Use a build of the allocator \
             for musl"
        )),
        _ => None,
    }
}

fn image_of(memory: &FileMemory) -> Option<Image<'_>> {
    Image::read(memory, 0, memory.header(PT_DYNAMIC)?.address)
}

/// By the names under which each C library and its linker are asked for. A library that needs no C
/// library at all works with both.
fn libc_of(names: &[String]) -> Libc {
    let base = |name: &String| name.rsplit('/').next().unwrap_or(name).to_owned();
    let names: Vec<String> = names.iter().map(base).collect();
    let any = |test: fn(&str) -> bool| names.iter().any(|name| test(name));
    if any(|name| name.starts_with("ld-musl-") || name.starts_with("libc.musl-")) {
        Libc::Musl
    } else if any(|name| name == "libc.so.6" || name.starts_with("ld-linux")) {
        Libc::Glibc
    } else if any(|name| name == "libc.so") {
        // The name under which musl-gcc and zig link musl.
        Libc::Musl
    } else {
        Libc::Unknown
    }
}

fn gains_rights(path: &Path, mode: u32, uid: u32, gid: u32) -> bool {
    let setuid = mode & 0o4000 != 0 && uid != rustix::process::geteuid().as_raw();
    let setgid = mode & 0o2010 == 0o2010 && gid != rustix::process::getegid().as_raw();
    let mut value = [0u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok();
    setuid || setgid || capable
}

fn machine_words(machine: u16) -> String {
    match machine {
        62 => "x86-64".to_owned(),
        183 => "aarch64".to_owned(),
        3 => "x86".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("ELF machine {other}"),
    }
}

/// The program in the `#!` line; `env` is looked through.
fn read_shebang(path: &Path) -> Result<Option<PathBuf>> {
    let mut file =
        super::open_file(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut start = vec![0; 256]; // the kernel reads no more
    let got = file
        .read(&mut start)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse_shebang(&start[..got]).map(|(interpreter, argument)| {
        let is_env = interpreter.file_name().is_some_and(|name| name == "env");
        match argument.filter(|_| is_env) {
            Some(name) => find_in_path(&name).unwrap_or(interpreter),
            None => interpreter,
        }
    }))
}

/// (interpreter, first word behind it that is no option) of a script's first line.
fn parse_shebang(start: &[u8]) -> Option<(PathBuf, Option<String>)> {
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_ascii_whitespace();
    let interpreter = PathBuf::from(words.next()?);
    let is_word = |word: &&str| !word.starts_with('-') && !word.contains('=');
    Some((interpreter, words.find(is_word).map(str::to_owned)))
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shebangs() {
        let parse = |text: &str| parse_shebang(text.as_bytes());
        let sh = (PathBuf::from("/bin/sh"), None);
        assert_eq!(parse("#!/bin/sh\necho"), Some(sh.clone()));
        assert_eq!(parse("#! /bin/sh -e"), Some(sh));
        let env = (PathBuf::from("/usr/bin/env"), Some("python3".to_owned()));
        assert_eq!(parse("#!/usr/bin/env python3\n"), Some(env.clone()));
        assert_eq!(parse("#!/usr/bin/env -S A=1 python3 -u\n"), Some(env));
        assert_eq!(parse("#!"), None);
        assert_eq!(parse("\x7fELF"), None);
    }

    #[test]
    fn c_libraries() {
        let libc = |names: &[&str]| libc_of(&names.iter().map(|&n| n.into()).collect::<Vec<_>>());
        assert_eq!(libc(&["/lib64/ld-linux-x86-64.so.2"]), Libc::Glibc);
        assert_eq!(libc(&["libm.so.6", "libc.so.6"]), Libc::Glibc);
        assert_eq!(libc(&["/lib/ld-musl-x86_64.so.1"]), Libc::Musl);
        assert_eq!(libc(&["libc.musl-x86_64.so.1"]), Libc::Musl);
        assert_eq!(libc(&["libc.so"]), Libc::Musl);
        assert_eq!(libc(&[]), Libc::Unknown);
    }
}

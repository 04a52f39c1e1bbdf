//! A folder with the fragments compiled once. A program is then one small file to compile, and a link.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::catalogue;
use crate::program::Program;

/// Sizes of the plugins: bytes of code before their work, and of a frame in it.
const PLUGINS: [(u32, u32); 4] = [(16, 16), (4 << 20, 16), (20_000, 3000), (300_000, 400)];

/// Flags of every compilation. Without -fno-builtin a block that is freed at once is no allocation.
const FLAGS: [&str; 6] = ["-O1", "-fno-builtin", "-pthread", "-I", ".", "-w"];

pub struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// Compiles the fragments, the plugins and the library for chains.
    pub fn open() -> Result<Workshop> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().context("making a folder for the programs")?;
        // Programs that give up root open their plugins as well.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let workshop = Workshop { folder };
        for (file, text) in all_files() {
            std::fs::write(workshop.path(file), text)?;
        }
        for (file, _) in catalogue::SOURCES {
            let mut arguments = vec!["-c", file];
            let object = object(file);
            arguments.extend(catalogue::flags(file));
            arguments.extend(["-o", object.as_str()]);
            workshop.compile(compiler(file), &arguments)?;
        }
        let own = "own_operators.cpp";
        workshop.compile(compiler(own), &["-c", own, "-o", &object(own)])?;
        for (kind, (pad, frame)) in PLUGINS.iter().enumerate() {
            let (pad, frame) = (format!("-DPAD={pad}"), format!("-DFRAME={frame}"));
            let out = format!("plugin{kind}.so");
            workshop.compile(
                "cc",
                &["-shared", "-fPIC", &pad, &frame, "plugin.c", "-o", &out],
            )?;
        }
        workshop.compile("cc", &["-shared", "-fPIC", "chain.c", "-o", "chain.so"])?;
        for (source, _, out) in catalogue::LIBRARIES {
            workshop.compile(compiler(source), &["-shared", "-fPIC", source, "-o", out])?;
        }
        Ok(workshop)
    }

    /// A path in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles and links a program. Each call replaces the one before.
    pub fn build(&self, program: &Program) -> Result<PathBuf> {
        std::fs::write(self.path("program.c"), program.source())?;
        self.compile("cc", &["-O0", "-c", "program.c", "-o", "program.o"])?;
        let mut files: Vec<String> = vec!["program.o".to_owned(), object("trace.c")];
        files.extend(program.files().into_iter().map(object));
        if program.has_own_operators {
            files.push(object("own_operators.cpp"));
        }
        let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
        arguments.extend(["-ldl", "-o", "program"]);
        self.compile(if program.is_cpp() { "c++" } else { "cc" }, &arguments)?;
        Ok(self.path("program"))
    }

    fn compile(&self, compiler: &str, arguments: &[&str]) -> Result<()> {
        let done = Command::new(compiler)
            .args(FLAGS)
            .args(arguments)
            .current_dir(self.folder())
            .output()
            .with_context(|| format!("starting {compiler}"))?;
        if !done.status.success() {
            bail!(
                "{compiler} {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&done.stderr)
            );
        }
        Ok(())
    }
}

/// Every file that is needed to compile any program.
pub fn all_files() -> Vec<(&'static str, &'static str)> {
    let mut all = catalogue::SOURCES.to_vec();
    all.extend([
        ("guest.h", catalogue::HEADER),
        ("own_operators.cpp", catalogue::OWN_OPERATORS),
        ("plugin.c", catalogue::PLUGIN),
        ("chain.c", catalogue::CHAIN),
    ]);
    all.extend(catalogue::LIBRARIES.map(|(source, text, _)| (source, text)));
    all
}

/// The commands that build a kept program in its folder.
pub fn build_script(program: &Program) -> String {
    let flags = "-O1 -g -fno-builtin -pthread -w -I .";
    let mut text = String::from("#!/bin/sh\nset -e\ncd \"$(dirname \"$0\")\"\n");
    let mut files: Vec<&str> = vec!["program.c", "trace.c"];
    files.extend(program.files());
    if program.has_own_operators {
        files.push("own_operators.cpp");
    }
    for file in &files {
        let more = catalogue::flags(file).join(" ");
        text += &format!(
            "{} {flags} {more} -c {file} -o {}\n",
            compiler(file),
            object(file)
        );
    }
    let objects: Vec<String> = files.iter().map(|file| object(file)).collect();
    let link = if program.is_cpp() { "c++" } else { "cc" };
    text += &format!("{link} -pthread {} -ldl -o program\n", objects.join(" "));
    for (kind, (pad, frame)) in PLUGINS.iter().enumerate() {
        text += &format!(
            "cc {flags} -shared -fPIC -DPAD={pad} -DFRAME={frame} plugin.c -o plugin{kind}.so\n"
        );
    }
    for (source, _, out) in catalogue::LIBRARIES {
        text += &format!(
            "{} {flags} -shared -fPIC {source} -o {out}\n",
            compiler(source)
        );
    }
    text + &format!("cc {flags} -shared -fPIC chain.c -o chain.so\n")
}

fn compiler(file: &str) -> &'static str {
    if file.ends_with(".cpp") { "c++" } else { "cc" }
}

fn object(file: &str) -> String {
    format!("{}.o", file.split('.').next().unwrap_or(file))
}

//! A folder with the fragments compiled once. A program is then one small file to compile, and a link.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::catalogue::{self, Fragment, Kind};
use crate::links::Link;
use crate::program::Program;

/// Sizes of the plugins: bytes of code before their work, and of a frame in it.
const PLUGINS: [(u32, u32); 4] = [(16, 16), (4 << 20, 16), (20_000, 3000), (300_000, 400)];

/// Flags of every compilation. Without -fno-builtin a block that is freed at once is no allocation.
const FLAGS: [&str; 6] = ["-O1", "-fno-builtin", "-pthread", "-I", ".", "-w"];

pub struct Workshop {
    folder: tempfile::TempDir,
    /// The source that was built last, by the name of the link.
    built: RefCell<HashMap<String, String>>,
}

impl Workshop {
    /// Compiles the fragments for each way to link, the plugins and the library for chains.
    pub fn open(links: &[Link]) -> Result<Workshop> {
        let workshop = Workshop::empty()?;
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
        for link in links.iter().filter(|link| !link.objects().is_empty()) {
            workshop.compile_anew(link);
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

    fn empty() -> Result<Workshop> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().context("making a folder for the programs")?;
        // Programs that give up root open their plugins as well.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(Workshop {
            folder,
            built: RefCell::default(),
        })
    }

    /// Another one with the same compiled fragments: compiling them takes most of a minute on a busy machine.
    pub fn copy(&self) -> Result<Workshop> {
        let copy = Workshop::empty()?;
        for entry in std::fs::read_dir(self.folder())?.flatten() {
            std::fs::copy(entry.path(), copy.folder().join(entry.file_name()))?;
        }
        Ok(copy)
    }

    /// A path in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles and links a program. Each call replaces the one before of this link.
    pub fn build(&self, program: &Program, link: &Link) -> Result<PathBuf> {
        let name = format!("program-{}", link.name.replace(' ', "-"));
        let source = program.source();
        if self.built.borrow().get(&link.name) == Some(&source) {
            return Ok(self.path(&name));
        }
        self.built.borrow_mut().remove(&link.name);
        let mut files: Vec<&str> = vec!["trace.c"];
        files.extend(program.files());
        if program.has_own_operators {
            files.push("own_operators.cpp");
        }
        self.link(&source, &files, link, program.is_cpp(), &name)?;
        self.built.borrow_mut().insert(link.name.clone(), source);
        Ok(self.path(&name))
    }

    /// Whether a program of this fragment alone can be built.
    pub fn builds(&self, fragment: &Fragment, link: &Link) -> bool {
        let body = if fragment.kind == Kind::Around {
            "0, "
        } else {
            ""
        };
        let zeros = vec!["0"; fragment.parameters.len()].join(", ");
        let name = fragment.name;
        let source = format!("void {name}();\nint main(void) {{ {name}({body}{zeros}); }}\n");
        let is_cpp = fragment.file.ends_with(".cpp");
        let files = ["trace.c", fragment.file];
        self.link(&source, &files, link, is_cpp, "tried").is_ok()
    }

    /// `files` are compiled already.
    fn link(
        &self,
        source: &str,
        files: &[&str],
        link: &Link,
        is_cpp: bool,
        out: &str,
    ) -> Result<()> {
        std::fs::write(self.path("program.c"), source)?;
        let mut compile = link.compile_arguments();
        compile.extend(["-O0", "-c", "program.c", "-o", "program.o"].map(str::to_owned));
        self.compile("cc", &compile)?;
        let objects = files
            .iter()
            .map(|file| link.objects().to_owned() + &object(file));
        let mut arguments = vec!["program.o".to_owned()];
        arguments.extend(objects);
        let (linker, more) = link.linker(is_cpp);
        arguments.extend(more);
        arguments.extend(["-o".to_owned(), out.to_owned()]);
        self.compile(linker, &arguments)
    }

    /// Files that do not compile with another C library have no fragments there: see `Link::try_fragments`.
    fn compile_anew(&self, link: &Link) {
        for (file, _) in catalogue::SOURCES {
            if file.ends_with(".c") {
                let mut arguments = link.compile_arguments();
                let out = link.objects().to_owned() + &object(file);
                arguments.extend(["-c", file, "-o", &out].map(str::to_owned));
                let _ = self.compile("cc", &arguments);
            }
        }
    }

    fn compile(&self, compiler: &str, arguments: &[impl AsRef<str>]) -> Result<()> {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let done = Command::new(compiler)
            .args(FLAGS)
            .args(&arguments)
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
pub fn build_script(program: &Program, way: &Link) -> String {
    let flags = "-O1 -g -fno-builtin -pthread -w -I .";
    let mut text = String::from("#!/bin/sh\nset -e\ncd \"$(dirname \"$0\")\"\n");
    let mut files: Vec<&str> = vec!["program.c", "trace.c"];
    files.extend(program.files());
    if program.has_own_operators {
        files.push("own_operators.cpp");
    }
    for file in &files {
        let mut more = way.compile_arguments();
        more.extend(catalogue::flags(file).iter().map(|flag| (*flag).to_owned()));
        let more = more.join(" ");
        text += &format!(
            "{} {flags} {more} -c {file} -o {}\n",
            compiler(file),
            object(file)
        );
    }
    let objects: Vec<String> = files.iter().map(|file| object(file)).collect();
    let (linker, more) = way.linker(program.is_cpp());
    let (objects, more) = (objects.join(" "), more.join(" "));
    text += &format!("{linker} -pthread {objects} {more} -o program\n");
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

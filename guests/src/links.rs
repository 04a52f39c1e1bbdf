//! The ways to build a program: which C library and which allocator are part of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::catalogue::Fragment;
use crate::program::{Chain, Program};

/// Fragments of these files open libraries, which a static program does not.
const OPENING: [&str; 2] = ["libraries.c", "loading.c"];

/// Where fetched allocators are, below the folder that `guests/fetch` fills.
const PRELOADED: &str = "preloaded";
const LINKED: &str = "linked";
const MUSL: &str = "musl";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Against the shared C library, as most programs are.
    Dynamic,
    /// glibc in the program.
    Static,
    /// musl in the program; the folder has the compiler's specs and the kernel's headers.
    Musl(PathBuf),
    /// An allocator in the program, glibc shared.
    With(PathBuf),
}

/// One way to build.
#[derive(Clone, Debug)]
pub struct Link {
    pub name: String,
    kind: Kind,
    /// Fragments that cannot be built so.
    missing: Vec<String>,
}

impl Link {
    pub fn dynamic() -> Link {
        Link::new("dynamic".to_owned(), Kind::Dynamic)
    }

    fn new(name: String, kind: Kind) -> Link {
        Link {
            name,
            kind,
            missing: Vec::new(),
        }
    }

    /// All but the dynamic one: static glibc, and what was fetched.
    pub fn others(fetched: Option<&Path>) -> Result<Vec<Link>> {
        let mut all = vec![Link::new("static glibc".to_owned(), Kind::Static)];
        let Some(folder) = fetched else {
            return Ok(all);
        };
        let musl = folder.join(MUSL);
        if musl.is_dir() {
            all.push(Link::new("static musl".to_owned(), Kind::Musl(musl)));
        }
        for file in files(&folder.join(LINKED))? {
            all.push(Link::new(
                format!("{} linked in", stem(&file)),
                Kind::With(file),
            ));
        }
        Ok(all)
    }

    /// Whether libraries can be preloaded to a program that is built so.
    pub fn is_dynamic(&self) -> bool {
        self.kind == Kind::Dynamic
    }

    fn is_static(&self) -> bool {
        matches!(self.kind, Kind::Static | Kind::Musl(_))
    }

    /// Objects of C are compiled anew for another C library: their prefix.
    pub fn objects(&self) -> &'static str {
        match self.kind {
            Kind::Musl(_) => "musl-",
            _ => "",
        }
    }

    pub fn compile_arguments(&self) -> Vec<String> {
        match &self.kind {
            Kind::Musl(folder) => {
                let headers = folder.join("include");
                let mut arguments = specs(folder);
                arguments.extend([
                    "-I".to_owned(),
                    text(&headers),
                    "-ffunction-sections".to_owned(),
                ]);
                arguments
            }
            _ => Vec::new(),
        }
    }

    /// The linker, and what follows the objects.
    pub fn linker(&self, is_cpp: bool) -> (&'static str, Vec<String>) {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match &self.kind {
            Kind::Dynamic => (if is_cpp { "c++" } else { "cc" }, words(&["-ldl"])),
            Kind::Static => (if is_cpp { "c++" } else { "cc" }, words(&["-static"])),
            Kind::Musl(folder) => {
                let mut arguments = specs(folder);
                arguments.extend(words(&["-static", "-Wl,--gc-sections"]));
                ("cc", arguments)
            }
            // Allocators have their C++ operators with them.
            Kind::With(file) => {
                let mut arguments = words(&["-Wl,--whole-archive"]);
                arguments.push(text(file));
                arguments.extend(words(&["-Wl,--no-whole-archive", "-lm", "-ldl"]));
                ("c++", arguments)
            }
        }
    }

    /// Finds out which fragments cannot be built so; a line about them.
    pub fn try_fragments(
        &mut self,
        fragments: &[Fragment],
        builds: impl Fn(&Link, &Fragment) -> bool,
    ) -> Option<String> {
        let is_missing = |fragment: &&Fragment| {
            let opens = self.is_static() && OPENING.contains(&fragment.file);
            let is_musl = matches!(self.kind, Kind::Musl(_));
            opens || is_musl && !builds(self, fragment)
        };
        let missing: Vec<_> = fragments.iter().filter(is_missing).collect();
        self.missing = missing.iter().map(|each| each.name.to_owned()).collect();
        (!self.missing.is_empty()).then(|| {
            format!(
                "{}: {} of {} fragments are left out: {}",
                self.name,
                self.missing.len(),
                fragments.len(),
                self.missing.join(" ")
            )
        })
    }

    /// The program without what cannot be built so.
    pub fn fit<'a>(&self, program: &Program<'a>) -> Program<'a> {
        let mut fit = program.clone();
        fit.leave_out(&self.missing);
        if !self.is_dynamic() {
            fit.chain = Chain::None;
        }
        // An allocator that is linked in has its own; for musl there is no C++.
        fit.has_own_operators &= matches!(self.kind, Kind::Dynamic | Kind::Static);
        fit
    }
}

/// Fetched allocators to preload.
pub fn preloaded(fetched: &Path) -> Result<Vec<PathBuf>> {
    files(&fetched.join(PRELOADED))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    Ok(all)
}

fn specs(folder: &Path) -> Vec<String> {
    vec!["-specs".to_owned(), text(&folder.join("musl-gcc.specs"))]
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Of a file, for names.
pub fn stem(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

//! The smallest program that shows a defect, found by trying it: what a bug report needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::build::compiler;
use super::cache::Cache;
use super::library::Library;
use super::machine::Machine;
use super::recipe::Language;
use super::run::{Log, outcome, run_limited};

/// Longest time for one start of a reproducer; a child of a fork that hangs is given 4 s.
const LIMIT: Duration = Duration::from_secs(20);
/// Starts that are spent on making a reproducer smaller.
const SEARCH_MAX: u32 = 24;

/// By probe: the program that shows what the probe found, whether another round cannot change what
/// the earlier ones did, and the rounds it starts with. Two numbers of rounds compare only then.
const PROGRAMS: &[Program] = &[
    Program::c(
        "alignment",
        include_str!("programs/alignment.c"),
        Some(400_000),
    ),
    Program::c("overlap", include_str!("programs/overlap.c"), Some(4_000)),
    Program::c(
        "usable-size",
        include_str!("programs/usable-size.c"),
        Some(4_000),
    ),
    Program::c("calloc", include_str!("programs/calloc.c"), Some(4_000)),
    Program::c("realloc", include_str!("programs/realloc.c"), Some(6_000)),
    Program::c("oversize", include_str!("programs/oversize.c"), None),
    Program::c("errno", include_str!("programs/errno.c"), None),
    Program::c("fork", include_str!("programs/fork.c"), None),
    Program::c("thread-ends", include_str!("programs/thread-ends.c"), None),
    Program {
        probe: "new-throw",
        text: include_str!("programs/new-throw.cpp"),
        language: Language::Cxx,
        rounds: None,
    },
];

struct Program {
    probe: &'static str,
    text: &'static str,
    language: Language,
    /// What `ROUNDS` is at first, where fewer may do; `None`: nothing to make smaller.
    rounds: Option<u32>,
}

impl Program {
    const fn c(probe: &'static str, text: &'static str, rounds: Option<u32>) -> Program {
        Program {
            probe,
            text,
            language: Language::C,
            rounds,
        }
    }

    fn file(&self) -> String {
        let end = if self.language == Language::C {
            "c"
        } else {
            "cpp"
        };
        format!("{}.{end}", self.probe)
    }
}

/// A program that shows a defect, as it ran here.
#[derive(Debug, Clone)]
pub struct Reproducer {
    pub probe: String,
    /// File name of the source.
    pub file: String,
    /// The source, its `ROUNDS` as small as was found.
    pub text: String,
    /// The line that compiles it.
    pub compile: String,
    /// What it did under the library: `ended with exit code 1: call 12: ...`.
    pub seen: String,
    /// The same program under others: (name, whether it passed, what it did).
    pub beside: Vec<(String, bool, String)>,
}

/// A compiled reproducer.
struct Compiled {
    program: PathBuf,
}

/// What a start of a reproducer did.
struct Seen {
    passed: bool,
    words: String,
}

impl Cache {
    /// Programs that show what the named probes found in a library, each as small as a search makes
    /// it, and what they do under the libraries beside. A probe without a program, or whose program
    /// shows nothing here, is left out.
    ///
    /// # Errors
    /// No compiler, or a program that does not compile.
    pub fn reproduce(
        &self,
        library: &Library,
        probes: &[String],
        beside: &[Library],
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Reproducer>> {
        let folder = self.scratch("reproduce")?;
        let mut found = Vec::new();
        for program in PROGRAMS
            .iter()
            .filter(|p| probes.iter().any(|probe| p.probe == probe))
        {
            progress(&format!("reproducing {}", program.probe));
            let workshop = Workshop {
                folder: folder.path(),
                machine: &self.machine,
                program,
            };
            found.extend(workshop.reproduce(library, beside)?);
        }
        Ok(found)
    }
}

struct Workshop<'a> {
    folder: &'a Path,
    machine: &'a Machine,
    program: &'a Program,
}

impl Workshop<'_> {
    fn reproduce(&self, library: &Library, beside: &[Library]) -> Result<Option<Reproducer>> {
        let mut rounds = self.program.rounds;
        let mut compiled = self.compile(rounds)?;
        if compiled.start(library)?.passed {
            return Ok(None);
        }
        if let Some(most) = rounds {
            let least = self.smallest(library, most)?;
            rounds = Some(least);
            compiled = self.compile(rounds)?;
        }
        let seen = compiled.start(library)?;
        let others = beside.iter().map(|other| {
            let seen = compiled.start(other)?;
            Ok((other.spec.clone(), seen.passed, seen.words))
        });
        Ok(Some(Reproducer {
            probe: self.program.probe.to_owned(),
            file: self.program.file(),
            text: self.text(rounds),
            compile: self.words(),
            seen: seen.words,
            beside: others.collect::<Result<_>>()?,
        }))
    }

    /// The fewest rounds that still show it. More rounds show whatever fewer do.
    fn smallest(&self, library: &Library, most: u32) -> Result<u32> {
        let (mut passes, mut fails) = (0, most);
        for _ in 0..SEARCH_MAX {
            if fails - passes <= 1 {
                break;
            }
            let middle = passes + (fails - passes) / 2;
            if self.compile(Some(middle))?.start(library)?.passed {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        Ok(fails)
    }

    fn text(&self, rounds: Option<u32>) -> String {
        let (Some(first), Some(rounds)) = (self.program.rounds, rounds) else {
            return self.program.text.to_owned();
        };
        let line = |rounds: u32| format!("#define ROUNDS {rounds}\n");
        self.program.text.replace(&line(first), &line(rounds))
    }

    fn compile(&self, rounds: Option<u32>) -> Result<Compiled> {
        let file = self.program.file();
        fs::write(self.folder.join(&file), self.text(rounds)).context("writing a reproducer")?;
        let name = format!("{}-{}", self.program.probe, rounds.unwrap_or(0));
        let mut command = compiler(self.program.language, self.machine)?;
        command.current_dir(self.folder).args(FLAGS);
        command.arg(&file).args(["-o", &name]);
        Log::create(&self.folder.join("compile.log"))?.run(&mut command)?;
        Ok(Compiled {
            program: self.folder.join(name),
        })
    }

    fn words(&self) -> String {
        let compiler = if self.program.language == Language::C {
            "cc"
        } else {
            "c++"
        };
        let (flags, file) = (FLAGS.join(" "), self.program.file());
        format!("{compiler} {flags} {file} -o {}", self.program.probe)
    }
}

/// Without builtins: the compiler must not leave out a malloc that nobody seems to need.
const FLAGS: &[&str] = &["-O1", "-fno-builtin", "-w", "-pthread"];

impl Compiled {
    fn start(&self, library: &Library) -> Result<Seen> {
        let mut command = library.command(&self.program)?;
        let finished = run_limited(&mut command, LIMIT).context("starting a reproducer")?;
        let said = String::from_utf8_lossy(&finished.stdout);
        let said = said.trim();
        let words = match finished.status {
            None => format!("did not end within {} s", LIMIT.as_secs()),
            Some(status) if status.success() => "ended with exit code 0".to_owned(),
            Some(status) => outcome(status),
        };
        Ok(Seen {
            passed: finished.status.is_some_and(|status| status.success()),
            words: if said.is_empty() {
                words
            } else {
                format!("{words}: {said}")
            },
        })
    }
}

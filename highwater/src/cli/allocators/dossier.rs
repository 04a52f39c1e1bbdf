//! `highwater allocators report`: what is known of an allocator as Markdown, and the bug report for
//! its authors. Plain formatting of facts that others gathered.

use std::fmt::Write as _;
use std::path::Path;

use allocators::{Answer, Defect, Finding, Library, Outcome, Report, Reproducer, glibc_version};

/// Everything that a dossier tells.
pub struct Dossier<'a> {
    pub library: &'a Library,
    pub check: &'a Report,
    pub machine: &'a str,
    /// Other libraries whose checks are known: what each probe found there.
    pub beside: &'a [(Library, Option<Report>)],
    pub reproducers: &'a [Reproducer],
}

impl Dossier<'_> {
    /// What is known, for whoever thinks of using it.
    pub fn facts(&self) -> String {
        let mut out = format!("# {}\n\n", self.name());
        out.push_str(&self.provenance());
        out.push_str(&known("Known defects", &self.library.defects));
        out.push_str(&known(
            "Known deviations from the standards",
            &self.library.deviations,
        ));
        if let Some(statistics) = &self.library.statistics {
            let _ = writeln!(out, "## What its statistics tell\n\n{statistics}\n");
        }
        out.push_str(&self.probes());
        out.push_str(&self.misuse());
        out
    }

    /// A bug report for the authors.
    pub fn upstream(&self) -> String {
        let mut out = format!("# {}: {}\n\n", self.name(), self.title());
        out.push_str("## What happens\n\n");
        for finding in self.unclean() {
            let _ = writeln!(
                out,
                "- {} ({}): {}",
                finding.probe, finding.about, finding.words
            );
        }
        out.push_str("\nExpected: none of these; glibc's malloc passes the same programs.\n\n");
        for reproducer in self.reproducers {
            out.push_str(&self.reproducer(reproducer));
        }
        self.without_program(&mut out);
        out.push_str(&self.provenance());
        out.push_str(&self.versions());
        out.push_str(&self.commands());
        out
    }

    fn name(&self) -> String {
        match &self.library.version {
            Some(version) => format!("{} {version}", self.library.name),
            None => self.library.name.clone(),
        }
    }

    fn unclean(&self) -> impl Iterator<Item = &Finding> {
        self.check.defects().chain(self.check.deviations())
    }

    /// The gravest finding that a program shows, else the first.
    fn title(&self) -> String {
        let shown = |f: &&Finding| self.reproducers.iter().any(|r| r.probe == f.probe);
        let first = self.unclean().find(shown).or_else(|| self.unclean().next());
        let Some(finding) = first else {
            return "nothing was found".to_owned();
        };
        let words = match finding.outcome {
            Outcome::Hang => format!("{} hangs", finding.probe),
            Outcome::Crash => format!("{} crashes", finding.probe),
            _ => finding.words.clone(),
        };
        match self.unclean().count() - 1 {
            0 => words,
            more => format!("{words} (and {more} more)"),
        }
    }

    fn reproducer(&self, it: &Reproducer) -> String {
        let language = if it.file.ends_with(".c") { "c" } else { "cpp" };
        let start = start_line(self.library, &it.probe);
        let mut out = format!(
            "## Reproducer: {}\n\n`{}`:\n\n```{language}\n{}```\n\n```console\n$ {}\n$ {start}\n{}\n```\n\n",
            it.probe, it.file, it.text, it.compile, it.seen
        );
        if !it.beside.is_empty() {
            out.push_str("The same program under others:\n\n| library | |\n|---|---|\n");
            for (name, passed, seen) in &it.beside {
                let words = if *passed { "passes" } else { seen.as_str() };
                let _ = writeln!(out, "| {name} | {} |", cell(words));
            }
            out.push('\n');
        }
        out
    }

    /// Findings that no small program showed on this machine.
    fn without_program(&self, out: &mut String) {
        let shown = |f: &&Finding| self.reproducers.iter().any(|r| r.probe == f.probe);
        let left: Vec<&Finding> = self.unclean().filter(|f| !shown(f)).collect();
        if left.is_empty() {
            return;
        }
        let names: Vec<&str> = left.iter().map(|f| f.probe.as_str()).collect();
        let _ = writeln!(
            out,
            "No small program shows {} here; the probes of the same names in highwater's sources \
             (`highwater/src/subject/allocator/check/probes`) do, started as under Commands.\n",
            names.join(", ")
        );
    }

    fn provenance(&self) -> String {
        let library = self.library;
        let mut out = "## Environment\n\n".to_owned();
        let mut line = |name: &str, value: Option<&str>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let _ = writeln!(out, "- {name}: {value}");
            }
        };
        line("machine", Some(self.machine));
        line("glibc", glibc_version().as_deref());
        line("library", Some(&library.spec));
        line("source", Some(&library.source));
        line("version as seen", library.version_shown.as_deref());
        line("build", library.build.as_deref());
        line("compiler", library.compiler.as_deref());
        line("licence", library.licence.as_deref());
        line("build id", library.build_id.as_deref());
        line("sha256", library.sha256.as_deref());
        line("checked", Some(&self.check.checked_at));
        line("highwater", Some(env!("CARGO_PKG_VERSION")));
        out.push('\n');
        out
    }

    fn probes(&self) -> String {
        let mut out = "## Probes\n\n| probe | about | found |\n|---|---|---|\n".to_owned();
        for finding in &self.check.findings {
            let words = match finding.outcome {
                Outcome::Clean => "clean",
                _ => &finding.words,
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                finding.probe,
                finding.about,
                cell(words)
            );
        }
        out.push('\n');
        out
    }

    fn misuse(&self) -> String {
        if self.check.protections.is_empty() {
            return String::new();
        }
        let mut out = "## On misuse\n\n| misuse | the program |\n|---|---|\n".to_owned();
        for protection in &self.check.protections {
            let answer = match (protection.misuse.as_str(), protection.answer) {
                ("order", Answer::Nothing) => "can foretell addresses",
                ("order", _) => "cannot foretell addresses",
                (_, Answer::Stops) => "is stopped",
                (_, Answer::Crashes) => "crashes",
                (_, Answer::Hangs) => "hangs",
                (_, Answer::Nothing) => "goes on, nothing is noticed",
                (_, Answer::Untried) => "was not tried",
            };
            let _ = writeln!(out, "| {} | {answer} |", protection.about);
        }
        out.push('\n');
        out
    }

    /// What each unclean probe found in other versions, where they have been checked.
    fn versions(&self) -> String {
        let probes: Vec<&str> = self.unclean().map(|f| f.probe.as_str()).collect();
        if self.beside.is_empty() || probes.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "## Versions beside\n\n| library | build id | {} |\n|---|---|{}\n",
            probes.join(" | "),
            "---|".repeat(probes.len())
        );
        for (library, report) in self.beside {
            let id = library.build_id.as_deref().unwrap_or_default();
            let found: Vec<String> = probes.iter().map(|p| found(report.as_ref(), p)).collect();
            let _ = writeln!(out, "| {} | {id} | {} |", library.spec, found.join(" | "));
        }
        out.push('\n');
        out
    }

    fn commands(&self) -> String {
        let spec = &self.library.spec;
        let add = if spec.contains('/') {
            ""
        } else {
            "highwater allocators add SPEC\n"
        };
        let all = self
            .unclean()
            .map(|f| f.probe.as_str())
            .filter(|p| *p != "load");
        let only: Vec<&str> = all.collect();
        let only = match only.is_empty() {
            true => String::new(),
            false => format!(" --only {}", only.join(",")),
        };
        format!(
            "## Commands\n\n```console\n{add}highwater allocators check SPEC{only}\n\
             highwater allocators report SPEC --upstream\n```\n"
        )
        .replace("SPEC", spec)
    }
}

/// How the program is started by whoever reads the report: with the library beside it, and no path of the
/// machine where it was written.
fn start_line(library: &Library, program: &str) -> String {
    let beside = |path: &Path| format!("./{}", path.file_name().unwrap_or_default().display());
    if let Some(loader) = &library.loader {
        let loader = beside(&loader.program);
        return format!("{loader} --library-path . ./{program}");
    }
    let Some(path) = &library.path else {
        return format!("./{program}");
    };
    let all = library.companions.iter().chain([path]);
    let names: Vec<String> = all.map(|path| beside(path)).collect();
    format!("LD_PRELOAD={} ./{program}", names.join(":"))
}

fn found(report: Option<&Report>, probe: &str) -> String {
    let finding = report.and_then(|r| r.findings.iter().find(|f| f.probe == probe));
    match finding {
        None => "not checked".to_owned(),
        Some(finding) if finding.outcome == Outcome::Clean => "clean".to_owned(),
        Some(finding) => cell(&finding.words),
    }
}

/// Text inside a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn known(title: &str, defects: &[Defect]) -> String {
    if defects.is_empty() {
        return String::new();
    }
    let mut out = format!("## {title}\n\n");
    for defect in defects {
        let _ = writeln!(out, "- {}: {}", defect.id, defect.text);
    }
    out.push('\n');
    out
}

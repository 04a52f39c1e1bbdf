//! `highwater allocators report` and `package`: gathers the facts, then writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::dossier::Dossier;
use super::{Entry, Verb};
use allocators::{Library, Report, Spec, catalogue};

impl Verb {
    pub(super) fn report(
        &self,
        spec: &Spec,
        upstream: bool,
        only: &[String],
        output: Option<&Path>,
    ) -> Result<Entry> {
        let bar = self.bar(spec);
        let progress = |words: &str| bar.set_message(words.to_owned());
        let library = self
            .cache
            .ensure(spec, &|step| bar.set_message(step.to_string()))?;
        let known = self.cache.checked(&library).filter(|_| only.is_empty());
        let check = match known {
            Some(check) => check,
            None => self.cache.checker(only)?.check(&library, &progress)?,
        };
        let found = check.defects().chain(check.deviations());
        let probes: Vec<String> = found.map(|f| f.probe.clone()).collect();
        if upstream && probes.is_empty() {
            bar.finish_and_clear();
            bail!(
                "nothing is wrong with {spec}: no probe found anything, so there is nothing to report"
            );
        }
        let beside = self.beside(&library);
        let reproducers = if upstream {
            let others: Vec<Library> = beside.iter().map(|(library, _)| library.clone()).collect();
            self.cache
                .reproduce(&library, &probes, &others, &progress)?
        } else {
            Vec::new()
        };
        bar.finish_and_clear();
        let dossier = Dossier {
            library: &library,
            check: &check,
            machine: &self.cache.machine_words(),
            beside: &beside,
            reproducers: &reproducers,
        };
        let text = if upstream {
            dossier.upstream()
        } else {
            dossier.facts()
        };
        self.write(&text, output)?;
        Ok(Entry {
            check: Some(check),
            ..Entry::of(library)
        })
    }

    /// glibc, then the other versions of the same allocator that are installed, with their checks.
    fn beside(&self, library: &Library) -> Vec<(Library, Option<Report>)> {
        let same = |name: &str| name == library.name || name == "glibc";
        let mut found = Vec::new();
        for recipe in catalogue().iter().filter(|r| same(&r.name)) {
            let other = self.cache.installed(&Spec::Catalogued(recipe));
            let Ok(Some(other)) = other else { continue };
            if other.spec != library.spec {
                let check = self.cache.checked(&other);
                found.push((other, check));
            }
        }
        found
    }

    fn write(&self, text: &str, output: Option<&Path>) -> Result<()> {
        match output {
            Some(file) => {
                fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
                self.tell(&format!("written to {}", file.display()))?;
            }
            None => self.tell(text.trim_end())?,
        }
        Ok(())
    }

    pub(super) fn package(
        &self,
        spec: &Spec,
        folder: &Path,
        maintainer: Option<&str>,
    ) -> Result<Entry> {
        let recipe = match spec {
            Spec::Catalogued(recipe) if !recipe.is_system() => recipe,
            _ => bail!("{spec} is not of the catalogue's own, so there is nothing to package"),
        };
        let bar = self.bar(spec);
        let library = self
            .cache
            .ensure(spec, &|step| bar.set_message(step.to_string()));
        bar.finish_and_clear();
        let library = library?;
        let file = self.cache.package(recipe, folder, maintainer)?;
        self.tell(&file.display().to_string())?;
        Ok(Entry {
            package: Some(file),
            ..Entry::of(library)
        })
    }
}

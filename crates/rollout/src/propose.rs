//! Decides what a rollout will do, before anything is touched: pure, from the arm and from what was found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::dropin::{self, LATE_NAME, NAME, PRELOAD};
use super::files::Kept;
use super::pattern::{is_glob, is_template, matches, not_running, template_prefix};
use super::plan::{
    After, Candidate, Found, Instance, Plan, PlannedFile, Proposal, Request, SCHEMA,
};
use super::unit::{Unit, drop_in_folder};
use experiment::file::redact::is_secret_name;
use units::wording::nearest;

/// Decides. Whatever stands in the way is a problem in the answer, all of them at once.
pub fn propose(request: &Request, found: &Found, id: &str) -> Proposal {
    let mut maker = Maker {
        request,
        found,
        problems: Vec::new(),
        notes: Vec::new(),
        folders: Vec::new(),
        files: Vec::new(),
        instances: Vec::new(),
    };
    maker.take_libraries();
    maker.take_units();
    maker.refuse_again();
    let mut plan = Plan {
        schema: SCHEMA.to_owned(),
        id: id.to_owned(),
        arm: request.arm.clone(),
        run: request.run.clone(),
        patterns: request.patterns.clone(),
        libraries: request.libraries.clone(),
        system: request.system,
        folders: maker.folders,
        files: maker.files,
        instances: maker.instances,
        health: request.health.clone(),
        timing: request.timing,
        prediction: request.prediction.clone(),
        ledger: request.ledger.clone(),
    };
    plan.prediction = plan
        .prediction
        .map(|p| p.for_instances(plan.instances.len()));
    Proposal {
        plan,
        problems: maker.problems,
        notes: maker.notes,
    }
}

/// Anybody may load a library, only root may change it.
const LIBRARY_MODE: u32 = 0o755;
const DROP_IN_MODE: u32 = 0o644;
const SECRET_MODE: u32 = 0o600;

/// Only root reads a drop-in with a secret in it; systemd is root.
fn drop_in_mode(environment: &BTreeMap<String, String>) -> u32 {
    match environment.keys().any(|name| is_secret_name(name)) {
        true => SECRET_MODE,
        false => DROP_IN_MODE,
    }
}

struct Maker<'a> {
    request: &'a Request,
    found: &'a Found,
    problems: Vec<String>,
    notes: Vec<String>,
    folders: Vec<PathBuf>,
    files: Vec<PlannedFile>,
    instances: Vec<Instance>,
}

impl<'a> Maker<'a> {
    fn take_libraries(&mut self) {
        for source in &self.request.libraries {
            let there = self.found.digests.get(&source.to);
            let ours = self.found.ours.contains_key(&source.to);
            match there {
                // Somebody else put exactly this file there: it stays when we go.
                Some(digest) if *digest == source.sha256 && !ours => continue,
                Some(digest) if *digest != source.sha256 => self.problems.push(format!(
                    "{} is there with other content (sha256 {digest}); move it away, or give another \
                     --library-folder",
                    source.to.display()
                )),
                _ => {}
            }
            self.need_folder(source.to.parent().unwrap_or(Path::new("/")));
            self.files.push(PlannedFile {
                path: source.to.clone(),
                after: After::CopyOf(source.from.clone()),
                sha256: source.sha256.clone(),
                mode: LIBRARY_MODE,
                before: None,
            });
        }
    }

    /// Folders on the way to `path` that are not there, or that another rollout of ours made.
    fn need_folder(&mut self, path: &Path) {
        let mut missing: Vec<&Path> = path
            .ancestors()
            .take_while(|folder| {
                !self.found.folders.contains(*folder) || self.found.our_folders.contains(*folder)
            })
            .collect();
        missing.retain(|folder| folder.parent().is_some());
        for folder in missing.into_iter().rev() {
            if !self.folders.iter().any(|known| known == folder) {
                self.folders.push(folder.to_path_buf());
            }
        }
    }

    fn take_units(&mut self) {
        for pattern in &self.request.patterns {
            let found = self.found;
            let matching: Vec<&Candidate> = found
                .candidates
                .iter()
                .filter(|candidate| matches(pattern, &candidate.unit.name))
                .collect();
            let running = self.running(pattern, &matching);
            if running.is_empty() {
                if matching.is_empty() || is_glob(pattern) || is_template(pattern) {
                    self.problems
                        .push(format!("no unit that matches {pattern} runs"));
                }
                continue;
            }
            for candidate in &running {
                self.check(candidate);
            }
            if is_template(pattern) {
                self.take_template(pattern, &running);
            } else {
                for candidate in running {
                    self.take_unit(candidate);
                }
            }
        }
        if self.instances.is_empty() && self.problems.is_empty() {
            self.problems
                .push("no unit is left to adopt the arm".to_owned());
        }
    }

    /// Those that run; the others are left out of a pattern, and a problem when they were named.
    fn running<'c>(&mut self, pattern: &str, matching: &[&'c Candidate]) -> Vec<&'c Candidate> {
        let mut running = Vec::new();
        for candidate in matching {
            let Some(why) = not_running(&candidate.unit) else {
                running.push(*candidate);
                continue;
            };
            if is_glob(pattern) || is_template(pattern) {
                self.notes.push(format!("left out: {why}"));
            } else {
                let hint = self.meant(&candidate.unit);
                self.problems.push(why + &hint);
            }
        }
        running
    }

    /// The service whose name is nearest to one that is not there.
    fn meant(&self, unit: &Unit) -> String {
        let known = self.found.known.iter().map(String::as_str);
        let near = nearest(&unit.name, known).filter(|_| unit.load == "not-found");
        near.map_or(String::new(), |near| format!("; did you mean {near}?"))
    }

    /// What speaks against one running unit.
    fn check(&mut self, candidate: &Candidate) {
        let unit = &candidate.unit;
        let name = &unit.name;
        if let Some(misfit) = &candidate.misfit {
            self.problems.push(format!("{name}: {misfit}"));
        }
        if let Some(root) = &unit.other_root {
            self.problems.push(format!(
                "{name} runs in a file system of its own ({root}): the library is not in it; put it there by hand"
            ));
        }
        if unit.needs_reload {
            self.problems.push(format!(
                "{name} was changed on disk and systemd has not read it: a restart would bring in that change as \
                 well; `systemctl daemon-reload` and restart it first"
            ));
        }
        let variables = self.variables();
        for (path, text) in &candidate.environment_files {
            for variable in dropin::set_in_file(text, &variables) {
                self.problems.push(format!(
                    "{name}: {} sets {variable}, and an EnvironmentFile wins over every drop-in; take it out there",
                    path.display()
                ));
            }
        }
        for variable in dropin::unset(unit, &variables) {
            self.problems.push(format!(
                "{name} has UnsetEnvironment={variable}: no drop-in can set it"
            ));
        }
    }

    /// Everything is in force already: another rollout of the same would only restart.
    fn refuse_again(&mut self) {
        let in_force = |file: &PlannedFile| {
            let there = self.found.digests.get(&file.path);
            there == Some(&file.sha256) && self.found.ours.contains_key(&file.path)
        };
        if !self.files.is_empty() && self.files.iter().all(in_force) {
            self.problems.push(format!(
                "arm {} is adopted here already; `highwater adopt --status` says how it does",
                self.request.arm
            ));
        }
    }

    fn variables(&self) -> Vec<&'a str> {
        let names = self.request.environment.keys().map(String::as_str);
        names.chain([PRELOAD]).collect()
    }

    fn take_template(&mut self, pattern: &str, running: &[&Candidate]) {
        let twice = |c: &&&Candidate| self.instances.iter().any(|i| i.unit == c.unit.name);
        if let Some(candidate) = running.iter().find(twice) {
            let name = &candidate.unit.name;
            self.problems.push(format!(
                "{name} is named, and its template {pattern} too: of two drop-ins with one name systemd reads one; \
                 name one of them"
            ));
        }
        let environments: Vec<_> = running.iter().map(|c| self.environment_of(c)).collect();
        if environments.windows(2).any(|pair| pair[0] != pair[1]) {
            self.problems.push(format!(
                "the instances of {pattern} preload different libraries: adopt by instance, with '{}*.service'",
                template_prefix(pattern).unwrap_or_default()
            ));
        }
        let drop_ins: Vec<_> = running.iter().flat_map(|c| c.drop_ins.clone()).collect();
        self.write_drop_in(pattern, &drop_ins, &environments[0]);
        for (candidate, environment) in running.iter().zip(environments) {
            self.add_instance(candidate, environment);
        }
    }

    fn take_unit(&mut self, candidate: &Candidate) {
        if self
            .instances
            .iter()
            .any(|known| known.unit == candidate.unit.name)
        {
            return;
        }
        let environment = self.environment_of(candidate);
        self.write_drop_in(&candidate.unit.name, &candidate.drop_ins, &environment);
        self.add_instance(candidate, environment);
    }

    fn add_instance(&mut self, candidate: &Candidate, environment: BTreeMap<String, String>) {
        self.instances.push(Instance {
            unit: candidate.unit.name.clone(),
            pid: candidate.unit.main_pid,
            start_ticks: candidate.start_ticks,
            environment,
        });
    }

    /// The arm's variables with this unit's LD_PRELOAD worked in.
    fn environment_of(&mut self, candidate: &Candidate) -> BTreeMap<String, String> {
        let unit = &candidate.unit;
        let present = unit.environment.iter().find(|(name, _)| name == PRELOAD);
        let libraries: Vec<PathBuf> = self
            .request
            .libraries
            .iter()
            .map(|s| s.to.clone())
            .collect();
        let is_allocator = |path: &Path| self.found.allocators.contains(path);
        let preload = dropin::combine(&libraries, present.map(|(_, v)| v.as_str()), &is_allocator);
        if !preload.kept.is_empty() {
            self.notes.push(format!(
                "{}: {} stays preloaded, behind the arm's library",
                unit.name,
                preload.kept.join(", ")
            ));
        }
        if !preload.replaced.is_empty() {
            self.notes.push(format!(
                "{}: {} is an allocator too and is not preloaded any more",
                unit.name,
                preload.replaced.join(", ")
            ));
        }
        let mut environment = self.request.environment.clone();
        environment.extend(preload.value.map(|value| (PRELOAD.to_owned(), value)));
        environment
    }

    fn write_drop_in(
        &mut self,
        unit: &str,
        drop_ins: &[(PathBuf, String)],
        environment: &BTreeMap<String, String>,
    ) {
        if environment.is_empty() {
            self.problems.push(format!(
                "arm {} is the program as it comes: there is nothing to adopt for {unit}",
                self.request.arm
            ));
            return;
        }
        let folder = drop_in_folder(unit);
        let path = folder.join(self.drop_in_name(unit, &folder, drop_ins));
        let text = match dropin::text(&self.request.told, environment) {
            Ok(text) => text,
            Err(why) => return self.problems.push(why.to_string()),
        };
        let before = self.replaceable(&path);
        self.need_folder(&folder);
        self.files.push(PlannedFile {
            sha256: super::files::sha256(text.as_bytes()),
            after: After::Text(text),
            mode: drop_in_mode(environment),
            path,
            before,
        });
    }

    /// `highwater.conf`, or a name that is read later, where another drop-in would win.
    fn drop_in_name(
        &mut self,
        unit: &str,
        folder: &Path,
        drop_ins: &[(PathBuf, String)],
    ) -> &'static str {
        let variables = self.variables();
        let others: Vec<(PathBuf, String)> = drop_ins
            .iter()
            .filter(|(path, _)| {
                path.parent() != Some(folder) || !self.found.ours.contains_key(path)
            })
            .cloned()
            .collect();
        let later = dropin::later_settings(&others, NAME, &variables);
        let Some(first) = later.first() else {
            self.refuse_hidden(folder, NAME, drop_ins);
            return NAME;
        };
        if let Some(still) = dropin::later_settings(&others, LATE_NAME, &variables).first() {
            self.problems.push(format!(
                "{} sets the same variables and is read after every name of ours; rename it",
                still.display()
            ));
        }
        self.notes.push(format!(
            "{unit}: {} sets the same variables and is read after {NAME}: ours is called {LATE_NAME} there",
            first.display()
        ));
        self.refuse_hidden(folder, LATE_NAME, drop_ins);
        LATE_NAME
    }

    /// A drop-in of the same name in another folder would be hidden by ours, or hide ours.
    fn refuse_hidden(&mut self, folder: &Path, name: &str, drop_ins: &[(PathBuf, String)]) {
        let same = |path: &Path| path.file_name().is_some_and(|file| file == name);
        let elsewhere = drop_ins
            .iter()
            .find(|(path, _)| same(path) && path.parent() != Some(folder));
        if let Some((path, _)) = elsewhere {
            self.problems.push(format!(
                "{} has the name of our drop-in: of two with one name systemd reads one; revert or rename it",
                path.display()
            ));
        }
    }

    /// What is kept of the file that is there; a file that is not ours is a problem.
    fn replaceable(&mut self, path: &Path) -> Option<Kept> {
        let shown = path.display();
        match self.found.files.get(path)? {
            Err(why) => {
                self.problems.push(format!("{shown} is in the way: {why}"));
                None
            }
            Ok(kept) => {
                let recorded = self.found.ours.get(path);
                let is_ours = recorded.is_some() && recorded == self.found.digests.get(path);
                if !is_ours {
                    let why = match recorded {
                        Some(_) => "was written by highwater and edited since",
                        None => "was not written by a rollout that is known here",
                    };
                    self.problems.push(format!(
                        "{shown} {why}: it is not overwritten; move its settings into another drop-in, or take it away"
                    ));
                }
                Some(kept.clone())
            }
        }
    }
}

#[cfg(test)]
#[path = "propose_tests.rs"]
mod tests;

//! From plan, arm and placeholders to the exact command of one process: program, arguments, folder, environment.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Preload;
use super::census::MARK;
use super::secrets::Secrets;
use crate::file::redact::{REDACTED, redact_command, redact_environment};
use crate::file::{Arm, BackingPlan, Experiment, LoadPer, LoadPlan, Ready};
use crate::placeholder;
use crate::placeholder::{PlaceholderError, Values};
use units::wording::nearest;

/// A command with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// `argv`, the program as it was written first.
    pub arguments: Vec<String>,
    /// Absolute; where it works. A relative program is looked for here, then in `base`.
    pub directory: PathBuf,
    /// The plan's folder.
    pub base: PathBuf,
    /// On top of highwater's own environment.
    pub environment: BTreeMap<String, String>,
    /// Words before the program: a loader that starts it on another C library.
    pub loader: Vec<String>,
}

impl Launch {
    /// The command of a replica of the subject.
    ///
    /// # Errors
    /// An unknown placeholder, or one that has no value for a subject.
    pub fn of_subject(
        plan: &Experiment,
        arm: &Arm,
        preload: &Preload,
        values: &Values,
    ) -> Result<Self, PlaceholderError> {
        let command = arm.command.as_ref().unwrap_or(&plan.subject.command);
        let mut environment = plan.subject.environment.clone();
        environment.extend(preload.environment.clone());
        environment.extend(arm.environment.clone());
        let mut environment = expand_map(&environment, values)?;
        let libraries = preload.companions.iter().chain(&preload.library);
        // Each goes to the front: the last one first.
        libraries
            .rev()
            .for_each(|library| put_preload_first(&mut environment, library));
        Ok(Self {
            arguments: expand_all(command.iter().chain(&arm.arguments), values)?,
            directory: directory(plan, plan.subject.directory.as_deref(), values)?,
            environment,
            base: plan.base.clone(),
            loader: preload.loader.clone(),
        })
    }

    /// The command of a load program.
    ///
    /// # Errors
    /// As [`Launch::of_subject`].
    pub fn of_load(
        plan: &Experiment,
        load: &LoadPlan,
        values: &Values,
    ) -> Result<Self, PlaceholderError> {
        Ok(Self {
            arguments: expand_all(&load.command, values)?,
            directory: directory(plan, load.directory.as_deref(), values)?,
            environment: expand_map(&load.environment, values)?,
            base: plan.base.clone(),
            loader: Vec::new(),
        })
    }

    /// A command that a condition tries: it works in the plan's folder, like every other path of the plan.
    ///
    /// # Errors
    /// As [`Launch::of_subject`].
    pub fn of_check(
        base: &Path,
        command: &[String],
        values: &Values,
    ) -> Result<Self, PlaceholderError> {
        Ok(Self {
            arguments: expand_all(command.iter(), values)?,
            directory: base.to_owned(),
            environment: BTreeMap::new(),
            base: base.to_owned(),
            loader: Vec::new(),
        })
    }

    /// The command of the backing service.
    ///
    /// # Errors
    /// As [`Launch::of_subject`].
    pub fn of_backing(
        plan: &Experiment,
        backing: &BackingPlan,
        values: &Values,
    ) -> Result<Self, PlaceholderError> {
        Ok(Self {
            arguments: expand_all(&backing.command, values)?,
            directory: directory(plan, backing.directory.as_deref(), values)?,
            environment: expand_map(&backing.environment, values)?,
            base: plan.base.clone(),
            loader: Vec::new(),
        })
    }

    /// The program's absolute path, looked up in its own `PATH` when it is a bare name.
    ///
    /// # Errors
    /// In words: there is no such program, or it is not executable, with the nearest name that is.
    pub fn program(&self) -> Result<PathBuf, String> {
        let name = self.arguments.first().ok_or("the command is empty")?;
        let path = self
            .environment
            .get("PATH")
            .cloned()
            .or_else(|| env::var("PATH").ok());
        let path = path.unwrap_or_default();
        find_program(name, &self.directory, &path).or_else(|why| {
            // A service that works in its data folder is not installed there.
            let relative = name.contains('/') && self.base != self.directory;
            let in_base = relative
                .then(|| find_program(name, &self.base, &path).ok())
                .flatten();
            in_base.ok_or(why)
        })
    }

    /// What is executed, and its `argv`: the program itself, or its loader with the program as an argument.
    ///
    /// # Errors
    /// As [`Launch::program`].
    pub fn executed(&self) -> Result<(PathBuf, Vec<String>), String> {
        let program = self.program()?;
        let Some(loader) = self.loader.first() else {
            return Ok((program, self.arguments.clone()));
        };
        let rest = self.arguments.iter().skip(1).cloned();
        let words = self
            .loader
            .iter()
            .cloned()
            .chain([program.display().to_string()])
            .chain(rest);
        Ok((PathBuf::from(loader), words.collect()))
    }

    /// Puts back what the frozen experiment of a resumed run leaves out: secrets come from highwater's own
    /// environment then, under the same names.
    ///
    /// # Errors
    /// In words, with the name of a secret that nobody knows any more.
    pub fn with_secrets(mut self) -> Result<Self, String> {
        let lost = |text: &str| text.contains(REDACTED);
        if let Some(argument) = self.arguments.iter().find(|argument| lost(argument)) {
            return Err(format!(
                "{argument}: this secret is not kept in the run folder, so a resumed run cannot start the process \
                 again; give it by a variable of the environment next time"
            ));
        }
        for (name, value) in self.environment.iter_mut().filter(|(_, value)| lost(value)) {
            *value = env::var(name).map_err(|_| {
                format!(
                    "{name}: this secret is not kept in the run folder; set {name} where you run `highwater run \
                     --resume`"
                )
            })?;
        }
        Ok(self)
    }

    /// Adds the mark by which descendants are found.
    pub fn marked(mut self, mark: &str) -> Self {
        self.environment.insert(MARK.into(), mark.into());
        self
    }

    /// The command as it may be recorded.
    pub fn shown_command(&self) -> Vec<String> {
        redact_command(&self.arguments)
    }

    /// The environment as it may be recorded.
    pub fn shown_environment(&self) -> BTreeMap<String, String> {
        redact_environment(&self.environment)
    }

    pub fn secrets(&self) -> Secrets {
        Secrets::of(&self.environment, &self.arguments)
    }
}

/// Texts in which placeholders of the backing service may stand.
pub fn texts_of_backing(backing: &BackingPlan) -> Vec<&str> {
    let own = backing.command.iter().chain(backing.environment.values());
    let mut texts: Vec<&str> = own.map(String::as_str).collect();
    texts.extend(ready_text(backing.ready.as_ref()));
    texts
}

/// The text of a question in which placeholders may stand; in a regular expression braces count.
fn ready_text(ready: Option<&Ready>) -> Option<&str> {
    match ready? {
        Ready::Http { url, .. } => Some(url),
        Ready::Tcp { address } => Some(address),
        Ready::Log { .. } => None,
    }
}

/// Texts of the plan in which a process's placeholders may stand: they decide how many ports it gets.
pub fn texts_with_ports<'a>(plan: &'a Experiment, arm: &'a Arm) -> Vec<&'a str> {
    let command = arm.command.as_ref().unwrap_or(&plan.subject.command);
    let mut texts: Vec<&str> = command
        .iter()
        .chain(&arm.arguments)
        .map(String::as_str)
        .collect();
    texts.extend(
        plan.subject
            .environment
            .values()
            .chain(arm.environment.values())
            .map(String::as_str),
    );
    texts.extend(plan.subject.metrics.as_deref());
    texts.extend(ready_text(plan.subject.ready.as_ref()));
    // A load program may listen itself: what plays the service's upstream, say.
    if let Some(load) = plan
        .load
        .as_ref()
        .filter(|load| load.per == LoadPer::Process)
    {
        texts.extend(
            load.command
                .iter()
                .chain(load.environment.values())
                .map(String::as_str),
        );
    }
    texts
}

fn expand_all<'a>(
    texts: impl IntoIterator<Item = &'a String>,
    values: &Values,
) -> Result<Vec<String>, PlaceholderError> {
    texts
        .into_iter()
        .map(|text| placeholder::expand(text, values))
        .collect()
}

fn expand_map(
    map: &BTreeMap<String, String>,
    values: &Values,
) -> Result<BTreeMap<String, String>, PlaceholderError> {
    let expand =
        |(name, text): (&String, &String)| Ok((name.clone(), placeholder::expand(text, values)?));
    map.iter().map(expand).collect()
}

fn directory(
    plan: &Experiment,
    given: Option<&Path>,
    values: &Values,
) -> Result<PathBuf, PlaceholderError> {
    let Some(given) = given else {
        return Ok(plan.base.clone());
    };
    Ok(plan
        .base
        .join(placeholder::expand(&given.to_string_lossy(), values)?))
}

/// The arm's library comes first, what was preloaded anyway (by the plan, or by whoever started highwater) after it.
fn put_preload_first(environment: &mut BTreeMap<String, String>, library: &Path) {
    const NAME: &str = "LD_PRELOAD";
    let before = environment
        .get(NAME)
        .cloned()
        .or_else(|| env::var(NAME).ok());
    let library = library.display();
    let value = match before.as_deref() {
        None | Some("") => library.to_string(),
        Some(others) => format!("{library}:{others}"),
    };
    environment.insert(NAME.into(), value);
}

fn find_program(name: &str, directory: &Path, path: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        let program = directory.join(name);
        return match executable(&program) {
            Ok(()) => Ok(program),
            Err(why) => Err(format!(
                "{}: {why}{}",
                program.display(),
                nearest_beside(&program)
            )),
        };
    }
    let folders: Vec<PathBuf> = env::split_paths(path)
        .map(|folder| directory.join(folder))
        .collect();
    let found = folders
        .iter()
        .map(|folder| folder.join(name))
        .find(|program| executable(program).is_ok());
    found.ok_or_else(|| {
        let here = match executable(&directory.join(name)) {
            Ok(()) => format!("; there is one in {}: write ./{name}", directory.display()),
            Err(_) => nearest_in(&folders, name),
        };
        format!("{name}: no such program in PATH{here}")
    })
}

/// # Errors
/// Why it cannot be executed, in words.
fn executable(program: &Path) -> Result<(), &'static str> {
    match program.metadata() {
        Err(_) => Err("no such file"),
        Ok(meta) if meta.is_dir() => Err("a folder, not a program"),
        Ok(meta) if meta.permissions().mode() & 0o111 == 0 => {
            Err("not executable; chmod +x would make it so")
        }
        Ok(_) => Ok(()),
    }
}

fn nearest_beside(program: &Path) -> String {
    let name = program
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    match (program.parent(), name) {
        (Some(folder), Some(name)) if !program.exists() => nearest_in(&[folder.to_owned()], &name),
        _ => String::new(),
    }
}

fn nearest_in(folders: &[PathBuf], name: &str) -> String {
    let entries = folders
        .iter()
        .filter_map(|folder| folder.read_dir().ok())
        .flatten()
        .flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let known = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    let names: Vec<String> = paths.iter().filter_map(known).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        fs::write(&program, "").unwrap();
        let error = find_program("./server", folder.path(), "").unwrap_err();
        assert!(error.contains("chmod +x"), "{error}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            find_program("./server", folder.path(), "").unwrap(),
            folder.path().join("./server")
        );
        assert_eq!(
            find_program("server", Path::new("/"), &folder.path().to_string_lossy()).unwrap(),
            program
        );
    }

    #[test]
    fn a_missing_program_names_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("server"), "").unwrap();
        let error = find_program("./sever", folder.path(), "").unwrap_err();
        assert!(
            error.contains("no such file") && error.contains("server"),
            "{error}"
        );
        let error = find_program("slep", Path::new("/"), "/usr/bin:/bin").unwrap_err();
        assert!(error.contains("sleep"), "{error}");
        fs::set_permissions(
            folder.path().join("server"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let error = find_program("server", folder.path(), "/usr/bin").unwrap_err();
        assert!(error.contains("./server"), "{error}");
    }

    #[test]
    fn the_arms_library_comes_first() {
        let mut environment = BTreeMap::from([("LD_PRELOAD".to_owned(), "/probe.so".to_owned())]);
        put_preload_first(&mut environment, Path::new("/arm.so"));
        assert_eq!(environment["LD_PRELOAD"], "/arm.so:/probe.so");
    }
}

//! Adding an allocator: lock, fetch, build, verify, move into place.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, bail};

use super::build::{Built, Work, build, compiler_version, missing_tools};
use super::cache::{CACHE_VARIABLE, Cache, Companion, Manifest, State, identity};
use super::elf::machine_name;
use super::library::Library;
use super::machine::Machine;
use super::recipe::{Recipe, Route};
use super::run::Log;
use super::source::{Fetch, Fetched, clients, fetch, sha256_file};
use super::spec::Spec;
use super::verify::{Trial, preload_value};

/// Where an add is; told to whoever shows progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Another highwater is adding the same allocator.
    Waiting,
    /// With the source in words.
    Fetching(String),
    Building,
    Verifying,
    Installing,
}

impl Step {
    /// Steps of an add that does not wait.
    pub const COUNT: u64 = 4;

    /// How many steps are behind this one.
    pub fn number(&self) -> u64 {
        match self {
            Step::Waiting | Step::Fetching(_) => 0,
            Step::Building => 1,
            Step::Verifying => 2,
            Step::Installing => 3,
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Waiting => f.write_str("waiting for another highwater that adds it"),
            Step::Fetching(source) => write!(f, "fetching {source}"),
            Step::Building => f.write_str("building"),
            Step::Verifying => f.write_str("verifying"),
            Step::Installing => f.write_str("moving into place"),
        }
    }
}

/// Called at the start of each step.
pub type Progress<'a> = &'a dyn Fn(Step);

impl Cache {
    /// The library of a spec if it is ready to use; `None` when it would have to be added first.
    ///
    /// # Errors
    /// A damaged cache, with the command that repairs it; a file of the user's own that is missing
    /// or cannot be preloaded.
    pub fn installed(&self, spec: &Spec) -> Result<Option<Library>> {
        let recipe = match spec {
            Spec::File(path) => return Library::of_file(path).map(Some),
            Spec::Catalogued(recipe) if recipe.is_system() => {
                return Ok(Some(Library::system(recipe)));
            }
            Spec::Catalogued(recipe) => recipe,
        };
        match self.state(recipe)? {
            State::Absent | State::Outdated => Ok(None),
            State::Ready(manifest) => Ok(Some(Library::built(recipe, *manifest, self))),
            State::Corrupt(why) => bail!(
                "{spec} in {} is damaged: {why}. Repair it with: highwater allocators add {spec}",
                self.place(recipe).display()
            ),
        }
    }

    /// The library of a spec, added first if it is not there, is damaged, or was built from another
    /// edition of its recipe.
    ///
    /// # Errors
    /// Whatever keeps it from being added, with what to do next. Nothing half-installed stays.
    pub fn ensure(&self, spec: &Spec, progress: Progress<'_>) -> Result<Library> {
        match spec {
            Spec::Catalogued(recipe) if !recipe.is_system() => self.add(recipe, None, progress),
            _ => self
                .installed(spec)?
                .context("what needs no build is always there"),
        }
    }

    /// As `ensure`, for a recipe, optionally by the route of one client (`cargo`, `apt`, `pip`).
    ///
    /// # Errors
    /// As `ensure`; also a client that the recipe has no route for.
    pub fn add(
        &self,
        recipe: &Recipe,
        client: Option<&str>,
        progress: Progress<'_>,
    ) -> Result<Library> {
        // A cache folder that no preload can name is said before minutes of building.
        preload_value(&self.place(recipe), &[])
            .with_context(|| format!("the cache folder does not serve; see {CACHE_VARIABLE}"))?;
        let _lock = self.lock(recipe, || progress(Step::Waiting))?;
        if let State::Ready(manifest) = self.state(recipe)?
            && client.is_none_or(|c| c == manifest.route)
        {
            return Ok(Library::built(recipe, *manifest, self));
        }
        let route = choose_route(recipe, client, &self.machine)?;
        let label = recipe.label();
        self.add_by(recipe, route, progress)
            .map_err(with_hint)
            .with_context(|| format!("{label} was not added"))
    }

    /// Why no route of a recipe serves this machine; `None` when one does.
    pub fn refuses(&self, recipe: &Recipe) -> Option<String> {
        choose_route(recipe, None, &self.machine)
            .err()
            .map(|why| format!("{why:#}"))
    }

    fn add_by(&self, recipe: &Recipe, route: &Route, progress: Progress<'_>) -> Result<Library> {
        let started = Instant::now();
        let staging = self.staging(recipe)?;
        let folder = |name: &str| -> Result<PathBuf> {
            let path = staging.path().join(name);
            fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
            Ok(path)
        };
        let mut log = self.start_log(recipe)?;
        progress(Step::Fetching(route.source.describe()));
        let fetched = self.fetch(route, &folder("fetch")?, &mut log)?;
        let source = fetched.folder;
        progress(Step::Building);
        let scratch = folder("scratch")?;
        let mut work = Work {
            machine: &self.machine,
            source: &source,
            scratch: &scratch,
            log: &mut log,
        };
        let built = build(&route.build, &mut work)?;
        let out = folder("out")?;
        let mut manifest = lay_out(recipe, route, &built, &source, &out)?;
        manifest.source = fetched.words;
        progress(Step::Verifying);
        self.verify(&mut manifest, recipe, route, &source, &out)?;
        manifest.seconds = (started.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        progress(Step::Installing);
        manifest.write(&out)?;
        self.install(recipe, &out)?;
        Ok(Library::built(recipe, manifest, self))
    }

    fn start_log(&self, recipe: &Recipe) -> Result<Log> {
        let path = self.log_file(recipe);
        fs::create_dir_all(path.parent().expect("a log lies in a folder"))?;
        Log::create(&path)
    }

    fn fetch(&self, route: &Route, folder: &Path, log: &mut Log) -> Result<Fetched> {
        let shared = self.shared();
        let mut with = Fetch {
            machine: &self.machine,
            folder,
            shared: &shared,
            log,
        };
        fetch(&route.source, &mut with)
    }

    fn verify(
        &self,
        manifest: &mut Manifest,
        recipe: &Recipe,
        route: &Route,
        source: &Path,
        out: &Path,
    ) -> Result<()> {
        let trial = Trial {
            library: out.join(&manifest.library),
            companions: manifest
                .companions
                .iter()
                .map(|c| out.join(&c.file))
                .collect(),
            loader: manifest.loader.as_ref().map(|c| out.join(&c.file)),
        };
        let elf = trial.verify()?;
        manifest.version_shown = trial.prove_version(&recipe.version_proof, source)?;
        manifest.architecture = machine_name(elf.machine);
        manifest.libc = elf.libc.to_string();
        manifest.build_id = elf.build_id;
        manifest.compiler = compiler_version(&route.build, &self.machine);
        Ok(())
    }
}

/// The first route that serves this machine and whose programs are here.
fn choose_route<'a>(
    recipe: &'a Recipe,
    client: Option<&str>,
    machine: &Machine,
) -> Result<&'a Route> {
    let mut reasons = Vec::new();
    for route in &recipe.routes {
        let name = route.source.client();
        if client.is_some_and(|c| c != name) {
            continue;
        }
        match unfit(route, machine) {
            None => return Ok(route),
            Some(why) => reasons.push(format!("by {name} ({}): {why}", route.source.describe())),
        }
    }
    let label = recipe.label();
    if reasons.is_empty() {
        let clients: Vec<&str> = recipe.routes.iter().map(|r| r.source.client()).collect();
        bail!(
            "{label} has no route by {}; it has {}",
            client.unwrap_or_default(),
            clients.join(", ")
        );
    }
    bail!(
        "{label} cannot be added on this machine:\n  {}",
        reasons.join("\n  ")
    )
}

fn unfit(route: &Route, machine: &Machine) -> Option<String> {
    if let Some(why) = machine.refuses(route) {
        return Some(why);
    }
    let fetching = clients(&route.source).iter().copied();
    let mut missing: Vec<_> = fetching
        .filter(|(name, _)| machine.find(&[name]).is_none())
        .collect();
    missing.extend(missing_tools(&route.build, machine));
    if missing.is_empty() {
        return None;
    }
    let compiler = missing.iter().any(|(name, _)| name.contains("compiler"));
    if compiler && let Some(why) = machine.absent_choice() {
        return Some(why);
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let next = next_step(missing.iter().map(|(_, package)| *package), machine);
    Some(format!(
        "needs {}, not found on PATH; next: {next}",
        names.join(", ")
    ))
}

/// What to install: Debian's packages by their command, the rest in words.
fn next_step<'a>(packages: impl Iterator<Item = &'a str>, machine: &Machine) -> String {
    let debian = machine.os == "debian" || machine.os == "ubuntu";
    let (named, words): (Vec<&str>, Vec<&str>) = packages.partition(|p| debian && !p.contains(' '));
    let command = format!("apt-get install {}", named.join(" "));
    let rest = format!("install {}", words.join(", "));
    match (named.is_empty(), words.is_empty()) {
        (false, false) => format!("{command}; {rest}"),
        (false, true) => command,
        (true, _) => rest,
    }
}

/// Copies what was built, and the licence texts, into the folder that is to be installed.
fn lay_out(
    recipe: &Recipe,
    route: &Route,
    built: &Built,
    source: &Path,
    out: &Path,
) -> Result<Manifest> {
    let library = copy_into(&built.library, out)?;
    let companion = |path: &PathBuf| -> Result<Companion> {
        let file = copy_into(path, out)?;
        Ok(Companion {
            sha256: sha256_file(&out.join(&file))?,
            file,
        })
    };
    let companions = built
        .companions
        .iter()
        .map(companion)
        .collect::<Result<_>>()?;
    let loader = built.loader.as_ref().map(companion).transpose()?;
    let mut licence_files = Vec::new();
    for file in &route.licence_files {
        let name = format!("licence-{}", file.replace('/', "-"));
        fs::copy(source.join(file), out.join(&name))
            .with_context(|| format!("keeping the licence {file}"))?;
        licence_files.push(name);
    }
    let path = out.join(&library);
    Ok(Manifest {
        schema: Manifest::schema(),
        name: recipe.name.clone(),
        version: recipe.version.clone(),
        recipe_sha256: identity(recipe, route),
        route: route.source.client().to_owned(),
        source: String::new(),
        build: route.build.describe(),
        licence: recipe.licence.clone(),
        licence_files,
        sha256: sha256_file(&path)?,
        bytes: path.metadata()?.len(),
        library,
        companions,
        loader,
        built_at: jiff::Timestamp::now().to_string(),
        build_id: None,
        version_shown: String::new(),
        architecture: String::new(),
        libc: String::new(),
        compiler: None,
        seconds: 0.0,
    })
}

fn copy_into(file: &Path, folder: &Path) -> Result<String> {
    let name = file.file_name().context("a library has a file name")?;
    fs::copy(file, folder.join(name)).with_context(|| format!("copying {}", file.display()))?;
    Ok(name.to_string_lossy().into_owned())
}

/// Adds the next step to a failure whose cause is the machine, not the recipe.
fn with_hint(error: Error) -> Error {
    let text = format!("{error:#}");
    let full = error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::StorageFull)
    });
    if full || text.contains("No space left on device") {
        return anyhow!(
            "{text}\nThe disk of the cache folder is full: free some space, or set \
             {CACHE_VARIABLE} to a folder on another disk"
        );
    }
    // A checksum that differs is no matter of the network.
    if text.contains("fetching ") && !text.contains("checksum") {
        return anyhow!(
            "{text}\nNew allocators need the network (the proxy settings of cargo, apt and pip \
             are honoured); those that `highwater allocators list` shows as installed do not"
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::recipe::{Crate, Source};

    /// mimalloc 2.0.9 with its crate altered.
    fn altered(alter: impl Fn(&mut Crate)) -> Recipe {
        let spec = |r: &&Recipe| r.label() == "mimalloc@2.0.9";
        let mut recipe = catalogue().iter().find(spec).unwrap().clone();
        let Source::Cargo(source) = &mut recipe.routes[0].source else {
            panic!("not a crate")
        };
        alter(source);
        recipe
    }

    fn assert_refused(recipe: &Recipe, words: &str) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path(), Machine::here());
        let error = format!("{:#}", cache.add(recipe, None, &|_| {}).unwrap_err());
        assert!(
            error.contains("checksum") && error.contains(words),
            "{error}"
        );
        assert!(
            !error.contains("network"),
            "a checksum is no matter of the network: {error}"
        );
        assert!(matches!(cache.state(recipe).unwrap(), State::Absent));
        let left = fs::read_dir(cache.folder().join(".staging"))
            .unwrap()
            .count();
        assert_eq!(left, 0);
    }

    #[test]
    fn a_checksum_altered_in_the_recipe_stops_and_leaves_nothing() {
        let recipe = altered(|source| source.sha256.replace_range(..1, "0"));
        assert_refused(&recipe, "is not the one of its lock file");
    }

    #[test]
    #[ignore = "long: asks the registry"]
    fn a_checksum_altered_in_recipe_and_lock_is_stopped_by_cargo_and_leaves_nothing() {
        let recipe = altered(|source| {
            let good = source.sha256.clone();
            source.sha256.replace_range(..1, "0");
            source.lock_text = source.lock_text.replace(&good, &source.sha256);
        });
        assert_refused(&recipe, "libmimalloc-sys");
    }
}

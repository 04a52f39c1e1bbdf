//! What is found on the machine before a plan is made. Reads only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::dropin::{LATE_NAME, NAME, PRELOAD};
use super::files;
use super::pattern::{is_template, matches, template_prefix};
use super::plan::{Candidate, Found, Request};
use super::proof::misfit;
use super::shelf::Rollout;
use super::systemd::{Host, SystemdError};
use super::unit::{Unit, drop_in_folder};
use observe::fact::library::{Libraries, file_key};
use observe::proc::{ProcRoot, read_start_ticks};

/// Looks at the units that the request names, at the files around them, and at what rollouts in force have written.
///
/// # Errors
/// No systemd, in words.
pub fn survey(host: &Host, request: &Request, rollouts: &[Rollout]) -> Result<Found, SystemdError> {
    let asked: Vec<String> = request
        .patterns
        .iter()
        .map(|pattern| loaded_as(pattern))
        .collect();
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for unit in host.show(&asked)? {
        if seen.insert(unit.name.clone()) {
            let candidate = candidate(host, request, unit, &mut found.allocators);
            found.candidates.push(candidate);
        }
    }
    found
        .candidates
        .sort_by_key(|candidate| natural(&candidate.unit.name));
    if found.candidates.iter().any(|c| c.unit.load == "not-found") {
        found.known = host.names()?;
    }
    note_ours(&mut found, rollouts);
    let mut paths: Vec<PathBuf> = request
        .libraries
        .iter()
        .map(|source| source.to.clone())
        .collect();
    for name in drop_in_owners(request, &found) {
        paths.extend([NAME, LATE_NAME].map(|file| drop_in_folder(&name).join(file)));
    }
    for path in paths {
        note_file(host, &mut found, path);
    }
    Ok(found)
}

/// What systemd understands for a pattern: it knows no template by its own name.
fn loaded_as(pattern: &str) -> String {
    match template_prefix(pattern).filter(|_| is_template(pattern)) {
        Some(prefix) => format!("{prefix}*.service"),
        None => pattern.to_owned(),
    }
}

/// Names sorted as people count: tor@9 before tor@10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, more) = rest.split_at(text);
        let digits = more
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(more.len());
        let (number, more) = more.split_at(digits);
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = more;
    }
    parts
}

fn candidate(
    host: &Host,
    request: &Request,
    unit: Unit,
    allocators: &mut BTreeSet<PathBuf>,
) -> Candidate {
    let text =
        |path: &Path| fs::read(host.file(path)).map(|b| String::from_utf8_lossy(&b).into_owned());
    let texts = |paths: Vec<&PathBuf>| -> Vec<(PathBuf, String)> {
        let pair = |path: &PathBuf| Some((path.clone(), text(path).ok()?));
        paths.into_iter().filter_map(pair).collect()
    };
    let preloaded = unit.environment.iter().filter(|(name, _)| name == PRELOAD);
    for word in preloaded.flat_map(|(_, value)| value.split([' ', ':', '\t'])) {
        if !word.is_empty() && exports_malloc(host, word, unit.main_pid) {
            allocators.insert(PathBuf::from(word));
        }
    }
    let library = request.libraries.last().map(|source| source.from.clone());
    let misfit = library
        .filter(|_| unit.main_pid > 0)
        .and_then(|library| misfit(unit.main_pid, &library));
    Candidate {
        start_ticks: read_start_ticks(&ProcRoot::default(), unit.main_pid).unwrap_or(0),
        drop_ins: texts(unit.drop_ins.iter().collect()),
        environment_files: texts(
            unit.environment_files
                .iter()
                .map(|(path, _)| path)
                .collect(),
        ),
        misfit,
        unit,
    }
}

/// A bare name is looked for among the files that the process has mapped.
fn exports_malloc(host: &Host, word: &str, pid: i32) -> bool {
    let path = if word.contains('/') {
        Some(host.file(Path::new(word)))
    } else {
        let maps =
            fs::read_to_string(ProcRoot::default().process(pid).join("maps")).unwrap_or_default();
        let ending = format!("/{word}");
        let mapped = maps
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]));
        mapped
            .filter(|path| path.ends_with(&ending))
            .map(PathBuf::from)
            .next()
    };
    let file = path.and_then(|path| observe::fact::open_file(&path).ok());
    let key = file.as_ref().and_then(file_key);
    let bound = file
        .zip(key)
        .map(|(file, key)| Libraries::default().binding(key, &file));
    bound.is_some_and(|binding| binding.malloc.is_some())
}

/// The units, and templates, that may get a drop-in.
fn drop_in_owners(request: &Request, found: &Found) -> Vec<String> {
    let mut owners = Vec::new();
    for pattern in &request.patterns {
        if is_template(pattern) {
            owners.push(pattern.clone());
        }
        let names = found
            .candidates
            .iter()
            .map(|candidate| candidate.unit.name.clone());
        owners.extend(names.filter(|name| matches(pattern, name)));
    }
    owners
}

fn note_ours(found: &mut Found, rollouts: &[Rollout]) {
    // Oldest first: of two that wrote one file, the later one counts.
    for rollout in rollouts.iter().filter(|rollout| rollout.stage().is_open()) {
        let files = rollout.plan.files.iter();
        found
            .ours
            .extend(files.map(|file| (file.path.clone(), file.sha256.clone())));
        found
            .our_folders
            .extend(rollout.plan.folders.iter().cloned());
    }
}

fn note_file(host: &Host, found: &mut Found, path: PathBuf) {
    for folder in path.ancestors().skip(1) {
        if host.file(folder).is_dir() {
            found.folders.insert(folder.to_path_buf());
        }
    }
    match files::keep(&host.file(&path)) {
        Ok(None) => {}
        Ok(Some(kept)) => {
            let bytes = kept.bytes().unwrap_or_default();
            found.digests.insert(path.clone(), files::sha256(&bytes));
            found.files.insert(path, Ok(kept));
        }
        Err(error) => {
            found.files.insert(path, Err(error.to_string()));
        }
    }
}

/// What keeps this user on this machine from carrying a plan out: rights, a read-only file system. In words.
pub fn obstacles(host: &Host, folders: &[PathBuf]) -> Vec<String> {
    let mut obstacles = Vec::new();
    if !rustix::process::geteuid().is_root() {
        obstacles.push("only root may write units and restart them: use sudo".to_owned());
        return obstacles;
    }
    for folder in folders {
        let there = folder
            .ancestors()
            .map(|folder| host.file(folder))
            .find(|folder| folder.is_dir());
        let Some(there) = there else {
            continue;
        };
        if let Err(errno) = rustix::fs::access(&there, rustix::fs::Access::WRITE_OK) {
            let why = match errno {
                rustix::io::Errno::ROFS => "the file system is read-only".to_owned(),
                other => other.to_string(),
            };
            obstacles.push(format!("{} cannot be written: {why}", there.display()));
        }
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_taken_in_the_order_in_which_people_count() {
        let mut names = [
            "tor@10.service",
            "tor@b.service",
            "tor@9.service",
            "tor@a.service",
        ];
        names.sort_by_key(|name| natural(name));
        assert_eq!(
            names,
            [
                "tor@9.service",
                "tor@10.service",
                "tor@a.service",
                "tor@b.service"
            ]
        );
    }
}

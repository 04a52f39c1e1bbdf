//! What a trace says of the program and the machine.

use std::path::Path;

use super::subject::Plan;
use experiment::file::redact::redact_command;
use observe::fact::library::Libraries;
use observe::fact::proof::{Answer, ProofReader, is_probe};
use observe::proc::open::Folder;

/// Of a file, so much is searched for a name.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// A longer command line is left out: facts have 16 KiB of the trace.
const COMMAND_BYTES_MAX: usize = 8 << 10;
/// Variables by which a runtime chooses its allocator: an experiment needs them as they were.
const RUNTIME_VARIABLES: &[&str] = &["PYTHONMALLOC", "PYTHONDEVMODE", "GODEBUG"];

type Fact = (&'static str, String);

/// Of a program that came to its end by itself.
pub fn ended() -> Vec<Fact> {
    vec![(trace::ENDED, "by itself".to_owned())]
}

/// What is known before the program starts.
pub fn before(name: &str, plan: &Plan) -> Vec<Fact> {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let file = Path::new(name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = thp.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![
        ("program", file.into_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("architecture", std::env::consts::ARCH.to_owned()),
        ("thp", chosen),
        ("cpus", cpus.to_string()),
        ("recorder", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    if let Ok(elf) = allocators::read_elf(&plan.path)
        && let Some(id) = elf.build_id
    {
        facts.push(("build_id", id));
    }
    let settings = [
        "MALLOC_",
        "GLIBC_TUNABLES",
        "MIMALLOC_",
        "_RJEM_",
        "TCMALLOC_",
    ];
    let set =
        std::env::vars().filter(|(name, _)| settings.iter().any(|start| name.starts_with(start)));
    let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
    if !set.is_empty() {
        facts.push(("settings", set.join("\t")));
    }
    facts.extend(again(plan));
    facts
}

/// How to start it again, in an experiment: the command as a JSON list with its secrets hidden, its folder, and
/// variables of runtimes.
fn again(plan: &Plan) -> Vec<Fact> {
    let mut command = redact_command(&plan.command);
    if let Some(name) = command.first_mut()
        && name.contains('/')
    {
        *name = plan.path.to_string_lossy().into_owned();
    }
    let text = serde_json::json!(command).to_string();
    let mut facts = Vec::new();
    if text.len() <= COMMAND_BYTES_MAX {
        facts.push(("command", text));
    }
    if let Ok(folder) = std::env::current_dir() {
        facts.push(("directory", folder.to_string_lossy().into_owned()));
    }
    let is_of_runtime = |(name, _): &(String, String)| RUNTIME_VARIABLES.contains(&name.as_str());
    let set: Vec<String> = std::env::vars()
        .filter(is_of_runtime)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if !set.is_empty() {
        facts.push(("runtime", set.join("\t")));
    }
    facts
}

/// The file that a process runs; `path` is its folder of /proc.
pub fn program(path: &str) -> Vec<Fact> {
    let file = std::fs::read_link(format!("{path}/exe")).ok();
    let name = file.as_deref().and_then(Path::file_name);
    name.map(|name| ("program", name.to_string_lossy().into_owned()))
        .into_iter()
        .collect()
}

/// The library that answers malloc behind the recorder.
pub fn allocator(folder: &Folder, path: &Path) -> Vec<Fact> {
    let mut libraries = Libraries::default();
    let mut reader = ProofReader {
        folder,
        path,
        libraries: &mut libraries,
    };
    let Ok(proof) = reader.prove(true) else {
        return Vec::new();
    };
    let Answer::Library { path, identity, .. } = proof.answer else {
        return Vec::new();
    };
    let mut facts = vec![("allocator", path)];
    if let Some(identity) = identity {
        let words = [identity.family.map(str::to_owned), identity.version.clone()];
        let words: Vec<String> = words.into_iter().flatten().collect();
        facts.push(("allocator_name", words.join(" ")));
    }
    facts
}

/// Which of its files name calls that a replay does not make: the requests may differ under another allocator.
pub fn of_files(files: &[String]) -> Vec<Fact> {
    let own = files
        .iter()
        .filter(|file| !is_probe(file) && !is_allocator(file));
    let mut facts = Vec::new();
    for (fact, symbol) in [
        ("usable_size", "malloc_usable_size"),
        ("mallctl", "mallctl"),
        ("mallopt", "mallopt"),
        ("malloc_trim", "malloc_trim"),
    ] {
        let naming: Vec<&str> = own
            .clone()
            .filter(|file| names(file, symbol))
            .map(|file| last(file))
            .collect();
        if !naming.is_empty() {
            facts.push((fact, naming.join(" ")));
        }
    }
    facts
}

fn last(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Libraries that define these names themselves.
fn is_allocator(file: &str) -> bool {
    let name = last(file);
    [
        "libc.so",
        "libc-2.",
        "libjemalloc",
        "libmimalloc",
        "libtcmalloc",
        "ld-linux",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// Whether a name stands in a file between two zero bytes, as in a table of symbols.
fn names(file: &str, symbol: &str) -> bool {
    let is_small = std::fs::metadata(file).is_ok_and(|data| data.len() <= SEARCH_BYTES_MAX);
    let Some(bytes) = is_small.then(|| std::fs::read(file).ok()).flatten() else {
        return false;
    };
    bytes
        .split(|byte| *byte == 0)
        .any(|word| word == symbol.as_bytes())
}

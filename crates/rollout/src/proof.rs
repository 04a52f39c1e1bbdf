//! What an instance really runs, read from its main process.

use std::collections::BTreeMap;
use std::path::Path;

use super::plan::Plan;
use super::systemd::Host;
use observe::fact::arm::not_the_arm;
use observe::fact::library::Libraries;
use observe::fact::proof::{Answer, ProofReader, Unproved};
use observe::proc::ProcRoot;
use observe::proc::open::Folder;
use observe::snapshot::Expected;

/// What the process was seen to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The arm; the words name the library and its build id.
    Arm(String),
    /// Something else; the words say what.
    Other(String),
    /// It is gone, still starting, or may not be read.
    Unknown(String),
}

/// Reads processes; remembers the files that they map.
#[derive(Debug, Default)]
pub struct Witness {
    root: ProcRoot,
    libraries: Libraries,
}

impl Witness {
    /// Whether a process runs the arm of the plan, with these variables.
    pub fn inspect(
        &mut self,
        host: &Host,
        plan: &Plan,
        pid: i32,
        environment: &BTreeMap<String, String>,
    ) -> Seen {
        let path = self.root.process(pid);
        let Ok(folder) = Folder::open(&path) else {
            return Seen::Unknown(format!("pid {pid} is gone"));
        };
        let mut reader = ProofReader {
            folder: &folder,
            path: &path,
            libraries: &mut self.libraries,
        };
        let proof = match reader.prove(true) {
            Ok(proof) => proof,
            Err(Unproved::Early) => return Seen::Unknown(format!("pid {pid} is still starting")),
            Err(Unproved::Lost(why)) => return Seen::Unknown(format!("pid {pid}: {why}")),
            Err(Unproved::Odd(why)) => return Seen::Unknown(format!("pid {pid}: {why}")),
        };
        let expected = expected(host, plan);
        if let Some(why) = not_the_arm(&expected, &proof, pid, &mut self.libraries) {
            return Seen::Other(why);
        }
        if let Some(why) = other_environment(&folder, pid, environment) {
            return Seen::Other(why);
        }
        Seen::Arm(match proof.answer {
            Answer::Library { path, identity, .. } => {
                let build_id = identity.and_then(|identity| identity.build_id.clone());
                let build_id =
                    build_id.map_or("no build id".to_owned(), |id| format!("build id {id}"));
                format!("pid {pid} runs {path} ({build_id})")
            }
            _ => format!("pid {pid} runs the program as it comes"),
        })
    }

    /// (start in clock ticks, resident bytes); `None` when it is gone.
    pub fn size(&self, pid: i32) -> Option<(u64, u64)> {
        let start_ticks = observe::proc::read_start_ticks(&self.root, pid).ok()?;
        let text = std::fs::read(self.root.process(pid).join("status")).ok()?;
        let status = observe::proc::status::parse_status(&text);
        Some((start_ticks, status.rss_bytes?))
    }
}

fn expected(host: &Host, plan: &Plan) -> Expected {
    match plan.libraries.last() {
        Some(source) => Expected::Library(host.file(&source.to)),
        None if plan.system => Expected::System,
        None => Expected::Any,
    }
}

/// In words, which variable has another value. A program that has written over its environment (to show a title in
/// ps) is not told by it: the unit's settings were checked before its start.
fn other_environment(
    folder: &Folder,
    pid: i32,
    wanted: &BTreeMap<String, String>,
) -> Option<String> {
    let mut bytes = Vec::new();
    folder.read_long("environ", &mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let pairs: BTreeMap<&str, &str> = text
        .split('\0')
        .filter_map(|word| word.split_once('='))
        .collect();
    pairs.contains_key("INVOCATION_ID").then_some(())?;
    let differs = |(name, value): &(&String, &String)| {
        pairs.get(name.as_str()).copied().unwrap_or("") != *value
    };
    let (name, _) = wanted.iter().find(differs)?;
    Some(format!("pid {pid} was not started with the arm's {name}"))
}

/// Why the arm's library cannot be preloaded into a process's program (static, of another C library ...); `None`
/// when nothing speaks against it. Reads /proc/PID/exe, so that a program in another file system is read too.
pub fn misfit(pid: i32, library: &Path) -> Option<String> {
    use observe::fact::program::{preload_problem, read_program};
    let exe = ProcRoot::default().process(pid).join("exe");
    let name = std::fs::read_link(&exe).ok()?;
    let mut program = match read_program(&exe) {
        Ok(program) => program,
        Err(error) => return Some(format!("{}: {error:#}", name.display())),
    };
    program.path = name;
    preload_problem(&program, library)
}

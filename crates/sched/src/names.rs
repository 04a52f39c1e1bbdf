//! Names of addresses, for all watches of this program at once: a file's symbols are there once, however many processes
//! run it, from the first name that is asked for until the last watch ends.
//!
//! What reads them may stay in one thread only, and so it has one, to which the others send their questions.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{
    CodeInfo, Input, ProcessMemberInfo, ProcessMemberType, Resolve, Symbolized, Symbolizer,
};

use super::function_names::{dependency, is_borrowed, without_types};
use super::stack::Frame;
use super::symbol_table::{SymbolTable, is_stripped};
use super::symbolless::{Symbolless, nameless};
use observe::fact::arm::is_system_libc;
use symbols::debug_files::{Readable, readable};
use symbols::demangle::demangled;
use symbols::hotspot::is_jvm;
use symbols::perf_map::{Ignored, open_perf_map};
use symbols::python::is_interpreter;
use symbols::standard_library::is_system_library;
use symbols::v8::is_runtime;

pub struct Names {
    questions: Sender<Question>,
}

struct Question {
    pid: u32,
    addresses: Vec<u64>,
    answer: Sender<Answer>,
}

/// For each address its frames, innermost first, and what the looking up cost.
pub struct Answer {
    pub frames: Vec<Vec<Frame>>,
    pub cpu_ns: u64,
    /// Why the process's perf map is not used.
    pub ignored_perf_map: Option<Ignored>,
}

impl Names {
    /// Those of all watches that are there now.
    pub fn shared() -> Arc<Names> {
        static SHARED: Mutex<Weak<Names>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = shared.upgrade() {
            return names;
        }
        let names = Arc::new(Names::start());
        *shared = Arc::downgrade(&names);
        names
    }

    fn start() -> Names {
        let (questions, asked) = channel();
        // Without the thread nobody answers, and addresses stay numbers.
        let _ = std::thread::Builder::new()
            .name("names".to_string())
            .spawn(move || answer(&asked));
        Names { questions }
    }

    /// Names of a process's addresses; what has none is told by its number.
    pub fn of(&self, pid: u32, addresses: &[u64]) -> Answer {
        let (answer, answered) = channel();
        let question = Question {
            pid,
            addresses: addresses.to_vec(),
            answer,
        };
        let sent = self.questions.send(question).ok();
        let answer = sent.and_then(|()| answered.recv().ok());
        answer.unwrap_or_else(|| Answer {
            frames: addresses.iter().map(|at| vec![nameless(*at)]).collect(),
            cpu_ns: 0,
            ignored_perf_map: None,
        })
    }
}

/// Until nobody can ask any more.
fn answer(asked: &Receiver<Question>) {
    // A program may be built anew under the same path between two arms.
    let symbolizer = Symbolizer::builder().enable_auto_reload(true);
    let symbolizer = symbolizer.enable_demangling(false);
    let symbolizer = symbolizer.set_process_dispatcher(reader_of).build();
    let mut others = Symbolless::default();
    for question in asked {
        let before_ns = cpu_ns();
        let perf_map = open_perf_map(format!("/proc/{}", question.pid).as_ref());
        let use_perf_map = matches!(perf_map, Ok(Some(_)));
        let mut frames = named(&symbolizer, &question, use_perf_map);
        others.name(question.pid, &question.addresses, &mut frames);
        // The one that asked may be gone.
        let _ = question.answer.send(Answer {
            frames,
            cpu_ns: cpu_ns() - before_ns,
            ignored_perf_map: perf_map.err(),
        });
    }
}

/// Symbols alone for the C library, and for a file whose debug information may not be read; none for one that may not
/// be opened. The usual reader for all else, and where the C library's file cannot be read.
fn reader_of(member: ProcessMemberInfo<'_>) -> blazesym::Result<Option<Box<dyn Resolve>>> {
    let ProcessMemberType::Path(member) = member.member_entry else {
        return Ok(None);
    };
    let is_libc = is_system_libc(&member.symbolic_path.to_string_lossy());
    // The usual reader opens one of the two; a path that leads nowhere harms no more than an error.
    let paths = [&member.maps_file, &member.symbolic_path];
    let mut found = paths.into_iter().filter(|path| path.exists());
    let is_whole = found.all(|path| readable(path) == Readable::All);
    if is_whole && !is_libc && !is_stripped(member) {
        return Ok(None);
    }
    let library = SymbolTable::read(member).ok();
    let library = library.or_else(|| (!is_whole).then(SymbolTable::default));
    Ok(library.map(|library| Box::new(library) as Box<dyn Resolve>))
}

fn named(symbolizer: &Symbolizer, question: &Question, use_perf_map: bool) -> Vec<Vec<Frame>> {
    let (pid, addresses) = (question.pid, &question.addresses);
    let find_with = |map_files, perf_map| {
        let mut process = Process::new(pid.into());
        process.map_files = map_files;
        // The symboliser opens it again by its name.
        process.perf_map = perf_map;
        symbolizer.symbolize(&Source::Process(process), Input::AbsAddr(addresses))
    };
    // One that it cannot read (a JVM's has 0x before its numbers) must not cost the names of all else.
    let find = |map_files| match find_with(map_files, use_perf_map) {
        Err(_) if use_perf_map => find_with(map_files, false),
        found => found,
    };
    // By a file's name its symbols serve all processes; the mapping itself needs privileges.
    let itself = is_elsewhere(pid).then(|| find(true).ok()).flatten();
    let Some(found) = itself.or_else(|| find(false).ok()) else {
        return addresses.iter().map(|at| vec![nameless(*at)]).collect();
    };
    let pairs = addresses.iter().zip(&found);
    pairs.map(|(at, symbol)| frames(*at, symbol)).collect()
}

/// The names of the process's files are others' here: it has another root, or its program was replaced.
fn is_elsewhere(pid: u32) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let root = |path: &Path| std::fs::metadata(path).map(|data| (data.dev(), data.ino()));
    let other = match (root(&process.join("root/")), root(Path::new("/"))) {
        (Ok(its), Ok(ours)) => its != ours,
        _ => false,
    };
    let program = std::fs::read_link(process.join("exe")).unwrap_or_default();
    other || program.to_string_lossy().ends_with(" (deleted)")
}

/// Of the calling thread.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn frames(address: u64, symbol: &Symbolized) -> Vec<Frame> {
    let Symbolized::Sym(symbol) = symbol else {
        return vec![nameless(address)];
    };
    let path = symbol.module.as_deref().map(Path::new);
    let path_text = path.map(Path::to_string_lossy).unwrap_or_default();
    let is_of_runtime = [is_interpreter, is_jvm, is_runtime, is_system_library];
    let interpreter = is_of_runtime.iter().any(|is_one| is_one(&path_text));
    let module = path
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let frame = |name: &str, code: Option<&CodeInfo<'_>>| {
        let file = code.map(|code| code.to_path().to_string_lossy().into_owned());
        Frame {
            name: without_types(&demangled(name)),
            module: module.clone(),
            start: address - symbol.offset as u64,
            bytes: symbol.size.unwrap_or(0) as u64,
            package: file
                .as_deref()
                .map(dependency)
                .filter(|package| !package.is_empty())
                .unwrap_or_else(|| dependency(&path_text)),
            borrowed: file.as_deref().is_some_and(|file| is_borrowed(name, file)),
            interpreter,
        }
    };
    let inlined = symbol.inlined.iter().rev();
    let inlined = inlined.map(|f| frame(&f.name, f.code_info.as_ref()));
    let outermost = frame(&symbol.name, symbol.code_info.as_deref());
    inlined.chain([outermost]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reader_of_symbols_serves_all_and_ends_with_the_last() {
        let (one, other) = (Names::shared(), Names::shared());
        assert!(Arc::ptr_eq(&one, &other));
        let here = one_reader_of_symbols_serves_all_and_ends_with_the_last as *const () as u64;
        let answer = one.of(std::process::id(), &[here, 1]);
        let name = &answer.frames[0][0].name;
        assert!(name.contains("one_reader_of_symbols"), "{name}");
        assert_eq!(answer.frames[1], [nameless(1)]);
        assert!(answer.cpu_ns > 0);
    }
}

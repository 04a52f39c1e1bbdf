//! Functions of CPython, 3.8 to 3.14: which ones a thread is in, and their names, read from the process's memory.

pub mod code;
pub mod find;
pub mod functions;
pub mod layout;
mod lines;
pub mod states;
pub mod text;
pub mod threads;

/// The interpreter itself, or a module of its standard library that is written in C, by its file.
pub fn is_interpreter(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.starts_with("python3") || file.starts_with("libpython3") || path.contains("/lib-dynload/")
}

/// A module of its standard library that is written in Python, by its file.
pub fn in_standard_library(file: &str) -> bool {
    let modules = file.split_once("/lib/python3.").map(|(_, inside)| inside);
    let others = ["/site-packages/", "/dist-packages/"];
    file.starts_with('<') || modules.is_some() && !others.iter().any(|folder| file.contains(folder))
}

/// The interpreter's function that runs code of Python, by its name: all Python functions that call one another are in
/// the innermost of these.
pub fn evaluates(name: &str) -> bool {
    name.contains("PyEval_EvalFrame")
}

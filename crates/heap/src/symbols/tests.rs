//! Own functions, and those of a program that was stripped.

use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::*;
use crate::smaps::parse_smaps;

#[inline(never)]
fn a_function_with_a_name() -> u64 {
    std::hint::black_box(7)
}

#[test]
fn an_own_function_is_found_with_its_line() {
    let areas = parse_smaps(&std::fs::read("/proc/self/smaps").unwrap()).unwrap();
    let mut symbols = Symbols::new(std::process::id() as i32);
    let address = a_function_with_a_name as *const () as u64;
    let frames = symbols.frames(&areas, &[], &[address], false);
    let frame = frames.last().unwrap();
    assert!(
        frame
            .function
            .as_ref()
            .unwrap()
            .contains("a_function_with_a_name"),
        "{frame:?}"
    );
    assert!(
        frame.file.as_ref().unwrap().ends_with("symbols/tests.rs"),
        "{frame:?}"
    );
    assert!(frame.line.is_some());
}

/// A program with a function that is inlined into another: `whole`, stripped with a link to its debug information
/// beside it (`server`), and stripped without (`bare`).
fn stripped(folder: &Path) -> Option<()> {
    let tool = |program: &str, words: &[&str]| {
        let done = Command::new(program)
            .args(words)
            .current_dir(folder)
            .output()
            .ok()?;
        done.status.success().then_some(())
    };
    let source = "static inline int inner(int a) { return a * a + 7; }\n\
        __attribute__((noinline)) static int outer(int a) { volatile int kept = inner(a); return kept; }\n\
        int main(int c, char **v) { return outer(c); }\n";
    std::fs::write(folder.join("server.c"), source).ok()?;
    tool(
        "gcc",
        &[
            "-g",
            "-O1",
            "-Wl,--build-id=sha1",
            "-o",
            "whole",
            "server.c",
        ],
    )?;
    tool("objcopy", &["--only-keep-debug", "whole", "server.debug"])?;
    tool(
        "objcopy",
        &[
            "--strip-all",
            "--add-gnu-debuglink=server.debug",
            "whole",
            "server",
        ],
    )?;
    tool("objcopy", &["--strip-all", "whole", "bare"])
}

/// The same function, inlined ones, file and line.
#[test]
fn a_stripped_program_with_a_debug_file_has_the_names_of_the_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    if stripped(folder.path()).is_none() {
        return testkit::skipped("no gcc or objcopy");
    }
    let bytes = std::fs::read(folder.path().join("whole")).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let outer = elf.symbols().find(|symbol| symbol.name() == Ok("outer"));
    let at = outer.unwrap().address() + 1;
    let named = |file: &str, mut symbols: Symbols| -> Vec<_> {
        let object = LoadedObject {
            start: 0,
            end: 1 << 30,
            bias: 0,
            path: folder.path().join(file).to_str().unwrap().to_owned(),
        };
        let frames = symbols.frames(&[], &[object], &[at], false);
        let fields = |frame: Frame| (frame.function, frame.file, frame.line);
        frames.into_iter().map(fields).collect()
    };
    let pid = std::process::id() as i32;
    let whole = named("whole", Symbols::new(pid));
    assert_eq!(whole.last().unwrap().0.as_deref(), Some("outer"));
    assert!(
        whole
            .iter()
            .all(|(_, file, line)| file.is_some() && line.is_some()),
        "{whole:?}"
    );
    assert_eq!(named("server", Symbols::new(pid)), whole);
    assert_eq!(
        named(
            "server",
            Symbols::sharing(pid, false, Rc::new(symbolizer(true)))
        ),
        named(
            "whole",
            Symbols::sharing(pid, false, Rc::new(symbolizer(true)))
        )
    );
    assert_eq!(named("bare", Symbols::new(pid)), [(None, None, None)]);
}

#[test]
fn an_address_in_nothing_is_a_frame_without_a_name() {
    let mut symbols = Symbols::new(std::process::id() as i32);
    let frames = symbols.frames(&[], &[], &[0x10], true);
    assert_eq!(
        frames,
        [Frame {
            offset: 0xf,
            ..Frame::default()
        }]
    );
}

#[test]
fn a_python_function_has_a_file() {
    let (function, file) = parse_python("py::leak:/srv/app.py").unwrap();
    assert_eq!((function.as_str(), file.as_str()), ("leak", "/srv/app.py"));
}

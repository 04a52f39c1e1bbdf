//! Whose a library's allocation is: the program's function that asked for it.
//!
//! `deflateInit2_` of zlib makes what it is there to make, for a program that forgets `deflateEnd`. So behind
//! the functions of libraries that lie where the system keeps them the program's own is named, and theirs
//! are said as the way. Not so for `main`: of a program that is little else, the library is what matters.

use super::blame::is_start;
use super::wrappers::leading;
use symbols::frame::Frame;
use symbols::package::{STANDARD_LIBRARY, package_of};
use symbols::standard_library::is_system_library;

/// Frames of libraries between the allocation and the program; more is a framework's own doing.
const FRAMES_MAX: usize = 6;

/// The frame to name, where that at `own` would be.
pub fn behind_libraries(frames: &[Frame], own: usize) -> usize {
    let of_libraries = frames.iter().skip(own);
    let count = of_libraries
        .take_while(|frame| is_system_library(&frame.module))
        .count();
    let user = own + count;
    // A function of Python calls a library by way of ctypes and the interpreter.
    let user = user + frames.get(user..).map_or(0, leading);
    let is_own = |frame: &Frame| {
        let name = frame.function.as_deref();
        let has_file = frame.module.starts_with('/') || frame.is_managed();
        has_file && name.is_some_and(|name| !is_main(name) && !is_start(name))
    };
    match (1..=FRAMES_MAX).contains(&count) && frames.get(user).is_some_and(is_own) {
        true => user,
        false => own,
    }
}

/// The package that a function's source belongs to; see [`package_of`]. `None`: the program's own, or not known.
pub fn package(frame: &Frame) -> Option<&str> {
    package_of(frame.file.as_deref()?)
}

/// Of the callers of a function of a dependency, the first of each further package, up to the program's own.
pub fn first_of_each_package(frames: &[Frame]) -> Vec<&Frame> {
    let Some(mut inner) = frames.first().and_then(package) else {
        return Vec::new();
    };
    let mut firsts = Vec::new();
    for frame in frames.iter().filter(|frame| frame.file.is_some()) {
        let of = package(frame);
        if of != Some(inner) && of != Some(STANDARD_LIBRARY) {
            firsts.push(frame);
        }
        match of {
            Some(STANDARD_LIBRARY) => {}
            Some(package) => inner = package,
            None => break,
        }
    }
    firsts
}

fn is_main(name: &str) -> bool {
    // What a script of Python does by itself is `<module>`.
    matches!(name, "main" | "<module>") || name.ends_with("::main") || name.ends_with(".main")
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbols::frame::PYTHON_MODULE;

    fn frame(name: &str, module: &str) -> Frame {
        Frame {
            function: Some(name.into()),
            module: module.into(),
            ..Frame::default()
        }
    }

    const ZLIB: &str = "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13";

    #[test]
    fn the_program_is_named_for_what_a_library_made_for_it() {
        let stack = |user: &str, module: &str| {
            [
                frame("malloc", "/x/libhighwater_probe.so"),
                frame("deflateInit2_", ZLIB),
                frame(user, module),
                frame("_start", "/srv/app"),
            ]
        };
        let named = |user, module| behind_libraries(&stack(user, module), 1);
        assert_eq!(named("compress_page", "/srv/app"), 2);
        assert_eq!(named("main", "/srv/app"), 1);
        assert_eq!(named("start_thread", "/srv/app"), 1);
        let own = [frame("make", "/srv/app"), frame("f", ZLIB)];
        assert_eq!(
            behind_libraries(&own, 0),
            0,
            "the program's own is innermost"
        );
        assert_eq!(behind_libraries(&[], 0), 0);
        let deep = vec![frame("f", ZLIB); 7];
        let deep = [deep, vec![frame("open", "/srv/app")]].concat();
        assert_eq!(behind_libraries(&deep, 0), 0, "a framework");
    }

    #[test]
    fn a_function_of_python_is_named_for_what_a_library_of_the_system_made_for_it() {
        let stack = |user: &str| {
            [
                frame("deflateInit2_", ZLIB),
                frame("ffi_call", "/usr/lib/x86_64-linux-gnu/libffi.so.8.1.2"),
                frame(
                    "_call_function_pointer",
                    "/usr/lib/python3.11/lib-dynload/_ctypes.so",
                ),
                frame("_PyObject_MakeTpCall", "/usr/bin/python3.11"),
                frame(user, PYTHON_MODULE),
                frame("_start", "/usr/bin/python3.11"),
            ]
        };
        assert_eq!(behind_libraries(&stack("compress_page"), 0), 4);
        assert_eq!(behind_libraries(&stack("<module>"), 0), 0);
    }

    #[test]
    fn callers_are_named_where_a_package_ends() {
        let of = |name: &str, file: &str| Frame {
            file: Some(file.into()),
            ..frame(name, "/srv/app")
        };
        const CRATES: &str = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let frames = [
            of(
                "init",
                &format!("{CRATES}/crossbeam-epoch-0.9.21/src/atomic.rs"),
            ),
            of(
                "new",
                &format!("{CRATES}/crossbeam-epoch-0.9.21/src/atomic.rs"),
            ),
            of(
                "push",
                &format!("{CRATES}/metrics-util-0.15.1/src/bucket.rs"),
            ),
            of("call_once", "/rustc/0123/library/core/src/ops/function.rs"),
            of(
                "record",
                &format!("{CRATES}/metrics-util-0.15.1/src/handles.rs"),
            ),
            of("handle_request", "/srv/app/src/main.rs"),
            of("main", "/srv/app/src/main.rs"),
        ];
        let named = |frames: &[Frame]| -> Vec<String> {
            let firsts = first_of_each_package(frames).into_iter();
            firsts.filter_map(|frame| frame.function.clone()).collect()
        };
        assert_eq!(named(&frames), ["push", "handle_request"]);
        assert!(named(&frames[5..]).is_empty(), "the program's own function");
        let checked_out = of(
            "get",
            "/root/.cargo/git/checkouts/cache-1f2e/0a1b2c3/src/lib.rs",
        );
        assert_eq!(package(&checked_out), Some("cache-1f2e"));
    }

    #[test]
    fn plugins_and_runtimes_are_no_libraries_of_the_system() {
        assert!(is_system_library(ZLIB) && is_system_library("/lib64/libssl.so.3"));
        assert!(!is_system_library(
            "/usr/lib/nginx/modules/ngx_mail_module.so"
        ));
        assert!(!is_system_library(
            "/usr/lib/jvm/java-17/lib/server/libjvm.so"
        ));
        assert!(
            !is_system_library("/srv/app")
                && !is_system_library("python")
                && !is_system_library("")
        );
    }
}

//! Whose a library's allocation is: the program's function that asked for it.
//!
//! `deflateInit2_` of zlib makes what it is there to make, for a program that forgets `deflateEnd`. So behind
//! the functions of libraries that lie where the system keeps them the program's own is named, and theirs
//! are said as the way. Not so for `main`: of a program that is little else, the library is what matters.

use super::blame::is_start;
use super::wrappers::leading;
use symbols::frame::{Frame, PYTHON_MODULE};
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
        let has_file = frame.module.starts_with('/') || frame.module == PYTHON_MODULE;
        has_file && name.is_some_and(|name| !is_main(name) && !is_start(name))
    };
    match (1..=FRAMES_MAX).contains(&count) && frames.get(user).is_some_and(is_own) {
        true => user,
        false => own,
    }
}

fn is_main(name: &str) -> bool {
    // What a script of Python does by itself is `<module>`.
    matches!(name, "main" | "<module>") || name.ends_with("::main") || name.ends_with(".main")
}

#[cfg(test)]
mod tests {
    use super::*;

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

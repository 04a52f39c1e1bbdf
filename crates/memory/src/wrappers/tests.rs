//! Stacks and the frame that is to be named.

use super::*;

#[test]
fn an_extension_that_has_the_interpreter_allocate_is_named() {
    let of = |function: &str, module: &str| Frame {
        module: module.to_owned(),
        ..named(function)
    };
    let python = "/opt/lib/libpython3.11.so.1.0";
    let run = of("_PyEval_EvalFrameDefault", python);
    let stack = |middle: &[Frame]| {
        let malloc = [
            of("malloc", "libhighwater_probe.so"),
            of("_PyBytes_FromSize", python),
        ];
        [
            &malloc,
            middle,
            &[run.clone(), of("main", "/opt/bin/python3.11")],
        ]
        .concat()
    };
    assert_eq!(leading(&stack(&[of("encode_row", "/srv/rows.so")])), 2);
    assert_eq!(leading(&stack(&[])), 1, "Python code had it made");
    let behind = [run.clone(), of("embedded", "/srv/app")];
    assert_eq!(leading(&stack(&behind)), 1);
}

fn named(function: &str) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        module: "/srv/app".into(),
        ..Frame::default()
    }
}

#[test]
fn a_python_function_stands_before_its_interpreter_and_behind_other_libraries() {
    let frame = |function: &str, module: &str| Frame {
        module: module.into(),
        ..named(function)
    };
    let eval = frame("_PyEval_EvalFrameDefault", "/usr/bin/python3.12");
    let python = frame("remember", PYTHON_MODULE);
    let list = frame("list_resize", "/usr/bin/python3.12");
    assert_eq!(leading(&[list.clone(), eval.clone(), python.clone()]), 2);
    let own = frame("parse_row", "/srv/rows.cpython-312.so");
    assert_eq!(leading(&[own.clone(), eval.clone(), python.clone()]), 0);
    let library = frame("sqlite3_step", "/usr/lib/libsqlite3.so.0");
    let module = frame("stmt_step", "/usr/lib/python3.12/lib-dynload/_sqlite3.so");
    let standard = [library.clone(), module, eval.clone(), python.clone()];
    assert_eq!(leading(&standard), 3, "a module of the standard library");
    assert_eq!(leading(&standard[..3]), 0, "whoever calls it is not known");
    assert_eq!(leading(&[library, own, eval.clone(), python]), 0);
    assert_eq!(
        leading(&[list, eval]),
        0,
        "without a Python frame the interpreter is all there is"
    );
}

/// Whoever calls a library by way of `ctypes` or `cffi`: its functions are named, and what the caller makes for itself
/// is the Python function's.
#[test]
fn a_library_that_python_calls_is_named_itself() {
    let frame = |function: &str, module: &str| Frame {
        module: module.into(),
        ..named(function)
    };
    let native = |name: &str, module: &str| frame(name, module);
    let call = native("_PyObject_MakeTpCall", "/usr/bin/python3.11");
    let ffi = native("ffi_call", "/usr/lib/x86_64-linux-gnu/libffi.so.8.1.2");
    let row = native("keep_row", "/srv/librows.so");
    let python = frame("read_rows", PYTHON_MODULE);
    let dynload = "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so";
    let cffi = "/srv/venv/lib/_cffi_backend.cpython-311-x86_64-linux-gnu.so";
    for (module, caller) in [(dynload, "_call_function_pointer"), (cffi, "cdata_call")] {
        let caller = native(caller, module);
        let outer = [ffi.clone(), caller.clone(), call.clone(), python.clone()];
        let called = [&[native("malloc", "libc.so.6"), row.clone()], &outer[..]].concat();
        assert_eq!(leading(&called), 1, "{module}");
        let duplicated = [&[native("strdup", "libc.so.6")], &outer[..]].concat();
        assert_eq!(leading(&duplicated), 4, "{module}: the C library's");
        let malloc = native("PyMem_Malloc", "/usr/bin/python3.11");
        let made = [malloc, caller, call.clone(), python.clone()];
        assert_eq!(leading(&made), 3, "{module}: its own buffer");
    }
    // What is called back is Python's, and what that calls is judged anew.
    let back = [native("list_resize", "/usr/bin/python3.11"), python, row];
    assert_eq!(leading(&back), 1);
}

#[test]
fn what_operator_new_is_made_of_is_passed_over() {
    let stack = |names: &[&str]| names.iter().map(|name| named(name)).collect::<Vec<_>>();
    let new = "operator new(unsigned long)";
    let libcxx = stack(&["operator_new_impl(unsigned long)", new, "spell_name(int)"]);
    assert_eq!(leading(&libcxx), 2);
    let pool = stack(&["malloc", "take_slot", new, "spell_name(int)"]);
    assert_eq!(leading(&pool), 3, "a program's own operator new");
    let of_a_class = stack(&["Boat::operator new(unsigned long)", "launch()"]);
    assert_eq!(leading(&of_a_class), 0);
}

#[test]
fn wrappers_are_skipped_to_the_caller() {
    let skipped = [
        "malloc",
        "xmalloc",
        "operator new(unsigned long)",
        "g_strdup",
        "void std::vector<Row, std::allocator<Row> >::_M_realloc_insert<Row const&>(Row const&)",
        "std::string::_M_create(unsigned long&, unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "alloc::raw_vec::RawVec<T,A>::grow_one",
        "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
        "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
        "mem.Allocator.alloc__anon_1212",
    ];
    for name in skipped {
        assert!(is_wrapper(&named(name)), "{name}");
    }
    let kept = [
        "leak",
        "leaky_malloc",
        "my_operator newish",
        "app::Session::open(int)",
        "Cache<std::string>::put(std::string const&)",
        "<app::Row as core::clone::Clone>::clone",
        "(anonymous namespace)::leak(int)",
        "main.leak",
        "stdlib_like",
    ];
    for name in kept {
        assert!(!is_wrapper(&named(name)), "{name}");
    }
}

#[test]
fn sources_of_standard_libraries_are_wrappers() {
    let at = |file: &str| Frame {
        file: Some(file.to_owned()),
        ..named("rawAlloc")
    };
    assert!(is_wrapper(&at("/opt/zig/lib/std/mem/Allocator.zig")));
    assert!(is_wrapper(&at("/rustc/5980/library/alloc/src/boxed.rs")));
    assert!(is_wrapper(&at("/usr/include/c++/12/bits/new_allocator.h")));
    assert!(is_wrapper(&at(
        "/usr/include/x86_64-linux-gnu/bits/stdio.h"
    )));
    assert!(!is_wrapper(&at("/srv/relay/src/std/alloc.zig")));
}

#[test]
fn an_inlined_function_without_a_file_is_what_it_lies_in() {
    let inlined = Frame {
        inlined: true,
        ..named("rawAlloc")
    };
    let around = named("mem.Allocator.alloc__anon_5721");
    assert_eq!(leading(&[inlined.clone(), around, named("openTicket")]), 2);
    assert_eq!(leading(&[inlined, named("openTicket")]), 0);
}

#[test]
fn what_is_inlined_into_an_allocator_is_its_own() {
    let inlined = Frame {
        inlined: true,
        file: Some("/src/jemalloc.c".into()),
        ..named("imalloc_fastpath")
    };
    let stack = [inlined.clone(), named("_rjem_malloc"), named("openTicket")];
    assert_eq!(leading(&stack), 2);
    assert_eq!(leading(&[inlined, named("openTicket")]), 0);
}

#[test]
fn a_stack_of_nothing_but_wrappers_is_kept() {
    assert_eq!(leading(&[named("malloc"), named("std::x")]), 0);
    assert_eq!(leading(&[named("malloc"), named("leak")]), 1);
}

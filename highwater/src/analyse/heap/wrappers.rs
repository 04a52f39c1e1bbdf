//! Functions that only pass an allocation on: the caller is the one to name.
//!
//! By name, because nothing else tells them: the C family and its well-known wrappers, the standard
//! libraries of C++, Rust and Zig, and whatever lies in the C and C++ libraries themselves. A
//! program's own function is never skipped for merely containing `malloc` in its name.

use crate::observe::heap::linked::functions::is_family;
use crate::observe::heap::symbols::{Frame, PYTHON_MODULE, in_standard_library};

/// Whole names, in C.
const NAMES: &[&str] = &[
    "__malloc",
    "__calloc",
    "__realloc",
    "default_malloc",
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "__strdup",
    "asprintf",
    "__asprintf",
    "vasprintf",
    "__vasprintf_internal",
    // What else of the C library hands out blocks: in a static program nothing else tells that it is the library's.
    "wcsdup",
    "__strndup",
    "getline",
    "__getline",
    "getdelim",
    "__getdelim",
    "_IO_getdelim",
    "getcwd",
    "__getcwd",
    "realpath",
    "__realpath",
    "fopen",
    "fopen64",
    "__fopen_internal",
    "_IO_file_doallocate",
    "_IO_doallocbuf",
    "opendir",
    "__opendir",
    "scandir",
    "scandir64",
    "open_memstream",
    "setenv",
    "__add_to_environ",
    "regcomp",
    "getaddrinfo",
    "tsearch",
    "__tsearch",
    "mmap",
    "mmap64",
    "__mmap",
    "mremap",
    "brk",
    "sbrk",
    "__sbrk",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "xstrndup",
    "xmemdup",
    "xzalloc",
    "xmalloc0",
    "xnmalloc",
    "xcharalloc",
    "x2realloc",
    "x2nrealloc",
    "xreallocarray",
    "safe_malloc",
    "safe_calloc",
    "safe_realloc",
    "safe_strdup",
    "checked_malloc",
    "checked_calloc",
    "checked_realloc",
    "must_malloc",
    "emalloc",
    "ecalloc",
    "erealloc",
    "estrdup",
    "zmalloc",
    "zcalloc",
    "zrealloc",
    "zstrdup",
    "ztrymalloc",
    "ztrycalloc",
    "ztryrealloc",
    "ztrymalloc_usable",
    "ztrymalloc_usable_internal",
    "zmalloc_usable",
    "zcalloc_num",
    "g_malloc",
    "g_malloc0",
    "g_malloc_n",
    "g_malloc0_n",
    "g_realloc",
    "g_realloc_n",
    "g_strdup",
    "g_strndup",
    "g_try_malloc",
    "g_slice_alloc",
    "g_slice_alloc0",
    "g_memdup",
    "g_memdup2",
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "OPENSSL_malloc",
    "av_malloc",
    "av_mallocz",
    "av_calloc",
    "av_realloc",
    "palloc",
    "palloc0",
    "AllocSetAlloc",
    "sqlite3Malloc",
    "sqlite3MemMalloc",
    "sqlite3_malloc",
    "sqlite3_malloc64",
    "sqlite3Realloc",
    "ngx_alloc",
    "ngx_calloc",
    "ngx_memalign",
    "uv__malloc",
    "uv__calloc",
    "uv__realloc",
    "PyMem_RawMalloc",
    "PyMem_RawCalloc",
    "PyMem_RawRealloc",
    "PyMem_Malloc",
    "PyMem_Calloc",
    "PyMem_Realloc",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "_PyMem_RawMalloc",
    "_PyMem_RawCalloc",
    "_PyMem_RawRealloc",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "_PyObject_Realloc",
    "_PyObject_ArenaMmap",
    "new_arena",
    "allocate_from_new_pool",
    "pymalloc_alloc",
    "pymalloc_realloc",
    "pymalloc_pool_extend",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_realloc",
    "__rdl_alloc_zeroed",
    "__rg_alloc",
    "__rg_realloc",
    "__rg_alloc_zeroed",
    "exchange_malloc",
    "runtime.asmcgocall",
    "runtime.asmcgocall_landingpad",
    "runtime.cgocall",
    "runtime.asmcgocall.abi0",
];

/// Beginnings of paths: standard libraries.
const PATHS: &[&str] = &[
    "operator new",
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "alloc::",
    "core::",
    "hashbrown::",
    "__rustc::",
    "highwater_alloc::",
    "mem.Allocator.",
    "heap.CAllocator.",
    "heap.c_allocator",
    "heap.arena_allocator.",
    "heap.ArenaAllocator.",
    "heap.PageAllocator.",
    "heap.debug_allocator.",
    "heap.SmpAllocator.",
    "heap.raw_c_allocator",
    "heap.RawCAllocator",
    "array_list.",
    "hash_map.",
    "array_hash_map.",
    "_cgo_",
    "os::malloc",
    "os::realloc",
    "AllocateHeap",
    "CHeapObj",
    "boost::",
    "absl::",
    "folly::",
    "fmt::",
    "__libc_",
];

/// Libraries of which no function is worth naming.
const LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-2",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "ld-linux",
    "libhighwater_probe",
    "libjemalloc",
    "libmimalloc",
    "libtcmalloc",
    "libsnmalloc",
    "librpmalloc",
    "ld-musl",
    "libffi.so",
    "_ctypes.",
];

/// How many frames in front only pass the allocation on; 0 when all of them would.
pub fn leading(frames: &[Frame]) -> usize {
    let is_python = |frame: &Frame| frame.module == PYTHON_MODULE;
    let python = frames.iter().position(is_python);
    let python = python.unwrap_or_else(|| extension(frames));
    let passes_on = |index: usize| {
        let frame = &frames[index];
        // The interpreter only does what a Python function further out says, or an extension that calls it.
        if index < python && in_interpreter(frame) {
            return true;
        }
        // Of an inlined function only the short name may be known: then it is what it lies in.
        let around = frames[index..].iter().find(|frame| !frame.inlined);
        let nameless = frame.inlined && frame.file.is_none();
        // What is inlined into an allocator's function is the allocator's.
        let in_allocator = frame.inlined && around.is_some_and(is_allocators);
        is_wrapper(frame) || in_allocator || (nameless && around.is_some_and(is_wrapper))
    };
    (0..frames.len())
        .find(|&index| !passes_on(index))
        .unwrap_or(0)
}

/// The frame of an extension that had the interpreter allocate; 0 where the interpreter runs Python code in between.
fn extension(frames: &[Frame]) -> usize {
    let evaluates = |frame: &Frame| {
        let name = frame.function.as_deref().unwrap_or_default();
        in_interpreter(frame) && name.contains("PyEval_")
    };
    let mut outer = frames.iter().enumerate();
    let is_other = |frame: &Frame| !in_interpreter(frame) && !is_wrapper(frame);
    let first = outer.find(|(_, frame)| is_other(frame) || evaluates(frame));
    let extension = first.filter(|(_, frame)| !evaluates(frame));
    extension.map_or(0, |(index, _)| index)
}

fn is_allocators(frame: &Frame) -> bool {
    let name = frame.function.as_deref();
    name.is_some_and(|name| is_family(path_of(name)))
}

fn in_interpreter(frame: &Frame) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or("");
    file.starts_with("libpython") || (file.starts_with("python") && file != PYTHON_MODULE)
}

/// Whether a frame only passes an allocation on.
pub fn is_wrapper(frame: &Frame) -> bool {
    let library = frame.module.rsplit('/').next().unwrap_or("");
    if LIBRARIES.iter().any(|known| library.starts_with(known)) {
        return true;
    }
    if frame.file.as_deref().is_some_and(in_standard_library) {
        return true;
    }
    let Some(name) = &frame.function else {
        return false;
    };
    // gcc's clones: leak.constprop.0, leak.part.1
    let name = name.split(".constprop").next().unwrap_or(name);
    let name = name
        .split(".part.")
        .next()
        .unwrap_or(name)
        .split(".isra")
        .next()
        .unwrap_or(name);
    let path = path_of(name);
    // A Rust program's global allocator, whatever its type.
    if path.contains("GlobalAlloc>::") {
        return true;
    }
    // Go's side of a call of C: main._Cfunc_CString, main._cgo_cmalloc.
    let of_cgo = path.contains("._Cfunc_") || path.contains("._cgo_");
    of_cgo
        || NAMES.contains(&path)
        || is_family(path)
        || PATHS.iter().any(|start| path.starts_with(start))
        || is_std_impl(path)
}

/// `<alloc::vec::Vec<T> as core::clone::Clone>::clone`, and a primitive's implementation of a
/// trait of the standard library; a program's own type that implements one is its own code.
fn is_std_impl(path: &str) -> bool {
    let Some(inside) = path.strip_prefix('<') else {
        return false;
    };
    let standard = |path: &str| {
        let path = path
            .trim_start_matches(['&', '*', '[', '(', '<'])
            .trim_start_matches("mut ");
        ["alloc::", "core::", "std::", "hashbrown::"]
            .iter()
            .any(|start| path.starts_with(start))
    };
    let own_type = inside.split(" as ").next().unwrap_or(inside);
    let of_trait = inside.split(" as ").nth(1).is_some_and(standard);
    standard(inside) || (of_trait && !own_type.contains("::"))
}

/// The function's path: without return type, arguments and spaces in front.
/// `void std::vector<int>::push_back(int const&)` is `std::vector<int>::push_back`.
pub(super) fn path_of(name: &str) -> &str {
    if name.starts_with("operator ") || name.starts_with('<') {
        return name;
    }
    let (mut depth, mut start) = (0i32, 0);
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            b'(' if depth == 0 && at > start && !name[start..].starts_with("(anonymous") => {
                return &name[start..at];
            }
            b' ' if depth == 0 && !name[at + 1..].starts_with("namespace)") => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

#[cfg(test)]
mod tests {
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
        assert_eq!(leading(&[own, eval.clone(), python]), 0);
        assert_eq!(
            leading(&[list, eval]),
            0,
            "without a Python frame the interpreter is all there is"
        );
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
            "xmalloc.constprop.0",
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
}

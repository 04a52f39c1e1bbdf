//! Functions that only pass an allocation on: the caller is the one to name.
//!
//! By name, because nothing else tells them: the C family and its well-known wrappers, the standard
//! libraries of C++, Rust and Zig, and whatever lies in the C and C++ libraries themselves. A
//! program's own function is never skipped for merely containing `malloc` in its name.

use heap::linked::functions::is_family;
use heap::symbols::evaluates;
use symbols::frame::{Frame, JAVA_MODULE, JAVASCRIPT_MODULE, PYTHON_MODULE};
use symbols::golang::{is_glue, is_standard};
use symbols::hotspot::{in_platform, is_jvm};
use symbols::standard_library::in_standard_library;
use symbols::v8::{is_nodes_own, is_runtime};

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
    "libffi",
    "_ctypes.",
    "_cffi_backend.",
];

/// Modules of Python's own standard library that call whatever library the program names: its functions are nobody's
/// of Python.
const CALL_ANY: &[&str] = &["_ctypes."];

/// How many frames in front only pass the allocation on; 0 when all of them would.
pub fn leading(frames: &[Frame]) -> usize {
    let managed = frames.iter().position(Frame::is_managed);
    let python = managed.unwrap_or_else(|| extension(frames));
    let by_python = is_called_by_python(&frames[..python]);
    let is_runtimes = |path: &str| is_jvm(path) || is_runtime(path);
    let of_runtime = |frame: &Frame| managed.is_some() && is_runtimes(&frame.module);
    let inside_new = inside_operator_new(frames);
    let passes_on = |index: usize| {
        let frame = &frames[index];
        if index < inside_new {
            return true;
        }
        // A runtime only does what a function further out says that it runs, or an extension that calls it.
        if index < python && (by_python || in_interpreter(frame) || of_runtime(frame)) {
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

/// Of the frames inside a Python function: it called a module of the standard library, which is in C, and that whatever
/// library it is made of (`sqlite3`, `zlib`). What `ctypes` calls is somebody else's.
fn is_called_by_python(inside: &[Frame]) -> bool {
    let mut outer = inside.iter().rev();
    let called = outer.find(|frame| !in_interpreter(frame));
    called.is_some_and(|frame| {
        let calls_any = |name: &&str| file_of(frame).starts_with(*name);
        frame.module.contains("/lib-dynload/") && !CALL_ANY.iter().any(calls_any)
    })
}

/// Frames of what a global operator new calls, whoever wrote it.
fn inside_operator_new(frames: &[Frame]) -> usize {
    let is_new = |frame: &Frame| {
        let name = frame.function.as_deref();
        name.is_some_and(|name| path_of(name).starts_with("operator new"))
    };
    frames.iter().position(is_new).unwrap_or(0)
}

/// The frame of an extension that had the interpreter allocate; 0 where the interpreter runs Python code in between.
fn extension(frames: &[Frame]) -> usize {
    let runs_python = |frame: &Frame| in_interpreter(frame) && evaluates(frame);
    let mut outer = frames.iter().enumerate();
    let is_other = |frame: &Frame| !in_interpreter(frame) && !is_wrapper(frame);
    let first = outer.find(|(_, frame)| is_other(frame) || runs_python(frame));
    let extension = first.filter(|(_, frame)| !runs_python(frame));
    extension.map_or(0, |(index, _)| index)
}

fn is_allocators(frame: &Frame) -> bool {
    let name = frame.function.as_deref();
    name.is_some_and(|name| is_family(path_of(name)))
}

/// File name of its module.
fn file_of(frame: &Frame) -> &str {
    frame.module.rsplit('/').next().unwrap_or("")
}

fn in_interpreter(frame: &Frame) -> bool {
    let file = file_of(frame);
    file.starts_with("libpython") || (file.starts_with("python") && file != PYTHON_MODULE)
}

/// Whether a frame only passes an allocation on.
pub fn is_wrapper(frame: &Frame) -> bool {
    let library = file_of(frame);
    if LIBRARIES.iter().any(|known| library.starts_with(known)) {
        return true;
    }
    if frame.file.as_deref().is_some_and(in_standard_library) {
        return true;
    }
    let Some(name) = &frame.function else {
        return false;
    };
    let is_go = || {
        frame
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with(".go"))
    };
    if is_standard(name) && is_go() {
        return true;
    }
    if frame.module == JAVA_MODULE {
        return in_platform(name);
    }
    if frame.module == JAVASCRIPT_MODULE {
        return frame.file.as_deref().is_none_or(is_nodes_own);
    }
    let path = path_of(name);
    // A Rust program's global allocator, whatever its type.
    if path.contains("GlobalAlloc>::") {
        return true;
    }
    is_glue(name)
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
            // Go's: the type of a method, `ratelimit.(*limiter).Take`.
            b'(' if name[..at].ends_with('.') => return &name[start..],
            b'(' if depth == 0 && at > start && !name[at..].starts_with("(anonymous") => {
                return &name[start..at];
            }
            b' ' if depth == 0 && !name[at + 1..].starts_with("namespace)") => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

#[cfg(test)]
mod tests;

//! Stacks with names: which function is to blame, what a thread was started for.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use symbols::frame::{JAVA_MODULE, JAVASCRIPT_MODULE, PYTHON_MODULE, is_managed};
use symbols::python::is_interpreter;

/// A function on a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub name: String,
    /// File name of the program or library.
    pub module: String,
    /// Where the function begins, in the subject's memory; 0 when not known. Closures of one
    /// function share a name and not this.
    pub start: u64,
    /// Bytes of its code; 0 when not known.
    pub bytes: u64,
    /// The package that it is from, where the program depends on that; empty: the program's own, a standard
    /// library's, or not known.
    pub package: String,
    /// Its source is a standard library's or a lock's: what is inlined has a short name that does not tell.
    pub borrowed: bool,
    /// Of an interpreter whose functions are read, or of a library of the system that it calls: the functions that are
    /// interpreted are on the stack too.
    pub interpreter: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Stack {
    /// As unwound; of calls, the last byte of each.
    pub addresses: Rc<[u64]>,
    /// Innermost first; inlined functions are frames of their own.
    pub frames: Vec<Frame>,
    pub allocator: bool,
    /// The innermost calls, before the program's own, are those of a mutex or a read-write lock.
    pub locks: bool,
}

/// The C allocator's own interface and the calls that give memory back or take it, by the names
/// that every implementation has to export.
pub(super) fn is_allocation(name: &str) -> bool {
    const INTERFACE: &[&str] = &[
        "malloc",
        "free",
        "calloc",
        "realloc",
        "reallocarray",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "valloc",
        "malloc_trim",
        "cfree",
        "operator new",
        "operator delete",
        "_Znwm",
        "_ZdlPv",
        "_ZdlPvm",
        "madvise",
        "munmap",
        "brk",
        "sbrk",
        "mremap",
    ];
    // glibc's own names for them: __GI_madvise, __GI___libc_free, __munmap, malloc@plt.
    let mut bare = name.split('@').next().unwrap_or(name);
    for prefix in ["__GI_", "__libc_", "_"] {
        bare = bare.trim_start_matches(prefix);
    }
    INTERFACE.contains(&bare) || INTERFACE.contains(&name)
}

/// A library's or runtime's lock by the name of its own call. A futex's value tells most locks; those that
/// park each waiter on a word of its own (parking_lot, Abseil) look like idle threads without it.
pub(super) fn is_locking(frames: &[Frame]) -> bool {
    const LOCKS: &[&str] = &["mutex", "rwlock", "lock_slow", "lock_shared_slow"];
    const CONDITIONS: &[&str] = &["cond", "park_until", "semaphore"];
    let lower = |frame: &Frame| frame.name.to_ascii_lowercase();
    let is_inner = |frame: &&Frame| !frame.is_of_program() && frame.module != JAVASCRIPT_MODULE;
    let inner = frames.iter().take_while(is_inner);
    let names: Vec<String> = inner.map(lower).collect();
    let any = |of: &[&str]| {
        names
            .iter()
            .any(|name| of.iter().any(|word| name.contains(word)))
    };
    // A lock of a library's own (dashmap's) is where a waiter leaves the fast path.
    let own = frames.get(names.len()).map(lower);
    let is_slow = own.is_some_and(|own| own.contains("lock") && own.ends_with("_slow"));
    (any(LOCKS) || is_slow) && !any(CONDITIONS)
}

/// Functions that collectors of garbage are in, by a part of their names: HotSpot's, Go's, CPython's, V8's, .NET's and
/// Ruby's.
const COLLECTORS: [&str; 25] = [
    "VM_GenCollect",
    "VM_G1",
    "VM_CollectFor",
    "VM_ParallelGC",
    "VM_ParallelCollect",
    "VM_ShenandoahOperation",
    "VM_ZOperation",
    "GenMarkSweep",
    "G1FullCollector",
    "G1ParTask",
    "PSParallelCompact",
    "PSScavenge",
    "runtime.gcBgMarkWorker",
    "runtime.gcAssistAlloc",
    "runtime.gcStart",
    "runtime.deductSweepCredit",
    "runtime.bgsweep",
    "gc_collect_main",
    "Heap::CollectGarbage",
    "v8::internal::Scaveng",
    "v8::internal::MarkCompact",
    "v8::internal::ConcurrentMarking",
    "v8::internal::Sweeper",
    "v8::internal::IncrementalMarking",
    "gc_heap::garbage_collect",
];

impl Stack {
    /// It is in a runtime's collector of garbage.
    pub fn collects_garbage(&self) -> bool {
        let is_collector = |frame: &Frame| {
            let is_rubys = ["gc_start", "gc_marks"].contains(&frame.name.as_str());
            is_rubys || COLLECTORS.iter().any(|part| frame.name.contains(part))
        };
        // Linked into the program, or a library of their own.
        let of_runtimes = ["v8::", "node::", "cppgc::", "WKS::", "SVR::"];
        let is_runtimes = |frame: &Frame| of_runtimes.iter().any(|of| frame.name.starts_with(of));
        // Not the program's own finalizers, which a collector calls.
        let inside = self
            .frames
            .iter()
            .take_while(|frame| !frame.is_managed())
            .take_while(|frame| !frame.is_own() || is_runtimes(frame) || is_collector(frame));
        inside.into_iter().any(is_collector)
    }

    /// It waits for a collection that the program asked for itself (System.gc of Java).
    pub fn asks_for_collection(&self) -> bool {
        let mut names = self.frames.iter().map(|frame| frame.name.as_str());
        names.any(|name| name == "java.lang.Runtime.gc" || name == "JVM_GC")
    }

    /// Of its functions, innermost first.
    pub fn names(&self) -> Vec<String> {
        // Further out a runtime is in itself alone.
        let managed = self.frames.iter().rposition(Frame::is_managed);
        let count = managed.map_or(self.frames.len(), |outermost| outermost + 1);
        let frames = self.frames.iter().take(count);
        frames.map(|frame| frame.name.clone()).collect()
    }

    /// The function that is to blame: the innermost that is neither the C library's nor a
    /// language's own runtime. Without one, the innermost with a name.
    pub fn function(&self) -> Option<&str> {
        let program = self.frames.iter().find(|frame| frame.is_of_program());
        let program = program.or(self.frames.first());
        self.own_function()
            .or(program.map(|frame| frame.name.as_str()))
    }

    /// As [`Stack::function`], of the program's own or none.
    pub fn own_function(&self) -> Option<&str> {
        let own = self.frames.iter().find(|frame| frame.is_own());
        own.map(|frame| frame.name.as_str())
    }

    /// As [`Stack::own_function`], of a thread that lets a lock go: not the program's own or a library's wrapper of the
    /// release, where it has a caller.
    pub fn own_function_that_let_go(&self) -> Option<&str> {
        const RELEASES: [&str; 6] = ["unlock", "runlock", "release", "unlockslow", "drop", "exit"];
        let is_release = |frame: &&Frame| {
            // Of JavaScript the place follows: `release (lock.js:10)`.
            let name = frame.name.split(" (").next().unwrap_or_default();
            let last = name.rsplit(['.', ':']).next().unwrap_or_default();
            RELEASES.contains(&last.to_ascii_lowercase().as_str())
        };
        let mut own = self.frames.iter().filter(|frame| frame.is_own());
        let outer = own.find(|frame| !is_release(frame));
        outer
            .map(|frame| frame.name.as_str())
            .or(self.own_function())
    }

    /// The function that held, of a thread that let go with this stack and had the stack `during` before: the innermost
    /// of the program's own that is in both, for who lets go is in a wrapper of the program's own lock at times. Where
    /// that is the thread's entry or its loop, in which it rests too (`rests`), it says no more than that it is this
    /// thread: what it had called.
    pub fn held_in<'a>(&'a self, during: &'a Stack, rests: &[&Stack]) -> Option<&'a str> {
        let there = |frame: &&Frame| during.frames.contains(frame);
        let shared = self.frames.iter().filter(|f| f.is_own()).find(there)?;
        let is_a_loop = rests.iter().any(|rest| rest.frames.contains(shared));
        if self.entry() != Some(shared) && !is_a_loop {
            return Some(&shared.name);
        }
        let at = during.frames.iter().position(|frame| frame == shared)?;
        let called = during.frames[..at].iter().rfind(|f| f.is_own());
        called.map(|frame| frame.name.as_str())
    }

    /// The innermost function of the program's own, where `outer` had called it: of memory that is given back under a
    /// lock, who gives it back, and not only who has the lock.
    pub fn own_function_within(&self, outer: Option<&str>) -> Option<&str> {
        let calls = |frame: &Frame| Some(frame.name.as_str()) == outer;
        self.own_function()
            .filter(|_| self.frames.iter().any(calls))
    }

    /// Who called `function`, where that is of a package that the program depends on: the first caller in each further
    /// package, up to the program's own.
    pub fn callers_of(&self, function: &str) -> Vec<String> {
        let Some(at) = self.frames.iter().position(|frame| frame.name == function) else {
            return Vec::new();
        };
        let mut package = self.frames[at].package.as_str();
        let mut callers = Vec::new();
        for frame in self.frames[at..].iter().filter(|frame| frame.is_own()) {
            if package.is_empty() {
                break;
            }
            if frame.package != package {
                callers.push(frame.name.clone());
                package = &frame.package;
            }
        }
        // Without one of the program's own they are what a thread was started by.
        match package.is_empty() {
            true => callers,
            false => Vec::new(),
        }
    }

    /// The outermost function of the program's own: what the thread was started for. A closure
    /// that the compiler put into Rust's start of a thread is told by that start's own copy.
    pub fn entry(&self) -> Option<&Frame> {
        self.frames.get(self.entry_at()?)
    }

    /// What tells one thread's work from another's: its entry, and where a library starts all threads by one function
    /// (a virtual machine does), what that calls.
    pub fn beginning(&self) -> Option<&[Frame]> {
        const CALLED: usize = 3;
        if let Some(started) = self.started_in_python().or_else(|| self.started_in_java()) {
            return Some(std::slice::from_ref(started));
        }
        let at = self.entry_at()?;
        let entry = self.frames.get(at)?;
        let inner = self.frames[..at].iter().rev().take(CALLED);
        let same = inner.take_while(|f| entry.is_a_librarys() && f.module == entry.module);
        self.frames.get(at - same.count()..=at)
    }

    /// The function of Python that a thread was started with: what the standard library's own start of a thread calls.
    fn started_in_python(&self) -> Option<&Frame> {
        let python = self.frames.iter().rev().filter(|frame| frame.is_python());
        let mut called = python.skip_while(|frame| frame.starts_threads_of_python());
        called.next()
    }

    /// The Java method that a thread was started with: the outermost that is not the platform's.
    fn started_in_java(&self) -> Option<&Frame> {
        let mut java = self.frames.iter().rev().filter(|frame| frame.is_java());
        java.find(|frame| !frame.borrowed)
    }

    /// The interpreter started it, and it is in no function of Python yet: what it is for is not known.
    pub fn waits_for_python(&self) -> bool {
        let started = |entry: &Frame| entry.interpreter && is_interpreter(&entry.module);
        self.entry().is_some_and(started) && !self.frames.iter().any(Frame::is_python)
    }

    fn entry_at(&self) -> Option<usize> {
        let outermost = |of: fn(&Frame) -> bool| self.frames.iter().rposition(of);
        outermost(Frame::is_of_program).or_else(|| outermost(Frame::is_a_closures))
    }
}

impl Frame {
    /// An address, or a place in a file: no symbols name it.
    pub fn is_nameless(&self) -> bool {
        let place = self.name.strip_prefix(&self.module);
        place.is_some_and(|place| place.starts_with("0x") || place.starts_with("+0x"))
    }

    fn is_python(&self) -> bool {
        self.module == PYTHON_MODULE
    }

    fn is_java(&self) -> bool {
        self.module == JAVA_MODULE
    }

    /// A runtime runs it.
    fn is_managed(&self) -> bool {
        is_managed(&self.module)
    }

    /// `Lib/threading.py`.
    fn starts_threads_of_python(&self) -> bool {
        const STARTS: [&str; 3] = ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"];
        self.borrowed && STARTS.contains(&self.name.as_str())
    }

    /// Of a library of any kind, by the name of its file.
    fn is_a_librarys(&self) -> bool {
        self.module.contains(".so")
    }

    /// Rust's standard library, compiled anew for each closure that a thread is started with.
    fn is_a_closures(&self) -> bool {
        let copies = ["{{vtable.shim}}", "__rust_begin_short_backtrace"];
        copies.iter().any(|copy| self.name.contains(copy))
    }

    /// Not of the C library, the loader or a language's runtime and standard library.
    pub fn is_own(&self) -> bool {
        match self.is_managed() {
            true => !self.borrowed,
            false => !self.interpreter && self.is_of_program(),
        }
    }

    /// As [`Frame::is_own`], of the program's files: code that is interpreted is in none of them, its interpreter is.
    pub fn is_of_program(&self) -> bool {
        const LIBRARIES: &[&str] = &[
            "libc.so",
            "libc-",
            "libpthread",
            "ld-",
            "libstdc++",
            "libgcc_s",
            "[vdso]",
            "libm.so",
        ];
        const RUNTIMES: &[&str] = &[
            "std::",
            "core::",
            "alloc::",
            "<std::",
            "<core::",
            "<alloc::",
            "<&",
            "parking_lot",
            "lock_api",
            "<lock_api",
            "runtime.",
            "sync.",
            "syscall.",
            "internal/",
            "net.",
            "net/",
            "os.",
            "io.",
            "bufio.",
            "crypto/",
            "time.",
            "main_thread",
            "__",
            "_start",
            "clone",
            "pthread_",
            "start_thread",
            "syscall",
            "<parking_lot",
        ];
        let library = LIBRARIES.iter().any(|name| self.module.starts_with(name));
        let runtime = RUNTIMES.iter().any(|name| self.name.starts_with(name));
        !self.is_nameless()
            && !library
            && !runtime
            && !self.is_managed()
            && !self.borrowed
            && !is_allocation(&self.name)
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;

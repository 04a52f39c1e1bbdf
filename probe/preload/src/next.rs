//! The functions behind the probe, found once by dlsym(RTLD_NEXT).

use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use heap::{Interpreter, PYTHON_VERSION};

use crate::symbols::{Among, is_any_unreadable, may_exist, may_refer};
use crate::thread::Forwarding;

pub type Ptr = *mut c_void;
pub type Malloc = unsafe extern "C" fn(usize) -> Ptr;
pub type Calloc = unsafe extern "C" fn(usize, usize) -> Ptr;
pub type Realloc = unsafe extern "C" fn(Ptr, usize) -> Ptr;
pub type Free = unsafe extern "C" fn(Ptr);
pub type Aligned = unsafe extern "C" fn(usize, usize) -> Ptr;
pub type PosixMemalign = unsafe extern "C" fn(*mut Ptr, usize, usize) -> c_int;
pub type ReallocArray = unsafe extern "C" fn(Ptr, usize, usize) -> Ptr;
pub type Usable = unsafe extern "C" fn(Ptr) -> usize;
pub type Mmap = unsafe extern "C" fn(Ptr, usize, c_int, c_int, c_int, i64) -> Ptr;
pub type Munmap = unsafe extern "C" fn(Ptr, usize) -> c_int;
pub type Mremap = unsafe extern "C" fn(Ptr, usize, usize, c_int, Ptr) -> Ptr;
pub type Brk = unsafe extern "C" fn(Ptr) -> c_int;
pub type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
pub type Mlockall = unsafe extern "C" fn(c_int) -> c_int;
pub type Dlclose = unsafe extern "C-unwind" fn(Ptr) -> c_int;
pub type Sbrk = unsafe extern "C" fn(isize) -> Ptr;

/// Functions of the C library and the allocator; where one is missing, or not looked for yet, one
/// that refuses.
#[derive(Clone, Copy)]
pub struct Next {
    pub malloc: Malloc,
    pub calloc: Calloc,
    pub realloc: Realloc,
    pub free: Free,
    pub memalign: Aligned,
    pub aligned_alloc: Aligned,
    pub posix_memalign: PosixMemalign,
    pub valloc: Malloc,
    pub pvalloc: Malloc,
    pub reallocarray: ReallocArray,
    pub usable: Usable,
    pub mmap: Mmap,
    pub munmap: Munmap,
    pub mremap: Mremap,
    pub brk: Brk,
    pub sbrk: Sbrk,
    pub dlclose: Dlclose,
    pub prctl: Prctl,
    pub mlockall: Mlockall,
}

static mut NEXT: Next = Next {
    malloc: no_block,
    calloc: no_blocks,
    realloc: no_move,
    free: no_free,
    memalign: no_blocks,
    aligned_alloc: no_blocks,
    posix_memalign: no_posix,
    valloc: no_block,
    pvalloc: no_block,
    reallocarray: no_array,
    usable: no_size,
    mmap: kernel_mmap,
    munmap: kernel_munmap,
    mremap: kernel_mremap,
    brk: no_brk,
    sbrk: no_sbrk,
    dlclose: no_dlclose,
    prctl: kernel_prctl,
    mlockall: kernel_mlockall,
};

unsafe extern "C" fn no_block(_bytes: usize) -> Ptr {
    std::ptr::null_mut()
}

unsafe extern "C" fn no_blocks(_first: usize, _second: usize) -> Ptr {
    std::ptr::null_mut()
}

unsafe extern "C" fn no_move(_block: Ptr, _bytes: usize) -> Ptr {
    std::ptr::null_mut()
}

unsafe extern "C" fn no_array(_block: Ptr, _count: usize, _bytes: usize) -> Ptr {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    std::ptr::null_mut()
}

unsafe extern "C" fn no_free(_block: Ptr) {}

unsafe extern "C" fn no_posix(_out: *mut Ptr, _align: usize, _bytes: usize) -> c_int {
    libc::ENOMEM
}

unsafe extern "C" fn no_size(_block: Ptr) -> usize {
    0
}

unsafe extern "C" fn kernel_mmap(
    at: Ptr,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> Ptr {
    // SAFETY: the caller's system call.
    unsafe { libc::syscall(libc::SYS_mmap, at, bytes, access, flags, file, offset) as Ptr }
}

unsafe extern "C" fn kernel_munmap(at: Ptr, bytes: usize) -> c_int {
    // SAFETY: the caller's system call.
    unsafe { libc::syscall(libc::SYS_munmap, at, bytes) as c_int }
}

unsafe extern "C" fn kernel_mremap(
    at: Ptr,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_at: Ptr,
) -> Ptr {
    // SAFETY: the caller's system call.
    unsafe { libc::syscall(libc::SYS_mremap, at, bytes, new_bytes, flags, new_at) as Ptr }
}

unsafe extern "C" fn no_brk(_to: Ptr) -> c_int {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    -1
}

unsafe extern "C" fn no_sbrk(_by: isize) -> Ptr {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    libc::MAP_FAILED
}

unsafe extern "C" fn kernel_prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    // SAFETY: the caller's system call.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int }
}

unsafe extern "C" fn kernel_mlockall(flags: c_int) -> c_int {
    // SAFETY: the caller's call.
    unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int }
}

unsafe extern "C-unwind" fn no_dlclose(_handle: Ptr) -> c_int {
    -1
}

/// The functions; before [`find`] all refuse.
#[inline(always)]
pub fn next() -> &'static Next {
    // SAFETY: written once, by `find`, while there is one thread.
    unsafe { (&raw const NEXT).as_ref().unwrap_unchecked() }
}

/// Snapshots one symbol up behind this library. A failure leaves nothing for the subject's dlerror() to
/// find.
pub fn symbol(name: &CStr) -> Option<Ptr> {
    may_exist(Among::Next, name).then(|| symbol_in(libc::RTLD_NEXT, name))?
}

/// The same in `place`, a handle as dlsym takes it.
fn symbol_in(place: Ptr, name: &CStr) -> Option<Ptr> {
    // SAFETY: plain look-up.
    let found = unsafe { libc::dlsym(place, name.as_ptr()) };
    if found.is_null() {
        // The next look-up that succeeds clears the thread's error (_dlerror_run in glibc's dlfcn/dlerror.c). dlerror()
        // itself would translate it, under the lock that setlocale and newlocale hold when they call the malloc in
        // which we start: it unlocked that lock, and the program's next setlocale waited for ever.
        // SAFETY: plain look-up.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
        return None;
    }
    Some(found)
}

/// What the process's own symbol look-up finds for a name, in all its objects from the program on.
fn of_program(name: &CStr) -> Option<Ptr> {
    // RTLD_DEFAULT would begin with this library, for it is linked to find its own first (DT_SYMBOLIC).
    // SAFETY: the program is loaded; nothing is opened.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if program.is_null() {
        return None;
    }
    let found = symbol_in(program, name);
    // SAFETY: gives back what was just taken; the program stays.
    unsafe { libc::dlclose(program) };
    found
}

/// Whether the process's own look-up of a name ends at this library.
pub fn comes_to_us(name: &CStr) -> bool {
    let Some(found) = of_program(name) else {
        return false;
    };
    let ours = library_of((&raw const OURS).cast_mut().cast());
    library_of(found) == ours || is_stub(found)
}

/// Whether a program at a fixed address has only a stub there, whose address it took: what that calls is looked up
/// behind it.
#[cfg(target_env = "gnu")]
fn is_stub(address: Ptr) -> bool {
    const SYMBOL: c_int = 1;
    unsafe extern "C" {
        /// glibc's <dlfcn.h>; with RTLD_DL_SYMENT, 1, `extra` is the symbol's entry.
        fn dladdr1(address: Ptr, info: *mut libc::Dl_info, extra: *mut Ptr, flags: c_int) -> c_int;
    }
    // SAFETY: fills one record and one pointer, which lasts as long as the program.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let mut entry: Ptr = std::ptr::null_mut();
        let found = dladdr1(address, &mut info, &mut entry, SYMBOL) != 0;
        let entry = entry.cast::<libc::Elf64_Sym>();
        found && !entry.is_null() && (*entry).st_shndx == 0
    }
}

/// musl tells nothing of a symbol but its name: the calls of such a program pass for somebody else's.
#[cfg(not(target_env = "gnu"))]
fn is_stub(_address: Ptr) -> bool {
    false
}

/// Whether the process's calls of malloc and free come to this library.
pub fn gives_blocks() -> bool {
    comes_to_us(c"malloc") && comes_to_us(c"free")
}

/// Where the library begins that has this address; `None`: none has.
pub fn library_of(address: Ptr) -> Option<usize> {
    // SAFETY: fills one record.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &mut info) != 0).then_some(info.dli_fbase as usize)
    }
}

/// Something of this library's alone.
static OURS: u8 = 0;

/// The Python that this process is, or has loaded from the start, where its frames can be read.
pub fn python() -> Option<Interpreter> {
    // The program itself stands in front of this library.
    let anywhere =
        |name| may_exist(Among::Others, name).then(|| symbol_in(libc::RTLD_DEFAULT, name))?;
    let version = anywhere(c"Py_Version")?.cast::<u64>();
    // SAFETY: `const unsigned long` of CPython since 3.11.
    if unsafe { version.read_unaligned() } >> 16 != PYTHON_VERSION {
        return None;
    }
    let this_thread = anywhere(c"PyGILState_GetThisThreadState")?;
    let is_initialized = anywhere(c"Py_IsInitialized")?;
    // SAFETY: of these types in CPython's headers.
    unsafe {
        Some(Interpreter {
            this_thread: std::mem::transmute::<Ptr, unsafe extern "C" fn() -> *const c_void>(
                this_thread,
            ),
            is_initialized: std::mem::transmute::<Ptr, unsafe extern "C" fn() -> c_int>(
                is_initialized,
            ),
        })
    }
}

/// Puts the symbol of that name into a place for a function pointer. False when there is none.
///
/// # Safety
/// `F` is the type of the C function of that name.
unsafe fn put<F: Copy>(place: &mut F, name: &CStr) -> bool {
    const { assert!(size_of::<F>() == size_of::<Ptr>()) };
    let Some(address) = symbol(name) else {
        return false;
    };
    // SAFETY: a function pointer has the size of an address.
    *place = unsafe { std::mem::transmute_copy(&address) };
    true
}

/// Lets other layers over malloc, preloaded before or after this one, find their next `free`, by a free of null. They
/// often call dlsym in their first free. While the error of a failed dlsym of ours is pending, dlsym frees its text
/// first, and that free comes back to them without an end. The program's own `free`, if it has one, is left alone, and
/// so is one that snapshots nothing up: an allocator may not be ready for a free before its first block (mimalloc 3 is
/// not). For that reason nothing is called either where no look-up of ours can fail.
///
/// # Safety
/// [`find`] has succeeded; the C library has its environment: dlopen may not be called earlier.
pub unsafe fn let_others_resolve() {
    let can_fail = is_any_unreadable() || !may_exist(Among::Others, c"_dl_find_object");
    if !can_fail {
        return;
    }
    let ours = library_of((&raw const OURS).cast_mut().cast());
    // SAFETY: reads the auxiliary vector.
    let program = library_of(unsafe { libc::getauxval(libc::AT_ENTRY) } as Ptr);
    let layer = of_program(c"free")
        .filter(|free| library_of(*free) != ours && library_of(*free) != program);
    // What they allocate to set themselves up is theirs: as large and as aligned as they ask for.
    let _forwarding = Forwarding::begin();
    let behind = next().free as *const () as Ptr;
    for free in [Some(behind), layer].into_iter().flatten() {
        if may_refer(free as usize, &[c"dlsym", c"dlvsym"]) {
            // SAFETY: a function of the type of free; nothing is freed.
            unsafe { std::mem::transmute::<Ptr, Free>(free)(std::ptr::null_mut()) };
        }
    }
}

/// The next library's `syscall`; the instruction itself until it has been looked for.
pub static NEXT_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Finds them all. False when there is no allocator behind the probe.
///
/// # Safety
/// Once, while there is one thread.
pub unsafe fn find() -> bool {
    // The table is filled in one step at the end: dlsym may come back to our own malloc meanwhile.
    let mut found = *next();
    // SAFETY: by the caller one thread; each name is that of a C function of its place's type.
    unsafe {
        let core = [
            put(&mut found.malloc, c"malloc"),
            put(&mut found.calloc, c"calloc"),
            put(&mut found.realloc, c"realloc"),
            put(&mut found.free, c"free"),
        ];
        put(&mut found.memalign, c"memalign");
        put(&mut found.aligned_alloc, c"aligned_alloc");
        put(&mut found.posix_memalign, c"posix_memalign");
        put(&mut found.valloc, c"valloc");
        put(&mut found.pvalloc, c"pvalloc");
        put(&mut found.reallocarray, c"reallocarray");
        put(&mut found.usable, c"malloc_usable_size");
        put(&mut found.mmap, c"mmap");
        put(&mut found.munmap, c"munmap");
        put(&mut found.mremap, c"mremap");
        put(&mut found.brk, c"brk");
        put(&mut found.sbrk, c"sbrk");
        put(&mut found.dlclose, c"dlclose");
        put(&mut found.prctl, c"prctl");
        put(&mut found.mlockall, c"mlockall");
        let syscall = symbol(c"syscall").map_or(0, |found| found as usize);
        NEXT_SYSCALL.store(syscall, Relaxed);
        // That of another library would read around blocks that are not its own: a layer that puts a header of its
        // own in front of them may have none.
        if library_of(found.usable as Ptr) != library_of(found.malloc as Ptr) {
            found.usable = no_size;
        }
        (&raw mut NEXT).write(found);
        core.iter().all(|is_there| *is_there)
    }
}

impl Next {
    /// True when the allocator can say how many bytes of a block are usable.
    pub fn tells_usable(&self) -> bool {
        self.usable as usize != no_size as *const () as usize
    }
}

//! The trace's file inside the recorded program: mapped once at the start, chunks taken from it, switched off.
//!
//! The process keeps no descriptor and makes no system call to grow the file: highwater allocates disk blocks ahead and
//! moves [`Header::limit`]. A chunk is never taken beyond it, so that no write to the mapping can fail.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use heap::Calls;
use trace_abi::chunk::{CHUNK_HEADER_BYTES, Place, next_bytes};
use trace_abi::{
    CHUNK_BYTES_MIN, CHUNK_MAGIC, CLOSED, Chunk, HEADER_BYTES, Header, MAGIC, VERSION, clock, kind,
    off_reason, state,
};

use crate::large::{Large, TABLE_BYTES};
use crate::thread;

/// Of an address space that is limited, the mapping takes at most one part in so many.
const SHARE_OF_LIMIT: u64 = 8;

/// Pages whose residence one mincore call asks for.
const WINDOW_PAGES: usize = 256;
/// Windows of a block at most: of larger ones (64 MiB) evenly spaced ones are read.
const WINDOWS_MAX: u64 = 64;

/// Recording into one file.
pub struct Recorder {
    header: *mut Header,
    mapped_bytes: u64,
    /// A word that a fork wipes, also one that the C library does not see: 1 in the recorded process.
    own: *const AtomicU32,
    image: u16,
    page_bytes: u64,
    has_tsc: bool,
    /// A filter of system calls from before the start may end a process that asks for resident pages.
    may_ask_pages: bool,
    /// Live large blocks.
    pub large: Large,
}

// SAFETY: written once before it is published; all threads share what it points to by atomics.
unsafe impl Sync for Recorder {}

static mut PLACE: std::mem::MaybeUninit<Recorder> = std::mem::MaybeUninit::uninit();
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
/// Set where the word that a fork wipes could not be had: the handler of fork alone stops a child.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// The recorder, once it has started.
#[inline(always)]
pub fn get() -> Option<&'static Recorder> {
    // SAFETY: null, or published by `start` for good.
    unsafe { RECORDER.load(Acquire).as_ref() }
}

/// Whether calls are recorded: it has started, and not ended.
#[inline(always)]
pub fn is_on() -> bool {
    get().is_some_and(Recorder::is_on)
}

/// Takes the trace of that name. Nothing is recorded where it is no trace, another process records into it, or it
/// cannot be mapped.
///
/// # Safety
/// Once, while there is one thread.
pub unsafe fn start(path: &CStr) {
    // SAFETY: as the caller says; the place is written before it is published.
    unsafe {
        let file = libc::open(
            path.as_ptr(),
            libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        );
        if file < 0 {
            return;
        }
        let recorder = open(file);
        libc::close(file);
        let Some(recorder) = recorder else {
            return;
        };
        let place = (&raw mut PLACE).cast::<Recorder>();
        place.write(recorder);
        RECORDER.store(place, Release);
    }
}

unsafe fn open(file: c_int) -> Option<Recorder> {
    // SAFETY: maps the file's first page, which highwater has written whole before it started this process.
    unsafe {
        let header = map(file, HEADER_BYTES)?.cast::<Header>();
        let taken = take(header);
        let largest = (*header).max_bytes;
        let (page_bytes, clock) = ((*header).page_bytes, (*header).clock);
        libc::munmap(header.cast(), HEADER_BYTES as usize);
        let image = taken?;
        let mapped_bytes = largest.min(share_of_limit());
        let header = map(file, mapped_bytes)?.cast::<Header>();
        // A core file of the program must not be larger for it.
        libc::madvise(header.cast(), mapped_bytes as usize, libc::MADV_DONTDUMP);
        let mut recorder = Recorder {
            header,
            mapped_bytes,
            own: own_word(),
            image,
            page_bytes: u64::from(page_bytes),
            has_tsc: clock == clock::TSC,
            may_ask_pages: !heap::is_confined(),
            large: Large::new(std::ptr::null_mut(), 0),
        };
        recorder.take_table();
        Some(recorder)
    }
}

/// Which image of the process this is; `None`: the trace is another's.
unsafe fn take(header: *mut Header) -> Option<u16> {
    // SAFETY: the mapped first page.
    unsafe {
        let header = &*header;
        if header.magic != MAGIC || header.version != VERSION {
            return None;
        }
        let pid = libc::getpid() as u32;
        let taking = (state::WAITING, state::TAKEN);
        if header
            .state
            .compare_exchange(taking.0, taking.1, Relaxed, Relaxed)
            .is_ok()
        {
            header.pid.store(pid, Relaxed);
        } else if header.pid.load(Relaxed) != pid || header.stop.load(Relaxed) != 0 {
            header.others.fetch_add(1, Relaxed);
            return None;
        }
        Some(
            header
                .images
                .fetch_add(1, Relaxed)
                .saturating_add(1)
                .min(u32::from(u16::MAX)) as u16,
        )
    }
}

unsafe fn map(file: c_int, bytes: u64) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping wherever the kernel likes.
    let start = unsafe {
        (crate::next::next().mmap)(
            std::ptr::null_mut(),
            bytes as usize,
            access,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file,
            0,
        )
    };
    (start != libc::MAP_FAILED).then_some(start)
}

/// What of a limited address space the mapping may take.
fn share_of_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills one record.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return u64::MAX;
    }
    (limit.rlim_cur / SHARE_OF_LIMIT) & !(HEADER_BYTES - 1)
}

/// The word that a fork wipes; null where this kernel has no such memory.
unsafe fn own_word() -> *const AtomicU32 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh page of our own.
    unsafe {
        let bytes = HEADER_BYTES as usize;
        let page = (crate::next::next().mmap)(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return std::ptr::null();
        }
        if libc::madvise(page, bytes, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, bytes);
            return std::ptr::null();
        }
        page.cast::<u32>().write(1);
        page.cast()
    }
}

/// In a forked child: the trace is the parent's.
pub fn forget() {
    IS_OFF.store(true, Relaxed);
    // SAFETY: this thread's words.
    unsafe { (*thread::local()).chunk = std::ptr::null_mut() };
}

/// Ends recording for good, for one of [`off_reason`].
pub fn end(reason: u32) {
    if let Some(recorder) = get() {
        recorder.end(reason);
    }
}

/// The program is about to confine itself. What the recorder needs of the kernel is left out from now on; strict mode
/// forbids to read the time stamp counter as well.
pub fn confining(is_strict: bool) {
    if let Some(recorder) = get()
        && (is_strict || !recorder.has_tsc)
    {
        recorder.end(off_reason::CONFINED);
    }
    Calls::forbid();
}

/// The program is about to forbid itself the time stamp counter.
pub fn losing_tsc() {
    if let Some(recorder) = get()
        && recorder.has_tsc
        && recorder.is_on()
    {
        recorder.end(off_reason::CONFINED);
    }
}

/// What must not be locked into memory: the mapping of the trace. (Twice: the caller takes two.)
pub fn own_ranges() -> Option<[Range<u64>; 2]> {
    let recorder = get()?;
    let start = recorder.header as u64;
    let range = start..start + recorder.mapped_bytes;
    Some([range.clone(), range])
}

impl Recorder {
    /// Whether this process still records.
    #[inline(always)]
    fn is_on(&self) -> bool {
        // SAFETY: mapped for good; a null word means that the flag alone tells.
        unsafe {
            let is_own = self.own.is_null() || (*self.own).load(Relaxed) == 1;
            is_own && !IS_OFF.load(Relaxed) && (*self.header).stop.load(Relaxed) == 0
        }
    }

    /// Ticks of now.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.has_tsc {
            // SAFETY: the program has not forbidden itself this instruction: see `losing_tsc`.
            return unsafe { std::arch::x86_64::_rdtsc() } >> 4;
        }
        heap::clock::monotonic_ns()
    }

    /// An event of a handler that interrupted the writing of another one is dropped.
    #[cold]
    pub fn count_nested(&self) {
        // SAFETY: mapped for good.
        unsafe { (*self.header).lost_nested.fetch_add(1, Relaxed) };
    }

    fn end(&self, reason: u32) {
        IS_OFF.store(true, Relaxed);
        // SAFETY: mapped for good.
        unsafe {
            let header = &*self.header;
            let none = off_reason::NONE;
            if header
                .off_reason
                .compare_exchange(none, reason, Relaxed, Relaxed)
                .is_ok()
            {
                header.off_ticks.store(self.ticks(), Relaxed);
            }
            header.state.store(state::OFF, Release);
        }
    }

    /// The next chunk of this thread, after `before` (null: its first). `None`: there is no room left, and recording
    /// has ended.
    ///
    /// # Safety
    /// `before` is this thread's chunk.
    pub unsafe fn take_chunk(&self, before: *mut Chunk, ticks: u64) -> Option<*mut Chunk> {
        // SAFETY: the caller's chunk; what is reserved belongs to this thread alone, and has disk blocks.
        unsafe {
            let bytes = match before.is_null() {
                true => CHUNK_BYTES_MIN,
                false => next_bytes((*before).bytes),
            };
            let (at, bytes) = self.reserve(bytes)?;
            let chunk = self.header.cast::<u8>().add(at as usize).cast::<Chunk>();
            (*chunk).kind = kind::EVENTS;
            (*chunk).image = self.image;
            (*chunk).bytes = bytes;
            // A touch record has no time of its own.
            let ticks = match before.is_null() {
                true => ticks,
                false => ticks.max((*before).last.ticks),
            };
            (*chunk).first = Place { ticks, address: 0 };
            (*chunk).last = (*chunk).first;
            (*chunk).used.store(CHUNK_HEADER_BYTES, Relaxed);
            if before.is_null() {
                (*chunk).thread = (*self.header).threads.fetch_add(1, Relaxed);
            } else {
                ((*chunk).thread, (*chunk).tid) = ((*before).thread, (*before).tid);
                (*chunk).sequence = (*before).sequence.wrapping_add(1);
            }
            self.with_calls(chunk, before);
            std::sync::atomic::fence(Release);
            (&raw mut (*chunk).magic).write_volatile(CHUNK_MAGIC);
            Some(chunk)
        }
    }

    /// What takes system calls, while the program allows them: the thread's id and name; the pages of the chunk before
    /// are no longer part of the program's resident set.
    unsafe fn with_calls(&self, chunk: *mut Chunk, before: *mut Chunk) {
        let Some(_calls) = Calls::begin() else {
            return;
        };
        // SAFETY: a chunk of this thread's alone; what is given back stays in the file.
        unsafe {
            if before.is_null() {
                (*chunk).tid = thread::tid();
            } else if u64::from((*before).bytes) >= self.page_bytes {
                libc::syscall(
                    libc::SYS_madvise,
                    before,
                    u64::from((*before).bytes),
                    libc::MADV_DONTNEED,
                );
            }
            let name = (&raw mut (*chunk).name).cast::<u8>();
            libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, name);
        }
    }

    /// The table of large blocks lies in a chunk of the file. Without room for it no pages are counted.
    fn take_table(&mut self) {
        let Some(at) = self.reserve_exactly(TABLE_BYTES) else {
            return;
        };
        // SAFETY: what is reserved belongs to the table alone, is zero, and stays mapped.
        unsafe {
            let start = self.header.cast::<u8>().add(at as usize);
            let chunk = start.cast::<Chunk>();
            (*chunk).kind = kind::LARGE;
            (*chunk).image = self.image;
            (*chunk).bytes = TABLE_BYTES;
            (*chunk).used.store(TABLE_BYTES, Relaxed);
            (*chunk).magic = CHUNK_MAGIC;
            let head = CHUNK_HEADER_BYTES as usize;
            self.large = Large::new(start.add(head), TABLE_BYTES as usize - head);
        }
    }

    fn reserve_exactly(&self, bytes: u32) -> Option<u64> {
        // SAFETY: mapped for good.
        let header = unsafe { &*self.header };
        let limit = header.limit.load(Acquire).min(self.mapped_bytes);
        let room = |next: u64| {
            let end = next.checked_add(u64::from(bytes))?;
            (next != CLOSED && end <= limit).then_some(end)
        };
        header.next.fetch_update(Relaxed, Relaxed, room).ok()
    }

    fn reserve(&self, bytes: u32) -> Option<(u64, u32)> {
        for bytes in [bytes, CHUNK_BYTES_MIN] {
            if let Some(at) = self.reserve_exactly(bytes) {
                return Some((at, bytes));
            }
        }
        // SAFETY: mapped for good.
        let header = unsafe { &*self.header };
        let is_largest = header.limit.load(Relaxed) >= self.mapped_bytes;
        self.end(if is_largest {
            off_reason::MAX_SIZE
        } else {
            off_reason::NO_ROOM
        });
        None
    }
}

/// Resident pages among the whole pages inside a block, and how many those are. `None`: there is none, or a filter of
/// system calls may forbid to ask.
pub fn resident(recorder: &Recorder, address: u64, bytes: u64) -> Option<(u64, u64)> {
    if !recorder.may_ask_pages {
        return None;
    }
    let page = recorder.page_bytes;
    let start = address.checked_next_multiple_of(page)?;
    let end = address.checked_add(bytes)? & !(page - 1);
    let pages = end.checked_sub(start)? / page;
    let _calls = Calls::begin()?;
    let window = WINDOW_PAGES as u64;
    let windows = pages.div_ceil(window).min(WINDOWS_MAX);
    let (mut resident, mut read) = (0u64, 0u64);
    for index in 0..windows {
        let first = index * pages / windows;
        let count = window
            .min(pages - first)
            .min((index + 1) * pages / windows - first);
        let mut states = [0u8; WINDOW_PAGES];
        let at = start + first * page;
        // SAFETY: the kernel writes a byte per page into an array that is as long.
        let failed =
            unsafe { libc::syscall(libc::SYS_mincore, at, count * page, states.as_mut_ptr()) } != 0;
        if failed {
            return None;
        }
        read += count;
        resident += states[..count as usize]
            .iter()
            .filter(|state| **state & 1 != 0)
            .count() as u64;
    }
    // Of a block that was read in parts: the same share of the whole.
    (read > 0).then(|| (resident * pages / read, pages))
}

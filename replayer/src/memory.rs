//! Mappings of the two files and of shared memory, and the process's own memory. None of it is anonymous to the kernel:
//! it counts as file or shared pages.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use replayer::{
    HEADER_BYTES, OUTCOME_MAGIC, Outcome, PATH_BYTES, PLAN_MAGIC, Plan, Section, VERSION,
};

/// The plan and the outcome, mapped.
#[derive(Clone, Copy)]
pub struct Files {
    plan: *const u8,
    plan_bytes: u64,
    outcome: *mut u8,
    samples: u64,
}

// SAFETY: the plan is only read; of the outcome the thread that opens an epoch writes, one at a time.
unsafe impl Sync for Files {}

impl Files {
    /// `None`: they are missing, or not of this version.
    pub fn map(plan: &CStr, outcome: &CStr) -> Option<Files> {
        let (plan, plan_bytes) = map_file(plan, libc::O_RDONLY, libc::PROT_READ)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (outcome, outcome_bytes) = map_file(outcome, libc::O_RDWR, access)?;
        let samples = (outcome_bytes - HEADER_BYTES as u64) / 8;
        let files = Files {
            plan,
            plan_bytes,
            outcome,
            samples,
        };
        let header = files.plan();
        // SAFETY: at least a page of the outcome is mapped.
        let found = unsafe { *outcome.cast::<Outcome>() };
        let is_ours = header.magic == PLAN_MAGIC
            && header.version == VERSION
            && found.magic == OUTCOME_MAGIC
            && found.version == VERSION
            && header.samples.count <= samples
            && files.fits::<replayer::Record>(header.records)
            && files.fits::<replayer::Segment>(header.segments)
            && files.fits::<replayer::Epoch>(header.epochs)
            && files.fits::<replayer::Thread>(header.threads)
            && files.fits::<u64>(header.samples);
        is_ours.then_some(files)
    }

    fn fits<T>(&self, section: Section) -> bool {
        let bytes = section.count.checked_mul(size_of::<T>() as u64);
        let end = bytes.and_then(|bytes| section.at.checked_add(bytes));
        section.at.is_multiple_of(align_of::<T>() as u64)
            && end.is_some_and(|end| end <= self.plan_bytes)
    }

    /// The plan's header.
    pub fn plan(&self) -> &'static Plan {
        // SAFETY: at least a page is mapped, for good.
        unsafe { &*self.plan.cast::<Plan>() }
    }

    /// The entries of a section whose kind is `T`.
    pub fn section<T>(&self, section: Section) -> &'static [T] {
        // SAFETY: found to fit; plain integers in a file that is not written any more.
        unsafe {
            let first = self.plan.add(section.at as usize).cast::<T>();
            std::slice::from_raw_parts(first, section.count as usize)
        }
    }

    /// Changes the outcome.
    pub fn write(&self, change: impl FnOnce(&mut Outcome)) {
        // SAFETY: one thread at a time opens an epoch, and only that one writes.
        change(unsafe { &mut *self.outcome.cast::<Outcome>() });
    }

    /// Notes a sample.
    pub fn write_sample(&self, index: u64, bytes: u64) {
        if index < self.samples {
            // SAFETY: inside the mapping; as above.
            unsafe {
                self.outcome
                    .add(HEADER_BYTES)
                    .cast::<u64>()
                    .add(index as usize)
                    .write(bytes)
            };
        }
    }
}

fn map_file(path: &CStr, flags: c_int, access: c_int) -> Option<(*mut u8, u64)> {
    // SAFETY: a path that ends with zero; a fresh mapping, checked.
    unsafe {
        let file = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let mut data: libc::stat = std::mem::zeroed();
        let failed = libc::fstat(file, &mut data) != 0 || data.st_size < HEADER_BYTES as i64;
        let start = match failed {
            true => libc::MAP_FAILED,
            false => libc::mmap(
                std::ptr::null_mut(),
                data.st_size as usize,
                access,
                libc::MAP_SHARED,
                file,
                0,
            ),
        };
        libc::close(file);
        (start != libc::MAP_FAILED).then(|| (start.cast(), data.st_size as u64))
    }
}

/// Shared memory of so many bytes, zero; the kernel counts it as shared, not as anonymous.
pub fn shared(bytes: usize) -> Option<*mut u8> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), access, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start.cast())
}

static STATM: AtomicI32 = AtomicI32::new(-1);

/// Resident anonymous bytes of this process: all resident pages but those of files and shared memory.
pub fn anonymous_bytes() -> u64 {
    let mut file = STATM.load(Relaxed);
    if file < 0 {
        // SAFETY: a path that ends with zero.
        file = unsafe {
            libc::open(
                c"/proc/self/statm".as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        STATM.store(file, Relaxed);
    }
    let mut text = [0u8; 128];
    // SAFETY: the buffer's own length.
    let length = unsafe { libc::pread(file, text.as_mut_ptr().cast::<c_void>(), text.len(), 0) };
    let mut numbers = text[..length.max(0) as usize]
        .split(|byte| *byte == b' ')
        .map(number);
    // Total, resident, shared.
    let (_, resident, shared) = (numbers.next(), numbers.next(), numbers.next());
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    resident.unwrap_or(0).saturating_sub(shared.unwrap_or(0)) * page
}

fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .filter(|digit| digit.is_ascii_digit())
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// Notes which object answers malloc.
pub fn write_malloc_path(files: &Files) {
    // SAFETY: fills one record; the name belongs to the dynamic linker.
    unsafe {
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        let mut found: libc::Dl_info = std::mem::zeroed();
        if malloc.is_null() || libc::dladdr(malloc, &mut found) == 0 || found.dli_fname.is_null() {
            return;
        }
        let name = CStr::from_ptr(found.dli_fname).to_bytes();
        let length = name.len().min(PATH_BYTES - 1);
        files.write(|outcome| outcome.malloc_path[..length].copy_from_slice(&name[..length]));
    }
}

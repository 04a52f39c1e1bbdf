//! System calls in which a thread may be off its CPU, by their numbers.

/// A system call as it stands when its thread is off its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// Negative: not in a system call, so in a fault.
    pub number: i64,
    pub args: [u64; 4],
}

impl Call {
    pub fn is_futex(&self) -> bool {
        sort(self.number) == Sort::Futex
    }
}

/// What a call number stands for; the arguments say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Futex,
    Read,
    Write,
    Connect,
    Accept,
    Poll,
    Epoll,
    Select,
    Sleep,
    /// A lock of a whole file, or of a part of one with the calls that wait for it.
    Flock,
    Fcntl,
    Sync(&'static str),
    File(&'static str),
    Memory(&'static str),
    /// Of a child's end, by its number or by what else the call names it with.
    Child,
    Other,
}

/// The libc crate has no name for it on machines that use the kernel's generic table (asm-generic/unistd.h).
#[cfg(target_arch = "x86_64")]
const SENDFILE: i64 = libc::SYS_sendfile;
#[cfg(not(target_arch = "x86_64"))]
const SENDFILE: i64 = 71;

pub fn sort(number: i64) -> Sort {
    match number {
        libc::SYS_futex => Sort::Futex,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => Sort::Read,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | SENDFILE
        | libc::SYS_splice => Sort::Write,
        libc::SYS_connect => Sort::Connect,
        libc::SYS_accept | libc::SYS_accept4 => Sort::Accept,
        libc::SYS_ppoll => Sort::Poll,
        libc::SYS_pselect6 => Sort::Select,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Sort::Epoll,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Sort::Sleep,
        libc::SYS_flock => Sort::Flock,
        libc::SYS_fcntl => Sort::Fcntl,
        libc::SYS_fsync => Sort::Sync("fsync"),
        libc::SYS_fdatasync => Sort::Sync("fdatasync"),
        libc::SYS_sync_file_range => Sort::Sync("sync_file_range"),
        libc::SYS_ftruncate => Sort::Sync("ftruncate"),
        libc::SYS_fallocate => Sort::Sync("fallocate"),
        libc::SYS_syncfs => Sort::Sync("syncfs"),
        libc::SYS_getdents64 => Sort::Sync("getdents"),
        libc::SYS_msync => Sort::File("msync"),
        libc::SYS_sync => Sort::File("sync"),
        libc::SYS_openat => Sort::File("open"),
        libc::SYS_unlinkat => Sort::File("unlink"),
        libc::SYS_renameat2 => Sort::File("rename"),
        libc::SYS_io_getevents => Sort::File("io_getevents"),
        libc::SYS_madvise => Sort::Memory("madvise"),
        libc::SYS_munmap => Sort::Memory("munmap"),
        libc::SYS_mmap => Sort::Memory("mmap"),
        libc::SYS_mremap => Sort::Memory("mremap"),
        libc::SYS_mprotect => Sort::Memory("mprotect"),
        libc::SYS_brk => Sort::Memory("brk"),
        libc::SYS_wait4 | libc::SYS_waitid => Sort::Child,
        _ => sort_of_this_machine(number),
    }
}

/// Calls that newer machines no longer have.
#[cfg(target_arch = "x86_64")]
fn sort_of_this_machine(number: i64) -> Sort {
    match number {
        libc::SYS_poll => Sort::Poll,
        libc::SYS_select => Sort::Select,
        libc::SYS_epoll_wait => Sort::Epoll,
        libc::SYS_open => Sort::File("open"),
        libc::SYS_unlink => Sort::File("unlink"),
        libc::SYS_rename => Sort::File("rename"),
        libc::SYS_fadvise64 => Sort::Sync("fadvise"),
        _ => Sort::Other,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn sort_of_this_machine(_number: i64) -> Sort {
    Sort::Other
}

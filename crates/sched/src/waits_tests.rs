//! What a call waits for, held against calls as Linux writes them.

use super::*;

#[test]
fn locks_are_told_from_conditions_by_the_value() {
    let cases = [
        (128, 2, false, WaitKind::Lock, "glibc mutex"),
        (137, 2, false, WaitKind::Lock, "Rust std mutex"),
        (128, 3, false, WaitKind::Lock, "Zig mutex"),
        (128, 1 << 31 | 77, false, WaitKind::Lock, "musl mutex"),
        (6, 0, false, WaitKind::Lock, "priority inheritance"),
        (393, 3, false, WaitKind::Lock, "glibc rwlock"),
        (137, 1 << 31 | 5, false, WaitKind::Lock, "Rust rwlock"),
        (393, 0, false, WaitKind::Queue, "glibc condition"),
        (137, u32::MAX, false, WaitKind::Queue, "Rust park"),
        (137, 2, true, WaitKind::Queue, "a condition with a timeout"),
        (128, 0, false, WaitKind::Queue, "Go's futexsleep"),
        (128, 1, false, WaitKind::Queue, "parking_lot"),
    ];
    for (operation, value, timed, kind, what) in cases {
        assert_eq!(futex_kind(operation, value, timed), kind, "{what}");
    }
}

#[test]
fn a_counter_that_comes_by_a_locks_value_is_a_counter() {
    let mut places = Places::new(std::process::id());
    let mut waits = Waits::of(std::process::id());
    let mut kind = |value| {
        let args = [0x7000, 137, value, 0];
        let number = libc::SYS_futex;
        waits.of_call(&Call { number, args }, &mut places).kind
    };
    assert_eq!(kind(2), WaitKind::Lock);
    assert_eq!(kind(1), WaitKind::Queue);
    assert_eq!(kind(2), WaitKind::Queue);
}

#[test]
fn a_pipe_is_read_for_work_and_never_written_to_for_it() {
    use std::os::fd::AsRawFd;
    let (read, write) = std::io::pipe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut both = std::fs::File::options();
    let named = both.read(true).write(true).open(path).unwrap();
    let mut places = Places::new(std::process::id());
    let mut waits = Waits::of(std::process::id());
    let mut kind = |number, fd: i32| {
        let args = [fd as u64, 0, 0, 0];
        waits.of_call(&Call { number, args }, &mut places).kind
    };
    for (read, write) in [
        (read.as_raw_fd(), write.as_raw_fd()),
        (named.as_raw_fd(), named.as_raw_fd()),
    ] {
        assert_eq!(kind(libc::SYS_read, read), WaitKind::Queue);
        assert_eq!(kind(libc::SYS_write, write), WaitKind::Network);
    }
}

#[test]
fn whoever_locks_a_file_waits_for_the_same_however_it_was_opened() {
    use std::os::fd::AsRawFd;
    let files = [(); 2].map(|()| std::fs::File::open("/proc/self/exe").unwrap());
    let mut places = Places::new(std::process::id());
    let mut waits = Waits::of(std::process::id());
    let mut wait = |number, args| waits.of_call(&Call { number, args }, &mut places);
    let [first, second] = files.each_ref().map(|file| file.as_raw_fd() as u64);
    let exclusive = libc::LOCK_EX as u64;
    let flock = wait(libc::SYS_flock, [first, exclusive, 0, 0]);
    assert_eq!(flock.kind, WaitKind::Lock);
    assert_eq!(
        flock.object,
        wait(libc::SYS_fcntl, [second, libc::F_SETLKW as u64, 0, 0]).object
    );
    let set = libc::F_SETFL as u64;
    assert_eq!(
        wait(libc::SYS_fcntl, [first, set, 0, 0]).kind,
        WaitKind::Other
    );
    assert_eq!(waits.holder(&flock, |_| true), None);
}

#[test]
fn a_read_write_lock_names_its_writer() {
    let words: [u32; 7] = [8, 0, 3, 3, 0, 0, 77];
    let start = words.as_ptr() as u64;
    let mut places = Places::new(std::process::id());
    let mut waits = Waits::of(std::process::id());
    for (futex, value) in [(start + 8, 3), (start + 12, 3)] {
        let args = [futex, 393, value, 0];
        let number = libc::SYS_futex;
        let wait = waits.of_call(&Call { number, args }, &mut places);
        assert_eq!(waits.holder(&wait, |tid| tid == 77), Some(77));
        assert_eq!(waits.holder(&wait, |tid| tid == 78), None);
    }
}

#[test]
fn owners_are_only_threads_of_the_subject() {
    let known = |tid| tid == 77;
    assert_eq!(owner((Some(2), Some(77)), known), Some(77), "glibc");
    assert_eq!(
        owner((Some(1 << 31 | 77), Some(0)), known),
        Some(77),
        "musl"
    );
    assert_eq!(owner((Some(2), Some(78)), known), None);
    assert_eq!(owner((None, None), known), None);
    let plain = (Some(1 << 31 | 16), Some(0));
    assert_eq!(owner(plain, |_| true), None, "musl's plain mutex");
}

#[test]
fn syscall_lines_as_linux_6_18_writes_them() {
    // A thread in futex, one in a fault or interrupted, one on its CPU.
    let waits = "202 0x55d0c8 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f3b20\n";
    let (call, sp, pc) = parse_syscall(waits).unwrap();
    assert_eq!(
        (call.number, call.args[0], call.args[2]),
        (202, 0x55d0c8, 2)
    );
    assert_eq!((sp, pc), (0x7ffd10, 0x7f3b20));
    let (call, sp, _) = parse_syscall("-1 0x7ffd10 0x55aa\n").unwrap();
    assert_eq!((call.number, sp), (-1, 0x7ffd10));
    assert_eq!(
        parse_syscall("-1 0x0 0x0\n"),
        None,
        "a worker of the kernel's"
    );
    assert_eq!(parse_syscall("running\n"), None);
    assert_eq!(parse_syscall(""), None);
}

//! What a watch may leave in a process: breakpoints in its code, and mappings.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Where the kernel keeps the instructions that it steps: it stays until the process ends or calls exec, no matter who
/// used uprobes. It is the one mapping that a watch leaves behind.
const STEPPED: &str = "[uprobes]";

/// Another watch on this machine may have its breakpoints in a shared library for a moment.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

struct Area {
    start: u64,
    end: u64,
    offset: u64,
    is_code: bool,
    name: String,
}

/// Names of what is mapped, without those of anonymous memory and without `STEPPED`.
pub fn mappings(pid: u32) -> io::Result<Vec<String>> {
    let names = areas(pid)?.into_iter().map(|area| area.name);
    let names: BTreeSet<String> = names
        .filter(|name| !name.is_empty() && name != STEPPED)
        .collect();
    Ok(names.into_iter().collect())
}

/// Files whose code in this process is not what is on disk, after some patience. As root only; else none are found.
pub fn changed_code_that_stays(pid: u32) -> Vec<String> {
    for _ in 1..TRIES {
        if changed_code(pid).is_empty() {
            return Vec::new();
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    changed_code(pid)
}

/// Files whose code in this process is not what is on disk, as breakpoints make it.
pub fn changed_code(pid: u32) -> Vec<String> {
    let areas = areas(pid).unwrap_or_default();
    let changed: BTreeSet<String> = areas
        .into_iter()
        .filter(|area| area.is_code && area.name.starts_with('/'))
        .filter(|area| differs(pid, area).unwrap_or(false))
        .map(|area| area.name)
        .collect();
    changed.into_iter().collect()
}

fn areas(pid: u32) -> io::Result<Vec<Area>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// `7f00-7f10 r-xp 00001000 08:01 123   /usr/lib/libc.so.6`
fn parse(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = line.split_once('/').map(|(_, path)| format!("/{path}"));
    let name = name.or_else(|| words.nth(2).map(str::to_owned));
    Some(Area {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        is_code,
        name: name.unwrap_or_default(),
    })
}

fn differs(pid: u32, area: &Area) -> io::Result<bool> {
    let (start, end) = (area.start, area.end);
    let file = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let on_disk = read(&file, area.offset, (end - start) as usize)?;
    Ok(read(&memory, start, on_disk.len())? != on_disk)
}

fn read(file: &File, from: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut all = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        match file.read_at(&mut all[done..], from + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    all.truncate(done);
    Ok(all)
}

/// Waits for orphans of this name that have ended: thousands of them would use up the process numbers of a small
/// machine.
pub fn reap(name: &str) {
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for pid in children.split_whitespace() {
            let is_named = |text: String| text.trim_end() == name;
            if !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(is_named) {
                continue;
            }
            let pid = pid.parse().unwrap_or(0);
            // SAFETY: only a child of this process is waited for, and no thread waits for orphans of this name by
            // number.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let area =
            parse("7f00a000-7f00c000 r-xp 00001000 08:01 123   /usr/lib/a file (deleted)").unwrap();
        assert_eq!(
            (area.start, area.end, area.offset),
            (0x7f00_a000, 0x7f00_c000, 0x1000)
        );
        assert!(area.is_code);
        assert_eq!(area.name, "/usr/lib/a file (deleted)");
        assert_eq!(
            parse("1000-2000 rw-p 00000000 00:00 0  [heap]")
                .unwrap()
                .name,
            "[heap]"
        );
        assert_eq!(parse("1000-2000 rw-p 00000000 00:00 0").unwrap().name, "");
    }

    #[test]
    fn a_changed_instruction_is_seen() {
        let own = std::process::id();
        assert_eq!(changed_code(own), Vec::<String>::new());
        let exe = std::env::current_exe().unwrap();
        let file = File::open(exe).unwrap();
        use std::os::fd::AsRawFd;
        // SAFETY: a private mapping of the program's first page, which is written and unmapped.
        unsafe {
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(
                std::ptr::null_mut(),
                4096,
                writable,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<u8>().add(100).write_volatile(0xcc);
            assert_eq!(
                libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC),
                0
            );
            let changed = changed_code(own);
            libc::munmap(page, 4096);
            // Files of a process can be opened by root only.
            assert_eq!(changed.len(), usize::from(libc::geteuid() == 0));
        }
    }
}

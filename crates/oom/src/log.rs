//! Reading: this machine's `/dev/kmsg`, a file, or standard input. Never waits for a message that has not been written.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::ClockId;

use crate::blocks::Blocks;
use crate::kill::At;
use crate::line::{Clock, Lines, Record};
use observe::clock::read_ns;

/// The kernel's log, a record for each read.
const KMSG: &str = "/dev/kmsg";
const DMESG_RESTRICT: &str = "/proc/sys/kernel/dmesg_restrict";
/// The largest record is 8 KiB.
const RECORD_BYTES_MAX: usize = 16 << 10;
/// A ring of 64 MiB holds about 800,000 records; one that is written faster than it is read has no end.
const RECORDS_MAX: u64 = 2_000_000;
const KMSG_TIME_MAX: Duration = Duration::from_secs(10);
/// Of a file or pipe.
const BYTES_MAX: u64 = 16 << 30;
/// A message of several lines in JSON has some KiB.
const LINE_BYTES_MAX: usize = 256 << 10;

/// What a log was, and how much of it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// "/dev/kmsg", the file's name, "standard input".
    pub source: String,
    pub lines: u64,
    /// Stamps of the first and the last line that have one.
    pub first: Option<At>,
    pub last: Option<At>,
    /// Records that were overwritten before they could be read: the ring is full.
    pub overwritten: u64,
    /// Lines of which only the beginning was read.
    pub cut_lines: u64,
    /// A limit was reached before the end.
    pub is_cut: bool,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum NoLog {
    #[error(
        "{KMSG}: {error}{}; run as root or with CAP_SYSLOG, or pass a log: `journalctl -k -o short-iso | highwater \
         explain --oom --kernel-log -`",
        if *.restricted { " (kernel.dmesg_restrict is 1)" } else { "" }
    )]
    Denied { error: io::Error, restricted: bool },
    #[error("{path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error(
        "{path} is compressed with {format}; unpack it first: `{command} {path} | highwater explain --oom \
            --kernel-log -`"
    )]
    Packed {
        path: String,
        format: &'static str,
        command: &'static str,
    },
    #[error(
        "{path} is a journal; read it with journalctl: `journalctl --file {path} -o json | highwater explain \
            --oom --kernel-log -`"
    )]
    Journal { path: String },
    #[error("{path} is a folder; pass a log, such as kern.log")]
    Folder { path: String },
}

/// Clocks of this machine, read together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boot {
    pub now_s: f64,
    /// Wall clock at the zero of the kernel's stamps, as if the machine had never been suspended.
    pub zero_s: f64,
    /// Time that the machine spent suspended since boot: the kernel's stamps leave it out, so that what was written
    /// before the last suspend is earlier than it seems, by this at most.
    pub suspended_s: f64,
}

impl Boot {
    pub fn read() -> Boot {
        let seconds = |clock| read_ns(clock) as f64 / 1e9;
        let (now_s, monotonic) = (seconds(ClockId::Realtime), seconds(ClockId::Monotonic));
        Boot {
            now_s,
            zero_s: now_s - monotonic,
            suspended_s: (seconds(ClockId::Boottime) - monotonic).max(0.0),
        }
    }

    /// For this machine's own log.
    pub fn own_clock(&self) -> Clock {
        Clock {
            boot_wall_s: Some(self.zero_s),
            ..self.foreign_clock()
        }
    }

    /// For a log that may be another machine's.
    pub fn foreign_clock(&self) -> Clock {
        Clock {
            now_s: self.now_s,
            zone: TimeZone::system(),
            boot_wall_s: None,
        }
    }
}

/// Reads what is in the kernel's ring now.
///
/// # Errors
/// It is not there, or may not be read.
pub fn read_kernel(boot: &Boot, blocks: &mut Blocks) -> Result<Reading, NoLog> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let ring = rustix::fs::open(KMSG, flags, Mode::empty()).map_err(denied)?;
    let mut into = Into::new(KMSG.to_owned(), boot.own_clock(), blocks);
    let mut record = vec![0; RECORD_BYTES_MAX];
    let begin = Instant::now();
    let mut next = 0;
    while into.reading.lines < RECORDS_MAX && begin.elapsed() < KMSG_TIME_MAX {
        match rustix::io::read(&ring, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(into.reading),
            Ok(length) => next = into.record(&record[..length], next),
            // What was to be read next has been overwritten; the next read goes on with the oldest that is there.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(errno) => return Err(denied(errno)),
        }
    }
    into.reading.is_cut = true;
    Ok(into.reading)
}

fn denied(errno: Errno) -> NoLog {
    let restricted = std::fs::read_to_string(DMESG_RESTRICT);
    NoLog::Denied {
        error: errno.into(),
        restricted: restricted.is_ok_and(|text| text.trim() == "1"),
    }
}

/// Reads a file, a pipe, or standard input (`-`).
///
/// # Errors
/// It cannot be read, or is no text.
pub fn read_file(path: &Path, boot: &Boot, blocks: &mut Blocks) -> Result<Reading, NoLog> {
    let is_input = path == Path::new("-");
    let name = match is_input {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::IsADirectory => NoLog::Folder { path: name.clone() },
        _ => NoLog::Unreadable {
            path: name.clone(),
            error,
        },
    };
    let input: Box<dyn Read> = match is_input {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut input = BufReader::with_capacity(1 << 16, input.take(BYTES_MAX));
    let first = input.fill_buf().map_err(unreadable)?;
    no_text(first, &name)?;
    let mut into = Into::new(name.clone(), boot.foreign_clock(), blocks);
    into.lines(&mut input).map_err(unreadable)?;
    into.reading.is_cut = input.into_inner().limit() == 0;
    Ok(into.reading)
}

/// What is no text by its first bytes.
fn no_text(first: &[u8], path: &str) -> Result<(), NoLog> {
    let packed = |format, command| NoLog::Packed {
        path: path.to_owned(),
        format,
        command,
    };
    match first {
        [0x1f, 0x8b, ..] => Err(packed("gzip", "zcat")),
        [0xfd, b'7', b'z', b'X', ..] => Err(packed("xz", "xzcat")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Err(packed("zstd", "zstdcat")),
        [b'B', b'Z', b'h', ..] => Err(packed("bzip2", "bzcat")),
        _ if first.starts_with(b"LPKSHHRH") => Err(NoLog::Journal {
            path: path.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Where lines go.
struct Into<'a> {
    reading: Reading,
    lines: Lines,
    blocks: &'a mut Blocks,
}

impl Into<'_> {
    fn new(source: String, clock: Clock, blocks: &mut Blocks) -> Into<'_> {
        Into {
            reading: Reading {
                source,
                ..Reading::default()
            },
            lines: Lines::new(clock),
            blocks,
        }
    }

    /// A record of `/dev/kmsg`, its text in the first line; the sequence number that comes next.
    fn record(&mut self, record: &[u8], expected: u64) -> u64 {
        let text = String::from_utf8_lossy(record);
        let line = text.lines().next().unwrap_or("");
        let sequence = line
            .split(',')
            .nth(1)
            .and_then(|number| number.parse().ok());
        let sequence: u64 = sequence.unwrap_or(expected);
        self.reading.overwritten += sequence.saturating_sub(expected);
        self.line(line);
        sequence + 1
    }

    fn lines(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        let mut is_cut = false;
        loop {
            let bytes = match input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = LINE_BYTES_MAX - line.len();
            is_cut |= part.len() > room;
            line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(end.is_some());
            input.consume(taken);
            if end.is_some() || (taken == 0 && !line.is_empty()) {
                self.reading.cut_lines += u64::from(std::mem::take(&mut is_cut));
                self.line(&String::from_utf8_lossy(&line));
                line.clear();
            } else if taken == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self, line: &str) {
        let reading = &mut self.reading;
        reading.lines += 1;
        let mut last = None;
        let blocks = &mut *self.blocks;
        self.lines
            .read(line, reading.lines, &mut |record: &Record<'_>| {
                last = Some(record.at);
                blocks.take(record);
            });
        if let Some(at) = last.filter(|at| at.wall_s.is_some() || at.boot_s.is_some()) {
            reading.first.get_or_insert(at);
            reading.last = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Reading, NoLog> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        read_file(&path, &Boot::read(), &mut Blocks::default())
    }

    #[test]
    fn what_is_no_text_says_how_to_read_it() {
        let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(said(&[0x1f, 0x8b, 8, 0]).contains("zcat"));
        assert!(said(b"LPKSHHRH\0\0").contains("journalctl --file"));
        let folder = read_file(Path::new("/"), &Boot::read(), &mut Blocks::default());
        assert!(folder.unwrap_err().to_string().contains("is a folder"));
        let missing = read_file(
            Path::new("/nowhere/kern.log"),
            &Boot::read(),
            &mut Blocks::default(),
        );
        assert!(missing.unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_counted() {
        let mut bytes = vec![b'x'; 3 * LINE_BYTES_MAX];
        bytes.extend(b"\n[    1.500000] Mem-Info:\n[    2.500000] end");
        let reading = read(&bytes).unwrap();
        assert_eq!((reading.lines, reading.cut_lines), (3, 1));
        assert_eq!(reading.first.unwrap().boot_s, Some(1.5));
        assert_eq!(reading.last.unwrap().boot_s, Some(2.5));
        assert_eq!(read(b"").unwrap().lines, 0);
    }

    #[test]
    fn the_kernels_own_log_is_read_to_its_end_or_refused() {
        match read_kernel(&Boot::read(), &mut Blocks::default()) {
            Ok(reading) => assert!(reading.lines > 0 && !reading.is_cut, "{reading:?}"),
            Err(NoLog::Denied { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

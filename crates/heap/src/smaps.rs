//! `/proc/PID/smaps`: every area of an address space with what of it is in RAM.

use observe::proc::area::parse_area;
use observe::proc::fields::{Malformed, kib_in_bytes};

const FILE: &str = "/proc/PID/smaps";

/// One area. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Area {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    /// MAP_SHARED.
    pub shared: bool,
    pub offset: u64,
    /// 0 for memory that no file stands behind.
    pub inode: u64,
    /// A path, `[heap]`, `[stack]`, `[anon:...]`, or nothing.
    pub name: String,
    pub rss_bytes: u64,
    pub pss_bytes: u64,
    /// Pages that no file stands behind, private copies of file pages included.
    pub anonymous_bytes: u64,
    /// MADV_FREE pages: still counted as resident, the kernel takes them when it needs them.
    pub lazy_free_bytes: u64,
    /// AnonHugePages.
    pub huge_pages_bytes: u64,
    pub swap_bytes: u64,
}

impl Area {
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Private memory without a file: a heap, a stack, an anonymous mapping.
    pub fn is_anonymous(&self) -> bool {
        self.inode == 0 && !self.shared && (self.name.is_empty() || self.name.starts_with("[anon:"))
    }
}

/// Areas ordered by address. A last entry that was cut off is left out.
pub fn parse_smaps(text: &[u8]) -> Result<Vec<Area>, Malformed> {
    let mut areas: Vec<Area> = Vec::new();
    let mut whole = true;
    for line in text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        if let Some(area) = parse_header(line) {
            areas.push(area);
            whole = false;
        } else if let Some(area) = areas.last_mut() {
            whole |= parse_field(line, area);
        } else {
            let line = String::from_utf8_lossy(line).into_owned();
            return Err(Malformed::new(FILE, format!("not an area: {line:?}")));
        }
    }
    if !whole {
        areas.pop();
    }
    Ok(areas)
}

fn parse_header(line: &[u8]) -> Option<Area> {
    // Field lines begin with a capital letter, addresses with a hexadecimal digit in lower case.
    if !matches!(line.first()?, b'0'..=b'9' | b'a'..=b'f') {
        return None;
    }
    let line = String::from_utf8_lossy(line);
    let area = parse_area(&line)?;
    let [readable, writable, executable, shared] = area.rights;
    Some(Area {
        start: area.start,
        end: area.end,
        readable: readable == b'r',
        writable: writable == b'w',
        executable: executable == b'x',
        shared: shared == b's',
        offset: area.offset,
        inode: area.inode,
        name: area.name,
        ..Area::default()
    })
}

/// Books one `Key:  12 kB`; true for the line that ends an entry.
fn parse_field(line: &[u8], area: &mut Area) -> bool {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else {
        return false;
    };
    let value = || kib_in_bytes(&line[colon + 1..]).unwrap_or(0);
    match &line[..colon] {
        b"Rss" => area.rss_bytes = value(),
        b"Pss" => area.pss_bytes = value(),
        b"Anonymous" => area.anonymous_bytes = value(),
        b"LazyFree" => area.lazy_free_bytes = value(),
        b"AnonHugePages" => area.huge_pages_bytes = value(),
        b"Swap" => area.swap_bytes = value(),
        b"VmFlags" => return true,
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Two areas of a C program on kernel 6.18 (captured 2026-11-21), and the start of a third.
    const TEXT: &str = "\
00404000-00425000 rw-p 00000000 00:00 0                                  [heap]
Size:                132 kB
KernelPageSize:        4 kB
Rss:                  12 kB
Pss:                  12 kB
Anonymous:            12 kB
LazyFree:              4 kB
AnonHugePages:         0 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac sd
7f0e4c400000-7f0e4c428000 r--p 00001000 fe:00 1234                       /usr/lib/a b.so (deleted)
Rss:                 160 kB
VmFlags: rd mr mw me sd
7f0e4c500000-7f0e4c528000 r--p 00000000 00:00 0
Rss:                 160 kB
";

    #[test]
    fn areas_are_read_and_a_cut_one_is_left_out() {
        let areas = parse_smaps(TEXT.as_bytes()).unwrap();
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].start, areas[0].end), (0x404000, 0x425000));
        assert_eq!(areas[0].name, "[heap]");
        assert_eq!(
            (areas[0].rss_bytes, areas[0].lazy_free_bytes),
            (12288, 4096)
        );
        assert_eq!(areas[1].name, "/usr/lib/a b.so (deleted)");
        assert!(!areas[1].writable && !areas[1].is_anonymous());
    }

    #[test]
    fn what_is_no_smaps_is_an_error() {
        assert!(parse_smaps(b"Rss: 4 kB\n").is_err());
        assert!(parse_smaps(b"").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_smaps(&text);
        }
    }
}

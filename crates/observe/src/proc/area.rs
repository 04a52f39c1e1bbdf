//! One line of `/proc/PID/maps`, which also begins each area of `/proc/PID/smaps`.

/// An area of an address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaLine<'a> {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// `rwxp`, a dash for what is missing; `s` instead of `p` for MAP_SHARED.
    pub rights: [u8; 4],
    /// In the file, bytes.
    pub offset: u64,
    /// As printed: `fe:01`. Not always what stat(2) says (btrfs, overlay).
    pub device: &'a str,
    /// 0 for memory that no file stands behind.
    pub inode: u64,
    /// A path, `[heap]`, `[stack]`, `[anon:...]`, or nothing; escapes undone.
    pub name: String,
}

/// `7f01-7f02 rw-p 00000000 fe:00 12    /usr/lib/a.so`
pub fn parse_area(line: &str) -> Option<AreaLine<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes().try_into().ok()?;
    let offset = words.next()?;
    let device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or("").trim_start();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    (start <= end).then_some(AreaLine {
        start,
        end,
        rights,
        offset: hexadecimal(offset)?,
        device,
        inode,
        name: name.replace("\\012", "\n"),
    })
}

/// `from_str_radix` takes a sign too.
fn hexadecimal(digits: &str) -> Option<u64> {
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digits.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole_or_not() {
        let line =
            "7f01-7f02 r-xs 00001000 fe:00 12                  /usr/lib/a b\\012.so (deleted)";
        let area = parse_area(line).unwrap();
        assert_eq!(
            (area.start, area.end, area.offset),
            (0x7f01, 0x7f02, 0x1000)
        );
        assert_eq!(
            (area.inode, area.device, &area.rights),
            (12, "fe:00", b"r-xs")
        );
        assert_eq!(area.name, "/usr/lib/a b\n.so (deleted)");
        for line in [
            "",
            "Rss:  4 kB",
            "7f01 r-xp 0 0:0 0",
            "7f02-7f01 r-xp 0 0:0 0",
            "+7f-7f02 r-xp 0 0:0 0",
            "7f01-7f02 rxp 0 0:0 0",
            "7f01-7f02 r-xp 0 0:0 x",
        ] {
            assert_eq!(parse_area(line), None, "{line}");
        }
    }
}

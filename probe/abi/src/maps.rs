//! Finding the probe in the text of `/proc/PID/maps`. Pure: the caller reads the file.

/// Start of the name of the mapping's first page, between `/memfd:` or `[anon:` and the end of the
/// name.
pub const MAPPING_NAME: &str = "highwater-probe";
/// File name of the probe's library.
pub const LIBRARY_NAME: &str = "libhighwater_probe.so";

/// One mapping's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRange {
    /// First address.
    pub start: u64,
    /// Last address + 1.
    pub end: u64,
}

/// The address of the header: the first readable mapping that has the probe's name.
pub fn find_header(maps: &str) -> Option<MapRange> {
    find_headers(maps).next()
}

/// Every mapping that has the probe's name: a program that is linked with the meter may have the
/// preloaded probe as well.
pub fn find_headers(maps: &str) -> impl Iterator<Item = MapRange> + '_ {
    maps.lines().filter_map(|line| {
        let (range, permissions, name) = fields(line)?;
        let ours = name
            .strip_prefix("/memfd:")
            .or_else(|| name.strip_prefix("[anon:"));
        let ours = ours.is_some_and(|name| name.starts_with(MAPPING_NAME));
        (ours && permissions.starts_with("rw")).then_some(range)
    })
}

/// Writable mappings that may hold the [`crate::Anchor`]: those of the library, and the nameless
/// one right behind (its zero-initialised data).
pub fn anchor_candidates(maps: &str) -> impl Iterator<Item = MapRange> + '_ {
    maps.lines().filter_map(|line| {
        let (range, permissions, name) = fields(line)?;
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        let file = name.rsplit('/').next().unwrap_or(name);
        (permissions.starts_with("rw") && file.starts_with("libhighwater_probe")).then_some(range)
    })
}

/// (range, permissions, name or "") of a line of maps.
fn fields(line: &str) -> Option<(MapRange, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let (permissions, rest) = rest.split_once(' ')?;
    // offset, device, inode, then the name after any number of blanks.
    let mut name = rest;
    for _ in 0..3 {
        name = name
            .trim_start()
            .split_once(' ')
            .map_or("", |(_, rest)| rest);
    }
    (start < end).then_some((MapRange { start, end }, permissions, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines in the form that kernel 6.18 without CONFIG_ANON_VMA_NAME prints; addresses and paths
    // made up.
    const MAPS: &str = "\
55d0c8a00000-55d0c8a01000 r-xp 00001000 fe:00 262189                     /usr/bin/cat
7f6f4c000000-7f6f4c001000 rw-p 00000000 00:01 2049                       /memfd:highwater-probe (deleted)
7f6f4c001000-7f6f4c600000 rw-p 00000000 00:00 0
7f6f4c700000-7f6f4c710000 r-xp 00000000 fe:00 99                         /opt/my libs/libhighwater_probe.so (deleted)
7f6f4c710000-7f6f4c712000 rw-p 00010000 fe:00 99                         /opt/my libs/libhighwater_probe.so (deleted)
7ffd1f000000-7ffd1f021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn header_by_memfd_name() {
        let range = find_header(MAPS).unwrap();
        assert_eq!(
            (range.start, range.end),
            (0x7f6f_4c00_0000, 0x7f6f_4c00_1000)
        );
    }

    #[test]
    fn header_by_anonymous_name() {
        let line = "7f00-8f00 rw-p 00000000 00:00 0     [anon:highwater-probe]\n";
        assert_eq!(
            find_header(line),
            Some(MapRange {
                start: 0x7f00,
                end: 0x8f00
            })
        );
    }

    #[test]
    fn the_library_s_data_holds_the_anchor() {
        let mut found = anchor_candidates(MAPS);
        assert_eq!(found.next().unwrap().start, 0x7f6f_4c71_0000);
        assert!(found.next().is_none());
    }

    #[test]
    fn other_text_finds_nothing() {
        for text in [
            "",
            "\n\n",
            "zz-yy rw-p 0 0 0 /memfd:highwater-probe",
            "1-0 rw-p 0 0 0 x",
            "garbage",
        ] {
            assert_eq!(find_header(text), None, "{text:?}");
        }
    }
}

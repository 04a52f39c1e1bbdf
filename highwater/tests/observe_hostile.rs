//! A process that imitates the probe, or names what must not be opened, costs bounded memory and time.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use abi::{Header, Section, SectionKind, State};
use heap::probe::{ProbeSnapshot, read_probe};
use observe::fact::memory::Memory;
use symbols::perf_map::open_perf_map;
use testkit::skipped;

/// Mappings of a process, by address.
#[derive(Default)]
struct Mappings {
    bytes: BTreeMap<u64, Vec<u8>>,
}

impl Memory for Mappings {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let (start, bytes) = self.bytes.range(..=address).next_back()?;
        let from = usize::try_from(address - start).ok()?;
        out.copy_from_slice(bytes.get(from..from.checked_add(out.len())?)?);
        Some(())
    }
}

impl Mappings {
    fn of(copies: usize, bytes: &[u8]) -> Mappings {
        let place = |index: usize| (0x10_0000_0000 * (index as u64 + 1), bytes.to_vec());
        Mappings {
            bytes: (0..copies).map(place).collect(),
        }
    }

    /// As /proc/PID/maps has them.
    fn read_probe(&self) -> Result<Option<ProbeSnapshot>, String> {
        let line = |start: &u64| {
            format!(
                "{start:x}-{:x} rw-p 0 00:01 7 /memfd:highwater-probe (deleted)\n",
                start + 4096
            )
        };
        let maps: String = self.bytes.keys().map(line).collect();
        read_probe(self, maps.as_bytes())
    }
}

const KINDS: [(SectionKind, usize); 11] = [
    (SectionKind::Threads, size_of::<abi::Thread>()),
    (SectionKind::SampleKeys, 8),
    (SectionKind::Samples, size_of::<abi::Sample>()),
    (SectionKind::Stacks, size_of::<abi::Stack>()),
    (SectionKind::Frames, 8),
    (SectionKind::Roles, size_of::<abi::Role>()),
    (SectionKind::Matrix, size_of::<abi::Flow>()),
    (SectionKind::Classes, size_of::<abi::Class>()),
    (SectionKind::Latencies, size_of::<abi::Latency>()),
    (SectionKind::Modules, size_of::<abi::Module>()),
    (SectionKind::Regions, size_of::<abi::Region>()),
];

/// A mapping with so many stacks, all of the same 64 frames; its header claims `more_bytes` more than it has.
fn imitation(stacks: u32, more_bytes: u64) -> Vec<u8> {
    let mut bytes = vec![0; abi::HEADER_BYTES];
    let put = |bytes: &mut Vec<u8>, at: usize, what: &[u8]| {
        bytes[at..at + what.len()].copy_from_slice(what);
    };
    for (kind, stride) in KINDS {
        let rows = match kind {
            SectionKind::Stacks => stacks,
            SectionKind::Frames => 64,
            _ => 1,
        };
        let at = offset_of!(Header, sections) + kind as usize * size_of::<Section>();
        let offset = bytes.len() as u64;
        put(&mut bytes, at, &offset.to_le_bytes());
        for (index, number) in [rows, stride as u32, rows].into_iter().enumerate() {
            put(&mut bytes, at + 8 + 4 * index, &number.to_le_bytes());
        }
        let start = bytes.len();
        bytes.resize(start + rows as usize * stride, 0);
        let stacks = start..start + rows as usize * stride;
        for (row, at) in stacks.step_by(stride).enumerate() {
            if kind == SectionKind::Stacks {
                put(&mut bytes, at, &(row as u64 + 2).to_le_bytes());
                put(&mut bytes, at + offset_of!(abi::Stack, depth), &[64, 0]);
            }
        }
    }
    let total = bytes.len() as u64 + more_bytes;
    put(&mut bytes, 0, &abi::MAGIC);
    for (at, number) in [
        (offset_of!(Header, version), abi::VERSION),
        (offset_of!(Header, header_bytes), abi::HEADER_BYTES as u32),
        (offset_of!(Header, state), State::On as u32),
    ] {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    let at = offset_of!(Header, total_bytes);
    put(&mut bytes, at, &total.to_le_bytes());
    bytes
}

#[test]
fn a_mapping_larger_than_any_probes_is_refused() {
    let problem = Mappings::of(1, &imitation(8, 128 << 20))
        .read_probe()
        .unwrap_err();
    assert!(problem.contains("no probe has more"), "{problem}");
    let fits = Mappings::of(1, &imitation(8, 0)).read_probe().unwrap();
    assert_eq!(fits.unwrap().stacks.len(), 8);
}

#[test]
fn a_section_with_more_rows_than_any_probes_is_refused() {
    let rows = SectionKind::Stacks.rows_max();
    assert!(Mappings::of(1, &imitation(rows, 0)).read_probe().is_ok());
    let problem = Mappings::of(1, &imitation(rows + 1, 0)).read_probe();
    assert!(problem.unwrap_err().contains("section 3"));
}

#[test]
fn four_mappings_are_read_and_the_others_counted() {
    for (mappings, unread) in [(1, 0), (2, 0), (4, 0), (6, 2), (40, 36)] {
        let snapshot = Mappings::of(mappings, &imitation(8, 0)).read_probe();
        let snapshot = snapshot.unwrap().unwrap();
        assert_eq!(snapshot.unread_mappings, unread, "of {mappings}");
        assert_eq!(snapshot.own.len(), mappings - unread);
    }
}

/// Four times 20 MB are more than is copied.
#[test]
fn so_many_bytes_are_copied_and_no_more() {
    let mut large = imitation(8, 20 << 20);
    large.resize(large.len() + (20 << 20), 0);
    let snapshot = Mappings::of(4, &large).read_probe().unwrap().unwrap();
    assert_eq!((snapshot.own.len(), snapshot.unread_mappings), (2, 2));
}

/// 65,536 stacks of 64 frames are four times what the table of frames holds: they overlap.
#[test]
fn so_many_frames_are_copied_and_no_more() {
    let rows = SectionKind::Stacks.rows_max() as usize;
    let snapshot = Mappings::of(1, &imitation(rows as u32, 0)).read_probe();
    let snapshot = snapshot.unwrap().unwrap();
    let frames: usize = snapshot
        .stacks
        .values()
        .map(|site| site.addresses.len())
        .sum();
    assert_eq!(frames, SectionKind::Frames.rows_max() as usize);
    assert_eq!(snapshot.unread_stacks, rows - frames / 64);
}

/// A folder like /proc/PID of a process of root, and the path of its perf map.
fn process_of_root(folder: &Path) -> PathBuf {
    std::fs::write(folder.join("status"), "Uid:\t0\t0\t0\t0\nNSpid:\t7\n").unwrap();
    std::fs::create_dir_all(folder.join("root/tmp")).unwrap();
    folder.join("root/tmp/perf-7.map")
}

/// Everyone can put a file with such a name into /tmp, and names into the report of root.
#[test]
fn a_perf_map_of_another_user_is_ignored_with_the_reason() {
    if !rustix::process::geteuid().is_root() {
        skipped("to give a file to another user takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = process_of_root(folder.path());
    std::fs::write(&path, "1000 10 a_name\n").unwrap();
    assert!(open_perf_map(folder.path()).unwrap().is_some());
    std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
    let ignored = open_perf_map(folder.path()).unwrap_err().to_string();
    assert!(ignored.contains("/tmp/perf-7.map is ignored"), "{ignored}");
    assert!(ignored.contains("user 4242"), "{ignored}");
}

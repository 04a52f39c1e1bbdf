//! Cores made by hand, whole, cut and damaged. Real ones: highwater/tests/explain/cores.rs.

use std::io::Write;

use super::*;
use proptest::prelude::*;

const HEAP: u64 = 0x50_0000;
const STACK: u64 = 0x7fff_0000_0000;
const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x40_1000;
const PAGE: usize = 4096;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn note(kind: u32, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [5, text.len() as u32, kind] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"CORE\0\0\0\0");
    bytes.extend(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A thread whose registers hold two words, the second of them the stack pointer.
fn status(tid: i32, register: u64, stack_pointer: u64) -> Vec<u8> {
    let mut text = vec![0; 336];
    text[12] = 6;
    text[32..36].copy_from_slice(&tid.to_le_bytes());
    text[112..120].copy_from_slice(&register.to_le_bytes());
    text[264..272].copy_from_slice(&stack_pointer.to_le_bytes());
    note(1, &text)
}

fn mapped(parts: &[(u64, u64, &str)]) -> Vec<u8> {
    let mut text = words(&[parts.len() as u64, PAGE as u64]);
    for (start, end, _) in parts {
        text.extend(words(&[*start, *end, 0]));
    }
    for (_, _, path) in parts {
        text.extend(path.as_bytes());
        text.push(0);
    }
    note(0x4649_4c45, &text)
}

/// Blocks of 64 bytes behind a first one, and the rest: the first is pointed to by a register, and points to the
/// second; the fourth by the program's data; nothing points to the third and the others.
fn heap() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut put = |at: usize, word: u64| page[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(8, 0x291);
    for block in 0..20 {
        put(0x290 + block * 64 + 8, 64 | 1);
        put(0x290 + block * 64 + 24, 7);
    }
    put(0x290 + 16, block(1));
    put(0x290 + 20 * 64 + 8, (PAGE - 0x290 - 20 * 64) as u64 | 1);
    page
}

fn block(number: u64) -> u64 {
    HEAP + 0x290 + number * 64 + 16
}

fn core() -> Vec<u8> {
    let mut info = vec![0; 136];
    info[24..28].copy_from_slice(&42i32.to_le_bytes());
    info[56..64].copy_from_slice(b"./served");
    let notes = [
        status(42, block(0), STACK + 2048),
        note(3, &info),
        mapped(&[
            (CODE, DATA, "/nowhere/served"),
            (DATA, DATA + 4096, "/nowhere/served"),
        ]),
    ]
    .concat();
    let mut data = vec![0; PAGE];
    data[0x100..0x108].copy_from_slice(&block(3).to_le_bytes());
    let stack = [vec![1; 8], vec![0; PAGE - 8]].concat();
    let segments = [
        (CODE, Vec::new()),
        (DATA, data),
        (HEAP, heap()),
        (STACK, stack),
    ];
    let notes_at = 64 + 56 * (segments.len() + 1);
    let mut at = (notes_at + notes.len()).next_multiple_of(PAGE);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([4, 0, 62, 0, 1, 0, 0, 0]);
    file.extend(words(&[0, 64, 0]));
    file.extend([
        0,
        0,
        0,
        0,
        64,
        0,
        56,
        0,
        segments.len() as u8 + 1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    let mut header = |kind: u32, flags: u32, numbers: &[u64]| {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        file.extend(words(numbers));
    };
    let bytes = notes.len() as u64;
    header(4, 0, &[notes_at as u64, 0, 0, bytes, 0, 4]);
    for (start, bytes) in &segments {
        let length = bytes.len() as u64;
        let flags = if bytes.is_empty() { 5 } else { 6 };
        header(1, flags, &[at as u64, *start, 0, length, 4096, 4096]);
        at += bytes.len();
    }
    file.extend(notes);
    file.resize(file.len().next_multiple_of(PAGE), 0);
    for (_, bytes) in segments {
        file.extend(bytes);
    }
    file
}

fn open(bytes: &[u8]) -> Result<CoreFile, NoCore> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    CoreFile::open(file.path(), None)
}

/// All that is asked of a core.
fn asked(core: &mut CoreFile) -> (HeapSnapshot, Result<Holders, Unsearched>) {
    let snapshot = core.snapshot();
    let holders = core.holders(&snapshot);
    for table in snapshot.types.by_table.keys().take(10) {
        core.class(&snapshot, *table);
    }
    for area in &snapshot.areas {
        core.place_of(&snapshot, area.start);
    }
    (snapshot, holders)
}

#[test]
fn a_core_tells_what_is_in_use_and_out_of_reach() {
    let mut core = open(&core()).unwrap();
    assert_eq!(
        (core.pid(), core.command(), core.signal()),
        (42, "./served", Some(6))
    );
    assert_eq!(core.absent_files(), ["/nowhere/served"]);
    let (snapshot, holders) = asked(&mut core);
    let names: Vec<&str> = snapshot
        .areas
        .iter()
        .map(|area| area.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["/nowhere/served", "/nowhere/served", "[heap]", "[stack]"]
    );
    let walk = snapshot.walk.as_ref().unwrap();
    assert!(walk.complete);
    assert_eq!(walk.spans[0].classes, [(64, 20), (0x290, 1)].into());
    let holders = holders.unwrap();
    let reached = |number| holders.reached.of(block(number));
    let all: Vec<u64> = (0..20)
        .filter(|number| reached(*number) == Some(true))
        .collect();
    assert_eq!(all, [0, 1, 3]);
    let mut place = |number| core.place_of(&snapshot, holders.reached.root(block(number)).unwrap());
    assert_eq!(
        (place(0), place(3)),
        ("a register".into(), "data of served".into())
    );
    assert_eq!(holders.reached.root(block(2)), None);
}

#[test]
fn what_is_no_core_says_what_it_is() {
    let said = |bytes: &[u8]| {
        open(bytes)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(said(b"").contains("0 bytes"));
    assert!(said(&[0; 64]).contains("not an ELF core"));
    assert!(said(&[&[0x1f, 0x8b][..], &[0; 64]].concat()).contains("cannot be unpacked"));
    let with = |at: usize, byte: u8| {
        let mut bytes = core();
        bytes[at] = byte;
        said(&bytes)
    };
    assert!(with(16, 2).contains("a program or a library"));
    assert!(with(18, 8).contains("another kind of machine (8)"));
    assert!(with(4, 1).contains("another kind of machine"));
    assert!(with(32, 0xff).contains("damaged"), "headers elsewhere");
    let missing = CoreFile::open(Path::new("/nowhere/core"), None)
        .err()
        .unwrap()
        .to_string();
    assert!(missing.contains("No such file"), "{missing}");
}

/// Addresses and sizes that no program has: a walk over them must not go round.
#[test]
fn areas_at_the_end_of_all_addresses_are_left_out() {
    let headers = 64 + 56;
    for (start, bytes) in [
        (u64::MAX - 4_095, 4_095),
        (1 << 62, 1 << 62),
        (HEAP, u64::MAX),
    ] {
        let mut file = core();
        // The heap's area: third of the segments.
        let at = headers + 2 * 56;
        file[at + 16..at + 24].copy_from_slice(&start.to_le_bytes());
        for place in [32, 40] {
            file[at + place..at + place + 8].copy_from_slice(&u64::to_le_bytes(bytes));
        }
        let mut core = open(&file).unwrap();
        let (snapshot, _) = asked(&mut core);
        assert_eq!(snapshot.areas.len(), 3, "{start:#x}");
    }
}

#[test]
fn a_packed_core_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("core.zst");
    // One frame of raw blocks: zstd's format without compression (RFC 8878, 3.1.1.2.2).
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let whole = core();
    let mut parts = whole.chunks(4096).peekable();
    while let Some(part) = parts.next() {
        let header = u32::from(parts.peek().is_none()) | (part.len() as u32) << 3;
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.extend(part);
    }
    std::fs::write(&packed, &bytes).unwrap();
    let mut core = CoreFile::open(&packed, None).unwrap();
    assert_eq!(asked(&mut core).1.unwrap().blocks.len(), 21);
    cut_in_half(&packed, &bytes);
}

/// What can be unpacked is read; the rest is missing, and nothing is said of reach.
fn cut_in_half(path: &Path, packed: &[u8]) {
    std::fs::write(path, &packed[..packed.len() / 2]).unwrap();
    match CoreFile::open(path, None) {
        Ok(mut cut) => {
            assert!(cut.cut_by().is_some() && cut.missing_bytes() > 0);
            assert!(asked(&mut cut).1.is_err());
        }
        // Nothing of it, or not its headers.
        Err(NoCore::Unpacking(_) | NoCore::Headers | NoCore::Short(_)) => {}
        Err(other) => panic!("{other}"),
    }
}

/// With the tools that pack, in one stream and in two.
#[test]
fn every_format_of_systemd_coredump_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("core");
    std::fs::write(&plain, core()).unwrap();
    for words in [
        &["zstd", "-qc"][..],
        &["lz4", "-qc"],
        &["lz4", "-qc", "-9", "-BD", "--content-size"],
        &["xz", "-c"],
        &["xz", "-c", "-9e", "--block-size=5000"],
        &["gzip", "-c"],
    ] {
        let done = std::process::Command::new(words[0])
            .args(&words[1..])
            .arg(&plain)
            .output();
        let Ok(done) = done else {
            testkit::skipped(&format!("no {}", words[0]));
            continue;
        };
        let packed = folder.path().join("core.packed");
        std::fs::write(&packed, &done.stdout).unwrap();
        let mut core =
            CoreFile::open(&packed, None).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert_eq!(
            (core.cut_by(), core.missing_bytes()),
            (None, 0),
            "{words:?}"
        );
        assert_eq!(asked(&mut core).1.unwrap().blocks.len(), 21);
        cut_in_half(&packed, &done.stdout);
    }
}

#[test]
fn a_core_cut_anywhere_says_what_is_missing() {
    let whole = core();
    for length in (0..whole.len()).step_by(97) {
        let Ok(mut core) = open(&whole[..length]) else {
            continue;
        };
        let missing = core.missing_bytes();
        let (_, holders) = asked(&mut core);
        assert!(
            missing > 0 && holders.is_err(),
            "{length} of {}",
            whole.len()
        );
    }
}

proptest! {
    #[test]
    fn damage_is_an_error_or_an_answer(places in prop::collection::vec((0..12_288usize, any::<u8>()), 1..40)) {
        let mut bytes = core();
        for (at, byte) in places {
            // Headers and notes more often than pages.
            let at = if at > 1_024 { at % bytes.len() } else { at };
            bytes[at] = byte;
        }
        if let Ok(mut core) = open(&bytes) {
            let _ = asked(&mut core);
        }
    }
}

//! maps, ELF files and foreign memory: captured, cut, and made up. Nothing of it may panic.

mod observed;

use std::path::Path;

use observe::fact::image::Image;
use observe::fact::linker::{Walk, parse_auxv, read_loaded};
use observe::fact::maps::{Maps, parse_maps};
use observe::fact::memory::{
    FileMemory, Memory, PT_DYNAMIC, parse_elf_header, parse_program_headers,
};
use observe::fact::open_file;
use observe::fact::program::{preload_problem, read_program};
use observed::{compile, fixture_root};
use proptest::prelude::*;

fn captured() -> Vec<u8> {
    fixture_root("6.18").read("4242/maps").unwrap()
}

#[test]
fn captured_maps_become_files() {
    let maps = Maps::parse(&captured()).unwrap();
    let libc = maps
        .files
        .iter()
        .find(|file| file.file_name() == "libc.so.6")
        .unwrap();
    assert!(libc.executable && !libc.deleted);
    assert_eq!(libc.ranges.len(), 5, "as many lines as the capture has");
    let (start, end) = libc.ranges[1];
    assert_eq!(maps.at(start), Some(libc));
    assert_eq!(maps.at(end - 1), Some(libc));
    assert_ne!(maps.at(libc.ranges[4].1), Some(libc));
    assert_eq!(maps.at(0), None);
    assert!(maps.code().any(|file| file.file_name() == "python3.11"));
    assert!(
        maps.code().all(|file| !file.path.ends_with("LC_CTYPE")),
        "data is no code"
    );
}

#[test]
fn awkward_lines_of_maps() {
    // Typed after proc(5): a deleted file, a blank and a newline in a name, shared memory, a memfd.
    let text =
        b"1000-2000 r-xp 00000000 fe:01 7                          /a b/lib\\012x.so (deleted)\n\
        3000-4000 rw-s 00000000 00:01 9                          /dev/shm/x\n\
        5000-6000 r-xp 00000000 00:01 11                         /memfd:jit (deleted)\n\
        7000-8000 rw-p 00000000 00:00 0\n\
        9000-a000 rw-p 00000000 00:00 0                          [heap]\n\
        b000-c0";
    let mappings = parse_maps(text).unwrap();
    assert_eq!(
        mappings.len(),
        3,
        "anonymous ones and the line cut off are left out"
    );
    assert_eq!(
        (mappings[0].path.as_str(), mappings[0].deleted),
        ("/a b/lib\nx.so", true)
    );
    let maps = Maps::new(mappings);
    assert_eq!(maps.code().count(), 1, "generated code is no library");
    assert!(parse_maps(b"what is this\n").is_err());
}

#[test]
fn the_digest_changes_with_the_code_and_with_nothing_else() {
    let text = String::from_utf8(captured()).unwrap();
    let digest = |text: &str| Maps::parse(text.as_bytes()).unwrap().digest();
    let before = digest(&text);
    let heap = text.replace("00:00 0 ", "00:00 0  ") + "7fff00000000-7fff00001000 rw-p 0 00:00 0\n";
    assert_eq!(digest(&heap), before);
    let more = text.clone() + "7fff00000000-7fff00001000 r-xp 00000000 fe:00 77 /usr/lib/new.so\n";
    assert_ne!(digest(&more), before);
    let replaced = text.replace("/libz.so", "/libz.so (deleted)");
    assert_ne!(digest(&replaced), before);
}

/// Memory in which every address holds some byte.
struct Noise(Vec<u8>);

impl Memory for Noise {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        for (index, byte) in out.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64) as usize % self.0.len();
            *byte = self.0[at];
        }
        Some(())
    }
}

/// A few pages of it, and nothing around them.
struct Page(Vec<u8>);

impl Memory for Page {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let start = usize::try_from(address).ok()?;
        out.copy_from_slice(self.0.get(start..start.checked_add(out.len())?)?);
        Some(())
    }
}

fn resolve(memory: &dyn Memory, bias: u64, dynamic: u64) {
    if let Some(image) = Image::read(memory, bias, dynamic) {
        let _ = image.export("malloc");
        let _ = image.needed();
        let _ = image.debug();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn made_up_memory_is_survived(
        bytes in proptest::collection::vec(any::<u8>(), 1..200), bias: u64, dynamic: u64,
    ) {
        resolve(&Page(bytes.clone()), bias, dynamic % 64);
        let noise = Noise(bytes);
        resolve(&noise, bias, dynamic);
        let auxv: Vec<u8> =
            [3, dynamic, 5, bias % 200, 0, 0].iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        let _ = read_loaded(&noise, &auxv);
    }

    #[test]
    fn made_up_text_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_maps(&bytes);
        let _ = parse_elf_header(&bytes);
        let _ = parse_program_headers(&bytes);
        let _ = parse_auxv(&bytes, 3);
    }

    #[test]
    fn maps_with_holes_are_survived(at in 0usize..6000, byte: u8, cut in 0usize..6000) {
        let mut text = captured();
        if let Some(slot) = text.get_mut(at) {
            *slot = byte;
        }
        text.truncate(cut);
        if let Ok(maps) = Maps::parse(&text) {
            let _ = maps.digest();
        }
    }
}

/// Every byte of a small library's tables is flipped in turn.
#[test]
fn a_damaged_library_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile("bump.c", &["-shared", "-fPIC"], folder.path(), "libbump.so");
    let program = read_program(&compile("calls.c", &[], folder.path(), "calls")).unwrap();
    assert_eq!(preload_problem(&program, &library), None);
    let whole = std::fs::read(&library).unwrap();
    let damaged = folder.path().join("damaged.so");
    let mut refused = 0;
    for at in (0..whole.len().min(4096)).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&damaged, &bytes).unwrap();
        refused += u32::from(preload_problem(&program, &damaged).is_some());
    }
    assert!(
        refused > 20,
        "{refused}: the header alone must be refused in most ways"
    );
    for length in [0, 1, 63, 64, 100, 1000, 4000] {
        std::fs::write(&damaged, &whole[..length]).unwrap();
        assert!(
            preload_problem(&program, &damaged).is_some(),
            "cut at {length}"
        );
    }
}

#[test]
fn only_offered_symbols_are_exports() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile("bump.c", &["-shared", "-fPIC"], folder.path(), "libbump.so");
    for flags in [["-Wl,--hash-style=sysv"], ["-Wl,--hash-style=gnu"]] {
        let flags = [&["-shared", "-fPIC"][..], &flags].concat();
        let library = compile("bump.c", &flags, folder.path(), "hashed.so");
        // Its own calloc calls it through a slot, so that another library could take its place.
        assert_eq!(exports(&library, "malloc"), (true, true), "{flags:?}");
        assert_eq!(
            exports(&library, "mmap"),
            (false, true),
            "{flags:?}: only called"
        );
        assert_eq!(exports(&library, "at"), (false, false), "{flags:?}: static");
    }
    assert_eq!(exports(&library, "no such name"), (false, false));
    let script = folder.path().join("hide.map");
    std::fs::write(&script, "{ global: free; local: malloc; };").unwrap();
    let script = format!("-Wl,--version-script={}", script.display());
    let library = compile(
        "bump.c",
        &["-shared", "-fPIC", &script],
        folder.path(),
        "hidden.so",
    );
    assert!(!exports(&library, "malloc").0);
    assert!(exports(&library, "free").0);
}

/// Whether a file exports a name, and whether it calls it through slots.
fn exports(library: &Path, name: &str) -> (bool, bool) {
    let memory = FileMemory::open(open_file(library).unwrap()).unwrap();
    let dynamic = memory.header(PT_DYNAMIC).unwrap().address;
    let image = Image::read(&memory, 0, dynamic).unwrap();
    (
        image.export(name).is_some(),
        !image.call_slots(name).is_empty(),
    )
}

#[test]
fn no_auxv_no_walk() {
    assert!(read_loaded(&Page(Vec::new()), b"").is_err());
    // Headers without a dynamic section: a static program.
    let mut page = vec![0; 64];
    page[0] = 1;
    let auxv: Vec<u8> = [3u64, 0, 5, 1, 0, 0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    assert_eq!(read_loaded(&Page(page), &auxv), Ok(Walk::Static));
}

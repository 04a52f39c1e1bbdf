//! The dynamic linker's own list of loaded objects, in lookup order, read from the memory of a
//! running process.

use super::image::Image;
use super::memory::{
    Memory, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_PHDR, ProgramHeader, read_program_headers,
};

/// Objects that are followed along the list.
const OBJECTS_MAX: usize = 4096;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;

/// One object of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What the linker added to the addresses of the file.
    pub bias: u64,
    /// Empty for the program itself.
    pub name: String,
    /// Address of its dynamic section.
    pub dynamic: u64,
}

/// What the memory tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walk {
    /// In lookup order: the program, preloaded libraries, then the others breadth first.
    Objects(Vec<Loaded>),
    /// The dynamic linker has not set up its list yet: ask again later.
    Early,
    /// No dynamic linker is at work: the program is static.
    Static,
}

/// `auxv` is the text of /proc/PID/auxv. `Err` says in words what did not fit.
pub fn read_loaded(memory: &dyn Memory, auxv: &[u8]) -> Result<Walk, &'static str> {
    let address = parse_auxv(auxv, AT_PHDR).ok_or("auxv does not say where the program is")?;
    let count = parse_auxv(auxv, AT_PHNUM).ok_or("auxv does not say where the program is")?;
    let headers = read_program_headers(memory, address, count)
        .ok_or("the program headers cannot be read from memory")?;
    let find = |kind| headers.iter().find(|header| header.kind == kind);
    let Some(dynamic) = find(PT_DYNAMIC) else {
        return Ok(Walk::Static);
    };
    let bias = bias_of(&headers, address);
    let program = Image::read(memory, bias, bias.wrapping_add(dynamic.address));
    let has_interpreter = find(PT_INTERP).is_some();
    let needs_libraries = program
        .as_ref()
        .is_some_and(|program| !program.needed().is_empty());
    let debug = if has_interpreter {
        program.and_then(|program| program.debug()).unwrap_or(0)
    } else {
        // The dynamic linker itself, started as a program (`ld.so ./service`): its record has a
        // name.
        match program.and_then(|program| program.export("_r_debug")) {
            Some(record) => bias.wrapping_add(record.address),
            None => return Ok(Walk::Static),
        }
    };
    if debug == 0 {
        return Ok(Walk::Early);
    }
    match follow(memory, debug)? {
        // For a few instructions at the start the list is whole, says its state, but has no
        // library yet: what a preload would answer must not be judged by that.
        Walk::Objects(objects) if needs_libraries && objects.iter().all(is_there_from_birth) => {
            Ok(Walk::Early)
        }
        walk => Ok(walk),
    }
}

/// The program, the vDSO, glibc's linker: what the list has before anything was loaded. (musl's
/// linker is its C library, and may be all that a program needs.)
fn is_there_from_birth(object: &Loaded) -> bool {
    let name = object.name.rsplit('/').next().unwrap_or("");
    name.is_empty() || name.starts_with("linux-vdso") || name.starts_with("ld-linux")
}

/// `struct r_debug`: version, padding, first object, breakpoint, state (0 is consistent).
fn follow(memory: &dyn Memory, debug: u64) -> Result<Walk, &'static str> {
    let state = memory.u32(debug.wrapping_add(24));
    let first = memory.u64(debug.wrapping_add(8));
    let (Some(mut next), Some(0)) = (first, state) else {
        return Ok(Walk::Early);
    };
    let mut objects = Vec::new();
    while next != 0 {
        if objects.len() == OBJECTS_MAX {
            return Err("the dynamic linker's list has no end");
        }
        let word = |at: u64| memory.u64(next.wrapping_add(at));
        let entry = (word(0), word(8), word(16), word(24));
        let (Some(bias), Some(name), Some(dynamic), Some(following)) = entry else {
            return Ok(Walk::Early); // changed under our hands
        };
        let name = memory.name(name).unwrap_or_default();
        objects.push(Loaded {
            bias,
            name,
            dynamic,
        });
        next = following;
    }
    Ok(if objects.is_empty() {
        Walk::Early
    } else {
        Walk::Objects(objects)
    })
}

/// The load bias of the program, from where its headers are and where the file wanted them.
fn bias_of(headers: &[ProgramHeader], address: u64) -> u64 {
    let find = |kind| headers.iter().find(|header| header.kind == kind);
    match (find(PT_PHDR), find(PT_LOAD)) {
        (Some(own), _) => address.wrapping_sub(own.address),
        // Without that header: they follow the 64 bytes of the ELF header at the file's start.
        (None, Some(load)) => address
            .wrapping_sub(64)
            .wrapping_sub(load.address)
            .wrapping_add(load.offset),
        (None, None) => 0,
    }
}

/// A value of /proc/PID/auxv: pairs of words up to the key 0.
pub fn parse_auxv(auxv: &[u8], key: u64) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    auxv.chunks_exact(16)
        .filter_map(|pair| Some((word(&pair[..8])?, word(&pair[8..])?)))
        .take_while(|&(found, _)| found != 0)
        .find(|&(found, _)| found == key)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auxv() {
        let words = |words: &[u64]| {
            words
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<_>>()
        };
        let text = words(&[6, 4096, 3, 0x40, 5, 13, 0, 0, 7, 1]);
        assert_eq!(parse_auxv(&text, 3), Some(0x40));
        assert_eq!(parse_auxv(&text, 5), Some(13));
        assert_eq!(parse_auxv(&text, 7), None, "behind the end");
        assert_eq!(parse_auxv(&text[..30], 3), None, "cut off");
    }

    struct Nothing;
    impl Memory for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> Option<()> {
            None
        }
    }

    #[test]
    fn unreadable_memory_is_told_in_words() {
        let auxv: Vec<u8> = [3u64, 0x40, 5, 13]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert!(read_loaded(&Nothing, &auxv).is_err());
        assert!(read_loaded(&Nothing, b"").is_err());
    }
}

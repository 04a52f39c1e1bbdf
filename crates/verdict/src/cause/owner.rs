//! Who owns the anonymous mappings that grow.

use super::Owner;
use heap::memory_managers::{MemoryManagers, Runtime};
use memory::rank::Site;
use symbols::frame::Frame;

/// Parts of function names that only one owner's code has.
const RUNTIME_MARKS: [(&str, Runtime); 9] = [
    ("PyObject_Arena", Runtime::Python),
    ("_PyMem_Arena", Runtime::Python),
    ("PyObject_Malloc", Runtime::Python),
    ("pymalloc", Runtime::Python),
    ("PyObject_Calloc", Runtime::Python),
    ("cgo_mmap", Runtime::Go),
    ("runtime.", Runtime::Go),
    ("v8::", Runtime::Node),
    ("node::", Runtime::Node),
];

/// What such names begin with: other names may have these parts.
const RUNTIME_STARTS: [(&str, Runtime); 4] = [
    ("_emalloc", Runtime::Php),
    ("_erealloc", Runtime::Php),
    ("zend_mm_", Runtime::Php),
    ("erts_", Runtime::Beam),
];

const ALLOCATOR_MARKS: [(&str, &str); 12] = [
    ("_rjem_", "jemalloc"),
    ("je_pages_map", "jemalloc"),
    ("je_extent", "jemalloc"),
    ("pages_map", "jemalloc"),
    ("_mi_", "mimalloc"),
    ("mi_", "mimalloc"),
    ("snmalloc::", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("tcmalloc::", "tcmalloc"),
    ("heap.SmpAllocator", "zig smp_allocator"),
    ("heap.debug_allocator", "zig DebugAllocator"),
    ("scudo::", "scudo"),
];

/// Share of a growth whose callers must be known. Less than half will do: the probe's table of
/// mappings may be full, and it lists them without choosing.
const KNOWN_SHARE: f64 = 0.15;

/// `site`: the mapping site that grew most; `raw`: its frames, wrappers included. `known_share`: of
/// the growth, what lies in mappings whose caller is known.
pub fn owner(site: Option<&Site>, raw: &[Frame], known_share: f64, who: &MemoryManagers) -> Owner {
    let linked = who
        .allocators
        .iter()
        .find(|a| a.inside_program && !matches!(a.name.as_str(), "glibc" | "musl"));
    if site.is_some() && known_share >= KNOWN_SHARE {
        if let Some(owner) = by_frames(raw) {
            return owner;
        }
        let nameless = raw
            .iter()
            .all(|frame| frame.function.is_none() || in_libc(frame));
        return match linked {
            Some(allocator) if nameless => Owner::Linked(allocator.name.clone()),
            _ => Owner::Program,
        };
    }
    match (who.runtimes.first(), linked) {
        (_, Some(allocator)) => Owner::Linked(allocator.name.clone()),
        (Some(&runtime), None) => Owner::Runtime(runtime),
        (None, None) => Owner::Unknown,
    }
}

fn by_frames(raw: &[Frame]) -> Option<Owner> {
    if raw.iter().any(|frame| frame.module.ends_with("libjvm.so")) {
        return Some(Owner::Runtime(Runtime::Jvm));
    }
    // The owner is near the call: further out stands whoever wanted the memory.
    let names = raw
        .iter()
        .take(8)
        .filter_map(|frame| frame.function.as_deref());
    for name in names {
        let allocator = ALLOCATOR_MARKS
            .iter()
            .find(|(mark, _)| name.starts_with(mark));
        if let Some((_, allocator)) = allocator {
            return Some(Owner::Linked((*allocator).to_owned()));
        }
        let mut marks = RUNTIME_MARKS.iter();
        let mut starts = RUNTIME_STARTS.iter();
        let found = marks.find(|(mark, _)| name.contains(mark));
        let found = found.or_else(|| starts.find(|(start, _)| name.starts_with(start)));
        if let Some((_, runtime)) = found {
            return Some(Owner::Runtime(*runtime));
        }
    }
    None
}

fn in_libc(frame: &Frame) -> bool {
    frame
        .module
        .rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("libc.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        let named = |name: &&str| Frame {
            function: Some((*name).into()),
            ..Frame::default()
        };
        names.iter().map(named).collect()
    }

    #[test]
    fn the_frames_tell_the_owner() {
        let site = Site::default();
        let who = MemoryManagers::default();
        let told = |names: &[&str]| owner(Some(&site), &frames(names), 0.9, &who);
        assert_eq!(
            told(&["mmap", "_rjem_je_pages_map", "main"]),
            Owner::Linked("jemalloc".into())
        );
        assert_eq!(
            told(&["mmap", "new_arena", "_PyObject_Malloc"]),
            Owner::Runtime(Runtime::Python)
        );
        assert_eq!(
            told(&["mmap", "zend_mm_chunk_alloc", "_emalloc_320"]),
            Owner::Runtime(Runtime::Php)
        );
        assert_eq!(
            told(&["mmap", "load_certs_from_dir", "my_emalloc"]),
            Owner::Program
        );
        assert_eq!(told(&["mmap", "open_window", "main"]), Owner::Program);
        let go = MemoryManagers {
            runtimes: vec![Runtime::Go],
            ..MemoryManagers::default()
        };
        assert_eq!(owner(None, &[], 0.0, &go), Owner::Runtime(Runtime::Go));
        assert_eq!(owner(None, &[], 0.0, &who), Owner::Unknown);
    }
}

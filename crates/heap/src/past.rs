//! Libraries whose calls of malloc or free do not come by the probe: opened with RTLD_DEEPBIND, they are bound to the C
//! library's own (dlopen(3)).

use observe::fact::image::Image;
use observe::fact::linker::{Loaded, Walk, read_loaded};
use observe::fact::maps::Maps;
use observe::fact::memory::Memory;
use observe::fact::proof::is_probe;

/// Whoever allocates calls one of them.
pub const ALLOCATES: &[&str] = &["malloc", "calloc", "realloc", "posix_memalign"];
/// The functions that free one of these.
pub const FREES: &[&str] = &[
    "free",
    "realloc",
    "reallocarray",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
];

/// Names of the files of libraries whose calls of `family` lead past the probe. `auxv`: of /proc/PID/auxv.
pub fn past_the_probe(
    memory: &dyn Memory,
    auxv: &[u8],
    maps: &Maps,
    family: &[&str],
) -> Vec<String> {
    let Ok(Walk::Objects(objects)) = read_loaded(memory, auxv) else {
        return Vec::new();
    };
    let mut past: Vec<String> = objects
        .iter()
        .filter_map(|loaded| goes_past(memory, maps, loaded, family))
        .map(|path| path.rsplit('/').next().unwrap_or(path).to_owned())
        .collect();
    past.sort();
    past.dedup();
    past
}

/// The object's path, where one of its slots holds a function of another library that is not the probe. The program
/// itself is always looked up behind what is preloaded; its stubs are what the libraries' slots lead to at times.
fn goes_past<'m>(
    memory: &dyn Memory,
    maps: &'m Maps,
    loaded: &Loaded,
    family: &[&str],
) -> Option<&'m str> {
    let own = &maps.at(loaded.dynamic)?.path;
    let image = Image::read(memory, loaded.bias, loaded.dynamic)?;
    let is_allocator = image.export("malloc").is_some();
    if loaded.name.is_empty() || is_probe(own) || is_allocator {
        return None;
    }
    let mut slots = family.iter().flat_map(|name| image.call_slots(name));
    let leads_past = |slot: u64| {
        let address = memory.u64(loaded.bias.wrapping_add(slot)).unwrap_or(0);
        let target = maps.at(address).map(|file| file.path.as_str());
        target.is_some_and(|path| path != own && path.contains(".so") && !is_probe(path))
    };
    slots.any(leads_past).then_some(own)
}

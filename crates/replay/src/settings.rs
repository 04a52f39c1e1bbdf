//! Settings that an engineer would try, by allocator: each becomes an arm of the replay.
//!
//! A setting stands here when its effect is visible in a replay. Background threads run on the real clock, so
//! `background_thread` of jemalloc is left out; so are settings that trade safety.

use allocators::Recipe;

use crate::arm::Setting;

/// Settings to be tried together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    pub settings: &'static [(&'static str, &'static str)],
    /// It only matters in a program of several threads.
    pub needs_threads: bool,
}

const fn usual_of(settings: &'static [(&'static str, &'static str)]) -> Usual {
    Usual {
        settings,
        needs_threads: false,
    }
}

const fn of_threads(settings: &'static [(&'static str, &'static str)]) -> Usual {
    Usual {
        settings,
        needs_threads: true,
    }
}

/// The trim and mmap thresholds at their start values: setting either stops glibc from raising them.
const GLIBC: &[Usual] = &[
    of_threads(&[("MALLOC_ARENA_MAX", "2")]),
    usual_of(&[
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ]),
    of_threads(&[("MALLOC_ARENA_MAX", "1")]),
    of_threads(&[("MALLOC_ARENA_MAX", "4")]),
    usual_of(&[("glibc.malloc.tcache_count", "0")]),
    of_threads(&[
        ("MALLOC_ARENA_MAX", "2"),
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ]),
];

const JEMALLOC: &[Usual] = &[
    usual_of(&[("dirty_decay_ms", "1000"), ("muzzy_decay_ms", "0")]),
    usual_of(&[("dirty_decay_ms", "0"), ("muzzy_decay_ms", "0")]),
    of_threads(&[("narenas", "2")]),
];

/// The variables of mimalloc 2.1 and later, and those of 2.0 for the same.
const MIMALLOC: &[Usual] = &[
    usual_of(&[("MIMALLOC_PURGE_DELAY", "0")]),
    usual_of(&[("MIMALLOC_PURGE_DELAY", "1000")]),
    usual_of(&[("MIMALLOC_ARENA_EAGER_COMMIT", "0")]),
    usual_of(&[("MIMALLOC_DECOMMIT_DELAY", "0")]),
    usual_of(&[("MIMALLOC_PAGE_RESET", "1")]),
];

const GPERFTOOLS: &[Usual] = &[
    usual_of(&[("TCMALLOC_RELEASE_RATE", "10")]),
    usual_of(&[("TCMALLOC_AGGRESSIVE_DECOMMIT", "1")]),
    of_threads(&[("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "4194304")]),
];

/// What is worth trying on an allocator, the likeliest first: of those settings that it reads. `threads`: of the
/// recorded program.
pub fn usual(recipe: &Recipe, threads: usize) -> impl Iterator<Item = &'static Usual> {
    let all = match recipe.name.as_str() {
        "glibc" => GLIBC,
        "jemalloc" => JEMALLOC,
        "mimalloc" => MIMALLOC,
        "gperftools" => GPERFTOOLS,
        _ => &[],
    };
    let is_read = move |usual: &&Usual| usual.as_settings().iter().all(|s| reads(recipe, s));
    all.iter()
        .filter(move |usual| threads > 1 || !usual.needs_threads)
        .filter(is_read)
}

/// Whether this version of the allocator reads the setting.
pub(crate) fn reads(recipe: &Recipe, setting: &Setting) -> bool {
    setting.variable(Some(recipe), &recipe.name).is_ok()
}

impl Usual {
    pub fn as_settings(&self) -> Vec<Setting> {
        let setting = |(key, value): &(&str, &str)| Setting {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        self.settings.iter().map(setting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_by_a_version_of_its_allocator() {
        for (name, all) in [
            ("glibc", GLIBC),
            ("jemalloc", JEMALLOC),
            ("mimalloc", MIMALLOC),
            ("gperftools", GPERFTOOLS),
        ] {
            let of_name = || allocators::catalogue().iter().filter(|r| r.name == name);
            for one in all {
                let tried = |recipe: &Recipe| usual(recipe, 2).any(|found| found == one);
                assert!(of_name().any(tried), "{name}: {:?}", one.settings);
            }
        }
    }

    #[test]
    fn arenas_are_not_tried_on_one_thread() {
        let glibc = allocators::catalogue().iter().find(|r| r.name == "glibc");
        let of = |threads| usual(glibc.unwrap(), threads).collect::<Vec<_>>();
        let has_arenas = |all: &[&Usual]| {
            let mut keys = all.iter().flat_map(|one| one.settings);
            keys.any(|(key, _)| *key == "MALLOC_ARENA_MAX")
        };
        assert!(has_arenas(&of(2)) && !has_arenas(&of(1)) && !of(1).is_empty());
    }
}

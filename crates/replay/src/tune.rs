//! The search for settings of one allocator: which of them are worth their CPU, by replays.
//!
//! In: an allocator, and what each replay measured. Out: settings to be tried next, and those on the front: no other
//! has both less memory and less CPU. Called by: `highwater replay --tune`.
//!
//! The search is a multi-objective tree-structured Parzen estimator (Ozaki et al. 2020, "Multiobjective tree-structured
//! Parzen estimator for computationally expensive optimization problems"), by the crate `optimizer`.

use allocators::Recipe;
use optimizer::multi_objective::MultiObjectiveStudy;
use optimizer::parameter::{CategoricalParam, IntParam, Parameter};
use optimizer::sampler::motpe::MotpeSampler;
use optimizer::{Direction, Trial};

use crate::arm::Setting;
use crate::settings::reads;

/// A setting and where its values are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    pub key: &'static str,
    pub values: Values,
    /// It only matters in a program of several threads.
    pub needs_threads: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers from the first to the second, evenly on the logarithm. The first is at least 1.
    Log(i64, i64),
    /// As they are written.
    OneOf(&'static [&'static str]),
}

const fn knob(key: &'static str, values: Values) -> Knob {
    Knob {
        key,
        values,
        needs_threads: false,
    }
}

const fn of_threads(key: &'static str, values: Values) -> Knob {
    Knob {
        key,
        values,
        needs_threads: true,
    }
}

const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;

/// Bounds: the thresholds of mallopt(3), up to its largest `M_MMAP_THRESHOLD` of 32 MiB on 64 bits.
const GLIBC: &[Knob] = &[
    of_threads("MALLOC_ARENA_MAX", Values::Log(1, 64)),
    knob("MALLOC_TRIM_THRESHOLD_", Values::Log(64 * KIB, 64 * MIB)),
    knob("MALLOC_MMAP_THRESHOLD_", Values::Log(64 * KIB, 32 * MIB)),
    knob("MALLOC_TOP_PAD_", Values::Log(4 * KIB, 16 * MIB)),
    knob(
        "glibc.malloc.tcache_count",
        Values::OneOf(&["0", "7", "32", "127"]),
    ),
];

/// Decay times up to six times the default of 10 s; jemalloc(3).
const JEMALLOC: &[Knob] = &[
    knob("dirty_decay_ms", Values::OneOf(DECAYS)),
    knob("muzzy_decay_ms", Values::OneOf(DECAYS)),
    of_threads("narenas", Values::Log(1, 64)),
    knob(
        "lg_tcache_max",
        Values::OneOf(&["10", "12", "13", "15", "18", "20"]),
    ),
    knob("tcache", Values::OneOf(&["true", "false"])),
];
const DECAYS: &[&str] = &["0", "100", "1000", "3000", "10000", "60000"];

/// Of mimalloc 2.1 and later, and of 2.0 for the same; its readme, "Environment options".
const MIMALLOC: &[Knob] = &[
    knob("MIMALLOC_PURGE_DELAY", Values::OneOf(DELAYS)),
    knob("MIMALLOC_PURGE_DECOMMITS", Values::OneOf(&["0", "1"])),
    knob(
        "MIMALLOC_ARENA_EAGER_COMMIT",
        Values::OneOf(&["0", "1", "2"]),
    ),
    knob(
        "MIMALLOC_EAGER_COMMIT_DELAY",
        Values::OneOf(&["0", "1", "4"]),
    ),
    knob("MIMALLOC_DECOMMIT_DELAY", Values::OneOf(DELAYS)),
    knob("MIMALLOC_PAGE_RESET", Values::OneOf(&["0", "1"])),
];
const DELAYS: &[&str] = &["0", "1", "10", "100", "1000", "10000"];

/// Of gperftools' documentation of TCMalloc, "Modifying Runtime Behavior".
const GPERFTOOLS: &[Knob] = &[
    knob(
        "TCMALLOC_RELEASE_RATE",
        Values::OneOf(&["0", "0.1", "1", "3", "10"]),
    ),
    knob("TCMALLOC_AGGRESSIVE_DECOMMIT", Values::OneOf(&["0", "1"])),
    of_threads(
        "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
        Values::Log(512 * KIB, 256 * MIB),
    ),
];

/// What can be searched of an allocator: of its settings those that it reads, and that a replay shows. `threads`: of
/// the recorded program.
pub fn knobs(recipe: &Recipe, threads: usize) -> Vec<Knob> {
    let all = match recipe.name.as_str() {
        "glibc" => GLIBC,
        "jemalloc" => JEMALLOC,
        "mimalloc" => MIMALLOC,
        "gperftools" => GPERFTOOLS,
        _ => &[],
    };
    let is_read = |knob: &Knob| {
        let setting = Setting {
            key: knob.key.to_owned(),
            value: String::new(),
        };
        reads(recipe, &setting)
    };
    all.iter()
        .filter(|knob| threads > 1 || !knob.needs_threads)
        .filter(|knob| is_read(knob))
        .copied()
        .collect()
}

/// A knob as the optimiser has it.
enum Param {
    Number(IntParam),
    Word(CategoricalParam<&'static str>),
}

/// A search under way. The same seed and the same measurements give the same settings.
pub struct Search {
    knobs: Vec<(Knob, Param)>,
    study: MultiObjectiveStudy,
    asked: Option<Trial>,
}

impl Search {
    /// `seed`: of everything random in it.
    pub fn new(knobs: Vec<Knob>, seed: u64) -> Search {
        let param = |knob: &Knob| match knob.values {
            Values::Log(from, to) => {
                Param::Number(IntParam::new(from, to).log_scale().name(knob.key))
            }
            Values::OneOf(words) => {
                Param::Word(CategoricalParam::new(words.to_vec()).name(knob.key))
            }
        };
        let sampler = MotpeSampler::with_seed(seed);
        Search {
            knobs: knobs.into_iter().map(|knob| (knob, param(&knob))).collect(),
            study: MultiObjectiveStudy::with_sampler(vec![Direction::Minimize; 2], sampler),
            asked: None,
        }
    }

    /// Settings to try next; `None` where there is nothing to set.
    pub fn ask(&mut self) -> Option<Vec<Setting>> {
        if self.knobs.is_empty() {
            return None;
        }
        let mut trial = self.study.ask();
        let mut settings = Vec::new();
        for (knob, param) in &self.knobs {
            let value = match param {
                Param::Number(number) => round(number.suggest(&mut trial).ok()?).to_string(),
                Param::Word(word) => word.suggest(&mut trial).ok()?.to_owned(),
            };
            let key = knob.key.to_owned();
            settings.push(Setting { key, value });
        }
        self.asked = Some(trial);
        Some(settings)
    }

    /// What the settings asked for last measured: mean memory in bytes and CPU time in nanoseconds; `None`: they did
    /// not run to the end, and are asked for again only by chance.
    pub fn tell(&mut self, measured: Option<(f64, f64)>) {
        let Some(trial) = self.asked.take() else {
            return;
        };
        let result = measured
            .map(|(bytes, ns)| vec![bytes, ns])
            .ok_or("it did not finish");
        // Only a wrong number of values is refused.
        let _ = self.study.tell(trial, result);
    }
}

/// Two significant digits are what a person would write, and more than a replay can tell apart.
fn round(value: i64) -> i64 {
    let mut unit = 1;
    while value / unit >= 100 {
        unit *= 10;
    }
    value / unit * unit
}

/// Memory and CPU that differ by less, as shares, are alike: replays of one arm differ by as much (0.1 to 1 % of
/// memory, several per cent of CPU).
const ALIKE: (f64, f64) = (0.01, 0.05);

/// Places of the points on the front, the least memory first: (mean bytes, CPU nanoseconds) of which no other point has
/// less of both. Points that are alike count as one: a last hundredth of the memory is not bought with twice the CPU
/// (epsilon-dominance, Laumanns et al. 2002, "Combining convergence and diversity in evolutionary multiobjective
/// optimization").
pub fn front(points: &[(f64, f64)]) -> Vec<usize> {
    let cell = |value: f64, share: f64| (value.max(1.0).ln() / share.ln_1p()).floor();
    let cells: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (cell(point.0, ALIKE.0), cell(point.1, ALIKE.1)))
        .collect();
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| {
        let by = |of: fn(&(f64, f64)) -> f64| of(&cells[*a]).total_cmp(&of(&cells[*b]));
        by(|cell| cell.0)
            .then(by(|cell| cell.1))
            .then(points[*a].0.total_cmp(&points[*b].0))
    });
    let mut least = f64::INFINITY;
    order.retain(|at| {
        let cpu = cells[*at].1;
        let is_better = cpu < least;
        least = least.min(cpu);
        is_better
    });
    order
}

/// At most `count` of them, spread over the front with both of its ends.
pub fn spread(front: &[usize], count: usize) -> Vec<usize> {
    match (front.len(), count) {
        (_, 0) => Vec::new(),
        (0..=1, _) | (_, 1) => front.iter().take(1).copied().collect(),
        (all, count) if all <= count => front.to_vec(),
        (all, count) => (0..count)
            .map(|n| front[n * (all - 1) / (count - 1)])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(name: &str) -> &'static Recipe {
        let mut all = allocators::catalogue().iter().filter(|r| r.name == name);
        all.next().expect("a recipe")
    }

    #[test]
    fn every_knob_is_read_by_a_version_of_its_allocator() {
        for (name, all) in [
            ("glibc", GLIBC),
            ("jemalloc", JEMALLOC),
            ("mimalloc", MIMALLOC),
            ("gperftools", GPERFTOOLS),
        ] {
            let of_name = || allocators::catalogue().iter().filter(|r| r.name == name);
            for one in all {
                let has = |recipe: &Recipe| knobs(recipe, 2).contains(one);
                assert!(of_name().any(has), "{name}: {}", one.key);
            }
        }
    }

    #[test]
    fn arenas_are_not_searched_on_one_thread() {
        let keys = |threads| -> Vec<&str> {
            let all = knobs(recipe("glibc"), threads);
            all.iter().map(|knob| knob.key).collect()
        };
        assert!(keys(2).contains(&"MALLOC_ARENA_MAX"));
        assert!(!keys(1).contains(&"MALLOC_ARENA_MAX") && !keys(1).is_empty());
    }

    #[test]
    fn the_front_has_no_point_that_another_beats() {
        let points = [
            (5.0, 5.0),
            (10.0, 90.0),
            (30.0, 40.0),
            (30.0, 30.0),
            (90.0, 10.0),
            (90.0, 10.0),
            (80.0, 30.0),
        ];
        let million = points.map(|(bytes, ns)| (bytes * 1e6, ns * 1e6));
        assert_eq!(front(&million[1..]), [0, 2, 3]);
        assert_eq!(front(&million), [0]);
        assert_eq!(front(&[]), Vec::<usize>::new());
        assert_eq!(front(&[(0.0, 0.0), (f64::NAN, 1.0)]).len(), 1);
    }

    #[test]
    fn a_hundredth_of_the_memory_is_not_bought_with_twice_the_cpu() {
        // 66.2 MiB at 0.85 of the CPU, 66.3 MiB at 0.39.
        let points = [(66.21e6, 0.85e9), (66.25e6, 0.39e9), (70.8e6, 0.33e9)];
        assert_eq!(front(&points), [1, 2]);
    }

    #[test]
    fn a_few_of_the_front_hold_both_ends() {
        let all: Vec<usize> = (10..30).collect();
        assert_eq!(spread(&all, 3), [10, 19, 29]);
        assert_eq!(spread(&all[..2], 5), [10, 11]);
        assert_eq!(
            (spread(&all, 1), spread(&all, 0), spread(&[], 4)),
            (vec![10], vec![], vec![])
        );
    }

    /// An allocator whose memory grows with the decay and whose CPU falls with it; one knob does nothing.
    fn measure(settings: &[Setting]) -> (f64, f64) {
        let of = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key);
            setting.map_or(0.0, |setting| setting.value.parse().unwrap_or(0.0))
        };
        let trim: f64 = of("MALLOC_TRIM_THRESHOLD_");
        let pad: f64 = of("MALLOC_TOP_PAD_");
        (trim + pad, 1e9 / trim + 1e-3 * pad)
    }

    #[test]
    fn the_search_beats_chance_and_repeats_itself() {
        let run = |seed: u64| {
            let mut search = Search::new(knobs(recipe("glibc"), 1), seed);
            let mut points = Vec::new();
            for _ in 0..80 {
                let settings = search.ask().expect("settings");
                let measured = measure(&settings);
                search.tell(Some(measured));
                points.push((settings, measured));
            }
            points
        };
        assert_eq!(run(7), run(7));
        // The pad costs both: settings on the front have little of it. By chance its median is 256 KiB.
        let mut pads: Vec<f64> = Vec::new();
        for seed in 0..10 {
            let points = run(seed);
            let later = points[40..].iter().flat_map(|(settings, _)| settings);
            pads.extend(
                later
                    .filter(|setting| setting.key == "MALLOC_TOP_PAD_")
                    .filter_map(|setting| setting.value.parse::<f64>().ok()),
            );
        }
        pads.sort_by(f64::total_cmp);
        let median = pads[pads.len() / 2];
        assert!(median < 128.0 * 1024.0, "the median pad is {median}");
    }

    #[test]
    fn settings_that_fail_end_no_search() {
        let mut search = Search::new(knobs(recipe("jemalloc"), 2), 1);
        for _ in 0..30 {
            assert!(search.ask().is_some());
            search.tell(None);
        }
        search.tell(Some((1.0, 1.0)));
        assert!(Search::new(Vec::new(), 1).ask().is_none());
    }

    #[test]
    fn numbers_are_rounded_as_people_write_them() {
        assert_eq!([7, 99, 131_072, 1].map(round), [7, 99, 130_000, 1]);
    }
}

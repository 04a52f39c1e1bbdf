//! `make bench-verdict`: how often the verdicts are right, on labelled series of many families.
//!
//! Arguments: `--seed N` (default 1), `--each N` series of every family (default 40), `--set
//! dev|heldout|fresh|unseen|exam|later|outside|strange|farther|plain|afresh|twelfth|thirteenth|fourteenth|fifteenth|arms|stop|all`, `--family TEXT` only those whose name contains it, `--wrong`
//! lists what was wrong, `--calls` every call as CSV.

mod afresh;
mod arms;
mod bound;
mod case;
mod dice;
mod exam;
mod families;
mod farther;
mod fifteenth;
mod fleets;
mod fourteenth;
mod fresh;
mod heldout;
mod later;
mod naive;
mod outside;
mod plain;
mod plain_turns;
mod scene;
mod score;
mod stops;
mod strange;
mod stranger;
mod thirteenth;
mod twelfth;
mod unseen;

use std::collections::BTreeMap;

use case::Case;
use score::{PARTS, Score};
use series::estimate::Estimate;
use series::series::Series;
use verdict::series::{SeriesVerdict, judge};
use verdict::{Label, Rules};

struct Options {
    seed: u64,
    each: u64,
    set: String,
    family: String,
    wrong: bool,
    /// Another `growing_from` than the published one.
    side: Option<f64>,
    /// Lists every call with its weights, as CSV.
    calls: bool,
    /// Seed of one case (as `--wrong` prints it) to be written as CSV.
    dump: Option<u64>,
}

fn options() -> Options {
    let mut o = Options {
        seed: 1,
        each: 40,
        set: "all".to_owned(),
        family: String::new(),
        wrong: false,
        side: None,
        calls: false,
        dump: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--seed" => o.seed = value().parse().unwrap_or(1),
            "--each" => o.each = value().parse().unwrap_or(40),
            "--set" => o.set = value(),
            "--family" => o.family = value(),
            "--wrong" => o.wrong = true,
            "--calls" => o.calls = true,
            "--side" => o.side = value().parse().ok(),
            "--dump" => o.dump = value().parse().ok(),
            other => {
                eprintln!("unknown argument {other}; see the head of bench/verdict/main.rs");
                std::process::exit(2);
            }
        }
    }
    o
}

/// A set of families: its size, the name of a family, and the maker of a case.
type Set = (
    &'static str,
    usize,
    fn(usize) -> &'static str,
    fn(usize, u64) -> Case,
);

fn sets() -> Vec<Set> {
    vec![
        (
            "dev",
            families::FAMILIES.len(),
            |i| families::FAMILIES[i].0,
            families::make,
        ),
        (
            "heldout",
            heldout::FAMILIES.len(),
            |i| heldout::FAMILIES[i].0,
            heldout::make,
        ),
        (
            "fresh",
            fresh::FAMILIES.len(),
            |i| fresh::FAMILIES[i].0,
            fresh::make,
        ),
        (
            "unseen",
            unseen::FAMILIES.len(),
            |i| unseen::FAMILIES[i].0,
            unseen::make,
        ),
        (
            "exam",
            exam::FAMILIES.len(),
            |i| exam::FAMILIES[i].0,
            exam::make,
        ),
        (
            "later",
            later::FAMILIES.len(),
            |i| later::FAMILIES[i].0,
            later::make,
        ),
        (
            "outside",
            outside::FAMILIES.len(),
            |i| outside::FAMILIES[i].0,
            outside::make,
        ),
        (
            "strange",
            strange::FAMILIES.len(),
            |i| strange::FAMILIES[i].0,
            strange::make,
        ),
        (
            "farther",
            farther::FAMILIES.len(),
            |i| farther::FAMILIES[i].0,
            farther::make,
        ),
        (
            "plain",
            plain::FAMILIES.len(),
            |i| plain::FAMILIES[i].0,
            plain::make,
        ),
        (
            "afresh",
            afresh::FAMILIES.len(),
            |i| afresh::FAMILIES[i].0,
            afresh::make,
        ),
        (
            "twelfth",
            twelfth::FAMILIES.len(),
            |i| twelfth::FAMILIES[i].0,
            twelfth::make,
        ),
        (
            "thirteenth",
            thirteenth::FAMILIES.len(),
            |i| thirteenth::FAMILIES[i].0,
            thirteenth::make,
        ),
        (
            "fourteenth",
            fourteenth::FAMILIES.len(),
            |i| fourteenth::FAMILIES[i].0,
            fourteenth::make,
        ),
        (
            "fifteenth",
            fifteenth::FAMILIES.len(),
            |i| fifteenth::FAMILIES[i].0,
            fifteenth::make,
        ),
    ]
}

fn prefix(series: &Series, part: f64) -> Series {
    let lo = series
        .points
        .iter()
        .map(|p| p.t_s)
        .fold(f64::INFINITY, f64::min);
    let hi = series
        .points
        .iter()
        .map(|p| p.t_s)
        .fold(f64::NEG_INFINITY, f64::max);
    let until = lo + part * (hi - lo);
    Series {
        id: series.id.clone(),
        points: series
            .points
            .iter()
            .filter(|p| p.t_s <= until)
            .copied()
            .collect(),
        restarts_s: series
            .restarts_s
            .iter()
            .filter(|t| **t <= until)
            .copied()
            .collect(),
        limit: series.limit,
    }
}

/// The part of the run up to the last reading before `part`: in a gap nothing is seen of what goes on.
fn seen(series: &Series, part: f64) -> f64 {
    let times = || series.points.iter().map(|p| p.t_s);
    let lo = times().fold(f64::INFINITY, f64::min);
    let hi = times().fold(f64::NEG_INFINITY, f64::max);
    let until = lo + part * (hi - lo);
    let last = times().filter(|t| *t <= until).fold(lo, f64::max);
    (last - lo) / (hi - lo)
}

fn run_family(set: &Set, family: usize, o: &Options, score: &mut Score) {
    let mut rules = Rules::default();
    rules.growing_from = o.side.unwrap_or(rules.growing_from);
    for i in 0..o.each {
        let seed = o.seed.wrapping_mul(1_000_003) ^ ((family as u64) << 32) ^ i;
        if o.dump.is_some_and(|wanted| wanted != seed) {
            continue;
        }
        let case = (set.3)(family, seed);
        if o.dump.is_some() {
            for p in &case.series.points {
                println!("{},{}", p.t_s, p.value);
            }
        }
        score.count_naive(&case);
        let at: Vec<SeriesVerdict> = PARTS
            .iter()
            .map(|part| judge(&prefix(&case.series, *part), &rules))
            .collect();
        let seen = PARTS.map(|part| seen(&case.series, part));
        score.count(&case, &at, &seen);
        if o.calls {
            list_calls(&case, &at, &seen);
        }
        let full = &at[PARTS.len() - 1];
        let right = case.truth.right_at(1.0, full.label);
        if o.wrong {
            for ((v, part), seen) in at.iter().zip(PARTS).zip(seen).take(PARTS.len() - 1) {
                if case.truth.wrong_side(seen, v.label) {
                    println!(
                        "EARLY {} seed {seed} {part} {} {:.2} {}",
                        case.family,
                        v.label.word(),
                        v.confidence,
                        weights(v)
                    );
                }
            }
        }
        if o.wrong && !right {
            explain(&case, seed, &at);
        }
        if o.wrong && case.truth.grows && !right && full.label != Label::Growing {
            let clean = dice::muted(|| (set.3)(family, seed));
            say_bound(set.0, &case, full, &clean);
        }
    }
}

/// One line for a missed growth: what was said, and how far it stands off to somebody who knows the noise.
fn say_bound(set: &str, case: &Case, said: &SeriesVerdict, clean: &Case) {
    let of = bound::bound(case, clean);
    let far = of.map_or("- -".to_owned(), |b| {
        format!("{:.1} {:.1}", b.constant, b.bounded)
    });
    println!(
        "MISSED {set} / {} / {} / z {far} / {}",
        case.family,
        said.label.word(),
        weights(said)
    );
}

/// The families of shapes that carry a tenth of the weight or more.
fn weights(v: &SeriesVerdict) -> String {
    let heavy = v
        .evidence
        .iter()
        .filter(|(name, weight)| name.starts_with("weight_") && **weight >= 0.1);
    let said = heavy.map(|(name, weight)| format!("{}={weight:.2}", &name["weight_".len()..]));
    said.collect::<Vec<_>>().join(" ")
}

/// One line for every call: what was said, whether it was right or on the wrong side, and the evidence.
fn list_calls(case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
    for ((v, part), seen) in at.iter().zip(PARTS).zip(seen) {
        let of = |name: &str| v.evidence.get(name).copied().unwrap_or(0.0);
        let numbers: Vec<String> = NUMBERS.iter().map(|n| format!("{:.4}", of(n))).collect();
        println!(
            "CALL,{},{part},{},{},{},{},{},{:.4},{}",
            case.family,
            case.truth.grows,
            v.label.word(),
            case.truth.right_at(*seen, v.label),
            case.truth.wrong_side(*seen, v.label),
            v.period_s.is_some(),
            steepest(v, of("window_s")),
            numbers.join(",")
        );
    }
}

/// High end of the slope's interval over the window, as a share of the level.
fn steepest(v: &SeriesVerdict, window_s: f64) -> f64 {
    let of = |(slope, level): (Estimate, Estimate)| slope.hi * window_s / 3600.0 / level.value;
    v.slope_per_hour.zip(v.level).map_or(0.0, of)
}

/// Evidence that [`list_calls`] prints, in this order.
const NUMBERS: [&str; 13] = [
    "n",
    "bins",
    "window_s",
    "incarnations",
    "growth_share",
    "p_flat",
    "p_plateauing",
    "p_growing",
    "p_stepped",
    "p_open",
    "weight_line",
    "weight_fill",
    "weight_steps",
];

fn explain(case: &Case, seed: u64, at: &[SeriesVerdict]) {
    let full = &at[at.len() - 1];
    let labels: Vec<&str> = at.iter().map(|v| v.label.word()).collect();
    println!(
        "{} seed {seed} n {} want {:?} said {:?} {:.2} truth slope {:?} said {:?}\n  {labels:?}\n  {:?}",
        case.family,
        case.series.points.len(),
        case.truth.accept,
        full.label,
        full.confidence,
        case.truth.slope_per_hour,
        full.slope_per_hour,
        full.evidence
            .iter()
            .filter(|(k, v)| !k.starts_with("dropped") && **v > 0.01)
            .map(|(k, v)| format!("{k}={v:.3}"))
            .collect::<Vec<_>>()
    );
}

fn main() {
    let o = options();
    if o.set == "all" || o.set == "arms" {
        println!("{}\n", arms::table(&arms::run(o.seed, 5 * o.each, o.wrong)));
        println!("{}", fleets::table(o.seed, o.each, o.wrong));
    }
    if o.set == "all" || o.set == "stop" {
        println!("{}", stops::table(o.seed, 5 * o.each));
    }
    for set in sets() {
        if o.set != "all" && o.set != set.0 {
            continue;
        }
        let chosen: Vec<usize> = (0..set.1)
            .filter(|f| set.2(*f).contains(&o.family))
            .collect();
        let started = std::time::Instant::now();
        let mut scores: BTreeMap<usize, Score> = BTreeMap::new();
        std::thread::scope(|scope| {
            let halves = [0, 1].map(|half| {
                let (set, o, chosen) = (&set, &o, &chosen);
                scope.spawn(move || {
                    let mine = chosen.iter().skip(half).step_by(2);
                    mine.map(|&family| {
                        let mut score = Score::default();
                        run_family(set, family, o, &mut score);
                        (family, score)
                    })
                    .collect::<Vec<_>>()
                })
            });
            for half in halves {
                scores.extend(half.join().unwrap_or_default());
            }
        });
        println!(
            "== {} families, seed {}, {} series each",
            set.0, o.seed, o.each
        );
        println!("{}", score::HEAD);
        let mut total = Score::default();
        for (family, s) in &scores {
            println!("{}", score::line(set.2(*family), s));
            total.add(s);
        }
        println!("{}", score::line("ALL", &total));
        println!("{}", score::calibration(&total));
        println!("{}", score::naive_table(&total));
        let judged = total.cases * PARTS.len() as f64;
        let each = 2.0 * started.elapsed().as_secs_f64() * 1e3 / judged;
        println!("about {each:.2} ms a verdict on one core\n");
    }
}

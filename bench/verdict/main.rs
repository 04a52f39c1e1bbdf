//! `make bench-verdict`: how often the verdicts are right, on labelled series of the families in corpus/series.
//!
//! README.md has its arguments.

mod arms;
mod dice;
mod dirt;
mod export;
mod family;
mod load;
mod made;
mod naive;
mod noise;
mod rivals;
mod score;
mod shape;
mod stops;

use std::path::PathBuf;
use std::process::ExitCode;

use dice::Dice;
use family::{Family, Kind};
use made::Case;
use score::{PARTS, Score};
use series::series::Series;
use verdict::series::{SeriesVerdict, judge};
use verdict::{Label, Rules};

struct Options {
    seed: u64,
    each: u64,
    only: String,
    wrong: bool,
    csv: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        seed: 1,
        each: 40,
        only: String::new(),
        wrong: false,
        csv: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match arg.as_str() {
            "--seed" => o.seed = number(value()?)?,
            "--each" => o.each = number(value()?)?,
            "--only" => o.only = value()?,
            "--wrong" => o.wrong = true,
            "--csv" => o.csv = Some(value()?.into()),
            other => {
                return Err(format!(
                    "unknown argument {other}; see bench/verdict/README.md"
                ));
            }
        }
    }
    Ok(o)
}

fn main() -> ExitCode {
    match options().and_then(|o| run(&o)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::from(2)
        }
    }
}

fn run(o: &Options) -> Result<(), String> {
    let mut kinds = family::load()?;
    let wanted = |kind: &str, name: &str| kind.contains(&o.only) || name.contains(&o.only);
    for kind in &mut kinds {
        kind.families.retain(|name, _| wanted(&kind.name, name));
    }
    kinds.retain(|kind| !kind.families.is_empty());
    let (arms, single): (Vec<Kind>, Vec<Kind>) =
        kinds.into_iter().partition(|kind| kind.name == "arms");
    if let Some(folder) = &o.csv {
        return export::write(folder, &single, o.seed, o.each).map_err(|e| e.to_string());
    }
    if !single.is_empty() {
        print_series(&single, o);
    }
    for kind in &arms {
        println!(
            "{}",
            arms::table(kind.families.iter(), o.seed, o.each, o.wrong)
        );
    }
    if wanted("stops", "stops") {
        println!("{}", stops::table(o.seed, 5 * o.each));
    }
    Ok(())
}

fn print_series(kinds: &[Kind], o: &Options) {
    let started = std::time::Instant::now();
    let (mut total, mut decidable) = (Score::default(), Score::default());
    println!("seed {}, {} series of each family", o.seed, o.each);
    for kind in kinds {
        println!("\n{}", score::head());
        let mut all = Score::default();
        for (name, score) in scores(kind, o) {
            println!("{}", score::line(&name, &score));
            all.add(&score);
            if kind.families[&name].truth.decidable {
                decidable.add(&score);
            }
        }
        println!("{}", score::line(&format!("ALL {}", kind.name), &all));
        total.add(&all);
    }
    println!("\n{}", score::head());
    println!("{}", score::line("ALL", &total));
    println!("{}", score::line("ALL that is decidable", &decidable));
    println!("\n{}", score::confusion(&total));
    println!("{}", score::calibration(&total));
    println!("{}", score::naive_table(&total));
    println!("{:.0} s\n", started.elapsed().as_secs_f64());
}

/// Scores of the families of one file, by name, counted on two threads.
fn scores(kind: &Kind, o: &Options) -> Vec<(String, Score)> {
    let mut scores: Vec<(String, Score)> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                let mine = kind.families.iter().skip(half).step_by(2);
                mine.map(|(name, family)| (name.clone(), score(name, family, o)))
                    .collect::<Vec<_>>()
            })
        });
        let joined = halves.map(|half| half.join().expect("no family panics"));
        joined.into_iter().flatten().collect()
    });
    scores.sort_by(|a, b| a.0.cmp(&b.0));
    scores
}

fn score(name: &str, family: &Family, o: &Options) -> Score {
    let mut score = Score::default();
    let rules = Rules::default();
    for number in 0..o.each {
        let case = made::make(family, &mut Dice::of(o.seed, name, number));
        let at = PARTS.map(|part| judge(&prefix(&case.series, part), &rules));
        let seen = PARTS.map(|part| seen(&case.series, part));
        score.count(&case, &at, &seen);
        if o.wrong {
            explain(name, number, &case, &at, &seen);
        }
    }
    score
}

fn ends(series: &Series) -> (f64, f64) {
    let times = series.points.iter().map(|p| p.t_s);
    times.fold((f64::INFINITY, f64::NEG_INFINITY), |e, t| {
        (e.0.min(t), e.1.max(t))
    })
}

fn prefix(series: &Series, part: f64) -> Series {
    let (lo, hi) = ends(series);
    let until = lo + part * (hi - lo);
    let mut seen = series.clone();
    seen.points.retain(|p| p.t_s <= until);
    seen.restarts_s.retain(|t| *t <= until);
    seen
}

/// The part of the run up to the last reading before `part`: in a gap nothing is seen of what goes on.
fn seen(series: &Series, part: f64) -> f64 {
    let (lo, hi) = ends(series);
    let until = lo + part * (hi - lo);
    let times = series.points.iter().map(|p| p.t_s);
    let last = times.filter(|t| *t <= until).fold(lo, f64::max);
    (last - lo) / (hi - lo)
}

fn explain(name: &str, number: u64, case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
    let full = &at[at.len() - 1];
    for ((v, part), seen) in at.iter().zip(PARTS).zip(seen).take(PARTS.len() - 1) {
        if case.truth.wrong_side(*seen, v.label) {
            println!(
                "EARLY {name} {number} at {part}: {} {:.2}",
                v.label.word(),
                v.confidence
            );
        }
    }
    if case.truth.right_at(1.0, full.label) {
        return;
    }
    let kind = match case.truth.grows && full.label != Label::Growing {
        true => "MISSED",
        false => "WRONG",
    };
    let labels: Vec<&str> = at.iter().map(|v| v.label.word()).collect();
    let heavy = full
        .evidence
        .iter()
        .filter(|(k, v)| !k.starts_with("dropped") && **v > 0.01);
    let heavy: Vec<String> = heavy.map(|(k, v)| format!("{k}={v:.3}")).collect();
    println!(
        "{kind} {name} {number}: {} readings, noise {:.4}, true {:?}, slope {:?}, printed {:?}\n  {labels:?}\n  {}",
        case.series.points.len(),
        case.deviation,
        case.truth.accept,
        case.truth.slope_per_hour,
        full.slope_per_hour,
        heavy.join(" ")
    );
}

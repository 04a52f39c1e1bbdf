//! Counts of right and wrong verdicts, and the tables that show them.

use std::collections::BTreeMap;

use verdict::Label;
use verdict::series::SeriesVerdict;

use crate::made::Case;
use crate::naive::{self, RULES};

/// Parts of the run at which an early verdict is asked for.
pub const PARTS: [f64; 8] = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];

/// A share: how many, of how many.
#[derive(Debug, Clone, Copy, Default)]
struct Rate(f64, f64);

impl Rate {
    fn count(&mut self, is: bool) {
        self.0 += f64::from(u8::from(is));
        self.1 += 1.0;
    }

    fn text(self) -> String {
        match self.1 > 0.0 {
            true => format!("{:.3}", self.0 / self.1),
            false => "-".to_owned(),
        }
    }
}

const COLUMNS: [&str; 11] = [
    "right", "insuf", "side", "false", "missed", "slope", "asym", "part", "early", "seen",
    "/series",
];
const RIGHT: usize = 0;
const INSUFFICIENT: usize = 1;
const SIDE: usize = 2;
const FALSE_ALARMS: usize = 3;
const MISSED: usize = 4;
const SLOPE_COVERED: usize = 5;
const ASYMPTOTE_COVERED: usize = 6;
/// Part of the run from which on the verdict is right.
const PART: usize = 7;
/// Early calls on the wrong side of the whole run; of these, what is wrong by the part that was seen as well.
const EARLY: usize = 8;
const EARLY_SEEN: usize = 9;
const SERIES_EARLY: usize = 10;

/// Counts of one family, or of all.
#[derive(Debug, Clone, Default)]
pub struct Score {
    rates: [Rate; COLUMNS.len()],
    /// Per twentieth of confidence: right.
    calibration: BTreeMap<u32, Rate>,
    /// True label (the first of those that are right) and printed label: series.
    confusion: BTreeMap<(&'static str, &'static str), f64>,
    /// Per naive rule: right side, false alarms, missed.
    naive: [[Rate; 3]; RULES.len()],
}

impl Score {
    /// Counts one case with the verdicts at every part of [`PARTS`]; `seen` are those parts up to the last reading.
    pub fn count(&mut self, case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
        let Some(full) = at.last() else { return };
        let truth = &case.truth;
        let right = truth.right_at(1.0, full.label);
        let unsure = full.label == Label::Insufficient;
        let grows = full.label == Label::Growing;
        // Growth that may be called plateauing (a logarithm) is on either side.
        let side = right || (grows == truth.grows && !unsure);
        self.rates[RIGHT].count(right);
        self.rates[INSUFFICIENT].count(unsure);
        self.rates[SIDE].count(side);
        match truth.grows {
            true => self.rates[MISSED].count(!side),
            false => self.rates[FALSE_ALARMS].count(grows),
        }
        if let (Some(slope), true, Some(said)) = (truth.slope_per_hour, grows, full.slope_per_hour)
        {
            self.rates[SLOPE_COVERED].count(said.lo <= slope && slope <= said.hi);
        }
        let fills = full.label == Label::Plateauing;
        if let (Some(end), true, Some(said)) = (truth.asymptote, fills, full.asymptote) {
            self.rates[ASYMPTOTE_COVERED].count(said.lo <= end && end <= said.hi);
        }
        if !unsure {
            let twentieth = (full.confidence * 20.0).floor().min(19.0) as u32;
            self.calibration.entry(twentieth).or_default().count(right);
        }
        let pair = (truth.accept[0].word(), full.label.word());
        *self.confusion.entry(pair).or_default() += 1.0;
        self.count_early(case, at, seen);
        self.count_naive(case);
    }

    fn count_early(&mut self, case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
        let truth = &case.truth;
        let wrong = |(v, part): (&SeriesVerdict, &f64)| !truth.right_at(*part, v.label);
        let last_wrong = at.iter().zip(seen).rposition(wrong);
        let right_from = last_wrong.map_or(Some(0), |i| (i + 1 < PARTS.len()).then_some(i + 1));
        // A verdict that never gets right counts as two runs.
        let part = right_from.map_or(2.0, |i| PARTS[i]);
        self.rates[PART].0 += part;
        self.rates[PART].1 += 1.0;
        let mut any = false;
        let early = at.iter().zip(seen).take(PARTS.len() - 1);
        for (v, part) in early.filter(|(v, _)| v.label != Label::Insufficient) {
            let wrong = truth.wrong_side(*part, v.label);
            let rises = v.label == Label::Growing && truth.rises_until(*part);
            self.rates[EARLY].count(wrong);
            self.rates[EARLY_SEEN].count(wrong && !rises);
            any |= wrong;
        }
        self.rates[SERIES_EARLY].count(any);
    }

    /// What the naive rules say of the whole series; only growing or not is asked of them.
    fn count_naive(&mut self, case: &Case) {
        let points = naive::points(&case.series);
        for (slot, (_, rule)) in self.naive.iter_mut().zip(RULES) {
            let (says, grows) = (rule(&points) == Label::Growing, case.truth.grows);
            slot[0].count(says == grows);
            slot[if grows { 2 } else { 1 }].count(says != grows);
        }
    }

    pub fn add(&mut self, o: &Score) {
        let add =
            |(mine, theirs): (&mut Rate, &Rate)| *mine = Rate(mine.0 + theirs.0, mine.1 + theirs.1);
        self.rates.iter_mut().zip(&o.rates).for_each(add);
        let (mine, theirs) = (self.naive.as_flattened_mut(), o.naive.as_flattened());
        mine.iter_mut().zip(theirs).for_each(add);
        for (twentieth, rate) in &o.calibration {
            add((self.calibration.entry(*twentieth).or_default(), rate));
        }
        for (pair, count) in &o.confusion {
            *self.confusion.entry(*pair).or_default() += count;
        }
    }
}

pub fn head() -> String {
    let columns = COLUMNS.map(|name| format!("{name:>7}"));
    format!("{:40}     n{}", "family", columns.concat())
}

/// One line of the table.
pub fn line(name: &str, s: &Score) -> String {
    let columns = s.rates.map(|rate| format!("{:>7}", rate.text()));
    format!("{name:40} {:5}{}", s.rates[RIGHT].1, columns.concat())
}

/// Printed confidence against right, per twentieth.
pub fn calibration(s: &Score) -> String {
    let mut out = String::from("confidence   series   right\n");
    for (twentieth, rate) in &s.calibration {
        let lo = f64::from(*twentieth) / 20.0;
        out += &format!("{lo:.2}-{:.2} {:9} {:>7}\n", lo + 0.05, rate.1, rate.text());
    }
    out
}

/// Series by their true label (rows) and the printed one (columns).
pub fn confusion(s: &Score) -> String {
    let said = [
        "growing",
        "plateauing",
        "stepped",
        "sawtooth",
        "flat",
        "insufficient",
    ];
    let mut out = format!(
        "{:14}{}\n",
        "true, printed",
        said.map(|word| format!("{word:>13}")).concat()
    );
    for truth in &said[..5] {
        let count = |word: &&'static str| s.confusion.get(&(*truth, *word)).copied().unwrap_or(0.0);
        out += &format!(
            "{truth:14}{}\n",
            said.map(|word| format!("{:>13}", count(&word))).concat()
        );
    }
    out
}

/// The rules that people use, on the same series.
pub fn naive_table(s: &Score) -> String {
    let mut out = format!("{:38}  side  false missed\n", "growing or not, by");
    let mut row = |name: &str, rates: [Rate; 3]| {
        let [side, alarms, missed] = rates.map(Rate::text);
        out += &format!("{name:38} {side:>5} {alarms:>6} {missed:>6}\n");
    };
    row(
        "highwater",
        [s.rates[SIDE], s.rates[FALSE_ALARMS], s.rates[MISSED]],
    );
    for ((name, _), rates) in RULES.iter().zip(s.naive) {
        row(name, rates);
    }
    out
}

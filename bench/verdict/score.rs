//! The numbers by which a judge is judged.

use std::collections::BTreeMap;

use verdict::Label;
use verdict::series::SeriesVerdict;

use crate::case::Case;
use crate::naive::{self, RULES};

/// Parts of the run at which an early verdict is asked for.
pub const PARTS: [f64; 8] = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];

/// Counts of one family, or of all.
#[derive(Debug, Clone, Default)]
pub struct Score {
    pub cases: f64,
    pub right: f64,
    pub insufficient: f64,
    pub side_right: f64,
    pub bounded: f64,
    pub false_alarms: f64,
    pub growing: f64,
    pub missed: f64,
    pub slopes: f64,
    pub covered: f64,
    pub asymptotes: f64,
    pub asymptotes_covered: f64,
    pub part: f64,
    pub early: f64,
    pub early_wrong: f64,
    /// Of these, what is wrong by the part that was seen as well.
    pub early_wrong_seen: f64,
    pub series_early_wrong: f64,
    /// Per tenth of confidence: said, right.
    pub calibration: BTreeMap<u32, (f64, f64)>,
    /// Per naive rule: right side, false alarms, missed.
    pub naive: Vec<[f64; 3]>,
}

impl Score {
    /// Counts one case with the verdicts at every part of [`PARTS`]; `seen` are those parts up to the last reading.
    pub fn count(&mut self, case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
        let Some(full) = at.last() else { return };
        let truth = &case.truth;
        let right = truth.right_at(1.0, full.label);
        self.cases += 1.0;
        self.right += f64::from(u8::from(right));
        let unsure = full.label == Label::Insufficient;
        self.insufficient += f64::from(u8::from(unsure));
        self.count_side(case, full, right, unsure);
        self.count_intervals(case, full);
        if !unsure {
            let tenth = (full.confidence * 20.0).floor().min(19.0) as u32;
            let seen = self.calibration.entry(tenth).or_default();
            seen.0 += 1.0;
            seen.1 += f64::from(u8::from(right));
        }
        self.count_early(case, at, seen);
    }

    fn count_side(&mut self, case: &Case, full: &SeriesVerdict, right: bool, unsure: bool) {
        let says = full.label == Label::Growing;
        let truth = &case.truth;
        // Growth that is allowed to be called plateauing (a logarithm) is on either side.
        let side = right || (says == truth.grows && !unsure);
        self.side_right += f64::from(u8::from(side));
        if truth.grows {
            self.growing += 1.0;
            self.missed += f64::from(u8::from(!side));
        } else {
            self.bounded += 1.0;
            self.false_alarms += f64::from(u8::from(says));
        }
    }

    fn count_intervals(&mut self, case: &Case, full: &SeriesVerdict) {
        let truth = &case.truth;
        if let (Some(slope), Label::Growing, Some(said)) =
            (truth.slope_per_hour, full.label, full.slope_per_hour)
        {
            self.slopes += 1.0;
            self.covered += f64::from(u8::from(said.lo <= slope && slope <= said.hi));
        }
        if let (Some(end), Label::Plateauing, Some(said)) =
            (truth.asymptote, full.label, full.asymptote)
        {
            self.asymptotes += 1.0;
            self.asymptotes_covered += f64::from(u8::from(said.lo <= end && end <= said.hi));
        }
    }

    fn count_early(&mut self, case: &Case, at: &[SeriesVerdict], seen: &[f64]) {
        let truth = &case.truth;
        let stable = at
            .iter()
            .zip(seen)
            .rposition(|(v, part)| !truth.right_at(*part, v.label))
            .map_or(Some(0), |i| (i + 1 < PARTS.len()).then_some(i + 1));
        // A verdict that never gets right counts as two runs.
        self.part += stable.map_or(2.0, |i| PARTS[i]);
        let mut any = false;
        for (v, part) in at.iter().zip(seen).take(PARTS.len() - 1) {
            if v.label == Label::Insufficient {
                continue;
            }
            self.early += 1.0;
            if truth.wrong_side(*part, v.label) {
                self.early_wrong += 1.0;
                let rises = v.label == Label::Growing && truth.rises_until(*part);
                self.early_wrong_seen += f64::from(u8::from(!rises));
                any = true;
            }
        }
        self.series_early_wrong += f64::from(u8::from(any));
    }

    /// What the naive rules say of the whole series; only growing or not is asked of them.
    pub fn count_naive(&mut self, case: &Case) {
        self.naive.resize(RULES.len(), [0.0; 3]);
        let points = naive::points(&case.series);
        for (slot, (_, rule)) in self.naive.iter_mut().zip(RULES) {
            let says = rule(&points) == Label::Growing;
            slot[0] += f64::from(u8::from(says == case.truth.grows));
            slot[1] += f64::from(u8::from(says && !case.truth.grows));
            slot[2] += f64::from(u8::from(!says && case.truth.grows));
        }
    }

    pub fn add(&mut self, o: &Score) {
        self.naive.resize(RULES.len(), [0.0; 3]);
        for (mine, theirs) in self.naive.iter_mut().zip(&o.naive) {
            mine.iter_mut().zip(theirs).for_each(|(m, t)| *m += t);
        }
        let pairs: [(&mut f64, f64); 17] = [
            (&mut self.cases, o.cases),
            (&mut self.right, o.right),
            (&mut self.insufficient, o.insufficient),
            (&mut self.side_right, o.side_right),
            (&mut self.bounded, o.bounded),
            (&mut self.false_alarms, o.false_alarms),
            (&mut self.growing, o.growing),
            (&mut self.missed, o.missed),
            (&mut self.slopes, o.slopes),
            (&mut self.covered, o.covered),
            (&mut self.asymptotes, o.asymptotes),
            (&mut self.asymptotes_covered, o.asymptotes_covered),
            (&mut self.part, o.part),
            (&mut self.early, o.early),
            (&mut self.early_wrong, o.early_wrong),
            (&mut self.early_wrong_seen, o.early_wrong_seen),
            (&mut self.series_early_wrong, o.series_early_wrong),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
        for (tenth, (said, right)) in &o.calibration {
            let seen = self.calibration.entry(*tenth).or_default();
            seen.0 += said;
            seen.1 += right;
        }
    }
}

fn share(part: f64, of: f64) -> String {
    if of > 0.0 {
        format!("{:.3}", part / of)
    } else {
        "-".to_owned()
    }
}

pub const HEAD: &str = "family                    n  right insuf  side  false missed slope  asym  part  early  seen /series";

/// One line of the table.
pub fn line(name: &str, s: &Score) -> String {
    format!(
        "{name:22} {:5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}",
        s.cases,
        share(s.right, s.cases),
        share(s.insufficient, s.cases),
        share(s.side_right, s.cases),
        share(s.false_alarms, s.bounded),
        share(s.missed, s.growing),
        share(s.covered, s.slopes),
        share(s.asymptotes_covered, s.asymptotes),
        share(s.part, s.cases),
        share(s.early_wrong, s.early),
        share(s.early_wrong_seen, s.early),
        share(s.series_early_wrong, s.cases),
    )
}

/// Said against right, per twentieth of confidence.
pub fn calibration(s: &Score) -> String {
    let mut out = String::from("confidence    said   right\n");
    for (tenth, (said, right)) in &s.calibration {
        let lo = f64::from(*tenth) / 20.0;
        out += &format!(
            "{lo:.2}-{:.2} {said:8} {:>7}\n",
            lo + 0.05,
            share(*right, *said)
        );
    }
    out
}

/// The naive rules beside the judge.
pub fn naive_table(s: &Score) -> String {
    let mut out = format!("{:38}  side  false missed\n", "growing or not, by");
    out += &format!(
        "{:38} {:>5} {:>6} {:>6}\n",
        "highwater",
        share(s.side_right, s.cases),
        share(s.false_alarms, s.bounded),
        share(s.missed, s.growing)
    );
    for ((name, _), [side, alarms, missed]) in RULES.iter().zip(&s.naive) {
        out += &format!(
            "{name:38} {:>5} {:>6} {:>6}\n",
            share(*side, s.cases),
            share(*alarms, s.bounded),
            share(*missed, s.growing)
        );
    }
    out
}

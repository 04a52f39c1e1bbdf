//! Arms and pairs: how often the label of an arm is right, and the interval of a pair's ratio holds the true one.

use series::series::Series;
use verdict::arm::ArmVerdict;
use verdict::{Rules, arm, pair};

use crate::dice::Dice;
use crate::family::{Arm, Family, Who, or};
use crate::made::{Own, Plan};

/// Times the level of an arm's outlier.
const OUTLIER: f64 = 1.8;

#[derive(Default, Clone, Copy)]
struct Counts {
    arms: f64,
    right: f64,
    pairs: f64,
    covered: f64,
    wrong_order: f64,
    outliers: f64,
    found: f64,
    falsely: f64,
}

fn one(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// `each` experiments of two arms of every family, as a table.
pub fn table<'a>(
    families: impl Iterator<Item = (&'a String, &'a Family)>,
    seed: u64,
    each: u64,
    wrong: bool,
) -> String {
    let mut out = format!(
        "{:40}  arms  right  pairs covers  order outliers found false\n",
        "arms of"
    );
    let mut all = Counts::default();
    for (name, family) in families {
        let Some(arm) = &family.arm else { continue };
        let mut counts = Counts::default();
        for number in 0..each {
            let mut dice = Dice::of(seed, name, number);
            experiment((name, family, arm), &mut dice, &mut counts, wrong);
        }
        out += &line(name, &counts);
        all.add(&counts);
    }
    out + &line("ALL", &all)
}

impl Counts {
    fn add(&mut self, o: &Counts) {
        self.arms += o.arms;
        self.right += o.right;
        self.pairs += o.pairs;
        self.covered += o.covered;
        self.wrong_order += o.wrong_order;
        self.outliers += o.outliers;
        self.found += o.found;
        self.falsely += o.falsely;
    }
}

fn line(name: &str, c: &Counts) -> String {
    let of = |part: f64, whole: f64| part / whole.max(1.0);
    format!(
        "{name:40} {:5} {:6.3} {:6} {:6.3} {:6.3} {:8} {:5.3} {:5}\n",
        c.arms,
        of(c.right, c.arms),
        c.pairs,
        of(c.covered, c.pairs),
        of(c.wrong_order, c.pairs),
        c.outliers,
        of(c.found, c.outliers),
        c.falsely
    )
}

/// Two arms of one plan: the second is lower by a ratio that is known.
fn experiment(
    (name, family, spec): (&str, &Family, &Arm),
    dice: &mut Dice,
    counts: &mut Counts,
    wrong: bool,
) {
    let rules = Rules::default();
    let size = |dice: &mut Dice| dice.pick(&[2, 3, 4, 6, 8, 12, 20]).max(spec.least);
    let (n, m) = (size(dice), size(dice));
    let (level, spread) = (dice.log_between(1e7, 2e10), dice.log_between(0.005, 0.12));
    let truth = if dice.chance(0.3) {
        1.0
    } else {
        dice.log_between(0.35, 2.8)
    };
    let plan = Plan::draw(family, dice);
    let has_outlier = n >= 6 && spread < 0.04 && dice.chance(spec.outlier);
    let mut arm = |name: &str, level: f64, n: usize, has_outlier: bool| {
        let mut process = |p: usize| {
            let times = if has_outlier && p == 0 { OUTLIER } else { 1.0 };
            let level = times * level * (spread * dice.normal()).exp();
            process(&plan, spec, level, p, dice)
        };
        let processes: Vec<Series> = (0..n).map(&mut process).collect();
        arm::judge(name, &processes, &rules)
    };
    let (a, b) = (
        arm("a", level, n, has_outlier),
        arm("b", level / truth, m, false),
    );
    for arm in [&a, &b] {
        let right = family.truth.label.contains(&arm.label);
        counts.arms += 1.0;
        counts.right += one(right);
        if wrong && !right {
            let each: Vec<&str> = arm.processes.iter().map(|p| p.label.word()).collect();
            println!("arm {name}: {:?} {:.2} {each:?}", arm.label, arm.confidence);
        }
    }
    count_outliers(&a, has_outlier, spec, counts);
    if spec.comparable && !has_outlier {
        let pair = pair::compare_judged(&a, &b, 1, &rules);
        let Some(ratio) = pair.ratio else { return };
        counts.pairs += 1.0;
        counts.covered += one(ratio.lo <= truth && truth <= ratio.hi);
        counts.wrong_order += one(pair.decided && (ratio.value < 1.0) != (truth < 1.0));
    }
}

fn process(plan: &Plan, spec: &Arm, level: f64, p: usize, dice: &mut Dice) -> Series {
    let has_trend = match spec.who {
        Who::All => true,
        Who::First => p == 0,
        Who::EverySecond => p.is_multiple_of(2),
    };
    let own = Own {
        level,
        pace: one(has_trend) * or(&spec.pace, 1.0, dice),
        shift: dice.unit(),
    };
    let case = plan.process(&own, dice);
    Series {
        id: format!("p{p}"),
        ..case.series
    }
}

fn count_outliers(arm: &ArmVerdict, has_outlier: bool, spec: &Arm, counts: &mut Counts) {
    let found = has_outlier && arm.outliers.iter().any(|o| o.id == "p0");
    counts.outliers += one(has_outlier);
    counts.found += one(found);
    // One that grows among others that do not is an outlier.
    if spec.who == Who::All {
        counts.falsely += arm.outliers.len() as f64 - one(found);
    }
}

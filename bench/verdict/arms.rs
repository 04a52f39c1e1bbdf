//! Arms and pairs: labels of arms, coverage of the ratio's interval.

use series::series::{Point, Series};
use verdict::{Label, Rules, arm, pair};

use crate::dice::Dice;

/// What was counted.
#[derive(Debug, Default, Clone)]
pub struct ArmScore {
    pub arms: f64,
    pub right: f64,
    pub pairs: f64,
    pub covered: f64,
    pub wrong_decided: f64,
    pub outliers: f64,
    pub outliers_found: f64,
    pub outliers_false: f64,
    pub processes: f64,
}

const KINDS: [Label; 5] = [
    Label::Flat,
    Label::Growing,
    Label::Plateauing,
    Label::Sawtooth,
    Label::Variable,
];

/// One arm: processes of one kind on one load, each with its own level.
fn arm_of(
    dice: &mut Dice,
    kind: Label,
    level: f64,
    spread: f64,
    n: usize,
    odd: bool,
) -> Vec<Series> {
    let samples = dice.whole(100, 400);
    let days = dice.between(2.0, 12.0);
    let by = dice.log_between(0.1, 1.5);
    let tau = dice.log_between(0.03, 0.25);
    let (noise, load) = (dice.log_between(0.002, 0.02), dice.between(0.0, 0.02));
    let phi = dice.between(0.0, 0.9);
    let slope_spread = dice.between(0.0, 0.3);
    (0..n)
        .map(|p| {
            let grows = kind == Label::Growing || (kind == Label::Variable && p % 2 == 0);
            let own =
                level * (spread * dice.normal()).exp() * if odd && p == 0 { 1.8 } else { 1.0 };
            let by = by * (1.0 + slope_spread * dice.normal()).max(0.3);
            let mut drift = 0.0;
            let points = (0..samples)
                .map(|i| {
                    let x = i as f64 / samples as f64;
                    let t_s = x * days * 86_400.0;
                    drift = phi * drift + (1.0 - phi * phi).sqrt() * dice.normal();
                    let day = load * (std::f64::consts::TAU * t_s / 86_400.0).sin();
                    let trend = match kind {
                        _ if grows => by * x,
                        Label::Plateauing => by * (1.0 - (-x / tau).exp()),
                        Label::Sawtooth => 0.5 * (x * 23.0 + 0.37 * p as f64).fract(),
                        _ => 0.0,
                    };
                    Point {
                        t_s,
                        value: own * (1.0 + trend + day + noise * drift),
                    }
                })
                .collect();
            Series {
                id: format!("p{p}"),
                points,
                ..Series::default()
            }
        })
        .collect()
}

fn label_right(kind: Label, said: Label, n: usize) -> bool {
    match kind {
        // A daily load of a per cent or two is there in every arm.
        Label::Flat => matches!(said, Label::Flat | Label::Sawtooth),
        Label::Variable if n < 4 => matches!(said, Label::Variable | Label::Insufficient),
        _ => said == kind,
    }
}

/// `count` experiments of two arms each.
pub fn run(seed: u64, count: u64, verbose: bool) -> ArmScore {
    let rules = Rules::default();
    let mut s = ArmScore::default();
    for i in 0..count {
        let mut dice = Dice::new(seed.wrapping_mul(7919) ^ i.wrapping_mul(104_729));
        let kind = KINDS[(i % 5) as usize];
        let n = [2, 3, 4, 6, 10, 20][dice.whole(0, 5)];
        let m = [2, 3, 4, 6, 10, 20][dice.whole(0, 5)];
        let (level, spread) = (dice.log_between(1e7, 1e10), dice.log_between(0.005, 0.15));
        let odd = n >= 6 && spread < 0.04 && dice.chance(0.3) && kind != Label::Variable;
        let a = arm_of(&mut dice, kind, level, spread, n, odd);
        let verdict = arm::judge("a", &a, &rules);
        s.arms += 1.0;
        let right = label_right(kind, verdict.label, n);
        s.right += f64::from(u8::from(right));
        if verbose && !right {
            let each: Vec<&str> = verdict.processes.iter().map(|p| p.label.word()).collect();
            println!(
                "arm {i} of {n} want {kind:?} said {:?} {:.2} {each:?}",
                verdict.label, verdict.confidence
            );
        }
        s.processes += n as f64;
        let found = verdict.outliers.iter().any(|o| o.id == "p0");
        s.outliers += f64::from(u8::from(odd));
        s.outliers_found += f64::from(u8::from(odd && found));
        if kind != Label::Variable {
            s.outliers_false += verdict.outliers.len() as f64 - f64::from(u8::from(odd && found));
        }
        if matches!(kind, Label::Flat | Label::Sawtooth) && !odd {
            let truth = if dice.chance(0.3) {
                1.0
            } else {
                dice.log_between(0.3, 3.0)
            };
            let other = spread * dice.between(0.5, 2.0);
            let b = arm_of(&mut dice, kind, level / truth, other, m, false);
            let (x, y) = (
                pair::ArmInput {
                    arm: "a",
                    processes: &a,
                },
                pair::ArmInput {
                    arm: "b",
                    processes: &b,
                },
            );
            let pair = pair::compare(&x, &y, 1, &rules);
            if let Some(ratio) = pair.ratio {
                s.pairs += 1.0;
                let inside = ratio.lo <= truth && truth <= ratio.hi;
                s.covered += f64::from(u8::from(inside));
                let wrong = pair.decided && (ratio.value < 1.0) != (truth < 1.0);
                s.wrong_decided += f64::from(u8::from(wrong));
            }
        }
    }
    s
}

pub fn table(s: &ArmScore) -> String {
    let share = |a: f64, b: f64| a / b.max(1.0);
    format!(
        "arms {} right {:.3} | pairs {} interval covers {:.3} wrong order {:.3} | odd processes {} \
         found {:.3}, false {:.4} of all",
        s.arms,
        share(s.right, s.arms),
        s.pairs,
        share(s.covered, s.pairs),
        share(s.wrong_decided, s.pairs),
        s.outliers,
        share(s.outliers_found, s.outliers),
        share(s.outliers_false, s.processes)
    )
}

//! A program: a tree of fragments with their arguments, made from a seed, and its source.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::catalogue::{Fragment, Kind, Values};

/// Most fragments of one program.
const STEPS_MAX: usize = 24;
const STEPS_MIN: usize = 6;
/// Deepest nesting of threads in children in handlers.
const DEPTH_MAX: usize = 3;

/// A library preloaded beside the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    None,
    Before,
    After,
}

/// One call of a fragment.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    pub fragment: &'a Fragment,
    pub arguments: Vec<i64>,
    /// What runs inside it, when it is a setting.
    pub body: Vec<Step<'a>>,
}

#[derive(Clone, Debug)]
pub struct Program<'a> {
    pub seed: u64,
    pub steps: Vec<Step<'a>>,
    pub chain: Chain,
    pub has_own_operators: bool,
}

/// The program of a seed.
pub fn generate(fragments: &[Fragment], seed: u64) -> Program<'_> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = random.usize(STEPS_MIN..=STEPS_MAX);
    let mut steps = Vec::new();
    while left > 0 {
        if let Some(step) = step(fragments, &mut random, &mut Vec::new(), &mut left) {
            steps.push(step);
        }
    }
    if random.u32(0..3) == 0 {
        steps.push(one_of(fragments, &mut random, Kind::End));
    }
    Program {
        seed,
        steps,
        chain: match random.u32(0..8) {
            0 => Chain::Before,
            1 => Chain::After,
            _ => Chain::None,
        },
        has_own_operators: random.u32(0..12) == 0,
    }
}

fn step<'a>(
    fragments: &'a [Fragment],
    random: &mut fastrand::Rng,
    around: &mut Vec<&'a str>,
    left: &mut usize,
) -> Option<Step<'a>> {
    let kind = match random.u32(0..40) {
        0 if !around.is_empty() => Kind::End,
        1..=12 if around.len() < DEPTH_MAX => Kind::Around,
        _ => Kind::Step,
    };
    let mut step = one_of(fragments, random, kind);
    if step
        .fragment
        .not_in
        .iter()
        .any(|name| around.contains(name))
    {
        return None;
    }
    *left = left.saturating_sub(1);
    if kind == Kind::Around {
        around.push(step.fragment.name);
        for _ in 0..random.usize(1..=4) {
            step.body
                .extend(self::step(fragments, random, around, left));
        }
        around.pop();
    }
    Some(step)
}

fn one_of<'a>(fragments: &'a [Fragment], random: &mut fastrand::Rng, kind: Kind) -> Step<'a> {
    let of_kind: Vec<&Fragment> = fragments.iter().filter(|each| each.kind == kind).collect();
    let fragment = of_kind[random.usize(0..of_kind.len())];
    let arguments = fragment
        .parameters
        .iter()
        .map(|values| {
            let one = values[random.usize(0..values.len())];
            drawn(random, one)
        })
        .collect();
    Step {
        fragment,
        arguments,
        body: Vec::new(),
    }
}

/// Of a range: every power of two is as likely as any other.
fn drawn(random: &mut fastrand::Rng, values: Values) -> i64 {
    if values.first == values.last {
        return values.first;
    }
    let above = (values.last - values.first + 1) as f64;
    values.first + (above.powf(random.f64()) as i64 - 1).clamp(0, values.last - values.first)
}

impl<'a> Program<'a> {
    /// All steps, those of bodies too, each before its body.
    pub fn all_steps(&self) -> Vec<&Step<'a>> {
        fn add<'p, 'a>(steps: &'p [Step<'a>], all: &mut Vec<&'p Step<'a>>) {
            for step in steps {
                all.push(step);
                add(&step.body, all);
            }
        }
        let mut all = Vec::new();
        add(&self.steps, &mut all);
        all
    }

    /// Removes the steps of these names. The others stay as the seed made them.
    pub fn leave_out(&mut self, names: &[String]) {
        fn retain(steps: &mut Vec<Step>, names: &[String]) {
            steps.retain(|step| !names.iter().any(|name| name == step.fragment.name));
            for step in steps {
                retain(&mut step.body, names);
            }
        }
        retain(&mut self.steps, names);
        if names.iter().any(|name| name == "chain") {
            self.chain = Chain::None;
        }
    }

    /// The fragment files that it needs.
    pub fn files(&self) -> BTreeSet<&'static str> {
        self.all_steps()
            .iter()
            .map(|step| step.fragment.file)
            .collect()
    }

    pub fn is_cpp(&self) -> bool {
        self.has_own_operators || self.files().iter().any(|file| file.ends_with(".cpp"))
    }

    /// The C source: a function for each body, and `main`.
    pub fn source(&self) -> String {
        let mut text = format!(
            "// Seed {}. Preloaded beside the probe: {}.\n#include \"guest.h\"\n\n",
            self.seed,
            match self.chain {
                Chain::None => "nothing",
                Chain::Before => "chain.so, before it",
                Chain::After => "chain.so, after it",
            }
        );
        let used: BTreeSet<&str> = self
            .all_steps()
            .iter()
            .map(|step| step.fragment.name)
            .collect();
        for name in used {
            let step = self
                .all_steps()
                .into_iter()
                .find(|step| step.fragment.name == name);
            let Some(step) = step else { continue };
            let mut parameters = vec!["long"; step.fragment.parameters.len()];
            if step.fragment.kind == Kind::Around {
                parameters.insert(0, "body");
            }
            let _ = writeln!(text, "void {name}({});", parameters.join(", "));
        }
        let mut functions = 0;
        let (middle, last) = (self.steps.len() / 2, self.steps.len().saturating_sub(1));
        let last = last.max(middle);
        let parts = [0..middle, middle..last, last..self.steps.len()];
        let mut main = String::new();
        for (number, part) in parts.into_iter().enumerate() {
            let _ = writeln!(main, "    gate({});", number + 1);
            main += &calls(&self.steps[part], &mut functions, &mut text);
        }
        let _ = write!(
            text,
            "\nint main(int count, char **words) {{\n    (void)words;\n    if (count > 1) return started_again();\n\
             {main}    finish();\n    return 0;\n}}\n"
        );
        text
    }

    /// One line: `in_fork(0){requests(1,24)} exits(3)`.
    pub fn outline(&self) -> String {
        fn add(steps: &[Step], text: &mut String) {
            for (index, step) in steps.iter().enumerate() {
                let arguments: Vec<String> = step.arguments.iter().map(i64::to_string).collect();
                let space = if index == 0 { "" } else { " " };
                let _ = write!(
                    text,
                    "{space}{}({})",
                    step.fragment.name,
                    arguments.join(",")
                );
                if !step.body.is_empty() {
                    text.push('{');
                    add(&step.body, text);
                    text.push('}');
                }
            }
        }
        let mut text = String::new();
        add(&self.steps, &mut text);
        text
    }
}

fn calls(steps: &[Step], functions: &mut usize, text: &mut String) -> String {
    let mut lines = String::new();
    for step in steps {
        let mut arguments: Vec<String> = step.arguments.iter().map(i64::to_string).collect();
        if step.fragment.kind == Kind::Around {
            let inside = calls(&step.body, functions, text);
            *functions += 1;
            let _ = write!(
                text,
                "\nstatic void body_{functions}(void) {{\n{inside}}}\n"
            );
            arguments.insert(0, format!("body_{functions}"));
        }
        let _ = writeln!(
            lines,
            "    {}({});",
            step.fragment.name,
            arguments.join(", ")
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_program() {
        let fragments = crate::catalogue::read().unwrap();
        assert_eq!(
            generate(&fragments, 5).source(),
            generate(&fragments, 5).source()
        );
        assert_ne!(
            generate(&fragments, 5).source(),
            generate(&fragments, 6).source()
        );
    }

    #[test]
    fn every_fragment_comes_up() {
        let fragments = crate::catalogue::read().unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let program = generate(&fragments, seed);
            seen.extend(program.all_steps().iter().map(|step| step.fragment.name));
        }
        assert_eq!(seen.len(), fragments.len());
    }
}

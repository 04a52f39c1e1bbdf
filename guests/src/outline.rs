//! Programs written down as one line, `in_fork(0){requests(1,24)} exits(3)`. Kept cases do not change with the
//! generator.

use anyhow::{Context, Result, bail};

use crate::catalogue::{Fragment, Kind};
use crate::program::{Chain, Program, Step};

/// The programs of a file: one a line, `before:` or `after:` in front where `chain.so` is preloaded; `#` begins a
/// comment.
pub fn read_all<'a>(fragments: &'a [Fragment], text: &str) -> Result<Vec<Program<'a>>> {
    let lines = text.lines().map(str::trim);
    lines
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            read(fragments, line, index as u64 + 1).with_context(|| format!("case {line}"))
        })
        .collect()
}

/// One program; its number takes the place of a seed.
fn read<'a>(fragments: &'a [Fragment], line: &str, number: u64) -> Result<Program<'a>> {
    let (chain, outline) = match line.split_once(": ") {
        Some(("before", outline)) => (Chain::Before, outline),
        Some(("after", outline)) => (Chain::After, outline),
        _ => (Chain::None, line),
    };
    let mut rest = outline;
    let steps = steps(fragments, &mut rest)?;
    if !rest.is_empty() {
        bail!("not understood: {rest}");
    }
    Ok(Program {
        seed: number,
        steps,
        chain,
        has_own_operators: false,
    })
}

fn steps<'a>(fragments: &'a [Fragment], rest: &mut &str) -> Result<Vec<Step<'a>>> {
    let mut all = Vec::new();
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('}') {
            return Ok(all);
        }
        all.push(step(fragments, rest)?);
    }
}

fn step<'a>(fragments: &'a [Fragment], rest: &mut &str) -> Result<Step<'a>> {
    let (name, after) = rest.split_once('(').context("no arguments")?;
    let (inside, after) = after.split_once(')').context("no end of the arguments")?;
    let fragment = fragments
        .iter()
        .find(|fragment| fragment.name == name)
        .with_context(|| format!("no fragment {name}"))?;
    let arguments: Vec<i64> = inside
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    if arguments.len() != fragment.parameters.len() {
        bail!("{name} has {} parameters", fragment.parameters.len());
    }
    *rest = after;
    let mut body = Vec::new();
    if let Some(inside) = after.strip_prefix('{') {
        if fragment.kind != Kind::Around {
            bail!("{name} runs nothing");
        }
        *rest = inside;
        body = steps(fragments, rest)?;
        *rest = rest.strip_prefix('}').context("no end of the body")?;
    }
    Ok(Step {
        fragment,
        arguments,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_gives_its_program() {
        let fragments = crate::catalogue::read().unwrap();
        for seed in 0..100 {
            let program = crate::program::generate(&fragments, seed);
            let again = read(&fragments, &program.outline(), seed).unwrap();
            assert_eq!(again.outline(), program.outline());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let fragments = crate::catalogue::read().unwrap();
        for line in [
            "nothing(1)",
            "exits()",
            "exits(1",
            "exits(1){zero(0)}",
            "in_fork(0){zero(0)",
        ] {
            assert!(read(&fragments, line, 1).is_err(), "{line}");
        }
    }
}

//! The fragments: one thing each that real programs do, as a C or C++ function in `fragments/`. A comment before
//! the function declares it: `// step NAME(parameter: VALUE VALUE, ...) not in OTHER ...`.

use anyhow::{Context, Result, bail};

/// The source files with fragments. The first is the trace itself, which every program has.
pub const SOURCES: [(&str, &str); 19] = [
    ("trace.c", include_str!("../fragments/trace.c")),
    ("requests.c", include_str!("../fragments/requests.c")),
    ("threads.c", include_str!("../fragments/threads.c")),
    ("processes.c", include_str!("../fragments/processes.c")),
    ("libraries.c", include_str!("../fragments/libraries.c")),
    ("contexts.c", include_str!("../fragments/contexts.c")),
    ("memory.c", include_str!("../fragments/memory.c")),
    ("confinement.c", include_str!("../fragments/confinement.c")),
    ("identity.c", include_str!("../fragments/identity.c")),
    ("mixtures.c", include_str!("../fragments/mixtures.c")),
    ("signals.c", include_str!("../fragments/signals.c")),
    ("clibrary.c", include_str!("../fragments/clibrary.c")),
    ("lifetimes.c", include_str!("../fragments/lifetimes.c")),
    ("loading.c", include_str!("../fragments/loading.c")),
    ("kernel.c", include_str!("../fragments/kernel.c")),
    ("startup.c", include_str!("../fragments/startup.c")),
    ("ends.c", include_str!("../fragments/ends.c")),
    (
        "exceptions.cpp",
        include_str!("../fragments/exceptions.cpp"),
    ),
    ("standard.cpp", include_str!("../fragments/standard.cpp")),
];

/// Libraries beside the plugins that fragments open: the source, its text, and the file that is made of it.
pub const LIBRARIES: [(&str, &str, &str); 3] = [
    ("parts.c", include_str!("../fragments/parts.c"), "parts.so"),
    ("audit.c", include_str!("../fragments/audit.c"), "audit.so"),
    (
        "throwing.cpp",
        include_str!("../fragments/throwing.cpp"),
        "throwing.so",
    ),
];

pub const HEADER: &str = include_str!("../fragments/guest.h");
/// Operators new and delete of a program's own.
pub const OWN_OPERATORS: &str = include_str!("../fragments/own_operators.cpp");
pub const PLUGIN: &str = include_str!("../fragments/plugin.c");
pub const CHAIN: &str = include_str!("../fragments/chain.c");

/// Flags that a file needs beside those of all.
pub fn flags(file: &str) -> &'static [&'static str] {
    if file == "standard.cpp" {
        &["-std=c++20"]
    } else {
        &[]
    }
}

/// Where in a program a fragment may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Does something, then the program continues.
    Step,
    /// Runs other steps in a setting: a thread, a child, a handler.
    Around,
    /// Ends the process.
    End,
}

/// One of the choices for a parameter: a number, or `FIRST..LAST`, of which small ones are drawn more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub first: i64,
    pub last: i64,
}

impl std::str::FromStr for Values {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Values> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let values = Values {
            first: first.parse()?,
            last: last.parse()?,
        };
        if values.last < values.first {
            bail!("{text} is empty");
        }
        Ok(values)
    }
}

/// One declared function.
#[derive(Debug)]
pub struct Fragment {
    pub name: &'static str,
    pub kind: Kind,
    /// The values that each parameter may have.
    pub parameters: Vec<Vec<Values>>,
    /// Settings in which it has no defined outcome.
    pub not_in: Vec<&'static str>,
    /// Its file in `SOURCES`.
    pub file: &'static str,
}

/// All fragments, in the order of their files.
pub fn read() -> Result<Vec<Fragment>> {
    let mut all = Vec::new();
    for (file, text) in SOURCES {
        for line in text.lines() {
            let kind = match line.split_once("// ").map(|(_, rest)| rest.split_once(' ')) {
                Some(Some(("step", _))) => Kind::Step,
                Some(Some(("around", _))) => Kind::Around,
                Some(Some(("end", _))) => Kind::End,
                _ => continue,
            };
            if line.starts_with("// ") {
                all.push(parse(file, kind, line).with_context(|| format!("{file}: {line}"))?);
            }
        }
    }
    Ok(all)
}

fn parse(file: &'static str, kind: Kind, line: &'static str) -> Result<Fragment> {
    let (head, rest) = line.split_once('(').context("no parameters")?;
    let (inside, tail) = rest.split_once(')').context("no end of the parameters")?;
    let name = head.rsplit(' ').next().context("no name")?;
    let mut parameters = Vec::new();
    for parameter in inside.split(", ") {
        let (_, values) = parameter.split_once(": ").context("no values")?;
        let values: Vec<Values> = values
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if values.is_empty() {
            bail!("a parameter without values");
        }
        parameters.push(values);
    }
    let not_in = tail
        .strip_prefix(" not in ")
        .map(|names| names.split(' ').collect())
        .unwrap_or_default();
    Ok(Fragment {
        name,
        kind,
        parameters,
        not_in,
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let of = |text: &str| {
            text.parse::<Values>()
                .map(|values| (values.first, values.last))
        };
        assert_eq!(of("7").unwrap(), (7, 7));
        assert_eq!(of("1..300").unwrap(), (1, 300));
        assert!(of("3..1").is_err() && of("..").is_err());
    }

    #[test]
    fn every_declared_fragment_is_a_function() {
        let all = read().unwrap();
        assert!(all.len() > 60, "{}", all.len());
        for fragment in all {
            let (_, text) = SOURCES
                .iter()
                .find(|(file, _)| *file == fragment.file)
                .unwrap();
            assert!(
                text.contains(&format!("\nvoid {}(", fragment.name)),
                "{}",
                fragment.name
            );
        }
    }
}

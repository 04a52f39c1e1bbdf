//! Where the series come from: a run of ours, a file, a pipe, a server.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, Result};

use super::VerdictArgs;
use crate::cli::exit::Usage;
use crate::cli::find_run;
use record::Folder;

/// How every file of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// What is to be read.
pub enum Source {
    Run(Folder),
    /// Its address.
    Fleet(String),
    /// What errors call it, and the text.
    Csv(String, Box<dyn Read>),
}

/// Decides by what is there: a folder or a `run.db` is a run, another file is CSV, a word that is neither
/// may be the name of a run.
///
/// # Errors
/// Nothing to read, a record without its folder, a file that cannot be opened.
pub fn of(args: &VerdictArgs) -> Result<Source> {
    if let Some(url) = &args.fleet.prometheus {
        only_of_files(args, "--prometheus")?;
        return Ok(Source::Fleet(url.clone()));
    }
    let path = match &args.file {
        Some(path) if path != Path::new("-") => path,
        Some(_) => return piped(),
        None if io::stdin().is_terminal() => {
            let words = "name a file, a run or --prometheus URL; or pipe CSV in";
            return Err(Usage(words.to_owned()).into());
        }
        None => return piped(),
    };
    if path.is_dir() || path.file_name().is_some_and(|name| name == "run.db") {
        only_of_files(args, "a run")?;
        return Ok(Source::Run(Folder::open(path)?));
    }
    if !path.exists() && is_run(&args.runs, path) {
        only_of_files(args, "a run")?;
        return Ok(Source::Run(find_run(&args.runs, path)?));
    }
    let file = File::open(path).with_context(|| match path.exists() {
        true => format!("opening {}", path.display()),
        false => format!(
            "{} is no file, and no run under {}",
            path.display(),
            args.runs.display()
        ),
    })?;
    let name = path.display().to_string();
    let input = without_record(Box::new(file), &name)?;
    Ok(Source::Csv(name, input))
}

fn piped() -> Result<Source> {
    let name = "standard input".to_owned();
    let input = without_record(Box::new(io::stdin().lock()), &name)?;
    Ok(Source::Csv(name, input))
}

fn is_run(runs: &Path, word: &Path) -> bool {
    let plain = !word.to_string_lossy().contains('/');
    plain && (word == Path::new("latest") || runs.join(word).is_dir())
}

/// A record is read with its folder, not as a stream of bytes.
fn without_record(mut input: Box<dyn Read>, name: &str) -> Result<Box<dyn Read>> {
    let mut head = vec![0; SQLITE.len()];
    let mut read = 0;
    while read < head.len() {
        match input.read(&mut head[read..]) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("reading {name}")),
        }
    }
    head.truncate(read);
    if head == SQLITE {
        let words = format!(
            "{name} is a file of SQLite, not CSV; a record of highwater is named run.db: give its folder"
        );
        return Err(Usage(words).into());
    }
    Ok(Box::new(io::Cursor::new(head).chain(input)))
}

/// Flags that say what a CSV file means have no meaning elsewhere.
fn only_of_files(args: &VerdictArgs, what: &str) -> Result<()> {
    let c = &args.columns;
    let flags = [
        ("--groups", !args.groups.is_empty()),
        ("--id-column", c.id_column.is_some()),
        ("--arm-column", c.arm_column.is_some()),
        ("--time-column", c.time_column.is_some()),
        ("--value-column", c.value_column.is_some()),
        ("--unit", c.unit.is_some()),
        ("--decimal", c.decimal.is_some()),
        ("--dates", c.dates.is_some()),
        ("--wide", c.wide),
        ("--interval", c.interval.is_some()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let words = format!("{flag} is for CSV; {what} says itself what it holds");
            Err(Usage(words).into())
        }
        None => Ok(()),
    }
}

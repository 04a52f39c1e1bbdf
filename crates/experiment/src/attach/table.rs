//! The file that says which process is in which arm, and since when: CSV with a header, columns `unit`, `pid` or
//! `nickname` (`name`, `process`, `id`), then `arm` (`group`), and perhaps `from` and `until`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::glob::Glob;
use units::instant::parse_instant;
use units::wording::{nearest, quoted};

/// More lines than that are no list of processes of one machine.
const LINES_MAX: usize = 10_000;

/// A larger file is no list of processes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// How the file names processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Unit,
    Pid,
    /// By the name that the arguments or the unit give.
    Name,
}

/// A file as read.
#[derive(Debug, Clone)]
pub struct Table {
    pub key: Key,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    /// As written.
    text: String,
    glob: Option<Glob>,
    /// Empty: in no arm.
    arm: String,
    /// Seconds since the epoch.
    from_s: Option<f64>,
    until_s: Option<f64>,
}

const KEYS: &[(&str, Key)] = &[
    ("unit", Key::Unit),
    ("pid", Key::Pid),
    ("nickname", Key::Name),
    ("name", Key::Name),
    ("process", Key::Name),
    ("id", Key::Name),
];

/// Reads a file; `arms` are those of the experiment.
///
/// # Errors
/// The line, what is wrong with it, and what is known instead.
pub fn parse_table(text: &str, arms: &[String]) -> Result<Table, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let place = |name: &str| {
        header
            .iter()
            .position(|title| title.eq_ignore_ascii_case(name))
    };
    let key = KEYS
        .iter()
        .find_map(|(name, key)| Some((place(name)?, *key)));
    let (Some((who, key)), Some(arm)) = (key, place("arm").or_else(|| place("group"))) else {
        return Err(
            "line 1: it has no column of processes and of arms; write unit,arm or nickname,group"
                .into(),
        );
    };
    let times = [place("from"), place("until")];
    let mut lines = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let at = record.position().map_or(0, csv::Position::line);
        let field = |place: usize| record.get(place).unwrap_or("");
        if field(who).is_empty() {
            continue;
        }
        let time = |place: Option<usize>| place.map_or(Ok(None), |place| instant(field(place)));
        let wrong = |why: String| format!("line {at}: {why}");
        if lines.len() == LINES_MAX {
            return Err(wrong(format!("more than {LINES_MAX} processes")));
        }
        lines.push(Line {
            text: name_of(key, field(who)).map_err(wrong)?,
            glob: pattern(&name_of(key, field(who)).map_err(wrong)?).map_err(wrong)?,
            arm: known(field(arm), arms).map_err(wrong)?,
            from_s: time(times[0]).map_err(wrong)?,
            until_s: time(times[1]).map_err(wrong)?,
        });
    }
    Ok(Table { key, lines })
}

fn name_of(key: Key, text: &str) -> Result<String, String> {
    match key {
        Key::Unit => Ok(crate::file::parse::with_suffix(text)),
        Key::Name => Ok(text.to_owned()),
        Key::Pid => match text.parse::<i32>() {
            Ok(pid) if pid > 0 => Ok(pid.to_string()),
            _ => Err(format!("{} is no process id", quoted(text))),
        },
    }
}

fn pattern(text: &str) -> Result<Option<Glob>, String> {
    match text.contains(['*', '?', '[']) {
        true => Glob::new(text).map(Some),
        false => Ok(None),
    }
}

fn known(arm: &str, arms: &[String]) -> Result<String, String> {
    if arm.is_empty() || arm == "-" {
        return Ok(String::new());
    }
    if arms.iter().any(|known| known == arm) {
        return Ok(arm.to_owned());
    }
    let what = format!("no arm is called {}", quoted(arm));
    Err(match nearest(arm, arms.iter().map(String::as_str)) {
        Some(near) => format!("{what}; did you mean {near}?"),
        None => format!(
            "{what} (arms: {}); a process in none has -",
            arms.join(", ")
        ),
    })
}

fn instant(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || format!("{} is no instant; write 2026-11-21T18:00:00Z", quoted(text));
    parse_instant(text).map(Some).ok_or_else(wrong)
}

impl Table {
    /// The arm of a process that has these names, at an instant (seconds since the epoch): of the lines that name it
    /// and hold then, the last. `None` when there is none, or when it says that the process is in no arm.
    pub fn arm(&self, names: &[&str], at_s: f64) -> Option<&str> {
        let holds = |line: &&Line| {
            line.from_s.is_none_or(|from| from <= at_s)
                && line.until_s.is_none_or(|until| at_s < until)
        };
        let mut lines = self.lines.iter().rev().filter(holds);
        let line = lines.find(|line| names.iter().any(|name| line.is_for(name)))?;
        Some(line.arm.as_str()).filter(|arm| !arm.is_empty())
    }

    /// Every name or pattern, in order.
    pub fn names(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.text.clone()).collect()
    }

    /// Whether any line, at any time, is about this arm.
    pub fn knows(&self, arm: &str) -> bool {
        self.lines.iter().any(|line| line.arm == arm)
    }
}

impl Line {
    fn is_for(&self, name: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.matches(name),
            None => self.text == name,
        }
    }
}

/// A file of groups: as it was read last.
#[derive(Debug)]
pub struct TableFile {
    pub path: PathBuf,
    pub table: Table,
    seen: Option<(SystemTime, u64)>,
}

impl TableFile {
    /// # Errors
    /// In words, with the file's name.
    pub fn read(path: PathBuf, arms: &[String]) -> Result<TableFile, String> {
        let shown = path.display().to_string();
        let seen = stamp(&path);
        if seen.is_some_and(|(_, length)| length > FILE_BYTES_MAX) {
            return Err(format!(
                "{shown} is larger than {} MiB",
                FILE_BYTES_MAX >> 20
            ));
        }
        let bytes = fs::read(&path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let table = parse_table(&text, arms).map_err(|why| format!("{shown}: {why}"))?;
        Ok(TableFile { path, table, seen })
    }

    /// Whether the file is still the one that was read.
    pub fn is_current(&self) -> bool {
        self.seen.is_some() && self.seen == stamp(&self.path)
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Table, String> {
        parse_table(text, &["a".into(), "b".into()])
    }

    #[test]
    fn the_last_line_that_holds_counts() {
        let table = table(
            "Unit, Arm, from, until\ntor@*,a,,\ntor@r2.service,b,1970-01-01T00:01:00Z,\n\
             tor@r3,-,,\ntor@r4,b,,100\n,,\n",
        )
        .unwrap();
        let at = |unit: &str, s| table.arm(&[unit], s).unwrap_or("-").to_owned();
        assert_eq!(table.key, Key::Unit);
        assert_eq!(
            (at("tor@r1.service", 0.0), at("nginx.service", 0.0)),
            ("a".into(), "-".into())
        );
        assert_eq!(
            (at("tor@r2.service", 59.9), at("tor@r2.service", 60.0)),
            ("a".into(), "b".into())
        );
        assert_eq!(at("tor@r3.service", 0.0), "-");
        assert_eq!(
            (at("tor@r4.service", 99.0), at("tor@r4.service", 100.0)),
            ("b".into(), "a".into())
        );
        assert!(table.knows("b") && !table.knows("c"));
    }

    #[test]
    fn names_and_pids() {
        let names = table("fingerprint,nickname,group\nX,alice,a\nY,bob,b\n").unwrap();
        assert_eq!(names.key, Key::Name);
        assert_eq!(names.arm(&["tor@bob.service", "bob"], 0.0), Some("b"));
        let pids = table("pid,arm\n12,a\n").unwrap();
        assert_eq!((pids.key, pids.arm(&["12"], 0.0)), (Key::Pid, Some("a")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let words = |text: &str| table(text).unwrap_err();
        assert!(words("x,y\n1,2\n").contains("write unit,arm"));
        assert!(words("").contains("write unit,arm"));
        let typo = parse_table("pid,arm\n1,jemaloc\n", &["jemalloc".into()]).unwrap_err();
        assert_eq!(
            typo,
            "line 2: no arm is called `jemaloc`; did you mean jemalloc?"
        );
        assert!(words("pid,arm\n1,a\nx,a\n").starts_with("line 3"));
        assert!(words("pid,arm,from\n1,a,soon\n").contains("no instant"));
        assert!(words("unit,arm\n[x,a\n").contains("not closed"));
    }
}

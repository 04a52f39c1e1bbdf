//! Which column is what, by name or by flag, and the unit of each.

use super::ImportError;
pub use super::headings::unit_factor;
use super::headings::{Words, factor_of_word, seconds_of_word, words_of};
use super::number::Decimal;
use super::time::DateOrder;
use crate::wording::nearest;

/// More columns than this are no table of readings.
pub const COLUMNS_MAX: usize = 4096;

/// Names given by flags; `None` looks for the usual ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Several with commas between them are joined by `/`.
    pub id: Option<String>,
    pub arm: Option<String>,
    pub time: Option<String>,
    pub value: Option<String>,
    /// "B", "kB", "KiB", "MB", "MiB", "GB", "GiB".
    pub unit: Option<String>,
    /// What stands before the fraction of a number.
    pub decimal: Option<Decimal>,
    /// Day or month first, in dates with slashes.
    pub dates: Option<DateOrder>,
    /// Every column but the time is a process.
    pub wide: bool,
}

/// Places of the columns, from 0, with factors to bytes and seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns {
    /// Joined by `/`; empty when no column says who was read.
    pub id: Vec<usize>,
    pub arm: Option<usize>,
    pub time: Time,
    pub value: usize,
    pub value_factor: f64,
    /// Whether a name or a flag says the unit of the values.
    pub unit_said: bool,
    pub hwm: Option<(usize, f64)>,
    /// Rows of a TorUtils file say what they are; only those of one relay are readings of a process.
    pub kind: Option<usize>,
    /// Says the unit of the value, row by row.
    pub unit: Option<usize>,
    pub facts: Facts,
    /// In the wide form: the columns of processes, with their factors; `value` means nothing then.
    pub wide: Vec<(usize, f64)>,
}

/// The column of the time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Time {
    pub place: usize,
    /// The date of a time of day, where it stands in a column of its own.
    pub date: Option<usize>,
    pub factor: f64,
    pub is_date: bool,
    pub is_elapsed: bool,
}

/// What else is known of a process at a look, for the audit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Facts {
    /// Cumulative seconds.
    pub cpu: Option<(usize, f64)>,
    /// Cumulative count.
    pub requests: Option<usize>,
    pub lazy_free: Option<(usize, f64)>,
    pub huge_pages: Option<(usize, f64)>,
    pub start: Option<usize>,
    pub allocator: Option<usize>,
}

const IDS: &[&str] = &[
    "id",
    "process",
    "nickname",
    "pid",
    "instance",
    "series",
    "process name",
    "process id",
    "proc",
    "name",
    "container",
    "container name",
    "container id",
    "pod",
    "pod name",
    "service",
    "replica",
    "relay",
    "worker",
    "command",
    "comm",
    "cmd",
    "host",
    "hostname",
    "host name",
    "node",
];
/// Names that say where a process is rather than which, and the names that are told apart by them.
const PLACES: &[&str] = &[
    "host",
    "hostname",
    "host name",
    "node",
    "instance",
    "pod",
    "pod name",
];
const WITHIN: &[&str] = &[
    "pid",
    "process id",
    "container",
    "container name",
    "process name",
    "proc",
    "name",
    "command",
    "comm",
    "cmd",
];
/// Names that say what was measured, where every row holds one measure.
const MEASURES: &[&str] = &["metric", "metric name", "measurement", "field", "counter"];
const ARMS: &[&str] = &["arm", "group"];
const TIMES: &[&str] = &[
    "t",
    "timestamp",
    "time",
    "epoch",
    "ts",
    "datetime",
    "date time",
    "date",
    "time stamp",
    "unix time",
    "epoch time",
    "time utc",
    "timestamp utc",
    "elapsed",
    "elapsed time",
    "uptime",
];
const VALUES: &[&str] = &[
    "rss",
    "vm rss",
    "resident set size",
    "resident set",
    "resident memory",
    "resident",
    "process resident memory",
    "rss memory",
    "memory rss",
    "mem rss",
    "res",
    "real",
    "working set",
    "working set size",
    "memory working set",
    "value",
    "memory",
    "mem",
    "memory usage",
    "mem usage",
    "memory used",
    "mem used",
    "used memory",
    "used mem",
    "memory current",
    "mem usage limit",
    "ram",
    "ram usage",
    "ram used",
    "used ram",
    "pss",
    "uss",
];
const MARKS: &[&str] = &[
    "vm hwm",
    "rss hwm",
    "high water mark",
    "rss high water mark",
];

/// A header, cut into words once.
pub struct Header<'a> {
    names: &'a [String],
    words: Vec<Words>,
}

impl<'a> Header<'a> {
    pub fn new(names: &'a [String]) -> Header<'a> {
        Header {
            names,
            words: names.iter().map(|name| words_of(name)).collect(),
        }
    }

    /// The first column of the first phrase that any has.
    fn find(&self, phrases: &[&str]) -> Option<usize> {
        phrases
            .iter()
            .find_map(|phrase| self.words.iter().position(|words| words.are(phrase)))
    }

    fn named(&self, name: &str) -> Option<usize> {
        let is = |n: &String| n.trim() == name;
        let near = |n: &String| n.trim().eq_ignore_ascii_case(name);
        self.names
            .iter()
            .position(is)
            .or_else(|| self.names.iter().position(near))
    }

    fn need(&self, given: &str, what: &str, flag: &str) -> Result<usize, ImportError> {
        self.named(given)
            .ok_or_else(|| self.missing(given, what, flag))
    }

    fn missing(&self, wish: &str, what: &str, flag: &str) -> ImportError {
        let near = nearest(wish, self.names.iter().map(String::as_str));
        let hint = near.map_or_else(String::new, |n| format!(" (is it {n}?)"));
        ImportError::new(
            1,
            0,
            format!("no {what} column{hint}"),
            format!("name it with {flag}"),
        )
    }

    /// A column with bytes in it.
    fn sized(&self, phrases: &[&str]) -> Option<(usize, f64)> {
        self.find(phrases)
            .map(|at| (at, self.factor(at).unwrap_or(1.0)))
    }

    fn factor(&self, at: usize) -> Option<f64> {
        self.words[at].unit.as_deref().and_then(factor_of_word)
    }

    fn time(&self, wanted: &Wanted, blanks: bool) -> Result<Time, ImportError> {
        let place = match wanted.time.as_deref() {
            Some(given) => self.need(given, "time", "--time-column")?,
            None => self
                .usual_time(blanks)
                .ok_or_else(|| self.missing("t_s", "time", "--time-column"))?,
        };
        let words = &self.words[place];
        let is = |phrase: &str| words.words.iter().any(|w| w == phrase);
        let date = self
            .words
            .iter()
            .position(|w| w.are("date") && w.unit.is_none());
        Ok(Time {
            place,
            date: date.filter(|at| *at != place),
            factor: words
                .unit
                .as_deref()
                .and_then(seconds_of_word)
                .unwrap_or(1.0),
            is_date: is("date") || is("datetime"),
            is_elapsed: is("elapsed") || is("uptime"),
        })
    }

    /// In a table of ps TIME is the CPU time, and stands behind the process; a time of day stands first.
    fn usual_time(&self, blanks: bool) -> Option<usize> {
        let is_ps = blanks && self.find(&["pid"]).is_some();
        let usable = |at: &usize| *at == 0 || !(is_ps && self.words[*at].are("time"));
        let of = |phrase: &&str| {
            let all = self
                .words
                .iter()
                .enumerate()
                .filter(|(_, words)| words.are(phrase));
            all.map(|(at, _)| at).find(|at| usable(at))
        };
        let alone = || {
            let long = |unit: &str| seconds_of_word(unit).is_some() && unit.len() > 2;
            self.words
                .iter()
                .position(|w| w.words.is_empty() && w.unit.as_deref().is_some_and(long))
        };
        TIMES.iter().find_map(|phrase| of(&phrase)).or_else(alone)
    }

    fn usual_value(&self) -> Option<usize> {
        // A process may be called b.
        let long = |unit: &&str| unit.len() > 1;
        let size = |w: &Words| w.unit.as_deref().filter(long).and_then(factor_of_word);
        let is_size = |w: &Words| w.words.is_empty() && size(w).is_some();
        self.find(VALUES)
            .or_else(|| self.words.iter().position(is_size))
    }

    fn ids(&self, wanted: &Wanted) -> Result<Vec<usize>, ImportError> {
        if let Some(given) = &wanted.id {
            let whole = self.named(given).map(|at| vec![at]);
            let each = || {
                given
                    .split(',')
                    .map(|name| self.need(name.trim(), "named", "--id-column"))
                    .collect()
            };
            return whole.map_or_else(each, Ok);
        }
        let Some(who) = self.find(IDS) else {
            return Ok(self.find(MEASURES).into_iter().collect());
        };
        let within = WITHIN.iter().any(|phrase| self.words[who].are(phrase));
        let place = self.find(PLACES).filter(|at| within && *at != who);
        let measure = self.find(MEASURES).filter(|at| *at != who);
        Ok(place.into_iter().chain([who]).chain(measure).collect())
    }

    fn facts(&self) -> Facts {
        let timed = |at: &usize| self.words[*at].unit.as_deref().and_then(seconds_of_word);
        let cpu = ["cpu", "cpu time", "process cpu"]
            .iter()
            .find_map(|phrase| {
                let at = self.words.iter().position(|w| w.are(phrase))?;
                Some((at, timed(&at)?))
            });
        let total = self
            .words
            .iter()
            .position(|w| w.are("process cpu seconds total") || w.are("cpu seconds total"));
        Facts {
            cpu: cpu.or(total.map(|at| (at, 1.0))),
            requests: self.find(&[
                "requests total",
                "requests served",
                "http requests total",
                "requests",
            ]),
            lazy_free: self.sized(&["lazy free", "lazyfree"]),
            huge_pages: self.sized(&[
                "anon huge pages",
                "huge pages",
                "anonhugepages",
                "thp",
                "anon thp",
            ]),
            start: self.find(&[
                "started",
                "start time",
                "process start time",
                "started at",
                "start",
            ]),
            allocator: self.find(&["allocator", "malloc"]),
        }
    }

    fn mark(&self) -> Option<(usize, f64)> {
        let begins = self
            .names
            .iter()
            .position(|n| n.to_ascii_lowercase().starts_with("hwm"));
        let at = begins.or_else(|| self.find(MARKS))?;
        Some((at, self.factor(at).unwrap_or(1.0)))
    }
}

/// Reads a header of the long form (line 1): a reading in each row. `blanks`: a run of blanks parts the fields, as
/// ps, top and pidstat write, which mean KiB.
pub fn parse_header(
    names: &[String],
    wanted: &Wanted,
    blanks: bool,
) -> Result<Columns, ImportError> {
    check_size(names)?;
    let header = Header::new(names);
    let time = header.time(wanted, blanks)?;
    let value = match wanted.value.as_deref() {
        Some(given) => header.need(given, "memory", "--value-column")?,
        None => header
            .usual_value()
            .ok_or_else(|| header.missing("rss", "memory", "--value-column"))?,
    };
    if value == time.place {
        return Err(header.missing("rss", "memory", "--value-column"));
    }
    let (value_factor, unit_said) = value_unit(&header, value, wanted, blanks)?;
    let arm = match wanted.arm.as_deref() {
        Some(given) => Some(header.need(given, "named", "--arm-column")?),
        None => header.find(ARMS),
    };
    Ok(Columns {
        id: header
            .ids(wanted)?
            .into_iter()
            .filter(|at| Some(*at) != arm)
            .collect(),
        arm,
        time,
        value,
        value_factor,
        unit_said,
        hwm: header.mark(),
        kind: names.iter().position(|n| n == "type"),
        unit: header.find(&["unit", "units"]),
        facts: header.facts(),
        wide: Vec::new(),
    })
}

fn check_size(names: &[String]) -> Result<(), ImportError> {
    if names.len() <= COLUMNS_MAX {
        return Ok(());
    }
    let what = format!("{} columns", names.len());
    let next = format!("a table of readings has at most {COLUMNS_MAX}; is it transposed?");
    Err(ImportError::new(1, COLUMNS_MAX, what, next))
}

fn value_unit(
    header: &Header,
    value: usize,
    wanted: &Wanted,
    blanks: bool,
) -> Result<(f64, bool), ImportError> {
    if let Some(unit) = &wanted.unit {
        let factor = unit_factor(unit).ok_or_else(|| unknown_unit(value, unit))?;
        return Ok((factor, true));
    }
    if let Some(factor) = header.factor(value) {
        return Ok((factor, true));
    }
    // ps, top, smem and pidstat print KiB, and call the address space VSZ; psutil prints bytes, and calls it vms.
    // VmRSS is the name of /proc/PID/status, which has KiB.
    let of_ps = blanks || header.find(&["vsz", "virt"]).is_some();
    let printed = ["rss", "res", "pss", "uss"]
        .iter()
        .any(|phrase| header.words[value].are(phrase));
    let of_proc = header.words[value].are("vm rss");
    Ok((
        if of_proc || (of_ps && printed) {
            1024.0
        } else {
            1.0
        },
        false,
    ))
}

fn unknown_unit(value: usize, unit: &str) -> ImportError {
    let what = format!("unknown unit {unit}");
    ImportError::new(
        1,
        value,
        what,
        "use B, kB, KiB, MB, MiB, GB, GiB, TB or TiB",
    )
}

/// Reads a header of the wide form: a time, and a column for each process. Without `--wide` it is taken for that
/// when no column is called memory or says who was read, there are two processes at least, and none of them is
/// called like something else that is measured.
pub fn parse_wide(names: &[String], wanted: &Wanted) -> Result<Columns, ImportError> {
    check_size(names)?;
    let header = Header::new(names);
    let time = header.time(wanted, false)?;
    let is_other =
        |at: &usize| *at != time.place && Some(*at) != time.date && !names[*at].trim().is_empty();
    let places: Vec<usize> = (0..names.len()).filter(is_other).collect();
    let long = wanted.value.is_some() || wanted.id.is_some() || wanted.arm.is_some();
    let told =
        header.usual_value().is_some() || header.find(IDS).is_some() || header.find(ARMS).is_some();
    let odd = || places.iter().any(|at| is_other_measure(&header.words[*at]));
    if !wanted.wide && (long || told || places.len() < 2 || odd()) {
        return Err(header.missing("rss", "memory", "--value-column"));
    }
    if let Some(twice) = places
        .iter()
        .find(|at| names[..**at].contains(&names[**at]))
    {
        let what = format!("a second column {}", names[*twice].trim());
        return Err(ImportError::new(
            1,
            *twice,
            what,
            "give each process a name of its own",
        ));
    }
    let given = wanted.unit.as_deref().map(|unit| {
        unit_factor(unit).ok_or_else(|| unknown_unit(places.first().copied().unwrap_or(0), unit))
    });
    let given = given.transpose()?;
    // A process may be called web-b: one that ends in a letter that is a unit says none.
    let own = |at: usize| {
        header
            .factor(at)
            .filter(|_| header.words[at].unit.as_deref() != Some("b"))
    };
    let unit_said = given.is_some() || places.iter().all(|at| own(*at).is_some());
    let wide = places
        .iter()
        .map(|at| (*at, given.or(own(*at)).unwrap_or(1.0)))
        .collect();
    Ok(Columns {
        time,
        unit_said,
        wide,
        value_factor: 1.0,
        ..Columns::default()
    })
}

fn is_other_measure(words: &Words) -> bool {
    const OTHERS: &[&str] = &[
        "cpu",
        "percent",
        "vsz",
        "vms",
        "virt",
        "swap",
        "disk",
        "threads",
        "count",
        "requests",
        "load",
        "free",
        "total",
        "faults",
        "minflt",
        "majflt",
        "limit",
        "shared",
        "buffers",
        "cache",
        "cached",
        "io",
        "temperature",
    ];
    words
        .words
        .iter()
        .any(|word| OTHERS.contains(&word.as_str()))
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;

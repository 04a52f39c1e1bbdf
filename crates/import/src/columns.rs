//! Which column is what, by name or by flag, and the unit of each.

use super::ImportError;
use super::header::{ARMS, Header, IDS};
pub use super::header::{Facts, Time, Wanted};
pub use super::headings::unit_factor;
use super::headings::{Words, seconds_of_word};
use super::number::SAY_OF_WHAT;

/// More columns than this are no table of readings.
pub const COLUMNS_MAX: usize = 4096;

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
    /// Nothing says that the values are memory: they are the only numbers.
    pub is_only_number: bool,
    /// In the wide form: the columns of processes, with their factors; `value` means nothing then.
    pub wide: Vec<(usize, f64)>,
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
        None => header.usual_value().ok_or_else(|| header.no_value())?,
    };
    if value == time.place && time.interval_s.is_none() {
        return Err(header.no_value());
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
        is_only_number: false,
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
    if header.is_percent(value) {
        let what = format!("{} is a percentage", header.name(value));
        return Err(ImportError::new(1, value, what, SAY_OF_WHAT));
    }
    if header.is_of_psrecord(value) {
        return Ok((1_048_576.0, true));
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
    // sar's unit is in the name.
    let of_sar = header.is_of_sar(value);
    let is_kib = of_proc || of_sar || (of_ps && printed);
    Ok((if is_kib { 1024.0 } else { 1.0 }, of_sar))
}

fn unknown_unit(value: usize, unit: &str) -> ImportError {
    let what = format!("unknown unit {unit}");
    ImportError::new(
        1,
        value,
        what,
        "use B, kB, KiB, MB, MiB, GB, GiB, TB or TiB; of a percentage of 4 GiB %4GiB",
    )
}

/// Reads a header of the wide form: a time, and a column for each process. Without `--wide` it is taken for that
/// when no column is called memory or says who was read, there are two processes at least, and none of them is
/// called like something else that is measured.
pub fn parse_wide(names: &[String], wanted: &Wanted) -> Result<Columns, ImportError> {
    check_size(names)?;
    let header = Header::new(names);
    let time = header.time(wanted, false)?;
    let is_other = |at: &usize| !time.is_at(*at) && !names[*at].trim().is_empty();
    let places: Vec<usize> = (0..names.len()).filter(is_other).collect();
    let long = wanted.value.is_some() || wanted.id.is_some() || wanted.arm.is_some();
    let told =
        header.usual_value().is_some() || header.find(IDS).is_some() || header.find(ARMS).is_some();
    let odd = || places.iter().any(|at| is_other_measure(&header.words[*at]));
    if !wanted.wide && (long || told || places.len() < 2 || odd()) {
        return Err(header.no_value());
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

/// Whether the first column is called like something else than a time.
pub fn is_no_time(names: &[String]) -> bool {
    let header = Header::new(names);
    let is_name = |phrase: &str| header.words[0].are(phrase);
    let is_id = IDS.iter().chain(ARMS).any(|phrase| is_name(phrase));
    header.usual_value() == Some(0)
        || header.factor(0).is_some()
        || is_id
        || says_other(&header.words[0])
}

/// Words of measures that are no memory, where a column would be taken for it only because it has numbers.
fn says_other(words: &Words) -> bool {
    const ELSE: &[&str] = &[
        "pct",
        "percentage",
        "util",
        "utilization",
        "utilisation",
        "latency",
        "duration",
        "rate",
        "rps",
        "qps",
        "errors",
        "status",
        "code",
        "port",
        "connections",
        "fds",
        "goroutines",
        "queue",
        "depth",
        "size",
        "age",
    ];
    let is_time = words.unit.as_deref().and_then(seconds_of_word).is_some();
    is_time
        || is_other_measure(words)
        || words.words.iter().any(|word| ELSE.contains(&word.as_str()))
}

/// Columns of which nothing is known but their names, and those are no other measures'. Of more columns than a table of
/// readings has it is not asked.
pub fn unknown_columns(names: &[String], wanted: &Wanted) -> Vec<usize> {
    if names.len() > COLUMNS_MAX {
        return Vec::new();
    }
    let header = Header::new(names);
    let time = header.time(wanted, false).ok();
    let is_time = |at: usize| time.as_ref().is_some_and(|time| time.is_at(at));
    let is_id = |words: &Words| IDS.iter().chain(ARMS).any(|phrase| words.are(phrase));
    let is_asked = |given: &Option<String>, name: &str| given.as_deref() == Some(name.trim());
    let is_unknown = |at: &usize| {
        let (name, words) = (&names[*at], &header.words[*at]);
        let is_named = is_asked(&wanted.id, name) || is_asked(&wanted.arm, name);
        !is_time(*at) && !is_named && !is_id(words) && !says_other(words)
    };
    (0..names.len()).filter(is_unknown).collect()
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

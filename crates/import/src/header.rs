//! The names of a header, and which of them mean what.

use super::ImportError;
use super::headings::{Words, factor_of_word, seconds_of_word, words_of};
use super::number::{Decimal, SAY_OF_WHAT};
use super::time::DateOrder;
use units::wording::{nearest, shown};

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
    /// From one reading of a series to the next, where no column has times.
    pub interval_s: Option<f64>,
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
    /// There is no such column: readings of a series are so far apart.
    pub interval_s: Option<f64>,
}

impl Time {
    /// Whether a column says it.
    pub fn is_at(&self, at: usize) -> bool {
        self.interval_s.is_none() && (self.place == at || self.date == Some(at))
    }

    /// Of a table without times.
    fn without(interval_s: f64) -> Time {
        Time {
            factor: 1.0,
            interval_s: Some(interval_s),
            ..Time::default()
        }
    }
}

/// What else is known of a process at a sample, for the audit.
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

pub const IDS: &[&str] = &[
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
pub const ARMS: &[&str] = &["arm", "group"];
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
    "mem real",
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
    "kbmemused",
    "memused",
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
    pub words: Vec<Words>,
}

impl<'a> Header<'a> {
    pub fn new(names: &'a [String]) -> Header<'a> {
        Header {
            names,
            words: names.iter().map(|name| words_of(name)).collect(),
        }
    }

    /// The first column of the first phrase that any has.
    pub fn find(&self, phrases: &[&str]) -> Option<usize> {
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

    pub fn need(&self, given: &str, what: &str, flag: &str) -> Result<usize, ImportError> {
        self.named(given)
            .ok_or_else(|| self.not_there(given, what, flag))
    }

    /// A column that a flag names is not there.
    fn not_there(&self, given: &str, what: &str, flag: &str) -> ImportError {
        const SHOWN: usize = 8;
        let near = nearest(given, self.names.iter().map(String::as_str));
        let hint = near.map_or_else(String::new, |n| format!("; is it {n}?"));
        let names = self.names.iter().take(SHOWN);
        let names: Vec<String> = names.map(|name| shown(name, 40)).collect();
        let more = if self.names.len() > SHOWN { " ..." } else { "" };
        let what = format!(
            "no {what} column {given}, but {}{more}{hint}",
            names.join(", ")
        );
        ImportError::new(1, 0, what, format!("give {flag} one of them"))
    }

    pub fn name(&self, at: usize) -> &str {
        self.names[at].trim()
    }

    /// No column is the memory; percentages of it may be there.
    pub fn no_value(&self) -> ImportError {
        let missing = self.missing("rss", "memory", "--value-column");
        let is_memory = |at: &usize| {
            let mut words = self.words[*at].words.iter();
            self.is_percent(*at) && words.any(|word| word.starts_with("mem") || word == "ram")
        };
        let Some(at) = (0..self.names.len()).find(is_memory) else {
            return missing;
        };
        let what = format!("{} but percentages, {}", missing.what, self.name(at));
        let next = format!("{}, and {SAY_OF_WHAT}", missing.next);
        ImportError {
            what,
            next,
            ..missing
        }
    }

    /// Whether a name says percentages.
    pub fn is_percent(&self, at: usize) -> bool {
        const PERCENTAGES: &[&str] = &["percent", "pct", "perc", "percentage", "utilization"];
        let mut words = self.words[at].words.iter();
        self.factor(at).is_none() && words.any(|word| PERCENTAGES.contains(&word.as_str()))
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

    pub fn factor(&self, at: usize) -> Option<f64> {
        self.words[at].unit.as_deref().and_then(factor_of_word)
    }

    pub fn time(&self, wanted: &Wanted, blanks: bool) -> Result<Time, ImportError> {
        let place = match wanted.time.as_deref() {
            Some(given) => self.need(given, "time", "--time-column")?,
            None => match (self.usual_time(blanks), wanted.interval_s) {
                (Some(place), _) => place,
                (None, Some(interval_s)) => return Ok(Time::without(interval_s)),
                (None, None) => return Err(self.no_time()),
            },
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
            interval_s: None,
        })
    }

    fn no_time(&self) -> ImportError {
        let told = self.missing("t_s", "time", "--time-column");
        let next = format!(
            "{}, or say how far apart the readings are, with --interval 10s",
            told.next
        );
        ImportError { next, ..told }
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
        TIMES.iter().find_map(of).or_else(alone)
    }

    pub fn usual_value(&self) -> Option<usize> {
        // A process may be called b.
        let long = |unit: &&str| unit.len() > 1;
        let size = |w: &Words| w.unit.as_deref().filter(long).and_then(factor_of_word);
        let is_size = |w: &Words| w.words.is_empty() && size(w).is_some();
        self.find(VALUES)
            .or_else(|| self.words.iter().position(is_size))
    }

    pub fn ids(&self, wanted: &Wanted) -> Result<Vec<usize>, ImportError> {
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

    pub fn facts(&self) -> Facts {
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

    /// Whether it is what the machine uses, in KiB, as sar and `sadf -j` call it.
    pub fn is_of_sar(&self, at: usize) -> bool {
        let is_json = || self.words[at].are("memused") && self.find(&["memused percent"]).is_some();
        self.words[at].are("kbmemused") || is_json()
    }

    /// Whether it is the memory of psrecord, which calls 1024 x 1024 bytes an MB, and in its CSV nothing.
    pub fn is_of_psrecord(&self, at: usize) -> bool {
        let is_log = self.words[at].are("real") && self.find(&["virtual"]).is_some();
        let is_csv = self.words[at].are("mem real") && self.find(&["mem virtual"]).is_some();
        (is_log || is_csv) && self.find(&["elapsed time"]).is_some()
    }

    pub fn mark(&self) -> Option<(usize, f64)> {
        let begins = self
            .names
            .iter()
            .position(|n| n.to_ascii_lowercase().starts_with("hwm"));
        let at = begins.or_else(|| self.find(MARKS))?;
        Some((at, self.factor(at).unwrap_or(1.0)))
    }
}

//! What was asked for, read and checked before any series is: limits, groups, times, ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::VerdictArgs;
use crate::cli::exit::Usage;
use crate::cli::pictures;
use import::columns::Wanted;
use import::groups::{Grouping, Named, parse_groups};
use import::meta::{Meta, parse_meta};
use import::time::{Moment, parse_instant, parse_moment};
use verdict::Rules;

/// The end that `--until` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// On the clock of the series, which it may lie before.
    Date(f64),
    /// Seconds on the clock of a series, or since its first reading when that clock began later.
    Number(f64),
    /// Seconds since its first reading.
    After(f64),
}

impl Until {
    /// The instant meant, for readings whose first is at `first_s`.
    pub fn end_s(self, first_s: f64) -> f64 {
        match self {
            Until::Number(since) if since < first_s => first_s + since,
            Until::Number(t_s) | Until::Date(t_s) => t_s,
            Until::After(since) => first_s + since,
        }
    }
}

/// The call, checked.
pub struct Given<'a> {
    pub args: &'a VerdictArgs,
    pub meta: BTreeMap<String, Meta>,
    /// The same by the names of processes, where only one arm has one of that name: a process that is in one arm
    /// after another is called by its name.
    by_process: BTreeMap<String, Meta>,
    pub groups: Vec<Grouping>,
    pub until: Option<Until>,
    pub rules: Rules,
}

impl Given<'_> {
    /// Reads the files beside the series.
    ///
    /// # Errors
    /// A mistake in the call ([`Usage`]), or a file that cannot be read, with line and column.
    pub fn read(args: &VerdictArgs) -> Result<Given<'_>> {
        if let Some(part) = args.at.iter().find(|p| !(**p > 0.0 && **p <= 1.0)) {
            return Err(Usage(format!(
                "--at {part}: a part of a series lies above 0 and up to 1"
            ))
            .into());
        }
        args.plot.as_deref().map(pictures::check).transpose()?;
        let until = args.until.as_deref().map(until_of).transpose()?;
        let meta = meta_of(args)?;
        Ok(Given {
            args,
            by_process: by_process(&meta),
            meta,
            groups: groups_of(args)?,
            until,
            rules: Rules::default(),
        })
    }

    /// The columns that flags name.
    pub fn wanted(&self) -> Wanted {
        let columns = &self.args.columns;
        Wanted {
            id: columns.id_column.clone(),
            arm: columns.arm_column.clone(),
            time: columns.time_column.clone(),
            value: columns.value_column.clone(),
            unit: columns.unit.clone(),
            decimal: columns.decimal,
            dates: columns.dates,
            wide: columns.wide,
            interval_s: columns.interval.map(|interval| interval.as_secs_f64()),
        }
    }

    /// Whether `--only` leaves this series in.
    pub fn wants(&self, id: &str, process: &str) -> bool {
        let only = &self.args.only;
        only.is_empty() || only.iter().any(|o| o == id || o == process)
    }

    /// The limit of a series, bytes: its own in `--meta`, else `--limit`, else what its source knows.
    pub fn limit(&self, id: &str, known: Option<f64>) -> Option<f64> {
        let own = self.meta_of(id).and_then(|meta| meta.limit_bytes);
        own.or(self.args.limit.map(|bytes| bytes as f64)).or(known)
    }

    /// Restarts that `--meta` tells of.
    pub fn restarts_s(&self, id: &str) -> Vec<f64> {
        let known = self.meta_of(id);
        known
            .map(|meta| meta.restarts_s.clone())
            .unwrap_or_default()
    }

    /// By the id of the series, else by the name of its process within its arm.
    fn meta_of(&self, id: &str) -> Option<&Meta> {
        self.meta
            .get(id)
            .or_else(|| self.meta.get(Given::process_of(id)))
            .or_else(|| self.by_process.get(id))
    }

    /// "api-1" of "blue/api-1".
    pub fn process_of(id: &str) -> &str {
        id.split_once('/').map_or(id, |(_, process)| process)
    }
}

fn until_of(text: &str) -> Result<Until> {
    if let (true, Some(t_s)) = (text.trim().parse::<f64>().is_ok(), parse_instant(text)) {
        return Ok(Until::Number(t_s));
    }
    if let Ok((Moment::At(t_s), _)) = parse_moment(text, None) {
        return Ok(Until::Date(t_s));
    }
    match units::parse_duration(text) {
        Ok(since) => Ok(Until::After(since.as_secs_f64())),
        Err(_) => {
            let words = format!(
                "--until {text}: no time; write seconds, epoch seconds, ISO 8601, or how long after the first \
                 reading (6h, 3d)"
            );
            Err(Usage(words).into())
        }
    }
}

fn by_process(meta: &BTreeMap<String, Meta>) -> BTreeMap<String, Meta> {
    let mut all: BTreeMap<String, Option<Meta>> = BTreeMap::new();
    for (id, meta) in meta.iter().filter(|(id, _)| id.contains('/')) {
        let one = all.entry(Given::process_of(id).to_owned());
        one.and_modify(|known| *known = None)
            .or_insert_with(|| Some(meta.clone()));
    }
    let only = |(name, meta): (String, Option<Meta>)| Some((name, meta?));
    all.into_iter().filter_map(only).collect()
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("opening {}", path.display()))
}

fn meta_of(args: &VerdictArgs) -> Result<BTreeMap<String, Meta>> {
    let Some(path) = &args.meta else {
        return Ok(BTreeMap::new());
    };
    parse_meta(open(path)?).with_context(|| format!("reading {}", path.display()))
}

fn groups_of(args: &VerdictArgs) -> Result<Vec<Grouping>> {
    let mut all = Vec::new();
    for text in &args.groups {
        // A name may hold the sign itself: me@host.csv.
        let split = text.rsplit_once('@').filter(|_| !Path::new(text).exists());
        let (path, from_s) = match split {
            Some((path, time)) => {
                let told = || Usage(format!("--groups {text}: {time} is no time"));
                (path, Some(parse_instant(time).ok_or_else(told)?))
            }
            None => (text.as_str(), None),
        };
        let named = Named {
            process: args.columns.id_column.as_deref(),
            arm: args.columns.arm_column.as_deref(),
        };
        let grouping = parse_groups(open(Path::new(path))?, named, from_s);
        all.push(grouping.with_context(|| format!("reading {path}"))?);
    }
    let from = |g: &Grouping| g.from_s.unwrap_or(f64::MIN);
    all.sort_by(|a, b| from(a).total_cmp(&from(b)));
    Ok(all)
}

//! What was asked for, read and checked before any series is: limits, groups, times, ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::VerdictArgs;
use super::picture::format_of;
use crate::cli::exit::Usage;
use crate::observe::import::columns::Wanted;
use crate::observe::import::groups::{Grouping, parse_groups};
use crate::observe::import::meta::{Meta, parse_meta};
use crate::observe::import::time::parse_instant;
use crate::verdict::Rules;

/// The call, checked.
pub struct Given<'a> {
    pub args: &'a VerdictArgs,
    pub meta: BTreeMap<String, Meta>,
    pub groups: Vec<Grouping>,
    /// Seconds, on the clock of the series or since their beginning.
    pub until: Option<f64>,
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
        args.plot.as_deref().map(format_of).transpose()?;
        let until = args.until.as_deref().map(instant).transpose()?;
        Ok(Given {
            args,
            meta: meta_of(args)?,
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
        }
    }

    /// Whether `--only` leaves this series in.
    pub fn wants(&self, id: &str, process: &str) -> bool {
        let only = &self.args.only;
        only.is_empty() || only.iter().any(|o| o == id || o == process)
    }

    /// The limit of a series, bytes: its own in `--meta`, else `--limit`, else what its source knows.
    pub fn limit(&self, id: &str, known: Option<f64>) -> Option<f64> {
        let own = self.meta.get(id).and_then(|meta| meta.limit_bytes);
        own.or(self.args.limit.map(|bytes| bytes as f64)).or(known)
    }

    /// Restarts that `--meta` tells of.
    pub fn restarts_s(&self, id: &str) -> Vec<f64> {
        let known = self.meta.get(id);
        known
            .map(|meta| meta.restarts_s.clone())
            .unwrap_or_default()
    }
}

fn instant(text: &str) -> Result<f64> {
    parse_instant(text).ok_or_else(|| {
        let words = format!("--until {text}: no time; write seconds, epoch seconds or ISO 8601");
        Usage(words).into()
    })
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
        let (path, from_s) = match text.rsplit_once('@') {
            Some((path, time)) => {
                let told = || Usage(format!("--groups {text}: {time} is no time"));
                (path, Some(parse_instant(time).ok_or_else(told)?))
            }
            None => (text.as_str(), None),
        };
        let grouping = parse_groups(open(Path::new(path))?, from_s);
        all.push(grouping.with_context(|| format!("reading {path}"))?);
    }
    let from = |g: &Grouping| g.from_s.unwrap_or(f64::MIN);
    all.sort_by(|a, b| from(a).total_cmp(&from(b)));
    Ok(all)
}

//! `highwater verdict FILE`: judges any memory series, and audits the experiment it came from.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use self::held::{Held, audit_input, cut, judge_batch};
use super::{exit, verdict_lines as lines};
use crate::analyse::series::Series;
use crate::observe::import::Row;
use crate::observe::import::columns::Wanted;
use crate::observe::import::groups::{Grouping, arm_at, parse_groups};
use crate::observe::import::meta::{Meta, parse_meta};
use crate::observe::import::rows::Rows;
use crate::observe::import::time::parse_instant;
use crate::verdict::Rules;
use crate::verdict::arm::{self, ArmVerdict};
use crate::verdict::audit::{
    AuditInput, Check, Finding, Severity, at_uptime, audit, equal_uptime_s, survivors,
};
use crate::verdict::series::SeriesVerdict;

/// Judges memory series from a file or a pipe, and audits the experiment they came from.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerdictArgs {
    /// CSV with a header; `-` is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Limits and restarts: id,limit_kib,restarts_s with `;` between restarts.
    #[arg(long, value_name = "FILE")]
    pub meta: Option<PathBuf>,
    /// Arms of the processes (nickname,group); FILE@TIME for one that holds from then on. Repeatable.
    #[arg(long, value_name = "FILE[@TIME]")]
    pub groups: Vec<String>,
    /// Judge only what was seen up to this time (of the file, or seconds since its first reading).
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
    /// Judge these parts of each series too; ids become ID@PART.
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub at: Vec<f64>,
    /// Judge the arms.
    #[arg(long)]
    pub arms: bool,
    /// Compare these pairs of arms.
    #[arg(long, value_name = "A:B,...", value_delimiter = ',')]
    pub pairs: Vec<String>,
    /// Compare every pair of arms.
    #[arg(long)]
    pub all_pairs: bool,
    /// The arm that the others are compared with.
    #[arg(long, value_name = "ARM")]
    pub control: Option<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 when the audit refuses an arm.
    #[arg(long)]
    pub strict: bool,
    #[arg(long, value_name = "NAME")]
    pub id_column: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub arm_column: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub time_column: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub value_column: Option<String>,
    /// Unit of the values: B, kB, KiB, MB, MiB, GB, GiB. Without it the column's name says.
    #[arg(long)]
    pub unit: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  highwater verdict rss.csv                        columns id,t_s,rss_kib
  highwater verdict rss.csv --meta limits.csv --json
  highwater verdict arms.csv --arms --all-pairs    columns arm,process,t_s,rss_kib
  highwater verdict memory_measurements.csv --groups relay_config.csv --arms
  cut -d, -f1,2,5 big.csv | highwater verdict - --value-column mem --unit MiB";

/// A pipe of this many rows whose series stand together is judged as it comes.
const PROBE_ROWS: usize = 1 << 16;
/// So many series are judged at once.
const BATCH: usize = 256;

struct Job<'a> {
    args: &'a VerdictArgs,
    meta: BTreeMap<String, Meta>,
    groups: Vec<Grouping>,
    rules: Rules,
    table: Vec<SeriesVerdict>,
}

/// The verb. Exit code 0, or 1 under `--strict` when an arm is refused.
pub fn run(args: &VerdictArgs) -> Result<u8> {
    let input: Box<dyn Read> = if args.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(open(&args.file)?)
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    match judge_input(args, input, &mut out).and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Err(e) if is_closed_pipe(&e) => Ok(exit::DONE),
        other => other,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error
        .chain()
        .any(|c| c.downcast_ref::<io::Error>().is_some_and(closed))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("opening {}", path.display()))
}

/// Judges `input` and writes to `out`; the whole verb but for the files named by `args`.
pub fn judge_input(args: &VerdictArgs, input: impl Read, out: &mut impl Write) -> Result<u8> {
    if let Some(part) = args.at.iter().find(|p| !(**p > 0.0 && **p <= 1.0)) {
        return Err(exit::Usage(format!("--at {part}: a part lies between 0 and 1")).into());
    }
    let mut job = Job {
        args,
        meta: meta_of(args)?,
        groups: groups_of(args)?,
        rules: Rules::default(),
        table: Vec::new(),
    };
    let name = args.file.display().to_string();
    let mut rows = Rows::open(input, &wanted(args)).with_context(|| format!("reading {name}"))?;
    let held = job
        .read(&mut rows, out)
        .with_context(|| format!("reading {name}"))?;
    job.finish(held, out)
}

fn wanted(args: &VerdictArgs) -> Wanted {
    Wanted {
        id: args.id_column.clone(),
        arm: args.arm_column.clone(),
        time: args.time_column.clone(),
        value: args.value_column.clone(),
        unit: args.unit.clone(),
    }
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
                let told = || exit::Usage(format!("--groups {text}: {time} is no time"));
                (path, Some(parse_instant(time).ok_or_else(told)?))
            }
            None => (text.as_str(), None),
        };
        all.push(
            parse_groups(open(Path::new(path))?, from_s)
                .with_context(|| format!("reading {path}"))?,
        );
    }
    all.sort_by(|a, b| {
        a.from_s
            .unwrap_or(f64::MIN)
            .total_cmp(&b.from_s.unwrap_or(f64::MIN))
    });
    Ok(all)
}

impl Job<'_> {
    /// Reads all rows. Series that stand together, one after the other, are judged and written as they end,
    /// so that a pipe of any length needs little memory; what is returned is still to be judged.
    fn read<R: Read>(&mut self, rows: &mut Rows<R>, out: &mut impl Write) -> Result<Vec<Held>> {
        let mut held: Vec<Held> = Vec::new();
        let mut place: HashMap<String, usize> = HashMap::new();
        let (mut count, mut together, mut last, mut judged) = (0usize, true, usize::MAX, 0usize);
        while let Some(row) = rows.next_row()? {
            let arm = self.arm_of(&row);
            let key = if self.groups.is_empty() && row.arm.is_empty() {
                &row.id
            } else {
                &row.process
            };
            let at = match place.get(key) {
                Some(at) => *at,
                None => {
                    place.insert(key.clone(), held.len() + judged);
                    held.push(Held {
                        id: key.clone(),
                        ..Held::default()
                    });
                    held.len() + judged - 1
                }
            };
            anyhow::ensure!(
                at >= judged,
                "the readings of {key} do not stand together; sort the file by id, or by time"
            );
            together &= at == last || at + 1 == held.len() + judged;
            together &= arm.is_empty();
            (last, count) = (at, count + 1);
            held[at - judged].take(row, arm);
            let dense = count >= 16 * (held.len() + judged);
            if together && dense && count >= PROBE_ROWS && held.len() > BATCH {
                let ready = held.drain(..held.len() - 1).collect::<Vec<_>>();
                judged += ready.len();
                self.judge_series(ready, out)?;
            }
        }
        anyhow::ensure!(
            count > 0,
            "no readings after the header; is the file complete?"
        );
        Ok(held)
    }

    fn arm_of(&self, row: &Row) -> String {
        if row.arm.is_empty() {
            arm_at(&self.groups, &row.process, row.t_s).to_owned()
        } else {
            row.arm.clone()
        }
    }

    fn series(&self, held: Held) -> Series {
        let meta = self.meta.get(&held.id).cloned().unwrap_or_default();
        let mut series = Series {
            id: held.id,
            points: held.points,
            restarts_s: meta.restarts_s,
            limit: meta.limit_bytes,
        };
        if let Some(until) = self.args.until.as_deref().and_then(parse_instant) {
            cut(&mut series, until);
        }
        series
    }

    fn judge_series(&mut self, held: Vec<Held>, out: &mut impl Write) -> Result<()> {
        let all: Vec<Series> = held.into_iter().map(|h| self.series(h)).collect();
        for batch in all.chunks(BATCH) {
            for verdict in judge_batch(batch, &self.args.at, &self.rules) {
                if self.args.json {
                    writeln!(out, "{}", lines::series_line(&verdict))?;
                } else {
                    self.table.push(verdict);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, held: Vec<Held>, out: &mut impl Write) -> Result<u8> {
        let has_arms = held
            .iter()
            .any(|h| h.arms.iter().any(|(_, a)| !a.is_empty()));
        if !has_arms {
            anyhow::ensure!(
                !self.args.arms && self.args.pairs.is_empty() && !self.args.all_pairs,
                "no arms in the file; name their column with --arm-column, or give --groups"
            );
            self.judge_series(held, out)?;
            self.write_table(&[], &[], &[], out)?;
            return Ok(exit::DONE);
        }
        let input = audit_input(&held, self.args.control.clone(), self.args.until.as_deref());
        let findings = audit(&input);
        if self.args.json {
            for f in &findings {
                writeln!(out, "{}", lines::audit_line(f))?;
            }
        }
        let (arms, refused) = self.judge_arms(&input, &findings);
        let pairs = self.compare(&input, &findings, &arms)?;
        if self.args.json {
            for (arm, refused) in arms.iter().zip(&refused) {
                for v in &arm.processes {
                    writeln!(out, "{}", lines::series_line(v))?;
                }
                writeln!(out, "{}", lines::arm_line(arm, *refused))?;
            }
            for pair in &pairs {
                writeln!(out, "{}", lines::pair_line(pair))?;
            }
        }
        self.write_table(&findings, &arms, &pairs, out)?;
        let fatal = findings.iter().any(|f| f.severity == Severity::Refuses);
        Ok(if self.args.strict && fatal {
            exit::FAILED
        } else {
            exit::DONE
        })
    }

    fn judge_arms(&self, input: &AuditInput, found: &[Finding]) -> (Vec<ArmVerdict>, Vec<bool>) {
        let left = survivors(input, found);
        let refused = left.iter().map(|s| s.refused).collect();
        let arms = left
            .into_iter()
            .map(|mut s| {
                for p in &mut s.processes {
                    let meta = self.meta.get(&p.id).cloned().unwrap_or_default();
                    p.limit = meta.limit_bytes;
                    p.restarts_s.extend(meta.restarts_s);
                    p.restarts_s.sort_by(f64::total_cmp);
                }
                arm::judge(&s.arm, &s.processes, &self.rules)
            })
            .collect();
        (arms, refused)
    }

    /// The pairs asked for; at equal uptime where the audit found unequal ones.
    fn compare(
        &self,
        input: &AuditInput,
        found: &[Finding],
        arms: &[ArmVerdict],
    ) -> Result<Vec<arm::PairVerdict>> {
        let wanted = self.pairs_wanted(arms)?;
        let uneven = found.iter().any(|f| f.check == Check::Uptimes);
        let equal_s = equal_uptime_s(input).filter(|_| uneven);
        let young: Vec<ArmVerdict> = match equal_s {
            Some(equal_s) => survivors(input, found)
                .iter()
                .map(|s| {
                    let cut: Vec<Series> =
                        s.processes.iter().map(|p| at_uptime(p, equal_s)).collect();
                    arm::judge(&s.arm, &cut, &self.rules)
                })
                .collect(),
            None => arms.to_vec(),
        };
        let by = |name: &str| young.iter().find(|a| a.arm == name);
        let pairs = wanted.iter().filter_map(|(a, b)| Some((by(a)?, by(b)?)));
        Ok(pairs
            .map(|(a, b)| {
                let mut pair = arm::compare_judged(a, b, wanted.len(), &self.rules);
                if let Some(s) = equal_s {
                    pair.words += &format!(", at equal uptime ({:.1} h)", s / 3600.0);
                }
                pair
            })
            .collect())
    }

    fn pairs_wanted(&self, arms: &[ArmVerdict]) -> Result<Vec<(String, String)>> {
        let names: Vec<&str> = arms.iter().map(|a| a.arm.as_str()).collect();
        let known = |name: &str| names.contains(&name);
        let mut wanted = Vec::new();
        for text in &self.args.pairs {
            let pair = text.split_once(':').filter(|(a, b)| known(a) && known(b));
            let (a, b) = pair.ok_or_else(|| {
                exit::Usage(format!(
                    "--pairs {text}: write A:B with arms of {}",
                    names.join(", ")
                ))
            })?;
            wanted.push((a.to_owned(), b.to_owned()));
        }
        if let Some(control) = self.args.control.as_deref().filter(|_| wanted.is_empty()) {
            anyhow::ensure!(
                known(control),
                exit::Usage(format!("--control {control}: no such arm"))
            );
            let others = names.iter().filter(|n| **n != control);
            wanted.extend(others.map(|n| ((*n).to_owned(), control.to_owned())));
        }
        if self.args.all_pairs {
            wanted.clear();
            for (i, a) in names.iter().enumerate() {
                wanted.extend(
                    names[i + 1..]
                        .iter()
                        .map(|b| ((*a).to_owned(), (*b).to_owned())),
                );
            }
        }
        Ok(wanted)
    }
}

mod held;
mod table;
#[cfg(test)]
mod tests;

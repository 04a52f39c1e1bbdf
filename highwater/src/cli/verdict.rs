//! `highwater verdict`: judges any memory series (a file, a pipe, a run of ours, a Prometheus), and audits
//! the experiment it came from.

mod answer;
mod backtest;
mod cores;
mod fleet;
mod given;
mod held;
mod known;
mod letters;
mod lines;
mod names;
mod own;
mod pairs;
mod picture;
mod pile;
#[cfg(test)]
mod shape_tests;
mod source;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use self::answer::Answer;
use self::given::Given;
use self::source::Source;
use super::exit;
use super::out::say;
use import::columns::unit_factor;
use import::number::Decimal;
use import::rows::Rows;
use import::time::DateOrder;

/// Judge memory series (a file, a pipe, a run, a Prometheus), and audit the experiment they came from.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerdictArgs {
    /// CSV with a header, or a run: its folder, its run.db, or its name under --runs; `-` is standard input
    #[arg(value_name = "FILE|RUN", conflicts_with = "prometheus")]
    pub file: Option<PathBuf>,
    /// Limits and restarts: id,limit_kib,restarts_s with `;` between restarts
    #[arg(long, value_name = "FILE")]
    pub meta: Option<PathBuf>,
    /// Memory limit of every series that --meta gives none: "4GiB"
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub limit: Option<u64>,
    /// Arms of the processes (nickname,group); FILE@TIME for one that holds from then on; may be repeated
    #[arg(long, value_name = "FILE[@TIME]")]
    pub groups: Vec<String>,
    /// Judge only what was seen up to this time: of the series, or seconds (or 6h, 3d) since its first reading
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
    /// Judge these parts of each series instead of the whole; ids become ID@PART
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub at: Vec<f64>,
    /// Judge only these series
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show the arms and not each of their processes
    #[arg(long)]
    pub arms: bool,
    /// Compare these pairs of arms
    #[arg(long, value_name = "A:B,...", value_delimiter = ',')]
    pub pairs: Vec<String>,
    /// Compare every pair of arms
    #[arg(long)]
    pub all_pairs: bool,
    /// The arm that the others are compared with
    #[arg(long, value_name = "ARM")]
    pub control: Option<String>,
    /// Draw the series with fitted curve, interval and forecast; by the ending SVG or PNG
    #[arg(long, value_name = "FILE", conflicts_with = "at")]
    pub plot: Option<PathBuf>,
    /// Hide the last part of each series (a quarter of its time unless given), forecast it from the rest, and compare
    /// what came with the forecasts, and with those of the rules that people use
    #[arg(
        long,
        value_name = "PART",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0.25",
        value_parser = part_of,
        conflicts_with_all = ["plot", "at", "arms", "pairs", "all_pairs", "control", "strict"]
    )]
    pub backtest: Option<f64>,
    /// One JSON object a line (highwater.verdict/1)
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 when the audit refuses an arm
    #[arg(long)]
    pub strict: bool,
    /// Where runs are kept
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten, next_help_heading = "Columns of a file")]
    pub columns: ColumnArgs,
    #[command(flatten, next_help_heading = "Prometheus, VictoriaMetrics")]
    pub fleet: fleet::FleetArgs,
}

impl VerdictArgs {
    /// Whether anything was asked that needs arms.
    fn wants_arms(&self) -> bool {
        self.arms || !self.pairs.is_empty() || self.all_pairs || self.control.is_some()
    }

    /// Whether a picture is wanted.
    fn draws(&self) -> bool {
        self.plot.is_some()
    }

    /// Whether the series are wanted whole, and together.
    fn wants_whole(&self) -> bool {
        self.draws() || self.backtest.is_some()
    }
}

/// Which column of a CSV file is what.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// Who was read; without it id, process, nickname, pid, instance, series ...; A,B joins two columns
    #[arg(long, value_name = "NAME")]
    pub id_column: Option<String>,
    /// Its arm; without it arm or group
    #[arg(long, value_name = "NAME")]
    pub arm_column: Option<String>,
    /// When: seconds, epoch seconds or ISO 8601
    #[arg(long, value_name = "NAME")]
    pub time_column: Option<String>,
    /// The memory
    #[arg(long, value_name = "NAME")]
    pub value_column: Option<String>,
    /// Unit of the values: B, kB, KiB, MB, MiB, GB, GiB; without it the column's name or the cell says
    #[arg(long, value_parser = unit_of)]
    pub unit: Option<String>,
    /// The decimal sign of numbers, where they do not show it: `.` or `,`
    #[arg(long, value_name = "SIGN", value_parser = decimal_of)]
    pub decimal: Option<Decimal>,
    /// Month or day first, in dates with slashes that do not show it: mdy or dmy
    #[arg(long, value_name = "ORDER", value_parser = dates_of)]
    pub dates: Option<DateOrder>,
    /// Every column but the time is a process (found without it where no column is called memory)
    #[arg(long)]
    pub wide: bool,
}

fn part_of(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part <= 0.5 => Ok(part),
        _ => Err("write a part of the time, above 0 and up to 0.5".to_owned()),
    }
}

fn unit_of(text: &str) -> Result<String, String> {
    match unit_factor(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("write B, kB, KiB, MB, MiB, GB, GiB, TB or TiB".to_owned()),
    }
}

fn decimal_of(text: &str) -> Result<Decimal, String> {
    match text {
        "." | "point" => Ok(Decimal::Point),
        "," | "comma" => Ok(Decimal::Comma),
        _ => Err("write . or ,".to_owned()),
    }
}

fn dates_of(text: &str) -> Result<DateOrder, String> {
    match text {
        "mdy" => Ok(DateOrder::MonthFirst),
        "dmy" => Ok(DateOrder::DayFirst),
        _ => Err("write mdy or dmy".to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  highwater verdict rss.csv                        columns id,t_s,rss_kib
  highwater verdict rss.csv --limit 4GiB --json
  highwater verdict arms.csv --arms --all-pairs    columns arm,process,t_s,rss_kib
  highwater verdict 2026-11-21-relay-1             a run: the words of `highwater report`
  highwater verdict memory_measurements.csv --groups relay_config.csv --arms
  highwater verdict rss.csv --only api-7 --plot api-7.png
  cut -d, -f1,2,5 big.csv | highwater verdict - --value-column mem --unit MiB
  highwater verdict --prometheus http://127.0.0.1:9090 --match job=api --arm-label version --start -9d

Exit codes: 0 judged, 1 the audit refuses an arm and --strict is given, 2 usage, 4 could not read.";

/// The verb. Exit code 0, or 1 under `--strict` when an arm is refused.
pub fn run(args: &VerdictArgs) -> Result<u8> {
    let given = Given::read(args)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let code = match source::of(args)? {
        Source::Run(folder) => own::judge(&given, &folder).and_then(|a| write(&given, a, &mut out)),
        Source::Fleet(url) => fleet::judge(&given, &url).and_then(|a| write(&given, a, &mut out)),
        Source::Csv(name, input) => judge_input(&given, &name, input, &mut out),
    };
    match code.and_then(|code| Ok(out.flush().map(|()| code)?)) {
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

/// Judges CSV from `input`, which errors call `name`, and writes to `out`.
pub fn judge_input(
    given: &Given,
    name: &str,
    input: impl Read,
    out: &mut impl Write,
) -> Result<u8> {
    let reading = || format!("reading {name}");
    let mut rows = Rows::open(input, &given.wanted()).with_context(reading)?;
    for note in rows.notes() {
        say!("highwater: {name}: {note}");
    }
    let (pile, held) = stream::read(given, &mut rows, out).with_context(reading)?;
    let answer = answer::of_held(given, held)?;
    write(given, Answer { pile, ..answer }, out)
}

/// Columns of the terminal; `None` where the output goes elsewhere.
fn width() -> Option<usize> {
    io::stdout()
        .is_terminal()
        .then(super::conclude::terminal_width)
}

/// Writes the answer in the form that was asked for.
fn write(given: &Given, answer: Answer, out: &mut impl Write) -> Result<u8> {
    if let Some(all) = &answer.backtest {
        match given.args.json {
            true => writeln!(out, "{}", backtest::line(all))?,
            false => backtest::write(all, out)?,
        }
        return Ok(exit::DONE);
    }
    if let Some(path) = &given.args.plot {
        picture::draw(given, path, &answer.drawn)?;
    }
    if given.args.json {
        lines::write(&answer, out)?;
    } else {
        table::write(&answer, given.args.arms, width(), out)?;
    }
    let refused = answer.is_refused();
    Ok(if given.args.strict && refused {
        exit::FAILED
    } else {
        exit::DONE
    })
}

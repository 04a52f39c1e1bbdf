//! `highwater verdict`: judges any memory series (a file, a pipe, a run of ours, a Prometheus), and audits
//! the experiment it came from.

mod answer;
mod backtest;
mod cores;
mod fleet;
mod given;
mod held;
mod known;
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
use std::time::Duration;

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
use units::parse_duration;

/// Classify memory series (CSV, a pipe, a run, Prometheus): growing, flat, plateauing, sawtooth, stepped
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = EXAMPLES, after_help = EXIT_CODES)]
pub struct VerdictArgs {
    /// A CSV file with a header, `-` for standard input, or a run: its folder, its run.db, or its name under --runs
    #[arg(value_name = "FILE|RUN", conflicts_with = "prometheus")]
    pub file: Option<PathBuf>,
    /// CSV with the memory limit and the restarts of each series: id,limit_kib,restarts_s; `;` between restarts
    #[arg(long, value_name = "FILE")]
    pub meta: Option<PathBuf>,
    /// Memory limit, such as 4GiB: adds the time until it is reached. For series without a limit in --meta
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub limit: Option<u64>,
    /// CSV with the arm of each process: nickname,group. FILE@TIME applies from TIME on; may be repeated
    #[arg(long, value_name = "FILE[@TIME]")]
    pub groups: Vec<String>,
    /// Use only readings up to this time: a date of the series, or seconds (6h, 3d) since its first reading
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
    /// Classify the first part of each series, such as 0.25,0.5,1 of its time; ids become ID@0.25
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub at: Vec<f64>,
    /// Classify only these series
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print arms only, not each process
    #[arg(long)]
    pub arms: bool,
    /// Compare these pairs of arms
    #[arg(long, value_name = "A:B,...", value_delimiter = ',')]
    pub pairs: Vec<String>,
    /// Compare every pair of arms
    #[arg(long)]
    pub all_pairs: bool,
    /// Compare the other arms with this one
    #[arg(long, value_name = "ARM")]
    pub control: Option<String>,
    /// Draw each series with its fitted curve, 95 % interval and forecast: FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", conflicts_with = "at")]
    pub plot: Option<PathBuf>,
    /// Hide the last part of each series [0.25 of its time], forecast it, and compare the forecast with what came, next
    /// to common rules (least squares, predict_linear, Mann-Kendall)
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
    /// Print JSON lines (highwater.verdict/2) instead of text
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 if the audit refuses an arm
    #[arg(long)]
    pub strict: bool,
    /// Folder of the run folders
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
    /// Column that names the process [default: id, process, nickname, pid, instance, series ...]; A,B joins two
    #[arg(long, value_name = "NAME")]
    pub id_column: Option<String>,
    /// Column of its arm [default: arm or group]
    #[arg(long, value_name = "NAME")]
    pub arm_column: Option<String>,
    /// Column of the time: seconds, epoch seconds or ISO 8601 [default: t_s, time, timestamp ...]
    #[arg(long, value_name = "NAME")]
    pub time_column: Option<String>,
    /// Column of the memory [default: rss, memory, value ...]
    #[arg(long, value_name = "NAME")]
    pub value_column: Option<String>,
    /// From one reading of a series to the next, where no column has times, such as `10s`
    #[arg(long, value_name = "TIME", value_parser = interval_of)]
    pub interval: Option<Duration>,
    /// Unit of the values: B, kB, KiB, MB, MiB, GB, GiB; %4GiB is percent of 4 GiB [default: from the name or cell]
    #[arg(long, value_parser = unit_of)]
    pub unit: Option<String>,
    /// Decimal sign, `.` or `,`, where the numbers do not show it
    #[arg(long, value_name = "SIGN", value_parser = decimal_of)]
    pub decimal: Option<Decimal>,
    /// Order of dates with slashes, mdy or dmy, where the dates do not show it
    #[arg(long, value_name = "ORDER", value_parser = dates_of)]
    pub dates: Option<DateOrder>,
    /// Every column except the time is a process [default: detected when no column is named memory]
    #[arg(long)]
    pub wide: bool,
}

fn part_of(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part <= 0.5 => Ok(part),
        _ => Err("write a part of the time, above 0 and up to 0.5".to_owned()),
    }
}

fn interval_of(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(interval) if interval > Duration::ZERO => Ok(interval),
        Ok(_) => Err("write a time above 0, such as 10s".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn unit_of(text: &str) -> Result<String, String> {
    match unit_factor(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            "write B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, or %4GiB: percent of 4 GiB".to_owned(),
        ),
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
  highwater verdict rss.csv --limit 4GiB           also: when is the limit reached?
  highwater verdict rss.csv --only api-7 --plot api-7.png
  highwater verdict arms.csv --arms --all-pairs    columns arm,process,t_s,rss_kib
  highwater verdict memory_measurements.csv --groups relay_config.csv --arms
  highwater verdict 2026-11-21-relay-1             a run, as `highwater report` prints it
  cut -d, -f1,2,5 big.csv | highwater verdict - --value-column mem --unit MiB
  highwater verdict --prometheus http://127.0.0.1:9090 --match job=api --arm-label version";

const EXIT_CODES: &str = "\
Exit codes: 0 classified, 1 the audit refuses an arm and --strict is given, 2 usage, 4 could not read.";

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

//! Rows to series in bounded memory, and series to verdicts on all cores, in the order in which they came.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use anyhow::Result;

use super::given::Given;
use super::held::Held;
use super::known;
use super::lines;
use super::names::Names;
use super::pile::Pile;
use import::groups::arm_at;
use import::rows::Rows;
use import::{ImportError, Row};
use verdict::series::SeriesVerdict;

/// A pipe of this many rows whose series stand together is judged as it comes.
const PROBE_ROWS: usize = 1 << 16;
/// So many series of it are held before the first are judged.
const TOGETHER: usize = 256;
/// Series handed to a core at a time: about a tenth of a second of its time.
const BATCH: usize = 32;
/// Readings of one series: three months at one every ten seconds. Beyond, every other one is dropped.
const SERIES_MAX: usize = 1 << 20;
/// Readings of series that stand together, and are judged: 64 MiB, since those that are being judged come on top.
const TOGETHER_READINGS: usize = 1 << 22;
/// Readings held of all series, 16 bytes each: beyond these 128 MiB every other one of long series is dropped, ...
const HELD_USUAL: usize = 1 << 23;
/// ... and for many short series there is room for half a gigabyte.
const HELD_MAX: usize = 1 << 25;
/// Series held at once, about 700 bytes each besides their readings: as many as one query of Prometheus may give.
const HELD_SERIES_MAX: usize = 200_000;

/// Where verdicts on series go as they are ready: lines at once, or a pile for a table.
pub struct Sink<'a, W> {
    pub out: &'a mut W,
    pub pile: Pile,
    pub json: bool,
}

impl<W: Write> Sink<'_, W> {
    fn take(&mut self, verdict: SeriesVerdict) -> Result<()> {
        if self.json {
            writeln!(self.out, "{}", lines::series_line(&verdict, None))?;
        } else {
            self.pile.take(verdict);
        }
        Ok(())
    }
}

/// Reads all rows. Series that stand together, one after the other, are judged and written as they end, so
/// that a pipe of any length needs little memory; so are all of them when there are no arms. What is returned
/// (the pile of the table, and series with arms) is still to be judged or written.
pub fn read<W: Write>(
    given: &Given,
    rows: &mut Rows<'_>,
    out: &mut W,
) -> Result<(Pile, Vec<Held>)> {
    let mut sink = Sink {
        out,
        pile: Pile::default(),
        json: given.args.json,
    };
    std::thread::scope(|scope| {
        let mut judges = Judges::new(scope, given);
        let mut reading = Reading::new(given);
        let mut whole = reading.all(rows, &mut judges, &mut sink);
        let alone = !reading.has_arms() && !given.args.wants_arms();
        if whole.is_ok() && alone && !given.args.wants_whole() {
            whole = judges.give(std::mem::take(&mut reading.held), &mut sink);
        }
        // What was judged before a mistake in the file is written before the mistake is told.
        judges.finish(&mut sink)?;
        whole.map(|()| reading.held)
    })
    .map(|held| (sink.pile, held))
}

/// Judges on every core, in order.
pub struct Judges<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    given: &'e Given<'e>,
    tasks: Option<SyncSender<(usize, Vec<Held>)>>,
    done: Option<Receiver<(usize, Vec<SeriesVerdict>)>>,
    waiting: BTreeMap<usize, Vec<SeriesVerdict>>,
    given_out: usize,
    written: usize,
}

impl<'s, 'e> Judges<'s, 'e> {
    pub fn new(scope: &'s Scope<'s, 'e>, given: &'e Given<'e>) -> Judges<'s, 'e> {
        Judges {
            scope,
            given,
            tasks: None,
            done: None,
            waiting: BTreeMap::new(),
            given_out: 0,
            written: 0,
        }
    }

    /// Hands series to the cores, and writes what they have finished meanwhile.
    pub fn give<W: Write>(&mut self, held: Vec<Held>, sink: &mut Sink<W>) -> Result<()> {
        let mut held = held.into_iter().peekable();
        while held.peek().is_some() {
            let batch: Vec<Held> = held.by_ref().take(BATCH).collect();
            if self.tasks.is_none() {
                self.start();
            }
            if let Some(tasks) = &self.tasks {
                tasks.send((self.given_out, batch))?;
                self.given_out += 1;
            }
            while let Some(ready) = self.done.as_ref().and_then(|done| done.try_recv().ok()) {
                self.waiting.insert(ready.0, ready.1);
            }
            self.write(sink)?;
        }
        Ok(())
    }

    /// Waits for the rest.
    pub fn finish<W: Write>(&mut self, sink: &mut Sink<W>) -> Result<()> {
        self.tasks = None;
        while let Some((at, verdicts)) = self.done.as_ref().and_then(|done| done.recv().ok()) {
            self.waiting.insert(at, verdicts);
            self.write(sink)?;
        }
        Ok(())
    }

    fn write<W: Write>(&mut self, sink: &mut Sink<W>) -> Result<()> {
        while let Some(ready) = self.waiting.remove(&self.written) {
            self.written += 1;
            ready.into_iter().try_for_each(|v| sink.take(v))?;
        }
        Ok(())
    }

    fn start(&mut self) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (tasks, queue) = sync_channel(2 * cores);
        let (report, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..cores {
            let (queue, report, given) = (queue.clone(), report.clone(), self.given);
            self.scope.spawn(move || work(given, &queue, &report));
        }
        (self.tasks, self.done) = (Some(tasks), Some(done));
    }
}

type Queue = Mutex<Receiver<(usize, Vec<Held>)>>;

fn work(given: &Given, queue: &Queue, report: &Sender<(usize, Vec<SeriesVerdict>)>) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok((at, batch)) = next() {
        let verdicts = batch.iter().flat_map(|held| held.judge(given)).collect();
        if report.send((at, verdicts)).is_err() {
            return;
        }
    }
}

/// Rows on their way to series.
struct Reading<'a> {
    given: &'a Given<'a>,
    held: Vec<Held>,
    names: Names,
    /// Series already handed on.
    judged: usize,
    rows: usize,
    readings: usize,
    /// Beyond so many readings long series are thinned.
    room: usize,
    together: bool,
    last: usize,
    /// The earliest reading.
    first_s: f64,
    /// Series that were not asked for.
    passed: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(given: &'a Given<'a>) -> Reading<'a> {
        Reading {
            given,
            held: Vec::new(),
            names: Names::new(!given.meta.is_empty() || !given.groups.is_empty()),
            judged: 0,
            rows: 0,
            readings: 0,
            room: HELD_USUAL,
            together: true,
            last: usize::MAX,
            first_s: f64::INFINITY,
            passed: Vec::new(),
        }
    }

    fn has_arms(&self) -> bool {
        self.held
            .iter()
            .any(|h| h.arms.iter().any(|(_, a)| !a.is_empty()))
    }

    fn all<W: Write>(
        &mut self,
        rows: &mut Rows<'_>,
        judges: &mut Judges,
        sink: &mut Sink<W>,
    ) -> Result<()> {
        let mut any = false;
        let mut row = Row::default();
        while rows.next_into(&mut row)? {
            any = true;
            self.take(&row, rows.line())?;
            if self.is_ready() {
                let ready: Vec<Held> = self.held.drain(..self.held.len() - 1).collect();
                self.judged += ready.len();
                ready.iter().for_each(|held| self.names.let_go(&held.id));
                self.readings = self.held.iter().map(|h| h.points.len()).sum();
                judges.give(ready, sink)?;
            } else if self.readings > self.room {
                self.thin(rows.line())?;
            }
        }
        if !any {
            let (what, next) = ("no readings after the header", "is the file complete?");
            return Err(ImportError::new(rows.line().max(1), 0, what, next).into());
        }
        self.check_names()
    }

    /// Whether all series but the last are judged now: they stand together, and are many or long.
    fn is_ready(&self) -> bool {
        let dense = self.rows >= 16 * (self.held.len() + self.judged);
        let many = dense && self.rows >= PROBE_ROWS && self.held.len() > TOGETHER;
        let long = self.readings > TOGETHER_READINGS && self.held.len() > 1;
        self.together && !self.given.args.wants_whole() && (many || long)
    }

    /// `line` is where the row stands.
    fn take(&mut self, row: &Row, line: u64) -> Result<()> {
        if !self.given.wants(&row.id, &row.process) {
            self.pass(&row.id);
            return Ok(());
        }
        self.first_s = self.first_s.min(row.t_s);
        let grouped = !self.given.groups.is_empty();
        let arm = match row.arm.is_empty() {
            true => arm_at(&self.given.groups, &row.process, row.t_s),
            false => &row.arm,
        };
        let key = if grouped { &row.process } else { &row.id };
        // Most rows belong to the series of the row before.
        let here = self.last.wrapping_sub(self.judged);
        let same = self.held.get(here).is_some_and(|held| held.id == *key);
        let known = match same {
            true => Some(self.last),
            false => self.names.place(key),
        };
        if known.is_none() && self.names.is_gone(key) {
            let what =
                format!("the readings of {key} do not stand together, though those before did");
            return Err(ImportError::new(line, 0, what, "sort the file by id, or by time").into());
        }
        if known.is_none() && self.held.len() == HELD_SERIES_MAX {
            let what = format!("more than {HELD_SERIES_MAX} series that do not stand together");
            let next = "sort the file by id, or name some series with --only";
            return Err(ImportError::new(line, 0, what, next).into());
        }
        let at = known.unwrap_or_else(|| self.open(key.clone(), row));
        self.together &= at == self.last || at + 1 == self.held.len() + self.judged;
        self.together &= arm.is_empty();
        (self.last, self.rows) = (at, self.rows + 1);
        let held = &mut self.held[at - self.judged];
        let before = held.points.len();
        held.take(row, arm);
        self.readings += held.points.len() - before;
        if held.points.len() > SERIES_MAX {
            self.readings -= held.thin();
        }
        Ok(())
    }

    /// Remembers some of what `--only` leaves out, for a hint when nothing is left in.
    fn pass(&mut self, id: &str) {
        const REMEMBERED: usize = 64;
        if self.passed.len() < REMEMBERED && !self.passed.iter().any(|known| known == id) {
            self.passed.push(id.to_owned());
        }
    }

    fn open(&mut self, key: String, row: &Row) -> usize {
        let process = match row.process.is_empty() {
            true => row.id.clone(),
            false => row.process.clone(),
        };
        self.held.push(Held {
            id: key.clone(),
            process,
            ..Held::default()
        });
        let at = self.held.len() + self.judged - 1;
        self.names.hold(&key, at);
        at
    }

    /// Every other reading of every long series goes. Where that is little there is more room.
    fn thin(&mut self, line: u64) -> Result<()> {
        let gone: usize = self.held.iter_mut().map(Held::thin).sum();
        self.readings -= gone;
        if 4 * gone < self.room {
            self.room = (2 * self.room).min(HELD_MAX);
        }
        if self.readings > HELD_MAX {
            let what = format!(
                "more than {HELD_MAX} readings of {} series that do not stand together",
                self.held.len()
            );
            let next = "sort the file by id, then they are classified as they come";
            return Err(ImportError::new(line, 0, what, next).into());
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        // Parts of one process in several arms are called by its name when they are joined.
        let processes = self.held.iter().map(|h| h.process.as_str());
        let names = self.names.all().chain(processes);
        let names = names.chain(self.passed.iter().map(String::as_str));
        let known = |id: &str| self.names.has(id) || self.held.iter().any(|h| h.process == id);
        known::check(self.given, names, known)?;
        known::check_until(self.given, self.first_s)?;
        Ok(())
    }
}

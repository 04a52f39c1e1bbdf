//! What is written beside the findings: requests known from outside, folded stacks, a flame graph,
//! a timeline.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cli::out::say;
use report::stall::pictures;
use report::stall::pictures::{OffCpu, Slice};
use report::stall::requests::{self, Requests, Usual};
use sched::recording::{Closing, Facts};
use sched::requests::parse_requests;
use stalls::accounted::{Accounted, Source};
use stalls::analyser::Analyser;
use stalls::event::{GOROUTINES, StackId, Tid};
use stalls::finding::{Finding, Member};
use stalls::gain::{Doer, gains, of_one_fix};
use stalls::naming::{NamedFinding, Names};
use stalls::pieces::{Keep, Label, Piece};
use stalls::request::{Attributed, Request};

/// Largest file of requests.
const REQUESTS_BYTES_MAX: u64 = 128 << 20;

/// Where to write what, and from what.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Extras {
    /// Account for these requests, measured by their client, instead of those on its connections: CSV with
    /// start_ns,end_ns (CLOCK_MONOTONIC), or spans in OTLP JSON. The file is read at the end of the watch
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    /// Account for the slow calls of this function of the program; needs root, not in Go programs
    #[arg(long, value_name = "FUNCTION", conflicts_with = "requests")]
    pub span: Option<String>,
    /// Write off-CPU stacks as folded stacks: cause first, weights in microseconds
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write the same stacks as a flame graph, SVG
    #[arg(long, value_name = "FILE")]
    pub flamegraph: Option<PathBuf>,
    /// Write a timeline in Chrome's trace format, for Perfetto or the Firefox profiler
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Shorter stretches are left out of the timeline.
const SLICE_NS: u64 = 100_000;

impl Extras {
    /// Which stretches of threads are kept for them.
    pub fn pieces(&self) -> Keep {
        let files = [&self.requests, &self.folded, &self.flamegraph, &self.trace];
        match self.span.is_some() || files.iter().any(|file| file.is_some()) {
            true => Keep::First,
            false => Keep::Newest,
        }
    }

    /// Nothing else says which requests there were.
    pub fn want_connections(&self) -> bool {
        self.requests.is_none() && self.span.is_none()
    }

    /// None of the files to write is the one that is read.
    pub fn spare(&self, read: &Path) -> Result<()> {
        let read = read.canonicalize().ok();
        let files = [&self.folded, &self.flamegraph, &self.trace];
        for path in files.into_iter().flatten() {
            let same = read.is_some() && path.canonicalize().ok() == read;
            anyhow::ensure!(!same, "{}: this is the recording itself", path.display());
        }
        Ok(())
    }

    /// Before the watch begins: what cannot be written at its end is said now.
    pub fn check(&self) -> Result<()> {
        for path in [&self.folded, &self.flamegraph, &self.trace]
            .into_iter()
            .flatten()
        {
            write(path, b"")?;
        }
        Ok(())
    }

    pub fn write(&self, analyser: &Analyser, names: &impl Names, pid: u32) -> Result<()> {
        if self.folded.is_some() || self.flamegraph.is_some() {
            let text = pictures::folded(&off_cpu(analyser, names));
            if let Some(path) = &self.folded {
                write(path, text.as_bytes())?;
            }
            if let Some(path) = &self.flamegraph {
                let title = format!("waits of process {pid}");
                match pictures::flame_graph(&text, &title) {
                    Ok(svg) => write(path, &svg)?,
                    Err(words) => say!("highwater: {}: {words}", path.display()),
                }
            }
        }
        if let Some(path) = &self.trace {
            let (threads, slices) = timeline(analyser, names);
            let value = pictures::trace(pid, &threads, &slices);
            write(path, value.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// The slow requests with what their time went to: of a file, of the calls of a function, or of the process's own
    /// connections. `None`: there were none.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn requests(
        &self,
        asked_ns: Option<u64>,
        analyser: &mut Analyser,
        facts: &Facts,
        closing: &Closing,
    ) -> Result<Option<Accounted>> {
        let watched = (facts.started_ns, closing.ended_ns);
        let (source, all) = match (&self.requests, &closing.calls) {
            (Some(path), _) => (Source::File, read(path, facts.day_ns)?),
            (None, Some(calls)) => (Source::Calls, calls.clone()),
            (None, None) => {
                let unseen = closing.unseen_requests;
                return Ok(
                    unseen.and_then(|unseen| Accounted::of_connections(unseen, analyser, watched))
                );
            }
        };
        Ok(Some(Accounted::of(
            source, all, asked_ns, analyser, watched,
        )))
    }
}

/// With what a fix of each row would buy.
pub fn with_gains(
    of: Accounted,
    analyser: &Analyser,
    names: &impl Names,
    rows: (&[Finding], &[NamedFinding]),
) -> Requests {
    let doers = rows.0.iter().zip(rows.1);
    let doers: Vec<Doer> = doers.map(|(of, row)| Doer::of(of, row)).collect();
    let fixes = of_one_fix(&doers);
    let members = |fix: &Vec<usize>| -> Vec<Member> {
        let all = fix.iter().flat_map(|row| &rows.0[*row].members);
        all.copied().collect()
    };
    let members: Vec<Vec<Member>> = fixes.iter().map(members).collect();
    let gains = || {
        gains(
            &analyser.pieces,
            &of.all,
            of.slow_from_ns,
            of.span,
            &members,
        )
    };
    Requests {
        source: of.source,
        unseen_share: of.unseen_share,
        count: of.count,
        slow_count: of.slow_count,
        slow_from_ns: of.slow_from_ns,
        usual: of.usual.map(|(median_ns, of)| {
            let went = of.ns.iter().map(|(went, ns)| (went.word(), *ns));
            Usual::of(median_ns, of.count, went)
        }),
        dropped: analyser.pieces.dropped,
        gains: (!of.left_out).then(gains).flatten(),
        slow: of.slow.into_iter().map(|one| named(one, names)).collect(),
        fixes,
    }
}

fn read(path: &Path, day_ns: u64) -> Result<Vec<Request>> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(REQUESTS_BYTES_MAX + 1).read_to_string(&mut text))
        .with_context(|| format!("reading {}", path.display()))?;
    anyhow::ensure!(
        text.len() as u64 <= REQUESTS_BYTES_MAX,
        "{}: larger than {} MiB; cut it to the time that is watched",
        path.display(),
        REQUESTS_BYTES_MAX >> 20
    );
    parse_requests(&text, day_ns).map_err(|words| anyhow::anyhow!("{}: {words}", path.display()))
}

fn named(one: Attributed, names: &impl Names) -> requests::Slow {
    requests::Slow {
        start_ns: one.request.start_ns,
        ns: one.request.end_ns - one.request.start_ns,
        thread: one
            .tid
            .map_or(String::new(), |tid| match names.thread(tid) {
                name if name.is_empty() => format!("thread {tid}"),
                // The number of a goroutine is one of our own.
                name if tid >= GOROUTINES => name,
                name => format!("{name} {tid}"),
            }),
        tid: one.tid,
        went: one
            .ns
            .iter()
            .filter(|(_, ns)| **ns > 0)
            .map(|(went, ns)| (went.word(), *ns))
            .collect(),
        name: one.request.name,
    }
}

fn off_cpu(analyser: &Analyser, names: &impl Names) -> Vec<OffCpu> {
    let mut sums: BTreeMap<(Label, StackId), u64> = BTreeMap::new();
    for piece in analyser.pieces.of.values().flatten() {
        if let Label::Held(_) = piece.label {
            *sums.entry((piece.label, piece.stack)).or_default() += piece.ns();
        }
    }
    let wait = |((label, stack), ns): ((Label, StackId), u64)| OffCpu {
        cause: label.word(),
        frames: names.stack(stack).names(),
        ns,
    };
    sums.into_iter().map(wait).collect()
}

fn timeline(analyser: &Analyser, names: &impl Names) -> (BTreeMap<Tid, String>, Vec<Slice>) {
    let mut slices = Vec::new();
    for (tid, pieces) in &analyser.pieces.of {
        let long = pieces.iter().filter(|piece| piece.ns() >= SLICE_NS);
        slices.extend(long.map(|piece| slice(*tid, piece, names)));
    }
    slices.sort_by_key(|slice| (slice.start_ns, slice.tid));
    let tids = slices.iter().flat_map(|s| [Some(s.tid), s.woken_by]);
    let threads = tids.flatten().map(|tid| (tid, names.thread(tid)));
    (threads.collect(), slices)
}

fn slice(tid: Tid, piece: &Piece, names: &impl Names) -> Slice {
    Slice {
        tid,
        start_ns: piece.start_ns,
        end_ns: piece.end_ns,
        what: piece.label.word(),
        activity: names.words(piece.activity).to_string(),
        frames: names.stack(piece.stack).names(),
        woken_by: piece.by.filter(|by| *by != tid),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

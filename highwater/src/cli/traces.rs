//! `highwater trace`: what a trace holds, whether it is whole, a window of it, and its text form.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::exit::{self, Usage};
use super::out::{self, say};
use trace::{Format, Summary, Trace, Window, cut, export, summarise};
use units::written::{bytes, count, counted, seconds};

const SCHEMA: &str = "highwater.trace/1";
/// Threads that are listed.
const THREADS_SHOWN: usize = 10;

/// Read an allocation trace: what it holds, whether it is whole, a window of it, its text form
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater trace info server.hwt
  highwater trace check server.hwt
  highwater trace cut server.hwt --from 60s --to 2m --out minute.hwt
  highwater trace export server.hwt > server.txt", after_help = "\
Exit codes: 0 done, 1 `check` found damage, 2 usage, 4 it could not be read.")]
pub struct TraceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what a trace holds
    Info {
        /// The trace
        file: PathBuf,
        /// Print JSON (highwater.trace/1) instead of text
        #[arg(long)]
        json: bool,
    },
    /// Read all of it: checksums, every event, every allocation and its free
    Check {
        /// The trace
        file: PathBuf,
    },
    /// Write a window of a trace as a trace of its own
    Cut {
        /// The trace
        file: PathBuf,
        /// Where the window starts, from the start of the trace
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::parse_seconds)]
        from: Duration,
        /// Where it ends; the end of the trace unless given
        #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
        to: Option<Duration>,
        /// The new file, which must not exist
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print every event as text that other tools read
    Export {
        /// The trace
        file: PathBuf,
        /// The form: Android's memory_replay, or glibc's mtrace(3)
        #[arg(long, value_enum, default_value_t = Form::MemoryReplay)]
        format: Form,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    MemoryReplay,
    Mtrace,
}

/// Runs it; the value is the exit code.
///
/// # Errors
/// The trace cannot be read, or what is asked for cannot be written.
pub fn run(args: &TraceArgs) -> anyhow::Result<u8> {
    match &args.action {
        Action::Info { file, json } => info(file, *json),
        Action::Check { file } => check(file),
        Action::Cut {
            file,
            from,
            to,
            out,
        } => cut_out(file, *from, *to, out),
        Action::Export { file, format } => print_text(file, *format),
    }
}

fn info(file: &Path, as_json: bool) -> anyhow::Result<u8> {
    let trace = Trace::open(file)?;
    let summary = summarise(&trace);
    match as_json {
        true => out::print(&format!("{:#}\n", info_json(&trace, &summary)))?,
        false => out::print(&(info_lines(&trace, &summary).join("\n") + "\n"))?,
    }
    Ok(exit::DONE)
}

fn info_json(trace: &Trace, summary: &Summary) -> serde_json::Value {
    let threads = trace.threads.iter().map(|thread| {
        json!({"tid": thread.tid, "name": thread.name, "events": thread.events,
               "alive_at_end": thread.is_alive})
    });
    json!({
        "schema": SCHEMA,
        "file": trace.path,
        "bytes": trace.bytes,
        "about": trace.about,
        "length_ns": trace.facts.length_ns,
        "sealed": trace.facts.is_sealed,
        "stopped": trace.facts.stopped(),
        "events": trace.events(),
        "events_before_exec": trace.events_before_exec,
        "lost_in_signal_handlers": trace.facts.lost_nested,
        "allocations": summary.allocations,
        "frees": summary.frees,
        "resizes": summary.resizes,
        "requested_bytes": summary.requested_bytes,
        "cross_thread_frees": summary.cross_thread_frees,
        "large_blocks_ended": summary.large,
        "large_blocks_with_touch": summary.large_with_touch,
        "live_blocks": summary.pairing.live,
        "live_blocks_max": summary.pairing.live_max,
        "live_bytes": summary.pairing.live_bytes,
        "live_bytes_max": summary.pairing.live_bytes_max,
        "unknown_frees": summary.pairing.unknown_frees,
        "unseen_frees": summary.pairing.unseen_frees,
        "samples": trace.samples.len(),
        "threads": threads.collect::<Vec<_>>(),
        "damage": summary.damage.lines(),
    })
}

fn info_lines(trace: &Trace, summary: &Summary) -> Vec<String> {
    let about = |name| trace.about(name).unwrap_or("unknown");
    let pairing = &summary.pairing;
    let length_s = trace.facts.length_ns as f64 / 1e9;
    let per_second = trace.events() as f64 / length_s.max(1e-9);
    let mut lines = vec![
        format!("program    {}, on {}", about("program"), about("allocator")),
        format!(
            "length     {}, {} ({} a second), {} on disk",
            seconds(length_s),
            counted(trace.events(), "event", "events"),
            count(per_second),
            bytes(trace.bytes as f64)
        ),
        format!(
            "calls      {} allocations of {} altogether, {} frees ({} by another thread), {} resizes",
            count(summary.allocations as f64),
            bytes(summary.requested_bytes as f64),
            count(summary.frees as f64),
            count(summary.cross_thread_frees as f64),
            count(summary.resizes as f64)
        ),
        format!(
            "live heap  {} in {} at most, {} in {} at the end (requested bytes)",
            bytes(pairing.live_bytes_max as f64),
            counted(pairing.live_max, "block", "blocks"),
            bytes(pairing.live_bytes as f64),
            counted(pairing.live, "block", "blocks")
        ),
        format!(
            "large      {} of 32 KiB and more freed or resized; resident pages known of {}",
            counted(summary.large, "block", "blocks"),
            count(summary.large_with_touch as f64)
        ),
    ];
    lines.extend(memory_line(trace));
    lines.extend(thread_lines(trace));
    lines.extend(missing_lines(trace, summary));
    lines
}

fn memory_line(trace: &Trace) -> Option<String> {
    let last = trace.samples.last()?;
    let peak = trace.samples.iter().map(|sample| sample.anon_bytes).max()?;
    Some(format!(
        "memory     {} anonymous at the last of {} samples, {} at most",
        bytes(last.anon_bytes as f64),
        trace.samples.len(),
        bytes(peak as f64)
    ))
}

fn thread_lines(trace: &Trace) -> Vec<String> {
    let mut threads: Vec<_> = trace.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.events));
    let mut lines = vec![format!("threads    {}", trace.threads.len())];
    for thread in threads.iter().take(THREADS_SHOWN) {
        let end = if thread.is_alive { "" } else { ", ended" };
        let events = counted(thread.events, "event", "events");
        lines.push(format!(
            "           {} {}: {events}{end}",
            thread.tid, thread.name
        ));
    }
    if threads.len() > THREADS_SHOWN {
        lines.push(format!(
            "           and {} more",
            threads.len() - THREADS_SHOWN
        ));
    }
    lines
}

fn missing_lines(trace: &Trace, summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(why) = trace.facts.stopped() {
        lines.push(format!("stopped    {why}"));
    }
    if !trace.facts.is_sealed {
        lines.push(
            "unsealed   highwater was killed before it finished the file: no checksums".to_owned(),
        );
    }
    if summary.pairing.unknown_frees > 0 {
        let frees = counted(summary.pairing.unknown_frees, "free", "frees");
        lines.push(format!(
            "unpaired   {frees} of blocks that the trace does not know"
        ));
    }
    if summary.pairing.unseen_frees > 0 {
        let blocks = counted(summary.pairing.unseen_frees, "block", "blocks");
        lines.push(format!("unpaired   {blocks} whose free is missing"));
    }
    lines.extend(
        summary
            .damage
            .lines()
            .into_iter()
            .map(|line| format!("damaged    {line}")),
    );
    lines
}

fn check(file: &Path) -> anyhow::Result<u8> {
    let trace = Trace::open(file)?;
    let summary = summarise(&trace);
    let missing = missing_lines(&trace, &summary);
    let events = counted(trace.events(), "event", "events");
    if !summary.damage.is_any() && trace.facts.is_sealed {
        let notes = missing.iter().map(|line| format!("{line}\n"));
        out::print(&format!(
            "whole: {events}, every checksum right\n{}",
            notes.collect::<String>()
        ))?;
        return Ok(exit::DONE);
    }
    out::print(&format!(
        "not whole: {events} by its headers\n{}\n",
        missing.join("\n")
    ))?;
    Ok(exit::FAILED)
}

fn cut_out(file: &Path, from: Duration, to: Option<Duration>, out: &Path) -> anyhow::Result<u8> {
    let trace = Trace::open(file)?;
    let window = Window {
        from_ns: from.as_nanos() as u64,
        to_ns: to.map_or(u64::MAX, |to| to.as_nanos() as u64),
    };
    if window.from_ns >= window.to_ns {
        return Err(Usage("--from is not before --to: the window is empty".to_owned()).into());
    }
    cut(&trace, window, out)?;
    let part = Trace::open(out)?;
    say!(
        "highwater: {}: {} of {} in {}",
        out.display(),
        counted(part.events(), "event", "events"),
        count(trace.events() as f64),
        seconds(part.facts.length_ns as f64 / 1e9)
    );
    Ok(exit::DONE)
}

fn print_text(file: &Path, form: Form) -> anyhow::Result<u8> {
    let trace = Trace::open(file)?;
    let format = match form {
        Form::MemoryReplay => Format::MemoryReplay,
        Form::Mtrace => Format::Mtrace,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = export(&trace, format, &mut out).and_then(|damage| out.flush().map(|()| damage));
    match written {
        Ok(mut damage) => {
            damage.add(&trace.damage);
            damage
                .lines()
                .iter()
                .for_each(|line| say!("highwater: damaged: {line}"));
            Ok(exit::DONE)
        }
        // A reader that closed its end (`| head`).
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(exit::DONE),
        Err(error) => Err(error).context("writing to stdout"),
    }
}

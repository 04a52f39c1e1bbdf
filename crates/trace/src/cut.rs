//! A window of a trace as a trace of its own. What is live at its start is allocated at its start, by the thread that
//! had allocated it, in the order of addresses.

use std::path::Path;

use trace_abi::{Event, TouchOf};

use crate::chunks::Trace;
use crate::error::TraceError;
use crate::merge::Merged;
use crate::steps::{Allocated, Step, StepKind, Steps};
use crate::write::TraceWriter;

/// From and to, ns since the start of the trace; to is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Facts of the whole trace that hold for a part of it.
const FACTS_KEPT: &[&str] = &[
    "program",
    "allocator",
    "kernel",
    "thp",
    "cpus",
    "build_id",
    "usable_size",
    "mallctl",
    "command",
    "directory",
    "runtime",
];

/// Writes the window to a new file.
///
/// # Errors
/// No event is in the window, or the file cannot be written.
pub fn cut(trace: &Trace, window: Window, out: &Path) -> Result<(), TraceError> {
    let mut steps = Steps::new(Merged::new(trace)).peekable_window(window);
    let first = steps.skip_before();
    if steps.is_over() {
        let why = format!(
            "no event lies between {:.3} and {:.3} s; the trace is {:.3} s long",
            window.from_ns as f64 / 1e9,
            window.to_ns as f64 / 1e9,
            trace.facts.length_ns as f64 / 1e9
        );
        return Err(TraceError::Empty {
            path: trace.path.clone(),
            why,
        });
    }
    let mut writer = TraceWriter::create(out)?;
    for thread in &trace.threads {
        let number = writer.thread(thread.tid, &thread.name, thread.is_alive);
        let ended = thread
            .ended_ns
            .filter(|at| (window.from_ns..window.to_ns).contains(at));
        if let Some(at) = ended {
            writer.ended(number, at - window.from_ns);
        }
    }
    for (thread, bytes, address) in first {
        writer.event(thread, 0, Event::Malloc { bytes, address })?;
    }
    while let Some(step) = steps.next_inside() {
        write(&mut writer, step.time_ns - window.from_ns, &step)?;
    }
    for sample in &trace.samples {
        if (window.from_ns..window.to_ns).contains(&sample.time_ns) {
            let mut sample = *sample;
            sample.time_ns -= window.from_ns;
            writer.sample(&sample);
        }
    }
    for name in FACTS_KEPT {
        if let Some(value) = trace.about(name) {
            writer.fact(name, value);
        }
    }
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let of = format!("{} to {} s", seconds(window.from_ns), seconds(window.to_ns));
    writer.fact("cut", &of);
    writer.finish()
}

fn write(writer: &mut TraceWriter, time_ns: u64, step: &Step) -> Result<(), TraceError> {
    let (thread, address) = (step.thread, step.address);
    let touch = match step.kind {
        StepKind::Free { touch } | StepKind::Resize { touch, .. } => touch,
        _ => None,
    };
    if let Some(touch) = touch {
        let (resident, pages) = (touch.resident, touch.pages);
        writer.event(
            thread,
            time_ns,
            Event::Touched {
                of: TouchOf::Old,
                resident,
                pages,
            },
        )?;
    }
    let event = match step.kind {
        StepKind::Allocate {
            how: Allocated::Malloc,
            bytes,
        } => Event::Malloc { bytes, address },
        StepKind::Allocate {
            how: Allocated::Calloc,
            bytes,
        } => Event::Calloc { bytes, address },
        StepKind::Allocate {
            how: Allocated::Aligned(align_log2),
            bytes,
        } => Event::Aligned {
            bytes,
            address,
            align_log2,
        },
        StepKind::Free { .. } => Event::Free { address },
        StepKind::Fresh { touch } => Event::Touched {
            of: TouchOf::New,
            resident: touch.resident,
            pages: touch.pages,
        },
        StepKind::Resize { bytes, .. } => {
            writer.event(
                thread,
                time_ns,
                Event::ReallocStart {
                    address: step.old_address,
                },
            )?;
            Event::ReallocEnd { bytes, address }
        }
    };
    writer.event(thread, time_ns, event)
}

/// The steps of a window.
struct Inside {
    steps: Steps<Merged>,
    window: Window,
    next: Option<Step>,
    /// Of each slot, the thread that allocated it.
    owners: Vec<u32>,
}

impl Steps<Merged> {
    fn peekable_window(self, window: Window) -> Inside {
        Inside {
            steps: self,
            window,
            next: None,
            owners: Vec::new(),
        }
    }
}

impl Inside {
    /// Skips what lies before; what is live then: thread, bytes, address.
    fn skip_before(&mut self) -> Vec<(u32, u64, u64)> {
        // What is live is asked for before the first step of the window is taken.
        let mut live: std::collections::BTreeMap<u64, (u32, u64)> =
            std::collections::BTreeMap::new();
        for step in self.steps.by_ref() {
            if step.time_ns >= self.window.from_ns {
                self.next = Some(step);
                break;
            }
            let slot = step.slot as usize;
            if slot >= self.owners.len() {
                self.owners.resize(slot + 1, 0);
            }
            match step.kind {
                StepKind::Allocate { bytes, .. } => {
                    self.owners[slot] = step.thread;
                    live.insert(step.address, (step.thread, bytes));
                }
                StepKind::Free { .. } => {
                    live.remove(&step.address);
                }
                StepKind::Resize { bytes, .. } => {
                    live.remove(&step.old_address);
                    live.insert(step.address, (self.owners[slot], bytes));
                }
                StepKind::Fresh { .. } => {}
            }
        }
        let live = live.into_iter();
        live.map(|(address, (thread, bytes))| (thread, bytes, address))
            .collect()
    }

    fn is_over(&self) -> bool {
        self.next
            .is_none_or(|step| step.time_ns >= self.window.to_ns)
    }

    fn next_inside(&mut self) -> Option<Step> {
        let step = self.next.take().or_else(|| self.steps.next())?;
        (step.time_ns < self.window.to_ns).then_some(step)
    }
}

//! The cause when nothing grows: memory that stays for a reason, or simply flat.

use super::sentence::{rate, retention_next, survivors, verdict};
use super::{Case, Cause, CauseVerdict, GROWN_BYTES_MIN, GROWN_NOISES, Sight, TOOTH_SHARE};
use heap::linked::traps::Traps;
use memory::account::{LiveBy, Part};
use memory::growth::Growth;
use units::written::{bytes, bytes_per_hour, percent};

/// Share of RSS that something must hold to be named though nothing grows.
const HOLDS: f64 = 0.5;
/// And at least so much.
const HOLDS_BYTES_MIN: f64 = 8_388_608.0;
/// A rise of RSS in the second half that is more than what an allocator or a collector lets it swing by.
const STEP_SHARE: f64 = 0.05;
const STEP_BYTES_MIN: f64 = 2_097_152.0;
/// An observation so many times as long has several steps in it, if they go on.
const STEPS_LONGER: f64 = 4.0;
/// The live heap's peak, or the free heap, must have been this many times what was live since half time: what is filled
/// again every few seconds is in use.
const FELL: f64 = 2.0;

pub const HUGE_NEXT: &str = "give the mapping madvise(MADV_NOHUGEPAGE), or set \
    /sys/kernel/mm/transparent_hugepage/enabled to madvise and compare both as arms of an experiment";

pub fn judge(case: &Case) -> CauseVerdict {
    let rss = case.account.rss_bytes;
    let holds = |bytes: f64| bytes > HOLDS * rss && bytes > HOLDS_BYTES_MIN;
    if holds(case.account.lazy_free) {
        return lazy_free(case, 0.9);
    }
    if holds(case.account.huge_untouched) {
        let sentence = format!(
            "RSS is flat at {}, and {} of it lies in huge pages that the program never wrote",
            bytes(rss),
            bytes(case.account.huge_untouched)
        );
        return verdict(Cause::Hugepages, 0.85, sentence, HUGE_NEXT);
    }
    let (held, torn) = (case.account.held, case.account.fragmentation);
    let live = case.part(Part::LiveHeap);
    let (free, is_torn) = (held + torn, torn > held);
    if !holds(free) {
        return flat(case);
    }
    if live.peak > FELL * live.peak_late.max(case.account.live) {
        let fell = format!(
            "the live heap fell from {} to {}, and {} of free heap",
            bytes(live.peak),
            bytes(case.account.live),
            bytes(free)
        );
        return kept(case, is_torn, &fell);
    }
    if let Some(most) = case.live_at_most.filter(|most| free > FELL * most) {
        let spare = format!(
            "no more than {} can have been live at any moment since half time, and {} of free heap",
            bytes(most),
            bytes(free)
        );
        return kept(case, is_torn, &spare);
    }
    unused(case, free, is_torn).unwrap_or_else(|| flat(case))
}

/// Most of RSS is free heap in every snapshot, whenever it became so. A heap that is full for a tenth of the time or
/// more would have been seen so with a chance that the number of snapshots gives.
fn unused(case: &Case, free: f64, is_torn: bool) -> Option<CauseVerdict> {
    const FULL_SHARE: f64 = 0.1;
    const CONFIDENCE: f64 = 0.85;
    let is_known = matches!(
        case.account.live_by,
        LiveBy::Headers | LiveBy::HeadersBesideProbe
    );
    let most = case.part(Part::LiveHeap).peak.max(case.account.live);
    if !is_known || free <= FELL * most {
        return None;
    }
    let seen = 1.0 - (1.0 - FULL_SHARE).powi(case.snapshots.min(i32::MAX as usize) as i32);
    let spare = format!(
        "no more than {} was live in any of {} snapshots, and {} of free heap",
        bytes(most),
        case.snapshots,
        bytes(free)
    );
    let confidence = CONFIDENCE * seen;
    Some(CauseVerdict {
        confidence,
        ..kept(case, is_torn, &spare)
    })
}

/// LazyFree pages: most of what grows, or of what is there.
pub fn lazy_free(case: &Case, confidence: f64) -> CauseVerdict {
    let sentence = format!(
        "{} of RSS ({}) are LazyFree pages: given back with MADV_FREE and still counted until the \
         kernel needs them; RSS less LazyFree is {}",
        bytes(case.account.lazy_free),
        percent(case.account.lazy_free / case.account.rss_bytes.max(1.0)),
        bytes(case.account.rss_bytes - case.account.lazy_free)
    );
    let next = "no leak: watch RSS less LazyFree; to see it in RSS at once let the allocator use \
        MADV_DONTNEED (jemalloc: muzzy_decay_ms:0; Go: GODEBUG=madvdontneed=1)";
    verdict(Cause::Lazyfree, confidence, sentence, next)
}

/// `spare`: what was live, and how much free heap is more than that.
fn kept(case: &Case, is_torn: bool, spare: &str) -> CauseVerdict {
    let which = if is_torn {
        "fragmentation"
    } else {
        "allocator-held"
    };
    let sentence = format!(
        "retention: {spare} ({which}) stays resident{}",
        survivors(case)
    );
    verdict(Cause::Retention, 0.8, sentence, retention_next(is_torn))
}

fn flat(case: &Case) -> CauseVerdict {
    if case.is_stopped {
        return stopped();
    }
    let undecided = of_no_part(case).or_else(|| stepped(case));
    if let Some(verdict) = undecided.or_else(|| rises_slowly(case)) {
        return verdict;
    }
    let level = case.rss.map_or(case.account.rss_bytes, |rss| rss.level);
    let few = case.rss.is_none();
    let told = match few {
        true => format!("undecided after {} samples", case.snapshots),
        false => "nothing grows".to_owned(),
    };
    let live = match case.sight {
        Sight::Sees => format!(", the live heap {}", bytes(case.account.live)),
        _ => String::new(),
    };
    let unseen = case.unseen_bytes().filter(|_| !few);
    let of_it = unseen.map_or_else(String::new, |mapped| {
        format!(
            "; of {} in mappings only what was allocated since is counted, so how much is in use is not known",
            bytes(mapped)
        )
    });
    let hidden = case.hidden_rate().map_or_else(String::new, |rate| {
        format!(
            "; growth by less than {} would not show in this time",
            bytes_per_hour(rate)
        )
    });
    let sentence = format!(
        "{told}: RSS is {} after {:.0} s{live}{hidden}{of_it}",
        bytes(level),
        case.observed_s
    );
    let next = if unseen.is_some() {
        &format!(
            "if RSS was lower before, the allocator may keep it: ask its own statistics, or start the program with \
             the probe, which tells what is live: {}",
            case.restart
        )
    } else if few && case.has_ended {
        "the process ended before growth could be classified: give it work that lasts longer"
    } else if few {
        "observe longer: too few samples to classify growth"
    } else {
        "nothing to do; for slower growth observe longer (--duration)"
    };
    let confidence = if few { 0.2 } else { 0.85 };
    CauseVerdict {
        undecided: few,
        ..verdict(Cause::Flat, confidence, sentence, next)
    }
}

impl Case {
    /// Growth of RSS per hour below which it is none, over the window.
    fn hidden_rate(&self) -> Option<f64> {
        let rss = self.rss.filter(|rss| rss.over_s > 0.0)?;
        Some(self.least_grown(&rss) / rss.over_s * 3600.0)
    }

    /// Bytes in mappings, where they are most of RSS, in a process whose allocator has no headers that can be walked:
    /// uprobes tell only what was allocated since they were put on.
    pub(crate) fn unseen_bytes(&self) -> Option<f64> {
        let began_midway = |traps: &Traps| !traps.at_start && !traps.has_headers();
        self.traps.filter(began_midway)?;
        let mapped = self.account.anonymous;
        (mapped > HOLDS * self.account.rss_bytes && mapped > HOLDS_BYTES_MIN).then_some(mapped)
    }
}

fn stopped() -> CauseVerdict {
    let sentence =
        "undecided: a signal has stopped the process: nothing in it runs, so nothing can grow"
            .to_owned();
    let next = "let it go on (kill -CONT), and ask again";
    CauseVerdict {
        undecided: true,
        ..verdict(Cause::Flat, 0.2, sentence, next)
    }
}

/// RSS rose to a new level in the second half and did not come back: what grows in steps that are rarer than the
/// observation is long looks so, and so does one more large request.
fn stepped(case: &Case) -> Option<CauseVerdict> {
    let rss = case.rss?;
    let rise = rss.peak_late - rss.peak_early;
    // A level, and no moment: half of it is left at the end.
    let came_back = rss.fall > rise / 2.0 || rss.level < rss.peak_early + rise / 2.0;
    let is_a_step = rise > STEP_SHARE * rss.level.max(1.0) && rise > STEP_BYTES_MIN;
    if !is_a_step || came_back {
        return None;
    }
    let sentence = format!(
        "undecided: RSS rose by {} in the second half of {:.0} s, to {}, and has not come back: one step does \
         not show whether another follows",
        bytes(rise),
        case.observed_s,
        bytes(rss.peak_late)
    );
    let next = format!(
        "observe for longer (--duration {:.0}s): whether another step follows",
        (STEPS_LONGER * case.observed_s).max(60.0)
    );
    Some(CauseVerdict {
        undecided: true,
        ..verdict(Cause::Flat, 0.3, sentence, &next)
    })
}

/// The live heap rises evenly, by too little of RSS to say what it is: how a slow leak in a large process begins.
fn rises_slowly(case: &Case) -> Option<CauseVerdict> {
    let is_counted = !matches!(
        case.account.live_by,
        LiveBy::SinceAttached | LiveBy::ResidentHeap | LiveBy::Nobody
    );
    let live = case.part(Part::LiveHeap);
    let least = GROWN_BYTES_MIN.max(GROWN_NOISES * live.noise);
    let is_even = live.even && live.still && live.fall < TOOTH_SHARE * live.bytes;
    if !is_counted || !is_even || live.bytes < least {
        return None;
    }
    let sentence = format!(
        "undecided: the live heap rises evenly, by {}, which is {} of RSS ({})",
        rate(&live),
        percent(live.bytes / case.account.rss_bytes.max(1.0)),
        bytes(case.account.rss_bytes)
    );
    // So that it is twice what must be seen.
    let longer_s = case.observed_s * (2.0 * case.least_grown(&live) / live.bytes).max(1.5);
    let next = format!("observe for longer (--duration {longer_s:.0}s): whether it goes on");
    Some(CauseVerdict {
        undecided: true,
        ..verdict(Cause::Flat, 0.3, sentence, &next)
    })
}

/// RSS rises, and no part of it does for certain.
fn of_no_part(case: &Case) -> Option<CauseVerdict> {
    let rises = |rss: &Growth| case.grows(rss) && rss.bytes > case.retained_least();
    let rss = case.rss.filter(rises)?;
    let sentence = format!(
        "undecided: RSS grows by {}, and no part of it grows for certain",
        rate(&rss)
    );
    let next =
        "observe longer (--duration): a part that grows stands out from its own scatter in time";
    Some(CauseVerdict {
        undecided: true,
        ..verdict(Cause::Flat, 0.2, sentence, next)
    })
}

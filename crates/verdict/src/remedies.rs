//! What could be done about a cause: each candidate with what it would change at most, where that number comes from,
//! and the command that would test it.
//!
//! Only candidates that fit the cause are named. Where the cause is undecided there is one: the command that would
//! decide it. An effect is a bound from the account, not a forecast: a replay or an experiment gives that.

use serde::Serialize;

use crate::cause::{Case, Cause, CauseVerdict, Sight, named, outside};
use memory::rank::Site;
use units::written::{bytes, bytes_interval, bytes_per_hour, percent};

/// Standard errors of a site's growth on both sides: 95 of 100 intervals hold the truth.
const ERRORS: f64 = 1.96;
/// Restarts closer together are no way to run a service, and further apart no remedy for what was seen in minutes.
const RESTART_H_MIN: f64 = 1.0;
const RESTART_H_MAX: f64 = 24.0 * 14.0;
/// A restart is due when resident memory has grown to so many times what it is.
const RESTART_FACTOR: f64 = 2.0;
/// An observation that decides is so many times as long as one that did not.
const LONGER: f64 = 5.0;
const HOUR_S: f64 = 3600.0;

/// Where an effect comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Measured parts of the process's memory, and their growth.
    Account,
    RuleOfThumb,
}

impl Source {
    /// For readers.
    pub fn word(self) -> &'static str {
        match self {
            Source::Account => "account",
            Source::RuleOfThumb => "rule of thumb",
        }
    }
}

/// What a range of an effect counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Bytes,
    BytesPerHour,
}

/// Memory, or growth, that would be gone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    pub lo: f64,
    pub hi: f64,
    pub unit: Unit,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// As an instruction: "fix parse (json.c:12)".
    pub action: String,
    /// What it would change, a sentence.
    pub predicted: String,
    /// The same as numbers; `None`: it changes nothing, or by how much is not known.
    pub effect: Option<Effect>,
    pub source: Source,
    /// Tests it; `None`: there is nothing to test.
    pub command: Option<String>,
}

/// The process, as commands name it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    pub pid: i32,
    pub command: &'a str,
}

/// The candidates that fit, the one that goes to the root first.
pub fn candidates(case: &Case, verdict: &CauseVerdict, subject: Named<'_>) -> Vec<Candidate> {
    if verdict.undecided {
        return vec![decide(case, subject)];
    }
    if verdict.by_objects {
        return by_objects(case, verdict, subject);
    }
    match verdict.cause {
        Cause::Leak | Cause::Filling => leak(case, &case.sites, subject),
        Cause::Mapping => leak(case, &case.mapping_sites, subject),
        Cause::Managed => restart(case, subject).into_iter().collect(),
        Cause::Retention => retention(case, subject),
        Cause::Stacks => stacks(case, subject),
        Cause::Hugepages => vec![huge_pages(case, subject)],
        Cause::Lazyfree => vec![nothing(
            format!(
                "the kernel takes the {} of LazyFree pages as soon as it needs them",
                bytes(case.account.lazy_free)
            ),
            Source::Account,
        )],
        Cause::Sockets | Cause::Kernel => vec![fix(case, verdict, subject)],
        Cause::Files if outside::judge(case).is_some() => vec![fix(case, verdict, subject)],
        Cause::Files => vec![nothing(
            format!(
                "of {} of file maps all but {} can be dropped by the kernel",
                bytes(case.account.files),
                bytes(case.account.files_written)
            ),
            Source::Account,
        )],
        Cause::Flat => vec![flat(case)],
        Cause::Blind => vec![decide(case, subject)],
    }
}

/// What the verdict says of the objects, and what holds the level until then.
fn by_objects(case: &Case, verdict: &CauseVerdict, subject: Named<'_>) -> Vec<Candidate> {
    let fix = fix(case, verdict, subject);
    [fix].into_iter().chain(restart(case, subject)).collect()
}

fn fix(case: &Case, verdict: &CauseVerdict, subject: Named<'_>) -> Candidate {
    Candidate {
        action: verdict.next_step.clone(),
        predicted: "stops the growth that the verdict names".to_owned(),
        effect: None,
        source: Source::Account,
        command: Some(again(case, subject, case.observed_s)),
    }
}

fn flat(case: &Case) -> Candidate {
    let Some(mapped) = case.unseen_bytes() else {
        return nothing("nothing grows".to_owned(), Source::Account);
    };
    Candidate {
        action: "start it with the probe".to_owned(),
        predicted: format!(
            "tells how much of {} in mappings is in use; the rest could come back",
            bytes(mapped)
        ),
        effect: Some(Effect {
            lo: 0.0,
            hi: mapped,
            unit: Unit::Bytes,
        }),
        source: Source::Account,
        command: Some(case.restart.clone()),
    }
}

fn nothing(predicted: String, source: Source) -> Candidate {
    Candidate {
        action: "do nothing".to_owned(),
        predicted,
        effect: None,
        source,
        command: None,
    }
}

/// The command that observes the process again.
fn again(case: &Case, subject: Named<'_>, duration_s: f64) -> String {
    let duration = format!("--duration {:.0}s", duration_s.max(60.0));
    match is_attached(case) {
        true => format!("sudo highwater explain {duration} --pid {}", subject.pid),
        false => format!("highwater explain {duration} -- {}", subject.command),
    }
}

/// Whether the program ran before highwater came.
fn is_attached(case: &Case) -> bool {
    case.sight == Sight::NotAsked || case.traps.is_some_and(|traps| !traps.at_start)
}

fn decide(case: &Case, subject: Named<'_>) -> Candidate {
    Candidate {
        action: "observe longer".to_owned(),
        predicted: "what is to be fixed is not known yet".to_owned(),
        effect: None,
        source: Source::Account,
        command: Some(again(case, subject, LONGER * case.observed_s)),
    }
}

/// What replays or runs the program under other allocators: a running process cannot be recorded.
fn tries(case: &Case, subject: Named<'_>) -> String {
    match is_attached(case) {
        true => {
            let pid = subject.pid;
            format!("highwater init --pid {pid} > try.toml, then highwater run try.toml")
        }
        false => format!(
            "highwater record --out try.hwt -- {}, then highwater replay try.hwt",
            subject.command
        ),
    }
}

/// The site that grows most, and what holds the level until it is fixed.
fn leak(case: &Case, sites: &[Site], subject: Named<'_>) -> Vec<Candidate> {
    let grows = |site: &&Site| site.share_of_growth > 0.0 && site.growth.grown_bytes > 0.0;
    let most = sites
        .iter()
        .filter(grows)
        .max_by(|a, b| a.growth.grown_bytes.total_cmp(&b.growth.grown_bytes));
    let fixed = most.filter(|_| case.observed_s > 0.0).map(|site| {
        let per_hour = HOUR_S / case.observed_s;
        let (grown, error) = (site.growth.grown_bytes, ERRORS * site.growth.grown_error);
        let effect = Effect {
            lo: (grown - error).max(0.0) * per_hour,
            hi: (grown + error) * per_hour,
            unit: Unit::BytesPerHour,
        };
        Candidate {
            action: format!("fix {}", named(site)),
            predicted: format!(
                "stops growth of {} ({} to {}), {} of all; {} outstanding would go with a restart",
                bytes_per_hour(grown * per_hour),
                bytes_per_hour(effect.lo),
                bytes_per_hour(effect.hi),
                percent(site.share_of_growth),
                bytes(site.growth.now.bytes),
            ),
            effect: Some(effect),
            source: Source::Account,
            command: Some(again(case, subject, case.observed_s)),
        }
    });
    // Growth at no certain site: more samples name it.
    let first = fixed.unwrap_or_else(|| decide(case, subject));
    [first].into_iter().chain(restart(case, subject)).collect()
}

/// By when memory has doubled at the present rate.
fn restart(case: &Case, subject: Named<'_>) -> Option<Candidate> {
    let rss = case
        .rss
        .filter(|rss| rss.still && rss.slope_per_hour > 0.0)?;
    let now = case.account.rss_bytes;
    let hours = (RESTART_FACTOR - 1.0) * now / rss.slope_per_hour;
    let hours = hours.clamp(RESTART_H_MIN, RESTART_H_MAX).floor();
    Some(Candidate {
        action: format!("restart it every {hours} h, until it is fixed"),
        predicted: format!(
            "resident memory stays below {}, if it goes on growing by {}",
            bytes(now + hours * rss.slope_per_hour),
            bytes_per_hour(rss.slope_per_hour)
        ),
        effect: None,
        source: Source::RuleOfThumb,
        command: Some(again(case, subject, LONGER * case.observed_s)),
    })
}

/// At most the free heap can come back; trimming gives back whole free pages only.
fn retention(case: &Case, subject: Named<'_>) -> Vec<Candidate> {
    let (held, fragmented) = (case.account.held, case.account.fragmentation);
    let mut all = Vec::new();
    let up_to = |hi: f64| Effect {
        lo: 0.0,
        hi,
        unit: Unit::Bytes,
    };
    let command = Some(tries(case, subject));
    let candidate = |action: &str, hi: f64, why: &str| Candidate {
        action: action.to_owned(),
        predicted: format!("at most {} comes back: {why}", bytes_interval(hi, 0.0, hi)),
        effect: Some(up_to(hi)),
        source: Source::Account,
        command: command.clone(),
    };
    all.push(candidate(
        "another allocator",
        held + fragmented,
        "what is free and resident; one that keeps more can also add",
    ));
    if is_glibc(case) {
        all.push(candidate(
            "MALLOC_TRIM_THRESHOLD_=131072, or malloc_trim(0) now and then",
            held,
            "the whole free pages; fragmentation stays",
        ));
        if case.threads_last > 1 {
            all.push(candidate(
                "MALLOC_ARENA_MAX=2",
                held + fragmented,
                "free memory of many arenas; threads then wait for each other's",
            ));
        }
    }
    all
}

fn is_glibc(case: &Case) -> bool {
    let mut allocators = case.managers.allocators.iter();
    !case.managers.is_musl && allocators.all(|allocator| allocator.name == "glibc")
}

fn stacks(case: &Case, subject: Named<'_>) -> Vec<Candidate> {
    let threads = case.threads_last.max(1) as f64;
    let each = case.account.stacks / threads;
    let half = case.account.stacks / 2.0;
    vec![Candidate {
        action: "fewer threads: a pool of fixed size".to_owned(),
        predicted: format!(
            "half of the {} threads would be {} less, {} each",
            case.threads_last,
            bytes(half),
            bytes(each)
        ),
        effect: Some(Effect {
            lo: 0.0,
            hi: case.account.stacks,
            unit: Unit::Bytes,
        }),
        source: Source::Account,
        command: Some(again(case, subject, case.observed_s)),
    }]
}

fn huge_pages(case: &Case, subject: Named<'_>) -> Candidate {
    let untouched = case.account.huge_untouched;
    Candidate {
        action: "no transparent huge pages for it: madvise(MADV_NOHUGEPAGE), or \
                 prctl(PR_SET_THP_DISABLE)"
            .to_owned(),
        predicted: format!(
            "up to {} comes back, which the program never wrote; page faults become more",
            bytes(untouched)
        ),
        effect: Some(Effect {
            lo: 0.0,
            hi: untouched,
            unit: Unit::Bytes,
        }),
        source: Source::Account,
        command: Some(again(case, subject, case.observed_s)),
    }
}

#[cfg(test)]
mod tests;

//! What a fix would buy: the latency of the same requests without one cause.
//!
//! Each request's time is attributed to what its thread was in ([`crate::request`]). Without a cause, what was
//! attributed to it is taken out. How much that is has two bounds. *At least* the waits that make up the stalls go (of
//! a lock, those for the lock), in whatever way it is repaired. *At most* these go as well: shorter waits of the
//! same cause, what the holder itself did while others waited for it, and the time in which a request was not taken up
//! yet while the threads that would have taken it were stalled. So the interval spans a fix after which no request
//! waits any more and one that also does the work elsewhere. It does not know what other waits grow as the requests
//! come faster.
//!
//! The interval of each percentile also has the chance of which requests the watch saw: blocks of requests are drawn
//! with replacement (Künsch 1989, "The jackknife and the bootstrap for general stationary observations"), for requests
//! that come together share a stall; and the run that it is held against is such a draw itself, hence the factor of the
//! square root of two.

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::row::Row;
use crate::event::Tid;
use crate::finding::{Finding, Member};
use crate::naming::NamedFinding;
use crate::pieces::Pieces;
use crate::request::{Request, Servers};

/// Requests with a thread looked for: all slow ones up to half of this, and an even sample of the others.
const EXAMINED_MAX: usize = 4_000;
/// Below this many requests a 99th percentile is the slowest one or two.
pub const REQUESTS_MIN: usize = 100;
/// Blocks of the watch, and draws of them.
const BLOCKS: usize = 20;
const DRAWS: usize = 200;
/// The interval holds this part of the draws.
const INSIDE: f64 = 0.95;
/// The order of the draws is the same each time.
const SEED: u64 = 1;

/// Percentiles of the requests' latency and its mean, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    pub p50_ns: f64,
    pub p99_ns: f64,
    /// With a thousand requests or more.
    pub p999_ns: Option<f64>,
    pub mean_ns: f64,
}

/// From the least to the most that each may be.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Between {
    pub low: Latency,
    pub high: Latency,
}

impl Between {
    /// Requests a second of clients that each wait for their answer and ask again at once, as a multiple of now: the
    /// most that throughput may become. The least is what it is now, when requests come at their own rate.
    pub fn throughput_most(&self, now: &Latency) -> f64 {
        (now.mean_ns / self.low.mean_ns.max(1.0)).max(1.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Gains {
    /// Requests that the percentiles are of.
    pub requests: usize,
    pub now: Latency,
    /// For each cause, in their order.
    pub without: Vec<Between>,
}

/// Of a row: what its culprit did, in which function, and which threads were stalled.
#[derive(Debug, Clone, Copy)]
pub struct Doer<'a> {
    pub activity: &'a str,
    pub function: Option<&'a str>,
    pub culprit: Tid,
    pub stalled: &'a BTreeSet<Tid>,
}

impl<'a> Doer<'a> {
    pub fn of(finding: &'a Finding, row: &'a NamedFinding) -> Doer<'a> {
        Doer {
            activity: &row.culprit.activity,
            function: row.culprit.function.as_deref(),
            culprit: finding.culprit.tid,
            stalled: &finding.threads,
        }
    }

    /// The same activity, and not by chance: in one function, or the culprit of one is stalled in the other. A thread
    /// that posts under a mutex waits for the peer, and others wait for the mutex.
    fn is_one_with(&self, other: &Doer) -> bool {
        let same_function = self.function.is_some() && self.function == other.function;
        let waits_too =
            other.stalled.contains(&self.culprit) || self.stalled.contains(&other.culprit);
        !self.activity.is_empty() && self.activity == other.activity && (same_function || waits_too)
    }
}

/// Rows that one fix would end, by their numbers.
pub fn of_one_fix(rows: &[Doer]) -> Vec<Vec<usize>> {
    let mut fixes: Vec<Vec<usize>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let same = |fix: &&mut Vec<usize>| fix.iter().any(|of| row.is_one_with(&rows[*of]));
        match fixes.iter_mut().find(same) {
            Some(fix) => fix.push(at),
            None => fixes.push(vec![at]),
        }
    }
    fixes
}

/// A request that was looked into. `least` and `most` are what each finding takes of it, nanoseconds.
struct Examined {
    block: usize,
    ns: f64,
    /// Requests that it stands for.
    weight: f64,
    taken: Vec<(u64, u64)>,
}

/// What each of the causes, by its stalls, takes of the requests within the watch; `None` with fewer than
/// [`REQUESTS_MIN`].
/// `slow_from_ns`: from here on all are looked into.
pub fn gains(
    pieces: &Pieces,
    requests: &[Request],
    slow_from_ns: u64,
    (from_ns, to_ns): (u64, u64),
    causes: &[Vec<Member>],
) -> Option<Gains> {
    let inside = |r: &&Request| r.start_ns >= from_ns && r.end_ns <= to_ns;
    let all: Vec<&Request> = requests.iter().filter(inside).collect();
    if all.len() < REQUESTS_MIN {
        return None;
    }
    let rows: Vec<Row> = causes
        .iter()
        .map(|members| Row::of(members, pieces))
        .collect();
    let mut servers = Servers::of(pieces);
    let mut starts: Vec<u64> = all.iter().map(|request| request.start_ns).collect();
    starts.sort_unstable();
    let chosen = chosen(&all, slow_from_ns).into_iter();
    let examined: Vec<Examined> = chosen
        .map(|(request, weight)| {
            let (tid, of) = servers.serve(request);
            // As many requests in each: those of a short load are in all draws.
            let before = starts.partition_point(|start_ns| *start_ns < request.start_ns);
            let block = before * BLOCKS / starts.len();
            Examined {
                block: block.min(BLOCKS - 1),
                ns: (request.end_ns - request.start_ns) as f64,
                weight,
                taken: rows.iter().map(|row| row.takes(request, tid, of)).collect(),
            }
        })
        .collect();
    let draws = draws();
    let floor_ns = floor_ns(&all);
    let without = (0..rows.len()).map(|row| between(&examined, all.len(), row, floor_ns, &draws));
    let without = without.collect();
    let now = Sorted::of(&examined, all.len(), |one| one.ns).latency(&ONCE);
    Some(Gains {
        requests: all.len(),
        now,
        without,
    })
}

/// The slow ones, longest first, and an even sample of the others, each with how many it stands for.
fn chosen<'a>(all: &[&'a Request], slow_from_ns: u64) -> Vec<(&'a Request, f64)> {
    let ns = |r: &Request| r.end_ns - r.start_ns;
    let (mut slow, mut rest): (Vec<&Request>, Vec<&Request>) =
        all.iter().partition(|r| ns(r) >= slow_from_ns);
    slow.sort_by_key(|r| (std::cmp::Reverse(ns(r)), r.start_ns));
    let more = slow.split_off(slow.len().min(EXAMINED_MAX / 2));
    rest.extend(more);
    rest.sort_by_key(|r| (r.start_ns, r.end_ns));
    let room = EXAMINED_MAX - slow.len();
    let step = rest.len().div_ceil(room).max(1);
    let sampled: Vec<&Request> = rest.iter().step_by(step).copied().collect();
    let weight = rest.len() as f64 / sampled.len().max(1) as f64;
    let slow = slow.into_iter().map(|r| (r, 1.0));
    slow.chain(sampled.into_iter().map(|r| (r, weight)))
        .collect()
}

/// A request takes no less than the fastest hundredth of them does now.
fn floor_ns(all: &[&Request]) -> f64 {
    let mut took: Vec<u64> = all.iter().map(|r| r.end_ns - r.start_ns).collect();
    let at = took.len() / 100;
    *took.select_nth_unstable(at).1 as f64
}

/// How often each block of the watch is in each draw.
fn draws() -> Vec<[f64; BLOCKS]> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let draw = |_| {
        let mut times = [0.0; BLOCKS];
        (0..BLOCKS).for_each(|_| times[random.random_range(0..BLOCKS)] += 1.0);
        times
    };
    (0..DRAWS).map(draw).collect()
}

fn between(
    examined: &[Examined],
    requests: usize,
    row: usize,
    floor_ns: f64,
    draws: &[[f64; BLOCKS]],
) -> Between {
    let left = |one: &Examined, taken: u64| (one.ns - taken as f64).max(floor_ns.min(one.ns));
    let bound = |of: &dyn Fn(&Examined) -> f64, part: f64| {
        let sorted = Sorted::of(examined, requests, of);
        let drawn: Vec<Latency> = draws.iter().map(|times| sorted.latency(times)).collect();
        spread(&sorted.latency(&ONCE), &drawn, part)
    };
    Between {
        low: bound(&|one| left(one, one.taken[row].1), (1.0 - INSIDE) / 2.0),
        high: bound(&|one| left(one, one.taken[row].0), (1.0 + INSIDE) / 2.0),
    }
}

/// The quantile of the draws, its distance from the center made longer by the square root of two: as a ratio, for
/// latencies are positive and differ by orders of magnitude.
fn spread(center: &Latency, drawn: &[Latency], part: f64) -> Latency {
    let of = |field: &dyn Fn(&Latency) -> Option<f64>| {
        let mut values: Vec<f64> = drawn.iter().filter_map(field).collect();
        values.sort_by(f64::total_cmp);
        let at = (values.len().saturating_sub(1)) as f64 * part;
        let quantile = values.get(at.round() as usize).copied()?;
        let center = field(center)?;
        let ratio = quantile.max(1.0) / center.max(1.0);
        // Of a percentile that takes few values the quantile may lie on the other side.
        let ratio = match part < 0.5 {
            true => ratio.min(1.0),
            false => ratio.max(1.0),
        };
        Some(center.max(1.0) * ratio.powf(std::f64::consts::SQRT_2))
    };
    // Each is drawn apart, and a higher percentile is no less.
    let p50_ns = of(&|l| Some(l.p50_ns)).unwrap_or(0.0);
    let p99_ns = of(&|l| Some(l.p99_ns)).unwrap_or(0.0).max(p50_ns);
    Latency {
        p50_ns,
        p99_ns,
        p999_ns: of(&|l| l.p999_ns).map(|p999_ns| p999_ns.max(p99_ns)),
        mean_ns: of(&|l| Some(l.mean_ns)).unwrap_or(0.0),
    }
}

/// Each block of the watch as it was.
const ONCE: [f64; BLOCKS] = [1.0; BLOCKS];

/// Requests by how long each takes: nanoseconds, block and weight.
struct Sorted {
    requests: usize,
    values: Vec<(f64, usize, f64)>,
}

impl Sorted {
    fn of(examined: &[Examined], requests: usize, ns: impl Fn(&Examined) -> f64) -> Sorted {
        let values = examined.iter().map(|one| (ns(one), one.block, one.weight));
        let mut values: Vec<(f64, usize, f64)> = values.collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        Sorted { requests, values }
    }

    /// Percentiles with each block so many times.
    fn latency(&self, times: &[f64; BLOCKS]) -> Latency {
        const P999_FROM: usize = 1_000;
        let weighted = || {
            let values = self.values.iter();
            values.map(|(ns, block, weight)| (*ns, weight * times[*block]))
        };
        let (all, sum) = weighted().fold((0.0, 0.0), |(all, sum), (ns, weight)| {
            (all + weight, sum + ns * weight)
        });
        let percentile = |part: f64| {
            let mut seen = 0.0;
            let mut at = weighted().skip_while(|(_, weight)| {
                seen += weight;
                seen < part * all
            });
            let found = at.next().or_else(|| weighted().next_back());
            found.map_or(0.0, |(ns, _)| ns)
        };
        Latency {
            p50_ns: percentile(0.5),
            p99_ns: percentile(0.99),
            p999_ns: (self.requests >= P999_FROM).then(|| percentile(0.999)),
            mean_ns: sum / all.max(1.0),
        }
    }
}

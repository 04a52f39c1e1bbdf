//! Does it come back in a fixed rhythm? Episodes, and the gap between their beginnings.

/// Episodes below which no rhythm is claimed.
const EPISODES_MIN: usize = 4;
/// The median absolute deviation of the gaps, as a share of the gap, up to which it is a rhythm.
const SPREAD_MAX: f64 = 0.15;
/// Stalls of one cause closer than this are one episode.
const JOIN_NS: u64 = 1_000_000;
/// A gap of up to this many beats is one with missed episodes.
const BEATS_MAX: f64 = 4.0;

/// `[start_ns, end_ns]` of each episode: intervals that overlap or nearly touch are one.
pub fn episodes(intervals: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    joined(intervals, JOIN_NS)
}

/// The stretches sorted, those that overlap or lie no further apart than `gap_ns` as one.
pub fn joined(intervals: impl IntoIterator<Item = (u64, u64)>, gap_ns: u64) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = intervals.into_iter().collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in sorted {
        match joined.last_mut() {
            Some((_, last)) if start <= last.saturating_add(gap_ns) => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Nanoseconds from one episode to the next, when that is a fixed time.
pub fn period_ns(episodes: &[(u64, u64)]) -> Option<u64> {
    if episodes.len() < EPISODES_MIN {
        return None;
    }
    let starts = episodes.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let gaps: Vec<f64> = starts.map(|gap| gap as f64).collect();
    let beat = median(&gaps)?;
    // An episode that was missed leaves a gap of two beats, or three.
    let folded: Vec<f64> = gaps
        .iter()
        .map(|gap| gap / (gap / beat).round().clamp(1.0, BEATS_MAX))
        .collect();
    let beat = median(&folded)?;
    let off: Vec<f64> = folded.iter().map(|gap| (gap - beat).abs()).collect();
    (median(&off)? <= SPREAD_MAX * beat).then_some(beat as u64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

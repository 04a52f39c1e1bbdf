//! What is recorded of a made server whose every answer is known by arithmetic: no clock, no thread, no machine.

use highwater_load::interval::new_histogram;
use highwater_load::{Arrivals, Interval, Recorder, Spacing};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Answers in arrival order after `service_ns`, one at a time; stands still for `pause_ns` at every `period_ns`.
struct Made {
    service_ns: u64,
    pause_ns: u64,
    period_ns: u64,
    free_ns: u64,
}

impl Made {
    /// When a request of this time is answered.
    fn answer(&mut self, due_ns: u64) -> u64 {
        let mut begun = due_ns.max(self.free_ns);
        let into = begun % self.period_ns;
        if begun >= self.period_ns && into < self.pause_ns {
            begun += self.pause_ns - into;
        }
        self.free_ns = begun + self.service_ns;
        self.free_ns
    }
}

/// Lines of a second each, and all latencies beside them.
fn play(
    mut server: Made,
    rate: f64,
    spacing: Spacing,
    length_ns: u64,
) -> (Vec<Interval>, Vec<u64>) {
    let recorder = Recorder::new(0);
    let (mut lines, mut latencies) = (Vec::new(), Vec::new());
    let mut line_ns = S;
    for due_ns in Arrivals::new(rate, spacing, 5).take_while(|due| *due < length_ns) {
        let end_ns = server.answer(due_ns);
        while end_ns >= line_ns {
            lines.push(recorder.take(line_ns));
            line_ns += S;
        }
        recorder.answered(due_ns, end_ns);
        latencies.push(end_ns - due_ns);
    }
    lines.push(recorder.take(line_ns));
    latencies.sort_unstable();
    (lines, latencies)
}

fn planted(pause_ns: u64, period_ns: u64) -> Made {
    Made {
        service_ns: 5_000,
        pause_ns,
        period_ns,
        free_ns: 0,
    }
}

fn at(latencies: &[u64], share: f64) -> u64 {
    let rank = (share * latencies.len() as f64).ceil() as usize;
    latencies[rank.clamp(1, latencies.len()) - 1]
}

fn is_within(value: u64, truth: u64, share: f64) -> bool {
    value.abs_diff(truth) as f64 <= share * truth as f64
}

#[test]
fn six_milliseconds_every_twelve_seconds_are_found_with_length_and_period() {
    for (rate, spacing) in [
        (2_000.0, Spacing::Even),
        (2_000.0, Spacing::Poisson),
        (20_000.0, Spacing::Poisson),
    ] {
        let (lines, _) = play(planted(6 * MS, 12 * S), rate, spacing, 123 * S);
        let long = |pause: &&(u64, u64)| pause.1 - pause.0 >= 3 * MS;
        let pauses: Vec<_> = lines
            .iter()
            .flat_map(|line| &line.pauses)
            .filter(long)
            .collect();
        assert_eq!(pauses.len(), 10, "{rate} {spacing:?}: {pauses:?}");
        let mut lengths: Vec<u64> = pauses.iter().map(|pause| pause.1 - pause.0).collect();
        lengths.sort_unstable();
        // A pause begins with the first request that waits for it: at 2,000 a second, up to a millisecond late.
        let short = (3e9 / rate) as u64;
        assert!(
            lengths[0] + short >= 6 * MS && lengths[9] <= 6 * MS + 10_000,
            "{lengths:?}"
        );
        assert!(is_within(lengths[5], 6 * MS, 0.1), "{lengths:?}");
        // Their ends are the server's: exactly a period apart, but for a service time.
        for pair in pauses.windows(2) {
            assert!(
                is_within(pair[1].1 - pair[0].1, 12 * S, 0.001),
                "{pauses:?}"
            );
        }
    }
}

/// What a loop that waits for each answer would see: one slow request per pause. The recorder must see all who were
/// due meanwhile, at their own waits.
#[test]
fn everybody_who_was_due_during_a_pause_is_in_the_quantiles() {
    // 100 ms every 2 s: 5 % of the time, so p99 is 80 ms and p95 is nearly nothing.
    let (lines, latencies) = play(planted(100 * MS, 2 * S), 1_000.0, Spacing::Even, 200 * S);
    let mut all = new_histogram();
    for line in &lines {
        all.add(line.decode_histogram().unwrap()).unwrap();
    }
    let waited = latencies.iter().filter(|ns| **ns > MS).count() as f64 / latencies.len() as f64;
    assert!((waited - 0.05).abs() < 0.002, "{waited}");
    assert!(is_within(all.value_at_quantile(0.99), 80 * MS, 0.03));
    assert!(is_within(all.value_at_quantile(0.97), 40 * MS, 0.06));
    assert!(all.value_at_quantile(0.94) < MS);
    assert!(is_within(all.max(), 100 * MS, 0.01));
    for share in [0.5, 0.9, 0.95, 0.96, 0.99, 0.999, 1.0] {
        let exact = at(&latencies, share);
        let merged = all.value_at_quantile(share);
        // Three digits: a thousandth.
        assert!(
            merged >= exact && is_within(merged, exact, 0.002),
            "{share}: {merged}, exactly {exact}"
        );
    }
}

#[test]
fn histograms_of_lines_and_processes_add_up_to_that_of_all() {
    let (mut all, mut merged) = (new_histogram(), new_histogram());
    let mut count = 0;
    for process in 1..=4u64 {
        let server = planted(process * 3 * MS, (5 + process) * S);
        let (lines, latencies) = play(server, 700.0 * process as f64, Spacing::Poisson, 40 * S);
        latencies.iter().for_each(|ns| all.record(*ns).unwrap());
        count += latencies.len() as u64;
        for line in &lines {
            // As a reader gets it: text, parsed again.
            let line = Interval::parse(&line.to_json()).unwrap();
            let histogram = line.decode_histogram().unwrap();
            assert_eq!(histogram.len(), line.requests);
            merged.add(histogram).unwrap();
        }
    }
    assert_eq!(merged.len(), count);
    assert_eq!(merged, all);
}
